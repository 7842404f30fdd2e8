"""Runs streamfl, and kills it at a named point: `killable.py POINT[:N] FILE COMMAND ...`.

The N-th passage of the point writes FILE, then the process ends as by `kill -9`. The product knows nothing of it.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from streamfl.cli.main import main
from streamfl.protocol.events import RecordsRead
from streamfl.protocol.messages import RoundClosed, Scores, Update
from streamfl.runtime import nodes
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink
from streamfl_connectors.kafka.coordinator.transactions import Transactions
from streamfl_connectors.kafka.hosts import client_answers, client_links, repartitioner, scorer

Die = Callable[[], None]


def after_polling(die: Die) -> None:
    """Client: records of a later round have been read, and nothing was done with them."""
    handle = nodes.ClientNode.handle

    def killing(self: nodes.ClientNode, event: object, now: float) -> None:
        if isinstance(event, RecordsRead) and self.machine.accounted:
            die()
        handle(self, event, now)

    nodes.ClientNode.handle = killing


def _after_sending(kind: type, die: Die) -> None:
    send = client_links.ClientLinks.send
    sent: list[object] = []  # what is sent again, because it was asked for again, is the same object

    def killing(self: client_links.ClientLinks, message: object) -> None:
        send(self, message)
        if isinstance(message, kind) and not any(message is other for other in sent):
            sent.append(message)
            self.flush(10.0)
            die()

    client_links.ClientLinks.send = killing


def update_sent(die: Die) -> None:
    """Client: its update has arrived, and it does not know what becomes of it."""
    _after_sending(Update, die)


def scores_sent(die: Die) -> None:
    """Client: after an alarm its scores have arrived."""
    _after_sending(Scores, die)


def between_parts(die: Die) -> None:
    """Coordinator: some parts of a model are in the log, in a transaction that never ends."""
    write = Transactions._write_parts

    def killing(self: Transactions, topic: str, key: str, data: bytes, place: str) -> int:
        if topic.endswith(".models") and len(data) > self._settings.part_bytes:
            first = self._settings.part_bytes
            write(self, topic, key, data[:first], place)
            self._producer.flush()
            die()
        return write(self, topic, key, data, place)

    Transactions._write_parts = killing


def inside_transaction(die: Die) -> None:
    """Coordinator: all of a round's messages are in the log, and not committed."""
    write = Transactions._write

    def killing(self: Transactions, told: tuple, state: bytes | None) -> dict:
        written = write(self, told, state)
        if any(isinstance(message, RoundClosed) for message in told):
            self._producer.flush()
            die()
        return written

    Transactions._write = killing


def round_closed(die: Die) -> None:
    """Coordinator: a round is committed, and nothing else has happened."""
    commit = KafkaCoordinatorLink.commit

    def killing(self: KafkaCoordinatorLink, told: tuple, state: object) -> None:
        commit(self, told, state)
        if any(isinstance(message, RoundClosed) for message in told):
            die()

    KafkaCoordinatorLink.commit = killing


def answers_written(die: Die) -> None:
    """Scorer: answers are in the log, and what they answer is not committed as read."""
    write = scorer.KafkaScorer._write

    def killing(self: scorer.KafkaScorer, producer: object, answers: list, letters: list) -> None:
        write(self, producer, answers, letters)
        if answers:
            die()

    scorer.KafkaScorer._write = killing


def before_committing(die: Die) -> None:
    """Scorer: answers are in the log, with `exactly_once` also the positions after them; nothing is committed."""
    sent, commit = KafkaProducer.send_offsets_to_transaction, KafkaConsumer.commit

    def killing_after(self: KafkaProducer, *told: object) -> None:
        sent(self, *told)
        die()

    def killing_before(self: KafkaConsumer, *told: object, **options: object) -> None:
        die()
        commit(self, *told, **options)

    KafkaProducer.send_offsets_to_transaction, KafkaConsumer.commit = killing_after, killing_before


def client_answers_written(die: Die) -> None:
    """Client: answers to records are in the log, and the records wait for their labels."""
    flush = client_answers.AnswerWriter.flush

    def killing(self: client_answers.AnswerWriter) -> None:
        was_open = self._open
        flush(self)
        if was_open:
            die()

    client_answers.AnswerWriter.flush = killing


def answers_read_back(die: Die) -> None:
    """Client: what was answered before is read back, and nothing was done with it."""
    begin = client_answers.AnswerReader._read_on

    def killing(self: client_answers.AnswerReader) -> None:
        begin(self)
        if not self._ranges:
            die()

    client_answers.AnswerReader._read_on = killing


def repartitioning_read(die: Die) -> None:
    """Host: messages were read and put in order, and nothing was written."""
    write = repartitioner.Session._write

    def killing(self: repartitioner.Session, taken: list) -> None:
        if taken:
            die()
        write(self, taken)

    repartitioner.Session._write = killing


def repartitioning_uncommitted(die: Die) -> None:
    """Host: repartitioned messages and the offsets behind them are in the log, and not committed."""
    write = repartitioner.Session._write

    def killing(self: repartitioner.Session, taken: list) -> None:
        commit = self._producer.commit_transaction

        def dying() -> None:
            self._producer.flush()
            die()
            commit()

        self._producer.commit_transaction = dying if taken else commit
        write(self, taken)
        self._producer.commit_transaction = commit

    repartitioner.Session._write = killing


def records_read(die: Die) -> None:
    """Scorer: records were read, and nothing was answered."""
    read = scorer.KafkaScorer.read

    def killing(self: scorer.KafkaScorer) -> list:
        asked = read(self)
        if asked:
            die()
        return asked

    scorer.KafkaScorer.read = killing


def answers_committed(die: Die) -> None:
    """Scorer: answers are in the log and committed, and nothing else has happened."""
    answer = scorer.KafkaScorer.answer

    def killing(self: scorer.KafkaScorer, answers: list) -> None:
        answer(self, answers)
        if answers:
            die()

    scorer.KafkaScorer.answer = killing


POINTS = {
    kind.__name__: kind
    for kind in (
        after_polling,
        update_sent,
        scores_sent,
        between_parts,
        inside_transaction,
        round_closed,
        answers_written,
        before_committing,
        client_answers_written,
        answers_read_back,
        repartitioning_read,
        repartitioning_uncommitted,
        records_read,
        answers_committed,
    )
}


def run() -> None:
    """Run the command that the arguments name."""
    point, _, count = sys.argv[1].partition(":")
    file, passages = Path(sys.argv[2]), int(count or 1)

    def die() -> None:
        nonlocal passages
        passages -= 1
        if passages == 0:
            file.write_text(point, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    POINTS[point](die)
    sys.argv = ["streamfl", *sys.argv[3:]]
    main()


if __name__ == "__main__":
    run()
