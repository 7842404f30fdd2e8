"""What clients answer to records whose labels come later: written to the log, and read back after a restart."""

from collections.abc import Iterable
from typing import Any

import structlog
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from msgspec import UNSET

from streamfl.errors import PeerError
from streamfl.runtime.log import predictions
from streamfl.runtime.log.delayed import WINDOWS, LogHalves
from streamfl.runtime.log.partition import NOWHERE
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.ports import RecordAnswer
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.hosts.feed import Feed

LOG = structlog.get_logger("streamfl.kafka.answers")

# Milliseconds by which the clock of a host may be behind that of what writes the records.
SLACK = 60_000


class AnswerWriter:
    """Writes answers."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._settings, self._topic = connection.settings, topic
        self._producer: KafkaProducer = connection.producer(linger_ms=5, batch_size=256 * 1024)
        # By then the producer itself has given up what it could not send.
        self._patience = connection.settings.patience + self._producer.config["delivery_timeout_ms"] / 1000.0
        self._failed: list[BaseException] = []
        self._open = False  # some may not be stored yet

    def write(self, answers: Iterable[RecordAnswer]) -> None:
        """Write answers; `flush` makes sure of them."""
        with explained(self._settings):
            for answer in answers:
                self._producer.send(self._topic, answer.value, key=answer.key).add_errback(self._failed.append)
                self._open = True

    def flush(self) -> None:
        """Wait until all answers are in the log.

        Raises
        ------
        PeerError
            They cannot be written: clients that go on would count what a kill could lose.
        UsageError
            The log-in lacks a right.
        """
        if not self._open:
            return
        with explained(self._settings):
            self._producer.flush(timeout=self._patience)
            if self._failed:
                raise self._failed[0]
        self._open = False

    def close(self) -> None:
        """Write what is left, and close the connection."""
        let_go(self._producer, 5.0)


class AnswerReader:
    """Reads back what was answered to records that may wait for their labels, for any clients in one pass.

    A pass begins a minute before the first of these records was written, and ends where the log ended when it began.
    Its consumer also reads what is not committed: an open transaction of a scorer would hide what clients have
    written after it began.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.foreign = 0
        self._unusable = Tally(LOG, "unusable answer")
        self._connection, self._topic = connection, topic
        self._consumer: KafkaConsumer | None = None
        self._ranges: dict[tuple[str, str, int], tuple[LogHalves, int, int]] = {}
        self._ends: dict[TopicPartition, int] = {}

    def read(self, of: Iterable[tuple[TopicPartition, LogHalves]], records: Feed) -> bool:
        """Read on; tell whether there was anything to read."""
        if not self._ranges:
            lacking = [(partition, halves) for partition, halves in of if halves.lacks_answers]
            if lacking:
                self._begin(lacking, records)
        if not self._ranges:
            return False
        self._read_on()
        return True

    def _begin(self, lacking: Iterable[tuple[TopicPartition, LogHalves]], records: Feed) -> None:
        times: list[int] = []
        ranges: dict[tuple[str, str, int], tuple[LogHalves, int, int]] = {}
        for partition, halves in lacking:
            begin = halves.features.position
            written = records.time_from(partition, begin)
            if written is None:
                halves.restore(begin, NOWHERE)  # there are no such records yet
                continue
            end = begin + WINDOWS * halves.window
            bound = end if end < records.end_of(partition) else NOWHERE
            ranges[halves.client, partition.topic, partition.partition] = (halves, begin, bound)
            times.append(written)
        if times:
            self._seek(max(0, min(times) - SLACK))
        self._ranges = ranges

    def _seek(self, time: int) -> None:
        consumer = self._consumer = self._consumer or self._connection.consumer(isolation_level="read_uncommitted")
        numbers = consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise PeerError(f"no topic {self._topic}; make it, or grant this log-in READ on it")
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        self._ends = consumer.end_offsets(partitions)
        first = consumer.offsets_for_times(dict.fromkeys(partitions, time))
        for partition in partitions:
            found = first.get(partition)
            consumer.seek(partition, self._ends[partition] if found is None else found.offset)

    def _read_on(self) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        try:
            polled = consumer.poll(timeout_ms=0)
        except kafka_errors.OffsetOutOfRangeError as error:  # the log deletes what is read
            begins = consumer.beginning_offsets([*error.args[0]])
            for partition, begin in begins.items():
                consumer.seek(partition, begin)
            return
        for messages in polled.values():
            for message in messages:
                self._take(message)
        if all(consumer.position(partition) >= end for partition, end in self._ends.items()):
            for halves, begin, end in self._ranges.values():
                halves.restore(begin, end)
            LOG.info("answers read back", clients=len(self._ranges))
            self._ranges = {}

    def _take(self, message: Any) -> None:
        answer = predictions.read(message.value)
        if answer is None:
            self.foreign += 1
            return
        if answer.client is UNSET:
            return  # a scorer's
        found = self._ranges.get((str(answer.client), answer.topic, answer.partition))
        if found is None:
            return
        halves, begin, end = found
        if not predictions.is_usable(answer, targets=halves.recorded.targets):
            self.foreign += 1
            self._unusable.note(message.topic, f"none that {halves.client} can give", offset=message.offset)
        elif begin <= answer.offset < end:
            known = None if answer.known is UNSET else answer.known
            halves.recorded.add(answer.offset, answer.prediction, known)

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
