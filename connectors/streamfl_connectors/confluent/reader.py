"""Reads records through librdkafka: `RecordReader` on a consumer of confluent-kafka.

librdkafka fetches ahead in threads of its own, and would throw away what it has fetched of a partition that is
paused. A host pauses its partitions all the time: whenever a client has enough records. So what arrives of a paused
partition is kept here, and only a partition of which much waits is paused in librdkafka.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl_connectors.confluent.errors import as_kafka_python_error
from streamfl_connectors.kafka.connection import MAX_FETCHED_OF_PARTITION

LOG = logging.getLogger("streamfl.kafka.librdkafka")


def _only_debugged(record: logging.LogRecord) -> bool:
    """Log the lines of librdkafka at debug level: the host itself reports when brokers do not answer."""
    record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return LOG.isEnabledFor(logging.DEBUG)


LOG.addFilter(_only_debugged)

# The most messages of a poll. Their bytes are bounded by what librdkafka fetches ahead.
MOST = 10_000

# Seconds for the brokers to answer a question.
ANSWERED_WITHIN = 30.0

# Milliseconds of one look for what librdkafka cannot unpack.
POLL_MS = 500

# What librdkafka says of a batch that it cannot unpack, or whose checksum is wrong.
UNREADABLE = {KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG}

# What it says of a log-in or a certificate that brokers refuse, or of theirs; it tries again for ever.
LOG_IN_ERRORS = {KafkaError._AUTHENTICATION, KafkaError._SSL}

# What it says of a place in a partition.
PARTITION_EVENTS = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET} | UNREADABLE

# The times by which brokers name the first and the next offset of a partition.
FIRST, NEXT = -2, -1


class ReadMessage:
    """One message, as kafka-python has it."""

    __slots__ = ("_message", "key", "offset", "partition", "topic", "value")

    def __init__(self, topic: str, partition: int, message: Message) -> None:
        self.topic, self.partition = topic, partition
        self.offset: int = message.offset() or 0  # None for what is no message
        self.key, self.value = message.key(), message.value()
        self._message = message

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Return the headers, which few readers look at; none if the name of one is no text."""
        try:
            found: Any = self._message.headers()
        except (SystemError, UnicodeDecodeError):
            return ()
        return found or ()

    @property
    def timestamp(self) -> int:
        """Return when it was written, in milliseconds since 1970."""
        return int(self._message.timestamp()[1])


@dataclass(slots=True, eq=False)
class _ReadPartition:
    """How far one partition is read, and what has arrived of it and was not returned yet."""

    sought: int | None = None  # where to read from, which librdkafka has not been told yet
    begun: bool = False  # whether librdkafka reads it
    head: int = OFFSET_INVALID  # after what has arrived
    position: int = OFFSET_INVALID  # after what was returned
    arrived: list[Any] = field(default_factory=list)
    size: int = 0  # of what has arrived, in bytes
    paused: bool = False
    stopped: bool = False  # whether librdkafka fetches no more of it
    failure: Exception | None = None  # why nothing behind the head can be read; not raised yet

    @property
    def is_read(self) -> bool:
        """Whether what librdkafka has fetched continues at the head."""
        return self.sought is None and self.failure is None

    @property
    def is_full(self) -> bool:
        return self.paused and not self.stopped and self.size > MAX_FETCHED_OF_PARTITION

    @property
    def is_failed(self) -> bool:
        """Whether all messages before a failure were returned, so that a poll raises it."""
        return self.failure is not None and not self.arrived

    def seek(self, offset: int) -> None:
        self.sought = self.head = self.position = offset
        self.arrived, self.size, self.failure = [], 0, None

    def retry(self) -> None:
        """Have the next poll read from the head again."""
        self.failure, self.sought = None, self.head

    def arrives(self, message: Any) -> None:
        if message.offset >= self.head:  # a fetch that was repeated may begin before it
            self.arrived.append(message)
            self.size += len(message.value or b"")
            self.head = message.offset + 1

    def ends(self, offset: int) -> None:
        """Note the end of the log, which may be behind the markers of transactions."""
        self.head = max(self.head, offset)
        if not self.arrived:
            self.position = self.head

    def taken(self) -> list[Any]:
        found, self.arrived, self.size = self.arrived, [], 0
        self.position = self.head
        return found


class LibrdkafkaReader:
    """`streamfl_connectors.kafka.record_reader.RecordReader` on librdkafka.

    Parameters
    ----------
    config
        The settings of a consumer of confluent-kafka, with incremental rebalances.
    other
        Makes a consumer of kafka-python, of the same group, when it is needed: it reads past batches that librdkafka
        cannot unpack, and would try for ever; and it reads the metadata of committed offsets, to which
        confluent-kafka 2.16.1 adds a byte now and then.
    """

    def __init__(self, config: Mapping[str, Any], other: Callable[[], Any]) -> None:
        self._partitions: dict[tuple[str, int], _ReadPartition] = {}
        self._make_other = other
        self._made_other: Any = None
        self._is_joined = True
        self._uncommitted: KafkaError | None = None
        self._errors: dict[type, kafka_errors.KafkaError] = {}  # of no place, not raised yet: the last of each kind
        self._refused: KafkaError | None = None  # until something arrives
        own = {"error_cb": self._note, "on_commit": self._note_commit}
        with _kafka_python_errors():
            self._consumer = Consumer({**config, **own}, logger=LOG)

    # --- partitions --------------------------------------------------------------------------------------------

    @property
    def is_joined(self) -> bool:
        """Tell whether the group has answered since the topics were chosen, or a partition was revoked."""
        return self._is_joined

    def rejoin(self) -> None:
        """Do nothing: librdkafka joins in a thread of its own."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        self._is_joined = False
        with _kafka_python_errors():
            self._consumer.subscribe(
                list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )

    def _assigned(self, consumer: Consumer, places: Sequence[Place]) -> None:
        """Take new partitions, which are read once they have been sought."""
        consumer.incremental_assign([])  # or confluent-kafka would begin to read them
        self._begin([(place.topic, place.partition) for place in places])
        self._is_joined = True

    def _revoked(self, consumer: Consumer, places: Sequence[Place]) -> None:
        """Give up partitions; the group joins again."""
        consumer.incremental_unassign(self._given_up([(place.topic, place.partition) for place in places]))
        self._is_joined = False

    def _begin(self, new: Collection[tuple[str, int]]) -> None:
        for one in new:
            self._partitions[one] = _ReadPartition()

    def _given_up(self, old: Collection[tuple[str, int]]) -> list[Place]:
        """Forget partitions; return those that librdkafka reads."""
        gone = [(one, self._partitions.pop(one, None)) for one in old]
        return [Place(*one) for one, partition in gone if partition is not None and partition.begun]

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions; those that were read before go on."""
        with _kafka_python_errors():
            if places := self._given_up([*(self._partitions.keys() - set(partitions))]):
                self._consumer.incremental_unassign(places)
        self._begin([one for one in partitions if one not in self._partitions])

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return {TopicPartition(*one) for one in self._partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read a partition from an offset on."""
        self._partitions[partition].seek(offset)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset that is read next; at the end of a log it is behind the markers of transactions."""
        return self._partitions[partition].position

    def has_passed(self, partition: TopicPartition, offset: int) -> bool:
        """Tell whether the position is at an offset or behind it."""
        return self.position(partition) >= offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as of the last fetch; None before the first one."""
        with _kafka_python_errors():
            _, end = self._consumer.get_watermark_offsets(Place(*partition), cached=True)
        return end if end >= 0 else None

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no messages of partitions for a while."""
        for partition in partitions:
            self._partitions[partition].paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Return messages of paused partitions again."""
        for name in partitions:
            partition = self._partitions[name]
            partition.paused = False
            if partition.stopped:
                partition.stopped = False
                with _kafka_python_errors():
                    self._consumer.resume([Place(*name)])

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return {TopicPartition(*one) for one, partition in self._partitions.items() if partition.paused}

    # --- reading -----------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int) -> dict[TopicPartition, Sequence[Any]]:
        """Return messages that have arrived, after so many milliseconds at most; none of paused partitions.

        One error is raised at a time, after everything that librdkafka has handed out was kept: librdkafka does not
        hand it out again. The next poll returns what was kept.
        """
        with _kafka_python_errors():
            self._go_to_sought()
            for message in self._fetched(0.0 if self._is_due() else timeout_ms / 1000):
                self._take(message)
            self._stop_full()
        self._raise_error()
        return {
            TopicPartition(*name): partition.taken()
            for name, partition in self._partitions.items()
            if partition.arrived and not partition.paused
        }

    def _is_due(self) -> bool:
        """Tell whether there is something to return or to raise already."""
        partitions = self._partitions.values()
        return bool(self._errors) or any(one.is_failed or (one.arrived and not one.paused) for one in partitions)

    def _fetched(self, seconds: float) -> Iterator[Message]:
        """Yield what librdkafka has; wait only for the first message."""
        found = self._consumer.consume(MOST, 0.0)
        if not found and seconds > 0.0:
            first = self._consumer.poll(seconds)
            if first is not None:
                yield first
                found = self._consumer.consume(MOST, 0.0)
        yield from found

    def _take(self, message: Message) -> None:
        """Take a message, or what librdkafka reports in place of one."""
        name: Any = (message.topic(), message.partition())
        partition, error = self._partitions.get(name), message.error()
        code = None if error is None else error.code()
        if code is None or code == KafkaError._PARTITION_EOF:
            self._refused = None
        if error is not None and code not in PARTITION_EVENTS:
            self._note_error(error)
        elif partition is None or not partition.is_read:
            pass  # of a partition, or a place, that was left
        elif code is None:
            partition.arrives(ReadMessage(name[0], name[1], message))
        elif code == KafkaError._PARTITION_EOF:
            partition.ends(message.offset() or 0)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            partition.failure = kafka_errors.OffsetOutOfRangeError()
        else:
            self._read_past(name, partition)

    def _note_error(self, error: KafkaError) -> None:
        """Note an error of no place in a partition; when polls came too late, librdkafka joins again by itself."""
        if error.code() != KafkaError._MAX_POLL_EXCEEDED:
            named = as_kafka_python_error(error)
            self._errors[type(named)] = named

    def _stop_full(self) -> None:
        """Pause those partitions in librdkafka of which much waits."""
        full = {name: one for name, one in self._partitions.items() if one.is_full}
        if full:
            self._consumer.pause([Place(*name) for name in full])
        for one in full.values():
            one.stopped = True

    def _raise_error(self) -> None:
        """Raise one error, if any is due; all positions that their logs do not hold are one error."""
        if self._errors:
            raise self._errors.popitem()[1]
        failed = {name: one for name, one in self._partitions.items() if one.is_failed}
        lost = {
            name: one for name, one in failed.items() if isinstance(one.failure, kafka_errors.OffsetOutOfRangeError)
        }
        if lost:
            for one in lost.values():
                one.retry()
            raise kafka_errors.OffsetOutOfRangeError({TopicPartition(*name): one.head for name, one in lost.items()})
        for one in failed.values():
            failure: Any = one.failure
            one.retry()
            raise failure
        if self._refused is not None:
            raise as_kafka_python_error(self._refused)

    def _read_past(self, name: tuple[str, int], partition: _ReadPartition) -> None:
        """Let kafka-python read on at a batch that librdkafka cannot unpack, then go on behind that.

        kafka-python returns one message in place of the batch, at the offset of its last message. An error is the
        partition's failure: other partitions have messages among those that are being taken.
        """
        try:
            with _kafka_python_errors():
                self._read_by_other(TopicPartition(*name), partition)
                self._go_to(Place(*name, partition.head), partition)
        except Exception as error:  # whatever it is, a poll raises it
            partition.failure = error

    def _read_by_other(self, place: TopicPartition, partition: _ReadPartition) -> None:
        head, other = partition.head, self._other()
        other.assign([place])
        other.seek(place, head)
        until = time.monotonic() + ANSWERED_WITHIN
        while partition.head == head and time.monotonic() < until:
            for message in other.poll(timeout_ms=POLL_MS).get(place, ()):
                partition.arrives(message)

    def _other(self) -> Any:
        if self._made_other is None:
            self._made_other = self._make_other()
        return self._made_other

    def _go_to_sought(self) -> None:
        """Tell librdkafka where to read; a partition that is paused waits for that."""
        for name, partition in self._partitions.items():
            if partition.sought is None or partition.paused:
                continue
            self._go_to(Place(*name, partition.sought), partition)
            partition.sought = None

    def _go_to(self, place: Place, partition: _ReadPartition) -> None:
        if partition.begun:
            try:
                return self._consumer.seek(place)
            except KafkaException:  # a partition whose offset was out of range is not read any more
                self._consumer.incremental_unassign([place])
        self._consumer.incremental_assign([place])
        partition.begun, partition.stopped = True, False
        return None

    # --- questions to the brokers ------------------------------------------------------------------------------

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        return self._offsets(partitions, FIRST, ANSWERED_WITHIN)

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each partition behind its committed messages."""
        return self._offsets(partitions, NEXT, ANSWERED_WITHIN if timeout_ms is None else timeout_ms / 1000)

    def _offsets(self, partitions: Collection[TopicPartition], at: int, seconds: float) -> dict[TopicPartition, int]:
        with _kafka_python_errors():
            asked = [Place(one.topic, one.partition, at) for one in partitions]
            found = self._consumer.offsets_for_times(asked, timeout=seconds) if asked else []
        for place in found:
            if place.error is not None:
                raise as_kafka_python_error(place.error)
        return {TopicPartition(place.topic, place.partition): place.offset for place in found}

    def committed(self, partition: TopicPartition, *, metadata: bool = False) -> Any:
        """Return the offset that the group has committed, with its metadata if they are asked for; None: none."""
        if metadata:
            return self._other().committed(partition, metadata=True)
        with _kafka_python_errors():
            (found,) = self._consumer.committed([Place(*partition)], timeout=ANSWERED_WITHIN)
        if found.error is not None:
            raise as_kafka_python_error(found.error)
        return found.offset if found.offset >= 0 else None

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int) -> None:
        """Commit offsets without waiting; raise the error of an earlier commit."""
        places = [Place(one.topic, one.partition, to.offset, to.metadata) for one, to in offsets.items()]
        with _kafka_python_errors():
            self._consumer.commit(offsets=places, asynchronous=True)
        failed, self._uncommitted = self._uncommitted, None
        if failed is not None:
            raise as_kafka_python_error(failed)

    def _note(self, error: KafkaError) -> None:
        """Note an error that concerns no partition; librdkafka connects again by itself."""
        if error.code() in LOG_IN_ERRORS:
            self._refused = error

    def _note_commit(self, error: KafkaError | None, places: Sequence[Place]) -> None:
        """Note that a commit failed, if only for some partitions; one that succeeds later does not hide that."""
        failed = [one for one in (error, *(place.error for place in places)) if one is not None]
        self._uncommitted = next(iter(failed), self._uncommitted)

    def close(self) -> None:
        """Close the connections; a member with a name stays in the group for the session timeout."""
        try:
            with _kafka_python_errors():
                self._consumer.close()
        finally:
            if self._made_other is not None:
                self._made_other.close()


@contextmanager
def _kafka_python_errors() -> Iterator[None]:
    """Raise errors as kafka-python names them."""
    try:
        yield
    except KafkaException as error:
        raise as_kafka_python_error(error.args[0]) from error
