"""Partitions of records that one consumer reads, each routed to its clients."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.intake import LogIntake
from streamfl.runtime.log.partition import LogSource, PartitionReader, not_held
from streamfl.runtime.log.repartitioning.origin import origin
from streamfl.runtime.ports import Decoded, Placement, ReadingCounts, RecordFormat
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.hosts.settled import SettledOffset
from streamfl_connectors.kafka.reading import bounds, is_end, name_of, read_to
from streamfl_connectors.kafka.record_reader import RecordReader

LOG = structlog.get_logger("streamfl.kafka.records")


class Feed:
    """Reads the partitions of one consumer."""

    def __init__(
        self,
        connection: Connection,
        consumer: RecordReader,
        placement: Placement,
        records: RecordFormat,
        counts: ReadingCounts,
        bury: Callable[[DeadLetter], None],
    ) -> None:
        self.readers: dict[TopicPartition, PartitionReader] = {}
        self._connection, self._consumer = connection, consumer
        self._placement, self._format = placement, records
        self._intake = LogIntake(placement, records, counts, _origin if placement.is_repartitioned else None)
        self._bury = bury
        self._again: KafkaConsumer | None = None
        self._paused: set[TopicPartition] = set()

    def begin(
        self, partition: TopicPartition, hint: SettledOffset, only: str | None = None, *, wait: bool = False
    ) -> PartitionReader:
        """Begin to read a partition, at the offset of the hint if it has one; see `LogIntake.begin`."""
        begin, end = bounds(self._consumer, partition)
        first = begin if self._placement.start == "earliest" else end
        offset = first if hint.offset is None else min(max(hint.offset, begin), end)
        self._consumer.seek(partition, offset)
        LOG.info("partition taken", partition=name_of(partition), offset=offset)
        reader = self._intake.begin(
            partition.topic,
            partition.partition,
            offset,
            lambda positions: self._explained_again(partition, positions),
            only,
            wait=wait,
            dead_letters_before=min(hint.dead_letters_before, end),
        )
        self.readers[partition] = reader
        return reader

    def give_up(self, partition: TopicPartition) -> None:
        """Forget a partition."""
        LOG.info("partition given up", partition=name_of(partition))
        del self.readers[partition]
        self._paused.discard(partition)
        self._intake.give_up(name_of(partition))

    @property
    def sources(self) -> dict[str, LogSource]:
        """Return the sources of clients, by client."""
        return {client: source for reader in self.readers.values() for client, source in reader.clients.items()}

    @property
    def hungry(self) -> bool:
        """Tell whether any partition has room, or there is none yet."""
        return not self.readers or len(self._paused) < len(self.readers)

    # --- reading -----------------------------------------------------------------------------------------------

    def polled(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """Return the next messages of partitions with room."""
        self._place()
        self._steer()
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=timeout_ms)
        except kafka_errors.NoOffsetForPartitionError:
            return {}  # partitions without committed offsets: the next call sets where they begin
        except kafka_errors.OffsetOutOfRangeError as error:
            self._lost(error.args[0])
            return {}
        return polled

    def _place(self) -> None:
        """Check positions from the ledger against the ends of the logs."""
        sought = [partition for partition, reader in self.readers.items() if reader.sought]
        if not sought:
            return
        begins, ends = self._consumer.beginning_offsets(sought), self._consumer.end_offsets(sought)
        for partition in sought:
            self.readers[partition].check_sought(begins[partition], ends[partition], self._format.stride)

    def _steer(self) -> None:
        """Seek, pause and resume partitions by the clients' positions and room."""
        for partition, reader in self.readers.items():
            wanted = reader.wanted()
            if wanted is None:
                if partition not in self._paused:
                    self._consumer.pause(partition)
                    self._paused.add(partition)
                continue
            if wanted != reader.head:
                self._consumer.seek(partition, wanted // self._format.stride)
                reader.head = wanted
            if partition in self._paused:
                self._consumer.resume(partition)
                self._paused.remove(partition)

    def take(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Route messages to the clients of their partitions."""
        for partition, messages in polled.items():
            if partition in self.readers and messages:
                marks = [message.offset for message in messages if is_end(message)]
                for letter in self._intake.take(self.readers[partition], messages, marks):
                    self._bury(letter)

    def backlog(self) -> dict[str, int]:
        """Return how many messages of each partition were not read yet, as far as the last fetch has told."""
        return {name_of(partition): max(0, left) for partition, left in self._left()}

    @property
    def is_behind(self) -> bool:
        """Tell whether any message was not read yet, as far as the last fetch has told."""
        return any(left > 0 for _, left in self._left())

    def _left(self) -> Iterator[tuple[TopicPartition, int]]:
        assigned = self.readers.keys() & self._consumer.assignment()  # while the group divides them again, fewer
        for partition in assigned:
            end = self._consumer.highwater(partition)
            if end is not None:
                left = end - self.readers[partition].head // self._format.stride
                # A log may end with a transaction's marker, which is no message.
                yield partition, 0 if self._consumer.has_passed(partition, end) else left

    def note_ends(self) -> None:
        """Note for each client whether all that has been written to its partition was read."""
        for partition, reader in self.readers.items():
            end = self._consumer.highwater(partition)
            at_end = end is not None and self._consumer.has_passed(partition, end)
            for source in reader.clients.values():
                source.at_end = at_end and source.next >= reader.head

    def _lost(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue where a log still holds messages; clients that need lost ones fail, unless losses are allowed."""
        for partition, offset in positions.items():
            begin, end = bounds(self._consumer, partition)
            reader, stride = self.readers[partition], self._format.stride
            for source in reader.clients.values():
                beyond, gone = source.next > end * stride, source.next < begin * stride
                if not source.failed and (beyond or (gone and self._placement.lost == "stop")):
                    source.fail(not_held(reader.name, source.next // stride, begin, end))
            if offset < begin:
                LOG.error("records lost", partition=name_of(partition), first=offset, last=begin - 1)
            self._consumer.seek(partition, min(max(offset, begin), end))

    # --- reading again -----------------------------------------------------------------------------------------

    def _explained_again(self, partition: TopicPartition, positions: Sequence[int]) -> Decoded:
        with explained(self._connection.settings):
            return self._read_again(partition, positions)

    def _read_again(self, partition: TopicPartition, positions: Sequence[int]) -> Decoded:
        """Return old records by position, through a consumer of its own, without those that the log lost."""
        stride = self._format.stride
        wanted = sorted({position // stride for position in positions})
        values: dict[int, bytes | None] = {}
        consumer = self._assigned(partition)
        begin, end = bounds(consumer, partition)
        for offset in wanted:
            if not begin <= offset < end or offset in values:
                continue
            consumer.seek(partition, offset)
            until = time.monotonic() + self._connection.settings.patience
            for messages in read_to(consumer, partition, offset + 1):
                values.update((message.offset, message.value) for message in messages)
                if time.monotonic() >= until:
                    break
        there = [offset for offset in wanted if offset in values]
        return self._format.quiet().decode(there, [values[offset] for offset in there])

    def _assigned(self, partition: TopicPartition) -> KafkaConsumer:
        if self._again is None:
            self._again = self._connection.consumer()
        self._again.assign([partition])
        return self._again

    def time_from(self, partition: TopicPartition, offset: int) -> int | None:
        """Return when the first message from an offset on was written, in milliseconds; None if there is none."""
        consumer = self._assigned(partition)
        begin, end = bounds(consumer, partition)
        consumer.seek(partition, min(max(begin, offset), end))
        until = time.monotonic() + self._connection.settings.patience
        for messages in read_to(consumer, partition, end):
            if messages:
                return int(messages[0].timestamp)
            if time.monotonic() >= until:
                raise kafka_errors.KafkaTimeoutError(f"no message of {name_of(partition)}")
        return None

    def end_of(self, partition: TopicPartition) -> int:
        """Return the next offset of a partition."""
        return bounds(self._consumer, partition)[1]

    def close(self) -> None:
        """Close the connection for reading again; the consumer is its owner's."""
        if self._again is not None:
            self._again.close()


def _origin(message: Any) -> tuple[str, int, int] | None:
    return origin(message.headers)
