"""Repartitions records and labels by client, in a thread of one host: the one that reads the first partition written.

The group of hosts gives that partition to one host at a time, so no election is needed and no process is added. A
host that has lost it and does not know yet is fenced by its successor, which begins with the same transactional id.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import structlog
from kafka import KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl.errors import PeerError, TakenOverError, UsageError
from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.repartitioning.ids import Ids
from streamfl.runtime.log.repartitioning.order import Kind, Repartitioned, Repartitioning
from streamfl.runtime.log.repartitioning.origin import origin_header
from streamfl.runtime.log.repartitioning.progress import PartitionProgress
from streamfl.runtime.log.repartitioning.whose import MARK, Whose, whose_by_field, whose_by_key, whose_labels
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement, ReadingCounts, RecordFormat
from streamfl_connectors.kafka.absence import Absence, let_go
from streamfl_connectors.kafka.administration import ALLOWANCE, configs_of, partition_counts
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.reading import bounds, is_end, name_of
from streamfl_connectors.kafka.topics import REPARTITIONED_BYTES
from streamfl_connectors.kafka.writer import END_OF_STREAM

LOG = structlog.get_logger("streamfl.kafka.repartitioner")

# The most messages of a transaction, and of a partition that were read and not written yet.
MOST, MOST_WAITING = 5_000, 5_000

# About as many bytes of a transaction, which must not last for `transaction_timeout_ms`, and of all that was read.
MOST_BYTES = 16 * 1024 * 1024

# Seconds between two transactions: each adds a marker to every partition that it writes to.
PAUSE = 0.2

# Seconds between two looks for partitions that were added, and before a thread that has failed begins again.
LOOK_AGAIN, AGAIN = 5.0, 1.0

# Seconds between two questions for the ends of the partitions, and milliseconds for the answers.
ASK_AGAIN, ANSWER_MS = 5.0, 1_000

# Seconds between two commits if nothing comes: brokers delete offsets that nobody has committed for days.
COMMIT_AGAIN = 3600.0

POLL_MS = 100

# The most bytes of a message of a topic whose settings this log-in may not see: Kafka's default.
UNSEEN = 1_048_588

# What divides the number of partitions that are written from the rest of a committed offset's metadata.
TO = ";"

# The header of a repartitioned record with its id.
ID = "id"


class Repartitioner:
    """Repartitions while its host leads."""

    def __init__(self, connection: Connection, topics: Topics, session: Callable[[], "Session"]) -> None:
        self._connection, self._session = connection, session
        self._first = TopicPartition(topics.client_records, 0)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._failed: Exception | None = None
        self._again_at = 0.0

    def follow(self, assigned: Mapping[TopicPartition, object]) -> None:
        """Repartition if this host reads the first partition, else not.

        Raises
        ------
        StreamflError
            It cannot be done.
        """
        if self._failed is not None:
            raise self._failed
        is_alive = self._thread is not None and self._thread.is_alive()
        if self._first not in assigned:
            self._stop.set()
        elif not is_alive and time.monotonic() >= self._again_at:
            self._again_at = time.monotonic() + AGAIN
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="streamfl-repartitioner", daemon=True
            )
            self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        absence = Absence(self._connection.settings.patience)
        try:
            while not stop.is_set():
                try:
                    self._repartition(stop, absence)
                except TakenOverError:
                    LOG.info("another host repartitions")
                    return
                except PeerError as error:
                    absence.bear(error)
                    stop.wait(AGAIN)
        except Exception as error:  # the host's own thread raises it
            self._failed = error

    def _repartition(self, stop: threading.Event, absence: Absence) -> None:
        with explained(self._connection.settings), closing(self._session()) as session:
            session.begin()
            while not stop.is_set():
                stop.wait(session.step())
                absence.over()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)


class Session:
    """One stretch of repartitioning, from what was committed last until an error or the end.

    Parameters
    ----------
    bury
        Called with messages that are nobody's; it stores them.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        placement: Placement,
        records: RecordFormat,
        labels: LabelTopics | None,
        bury: Callable[[Sequence[DeadLetter]], None],
        counts: ReadingCounts,
    ) -> None:
        self._connection, self._topics, self._placement = connection, topics, placement
        self._kinds: dict[str, Kind] = dict.fromkeys(placement.topics, "records")
        self._targets: Mapping[Kind, str] = {"records": topics.client_records, "labels": topics.client_labels}
        self._labels, self._bury, self._counts = labels, bury, counts
        if labels is not None:
            self._kinds |= dict.fromkeys(labels.placement.topics, "labels")
        self._records = records.quiet()
        self._stray = Tally(LOG, "a message of no client")
        self._paused: set[TopicPartition] = set()
        self._look_at = self._ask_at = self._commit_at = 0.0
        # kafka-python waits for `retry_backoff_ms` several times in a transaction, which takes 0.1 s by default.
        self._producer: KafkaProducer = connection.producer(
            transactional_id=topics.repartition_group,
            transaction_timeout_ms=connection.settings.transaction_timeout_ms,
            retry_backoff_ms=2,
            linger_ms=5,
            batch_size=256 * 1024,
            max_request_size=REPARTITIONED_BYTES,
        )
        self._consumer = connection.record_reader(topics.repartition_group)
        self._admin: KafkaAdminClient = connection.admin()

    def begin(self) -> None:
        """Fence every other host, then learn what was written and how far was read."""
        self._producer.init_transactions()
        partitions = self._partitions()
        ids = Ids(partitions, 0 if self._labels is None else self._labels.window)
        self._repartitioning = Repartitioning(ids)
        self._to = partitions
        self._largest = self._learn_largest()
        if self._labels is not None:
            self._recall(ids, partitions)
        self._look()
        self._write([])  # where it has begun stays, even if nothing comes
        LOG.info("repartitioning", partitions=len(self._repartitioning.places), to=partitions)

    def _partitions(self) -> int:
        """Return how many partitions are written: as many as in the beginning, even if some were added."""
        for topic in self._kinds:
            if (committed := self._committed(TopicPartition(topic, 0))) is not None:
                return committed[0]
        counts = partition_counts(self._admin, self._written)
        self._require_nothing_written(counts)
        return min(counts.values())

    def _committed(self, partition: TopicPartition) -> tuple[int, PartitionProgress] | None:
        """Return how many partitions are written, and how far this one is done, if it was ever committed."""
        committed = self._consumer.committed(partition, metadata=True)
        if committed is None:
            return None
        to, _, told = (committed.metadata or "").partition(TO)
        try:
            return int(to), PartitionProgress.of(committed.offset, told)
        except ValueError as error:
            what = f"group {self._topics.repartition_group}: somebody else has set its offset of {name_of(partition)}"
            why = "records would be lost or written twice"
            raise UsageError(f"{what}, so {why}; choose another federation name") from error

    @property
    def _written(self) -> list[str]:
        """Return the topics that are written."""
        return [self._targets[kind] for kind in dict.fromkeys(self._kinds.values())]

    def _require_nothing_written(self, counts: Mapping[str, int]) -> None:
        """Check that it begins indeed if nothing is committed."""
        places = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        if written := sorted({one.topic for one, end in self._consumer.end_offsets(places).items() if end}):
            what = (
                f"messages are in {' and '.join(written)}, but group {self._topics.repartition_group} has no offsets"
            )
            why = "brokers delete them some days (offsets.retention.minutes) after the last host has ended"
            raise UsageError(f"{what}, so records would be written twice: {why}; choose another federation name")

    def _learn_largest(self) -> int:
        """Return the most bytes of a value that all topics take."""
        configs = configs_of(self._admin, self._written)
        taken = [int(found.get("max.message.bytes", UNSEEN)) for found in configs.values()]
        return min(*taken, int(self._producer.config["max_request_size"])) - ALLOWANCE

    def _recall(self, ids: Ids, partitions: int) -> None:
        """Fill the index with the records that were written last."""
        window = 0 if self._labels is None else self._labels.window
        places = [TopicPartition(self._topics.client_records, number) for number in range(partitions)]
        with closing(self._connection.record_reader(self._topics.repartition_group)) as reader:
            reader.assign(places)
            begins, ends = reader.beginning_offsets(places), reader.end_offsets(places)
            for place in places:
                # With transactions of one record there is a marker after each.
                reader.seek(place, max(begins[place], ends[place] - 2 * window))
            while any(reader.position(place) < ends[place] for place in places):
                for messages in reader.poll(timeout_ms=POLL_MS).values():
                    for message in messages:
                        record = dict(message.headers).get(ID)
                        if record:
                            ids.add(record.decode(), message.key.decode())

    # --- partitions --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take partitions that are new; what is in them counts from the first message on, unless all are new."""
        self._look_at = time.monotonic() + LOOK_AGAIN
        counts = partition_counts(self._admin, self._kinds)
        if missing := sorted(self._kinds.keys() - counts.keys()):
            raise UsageError(f"no topic {', '.join(missing)}; make it, or correct [records] topics or [labels] topic")
        there = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        new = [one for one in there if (one.topic, one.partition) not in self._repartitioning.places]
        if not new:
            return
        self._consumer.assign(there)
        for partition in new:
            progress = self._begun(partition)
            self._consumer.seek(partition, progress.offset)
            place = (partition.topic, partition.partition)
            self._repartitioning.begin(place, self._kinds[partition.topic], progress, _now())

    def _begun(self, partition: TopicPartition) -> PartitionProgress:
        begin, end = bounds(self._consumer, partition)
        if (committed := self._committed(partition)) is not None:
            _, progress = committed
            return progress.after(self._kept(partition, progress.offset, begin, end))
        is_new = all(self._consumer.committed(TopicPartition(topic, 0)) is None for topic in self._kinds)
        first = end if is_new and self._placement.start == "latest" else begin
        return PartitionProgress(first, first)

    def _kept(self, partition: TopicPartition, offset: int, begin: int, end: int) -> int:
        """Return where to go on: at an offset, or behind messages that were deleted if losses are allowed."""
        if offset > end:
            what = f"{name_of(partition)} was read up to offset {offset}, but the log ends at {end}"
            raise UsageError(f"{what}: the topic is not the one that was read before; choose another federation name")
        if offset >= begin:
            return offset
        what = f"{name_of(partition)}: messages {offset} to {begin - 1} were deleted before they were read"
        if self._placement.lost == "stop":
            remedy = 'raise the topic\'s retention; to continue without them, say lost = "skip" in [records]'
            raise UsageError(f"{what}; {remedy}")
        LOG.error("records lost", partition=name_of(partition), first=offset, last=begin - 1)
        return begin

    # --- one step ----------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Read, and write what is next in one transaction; return how many seconds to wait."""
        began = time.monotonic()
        if began >= self._look_at:
            self._look()
        self._read()
        taken = self._repartitioning.take(_now(), MOST, MOST_BYTES)
        if taken or began >= self._commit_at:
            self._write(taken)
        is_full = len(taken) >= MOST or sum(one.size for one in taken) >= MOST_BYTES
        return 0.0 if is_full else max(0.0, began + PAUSE - time.monotonic())

    def _read(self) -> None:
        self._steer()
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=POLL_MS)
        except kafka_errors.OffsetOutOfRangeError as error:
            for partition, offset in error.args[0].items():
                self._consumer.seek(partition, self._kept(partition, offset, *bounds(self._consumer, partition)))
            return
        for partition, messages in polled.items():
            place = (partition.topic, partition.partition)
            self._repartitioning.arrived(place, messages, self._whose(self._kinds[partition.topic], messages), _now())
        for place in self._repartitioning.places:
            partition = TopicPartition(*place)
            end = self._consumer.highwater(partition)
            at_end = end is not None and self._consumer.has_passed(partition, end)
            self._repartitioning.note_end(place, at_end=at_end)
        if self._labels is not None and time.monotonic() >= self._ask_at:
            self._ask()

    def _ask(self) -> None:
        """Ask the brokers for the ends: a fetch tells one only if it has changed, and a silent broker tells none."""
        self._ask_at, asked = time.monotonic() + ASK_AGAIN, _now()
        places = [TopicPartition(*one) for one, kind in self._repartitioning.places.items() if kind == "records"]
        with suppress(kafka_errors.KafkaTimeoutError):
            for partition, end in self._consumer.end_offsets(places, timeout_ms=ANSWER_MS).items():
                # The end is that of committed messages; those of an open transaction count as not read.
                known = self._consumer.highwater(partition)
                if known is not None and self._consumer.has_passed(partition, max(end, known)):
                    self._repartitioning.note_passed((partition.topic, partition.partition), asked)

    def _steer(self) -> None:
        """Pause partitions of which enough was read."""
        waiting = {place: self._repartitioning.waiting(place) for place in self._repartitioning.places}
        share = MOST_BYTES // len(waiting)
        full = {
            TopicPartition(*place)
            for place, (messages, size) in waiting.items()
            if messages >= MOST_WAITING or size >= share
        }
        self._consumer.pause(*(full - self._paused))
        self._consumer.resume(*(self._paused - full))
        self._paused = full

    def _whose(self, kind: Kind, messages: Sequence[Any]) -> list[Whose]:
        found = {message.offset: MARK for message in messages if is_end(message)}
        found |= {one.offset: self._too_large(kind) for one in messages if len(one.value or b"") > self._largest}
        rest = [message for message in messages if message.offset not in found]
        found |= zip([message.offset for message in rest], self._whose_of(kind, rest), strict=True)
        return [found[message.offset] for message in messages]

    def _too_large(self, kind: Kind) -> Whose:
        what = f"it has more than {self._largest} bytes"
        remedy = f"raise max.message.bytes of {self._targets[kind]}, and max_request_size"
        return Whose(reason=Reason(f"{what}; {remedy}", ReasonCode.TOO_LARGE))

    def _whose_of(self, kind: Kind, messages: Sequence[Any]) -> list[Whose]:
        if kind == "labels" and self._labels is not None:
            return whose_labels(messages, self._labels.records)
        if self._placement.by == "field":
            return whose_by_field(messages, self._records)
        return whose_by_key(messages, None if self._labels is None else self._records)

    def _write(self, taken: Sequence[Repartitioned]) -> None:
        self._commit_at = time.monotonic() + COMMIT_AGAIN
        if stray := [*_stray(taken)]:
            self._bury([letter for letter, _ in stray])  # before they count as read
        self._producer.begin_transaction()
        for one in taken:
            if one.partition >= 0:
                self._send(one)
        offsets = {
            TopicPartition(*place): OffsetAndMetadata(done.offset, f"{self._to}{TO}{done.metadata}", -1)
            for place, done in self._repartitioning.progress.items()
        }
        self._producer.send_offsets_to_transaction(offsets, self._topics.repartition_group)
        self._producer.commit_transaction()
        for letter, reason in stray:
            topic, partition, offset = letter.place
            self._stray.note(topic, reason, partition=partition, offset=offset)
        self._counts.unrouted += len(stray)

    def _send(self, one: Repartitioned) -> None:
        value, key, headers = None, END_OF_STREAM.encode(), [(END_OF_STREAM, b"")]
        if one.message is not None and one.place is not None:
            value, key = one.message.value, one.client.encode()
            headers = [origin_header(*one.place, one.message.offset)]
            headers += [(ID, one.id.encode())] if one.id else []
        sent = self._producer.send(self._targets[one.kind], value, key=key, headers=headers, partition=one.partition)
        if sent.failed():
            raise sent.exception

    def close(self) -> None:
        """Close the connections; a transaction that is open is aborted by the one that begins next."""
        let_go(self._producer, 1.0)
        self._consumer.close()
        self._admin.close()


def _stray(taken: Sequence[Repartitioned]) -> Iterator[tuple[DeadLetter, str]]:
    """Yield the dead letters of messages that are nobody's, and what is wrong with each."""
    for one in taken:
        if one.partition < 0 and one.place is not None and one.message is not None:
            message = one.message
            yield DeadLetter.of(*one.place, message.offset, one.reason, message.key, message.value), one.reason


def _now() -> int:
    """Return the time in milliseconds since 1970."""
    return int(1000 * time.time())
