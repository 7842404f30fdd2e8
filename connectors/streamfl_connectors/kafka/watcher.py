"""Reads what a federation tells: the control topic, and the headers of dead letters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import AuthorizationError

from streamfl.errors import PeerError
from streamfl.runtime.log.control import ControlReader
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LoggedDeadLetter, LoggedMessage
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.reading import bounds
from streamfl_connectors.kafka.silence import BrokerSilence

LOG = structlog.get_logger("streamfl.kafka")

# Milliseconds that a poll waits for messages.
POLL_MS = 200

# Dead letters of a partition that are read from its end on: each is fetched with the message that it keeps.
LETTERS = 2000


class KafkaWatcher:
    """`streamfl.runtime.ports.Watcher`: reads the control topic from an offset on, and dead letters next to it.

    Parameters
    ----------
    last
        Begin this many offsets before the end of the control topic; None begins at its start.
    letters
        Whether dead letters are read.
    """

    def __init__(self, connection: Connection, topics: Topics, *, last: int | None, letters: bool) -> None:
        self._settings = connection.settings
        self._reader = ControlReader(verifier=connection.signatures.coordinator)
        self._unusable = Tally(LOG, "unusable message")
        self._partition = TopicPartition(topics.control, 0)
        self._dead_letters = topics.dead_letters
        self.letters_before = 0
        with explained(self._settings):
            self._control = connection.consumer(auto_offset_reset="earliest")
            self._control.assign([self._partition])
            begin, self._end = bounds(self._control, self._partition)
            start = begin if last is None else max(begin, self._end - last)
            self._control.seek(self._partition, start)
            self.behind = self._end - start
            self._letters = self._newest_letters(connection, self._dead_letters) if letters else None
        self._silence = BrokerSilence(self._settings, self._control)
        self.letters_readable = self._letters is not None

    def _newest_letters(self, connection: Connection, topic: str) -> KafkaConsumer | None:
        """Return a reader of the newest letters of each partition; None if the log-in may see none."""
        consumer = connection.consumer(auto_offset_reset="latest")
        partitions = [TopicPartition(topic, n) for n in sorted(consumer.partitions_for_topic(topic) or ())]
        if not partitions:
            consumer.close()
            return None
        consumer.assign(partitions)
        for partition in partitions:
            begin, end = bounds(consumer, partition)
            start = max(begin, end - LETTERS)
            self.letters_before += start - begin
            consumer.seek(partition, start)
        return consumer

    @property
    def unusable(self) -> int:
        """Return how many messages of the control topic were no use."""
        return self._unusable.total

    def read(self) -> Sequence[LoggedMessage | LoggedDeadLetter]:
        """Return what has come, in the order of each topic.

        Raises
        ------
        PeerError
            The brokers do not answer.
        """
        heard: list[LoggedMessage | LoggedDeadLetter] = list(self._told(self._polled()))
        if self.behind == 0:
            with explained(self._settings):
                heard += self._new_dead_letters()
        return heard

    def _polled(self) -> Mapping[TopicPartition, Sequence[Any]]:
        """Return new messages of the control topic, and note how many are left.

        The position says that, not the last message: a topic may end with the mark of a transaction.
        """
        try:
            with explained(self._settings):
                polled: Mapping[TopicPartition, Sequence[Any]] = self._control.poll(
                    timeout_ms=POLL_MS if self.behind == 0 else POLL_MS // 2
                )
                if self.behind:
                    self.behind = max(0, self._end - int(self._control.position(self._partition)))
        except PeerError as error:
            self._silence.failed(error)
            raise
        self._silence.polled(any_came=bool(polled))
        if self._silence.reason:
            raise PeerError(self._silence.reason)
        return polled

    def _told(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> Iterator[LoggedMessage]:
        for batch in polled.values():
            for message in batch:
                try:
                    whole = self._reader.read(message.value, message.headers)
                except PeerError as error:
                    self._unusable.note(message.topic, str(error), offset=message.offset)
                    continue
                if whole is not None:
                    yield LoggedMessage(whole, message.timestamp)

    def _new_dead_letters(self) -> Iterator[LoggedDeadLetter]:
        if self._letters is None or not self.letters_readable:
            return
        try:
            polled = self._letters.poll(timeout_ms=0)
        except AuthorizationError as error:
            LOG.warning("dead letters are not read", reason=str(error), remedy=f"grant READ on {self._dead_letters}")
            self.letters_readable = False
            return
        for batch in polled.values():
            for message in batch:
                yield LoggedDeadLetter.of(message.headers, message.timestamp)

    def close(self) -> None:
        """Close the connections."""
        self._control.close()
        if self._letters is not None:
            self._letters.close()
