"""A scorer: reads records without labels as a member of a group, and writes answers, at least or exactly once."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import MemberState

from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.protocol.messages import FromCoordinator
from streamfl.runtime.log.dead_letters import DeadLetter, reasons
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import RecordAnswer, RecordFormat, ScoringCounts, Unlabelled, UnlabelledRecords
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.absence import Absence, let_go
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.hosts.listener import Listener
from streamfl_connectors.kafka.reading import bounds, is_end, name_of

LOG = structlog.get_logger("streamfl.kafka.scorer")

# The most messages of a poll: answers wait for the last of them.
POLLED = 500

# Packed messages, which may hold 65,536 records in 134 bytes, are polled one at a time until there are this many
# records: more than in JSON, as to flush and commit takes as long as to answer hundreds.
PACKED = 2000

# A packed message takes up the room of one record per this many bytes, if it holds fewer records.
RECORD_BYTES = 8 * 1024

# While the group rebalances, a poll waits for this many milliseconds: without a wait it hardly ever joins.
GROUP_POLL_MS = 300

# Offsets are committed within this many milliseconds.
COMMIT_MS = 5000

# A poll without records waits for this many milliseconds.
POLL_MS = 100

# Errors that mean: the partitions have moved, or a transaction took too long. What was not written is read again.
MOVED = (
    kafka_errors.CommitFailedError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.ProducerFencedError,
    kafka_errors.InvalidProducerEpochError,
)

Blocks = Sequence[tuple[TopicPartition, Sequence[Any]]]  # messages that are decoded together, in the log's order


class KafkaScorer:
    """`streamfl.runtime.ports.Scorer` on Kafka.

    Answers and dead letters are written before offsets are committed. With `exactly_once` all three are one
    transaction: it carries the member's generation of the group, so that a scorer that has lost its partitions cannot
    commit for them.

    Parameters
    ----------
    name
        The name of this member of the group, the same after a restart.
    """

    def __init__(
        self, connection: Connection, topics: Topics, name: str, unlabelled: Unlabelled, records: RecordFormat
    ) -> None:
        self.counts = ScoringCounts()
        self._connection, self._topics, self._name = connection, topics, name
        self._unlabelled, self._records = unlabelled, records
        self._arrived = threading.Event()
        self._listener = Listener(connection, topics, self._arrived.set, follows=True)
        self._is_new = True
        self._formats: dict[TopicPartition, RecordFormat] = {}
        self._letters: list[DeadLetter] = []
        self._next: dict[TopicPartition, int] = {}  # after what was read and not answered
        self._bad = Tally(LOG, "bad record")
        self._absence = Absence(connection.settings.patience)
        self._consumer: KafkaConsumer = connection.consumer(
            group_id=topics.scorers_group,
            group_instance_id=name,
            session_timeout_ms=connection.settings.session_timeout_ms,
            heartbeat_interval_ms=connection.settings.session_timeout_ms // 4,
            partition_assignment_strategy=(CooperativeStickyAssignor(),),
            max_poll_records=POLLED if records.stride == 1 else 1,
        )
        self._producer: KafkaProducer | None = self._made_producer()
        if unlabelled.topics:
            self._consumer.subscribe(sorted(unlabelled.topics))

    def _made_producer(self) -> KafkaProducer:
        if not self._unlabelled.exactly_once:
            return self._connection.producer(linger_ms=0, batch_size=256 * 1024)
        settings = self._connection.settings
        # kafka-python waits for `retry_backoff_ms` several times in a transaction, which takes 0.1 s by default.
        producer = self._connection.producer(
            transactional_id=f"{self._topics.scorers_group}.{self._name}",
            transaction_timeout_ms=settings.transaction_timeout_ms,
            retry_backoff_ms=2,
            linger_ms=0,
            batch_size=256 * 1024,
        )
        with explained(settings):
            producer.init_transactions()
        return producer

    # --- the models --------------------------------------------------------------------------------------------

    def poll_models(self) -> Iterator[FromCoordinator]:
        """Yield what the coordinator has published since the last call, at first what is needed to follow it.

        A round comes before its models, so that of those before it the reader keeps only the newest.
        """
        if self._is_new:
            self._is_new = False
            for opened in self._listener.opened:
                yield opened
                yield from self._listener.present(opened.round)
            yield from self._listener.present()
        yield from self._listener.take()
        self.counts.foreign = self._listener.foreign

    # --- reading -----------------------------------------------------------------------------------------------

    def read(self) -> Sequence[UnlabelledRecords]:
        """Return the next records; bad ones become dead letters with the next answers."""
        try:
            with explained(self._connection.settings):
                polled = self._polled()
        except PeerError as error:
            self._absence.bear(error)
            return []
        self._absence.over()
        # What a poll that joined the group has already read of a new partition is read again from where it begins.
        known = [(partition, messages) for partition, messages in polled if partition in self._formats]
        return [self._asked(partition, messages) for partition, messages in known if messages]

    def _polled(self) -> Blocks:
        if not self._unlabelled.topics:
            time.sleep(POLL_MS / 1000)
            return []
        if self._producer is None:
            self._producer = self._made_producer()
        self._follow_the_group()
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=self._join())
        except kafka_errors.NoOffsetForPartitionError:
            return []  # the next call sets where they begin
        except kafka_errors.OffsetOutOfRangeError as error:
            self._note_lost(error.args[0])
            return []
        return list(polled.items()) if self._records.stride == 1 else self._with_more(polled)

    def _with_more(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> Blocks:
        """Poll packed messages, one at a time, until there are `PACKED` records or no more messages.

        A message with more than there is room for is the last, and a block of its own: next to others it would get
        their columns as well. If the group has changed meanwhile, or a poll fails, all are forgotten and read again
        from the offsets that are committed: another scorer may have answered them.
        """
        generation = self._consumer.group_metadata().generation_id
        together: dict[TopicPartition, list[Any]] = {}
        alone: list[tuple[TopicPartition, Sequence[Any]]] = []
        room = PACKED
        while polled:
            for partition, messages in polled.items():
                weight = sum(self._weight(partition, message.value) for message in messages)
                if weight > room:
                    alone.append((partition, messages))
                else:
                    together.setdefault(partition, []).extend(messages)
                room -= weight
            if room <= 0:
                break
            try:
                polled = self._consumer.poll(timeout_ms=0)
            except kafka_errors.KafkaError:  # the next read polls again, and raises it if it lasts
                generation = None
            if self._consumer.group_metadata().generation_id != generation:
                self._formats.clear()
                return []
        return [*together.items(), *alone]

    def _weight(self, partition: TopicPartition, value: bytes | None) -> int:
        form = self._formats.get(partition, self._records)
        return max(1, form.count(value), len(value or b"") // RECORD_BYTES)

    def _join(self) -> int:
        """Join the group if it rebalances; return how many milliseconds the next poll waits: see `RecordConsumer`.

        When another process takes the name, kafka-python silently stops its heartbeats and continues to poll; to join
        again raises the error.
        """
        group = self._consumer._coordinator
        if self._consumer.group_metadata().state == MemberState.STABLE and group._heartbeat_enabled:
            return POLL_MS
        group.request_rejoin()
        return GROUP_POLL_MS

    def _follow_the_group(self) -> None:
        assigned = self._consumer.assignment()
        if assigned == self._formats.keys():
            return
        for partition in self._formats.keys() - assigned:
            LOG.info("partition given up", partition=name_of(partition))
            del self._formats[partition]
        for partition in sorted(assigned - self._formats.keys()):
            offset = self._begin(partition)
            self._formats[partition] = self._records.fresh()
            LOG.info("partition taken", partition=name_of(partition), offset=offset)

    def _begin(self, partition: TopicPartition) -> int:
        """Go to where the group is in a partition; messages that the log has deleted since are counted as lost."""
        begin, end = bounds(self._consumer, partition)
        committed = self._consumer.committed(partition)
        if committed is None:
            offset = begin if self._unlabelled.start == "earliest" else end
        else:
            offset = min(max(committed, begin), end)
            self._count_lost(partition, committed, begin)
        self._consumer.seek(partition, offset)
        return offset

    def _note_lost(self, positions: Mapping[TopicPartition, int]) -> None:
        for partition, offset in positions.items():
            begin, end = bounds(self._consumer, partition)
            self._count_lost(partition, offset, begin)
            self._consumer.seek(partition, min(max(offset, begin), end))

    def _count_lost(self, partition: TopicPartition, offset: int, begin: int) -> None:
        if offset < begin:
            self.counts.lost += begin - offset
            LOG.error("records lost", partition=name_of(partition), first=offset, last=begin - 1)

    def _asked(self, partition: TopicPartition, messages: Sequence[Any]) -> UnlabelledRecords:
        self._next[partition] = messages[-1].offset + 1
        there = [message for message in messages if not is_end(message)]
        form = self._formats[partition]
        decoded = form.decode([message.offset for message in there], [message.value for message in there])
        self._note_bad(partition, there, reasons(decoded.rejected, form.stride))
        self.counts.rejected += sum(one.count for one in decoded.rejected)
        return UnlabelledRecords(partition.topic, partition.partition, decoded, {m.offset: m.key for m in there})

    def _note_bad(self, partition: TopicPartition, messages: Sequence[Any], wrong: Mapping[int, str]) -> None:
        for message in messages:
            if message.offset in wrong:
                reason = wrong[message.offset]
                self._bad.note(name_of(partition), reason, offset=message.offset)
                place = (partition.topic, partition.partition, message.offset)
                self._letters.append(DeadLetter.of(*place, reason, message.key, message.value))

    # --- answering ---------------------------------------------------------------------------------------------

    def answer(self, answers: Sequence[RecordAnswer]) -> None:
        """Write answers and dead letters, and commit the offsets after the records that were read last."""
        letters, offsets = self._letters, self._next
        self._letters, self._next = [], {}
        if not offsets:
            return
        commit = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}
        producer = self._producer
        if producer is None:
            raise BrokenInvariantError("records were read without a producer")
        try:
            if self._unlabelled.exactly_once:
                producer.begin_transaction()
                self._write(producer, answers, letters)
                producer.send_offsets_to_transaction(commit, self._consumer.group_metadata())
                producer.commit_transaction()
            else:
                self._write(producer, answers, letters)
                self._consumer.commit(commit, timeout_ms=COMMIT_MS)
        except kafka_errors.KafkaError as error:
            self._read_again(producer, error)
        else:
            self.counts.answered += len(answers)
            self.counts.dead_letters += len(letters)

    def _write(self, producer: KafkaProducer, answers: Sequence[RecordAnswer], letters: Sequence[DeadLetter]) -> None:
        failed: list[kafka_errors.KafkaError] = []  # not the result of each of many thousands of packed records
        for answer in answers:
            producer.send(self._topics.predictions, answer.value, key=answer.key).add_errback(failed.append)
        for letter in letters:
            dead_letters.write(producer, self._topics.dead_letters, letter).add_errback(failed.append)
        producer.flush()
        if failed:
            raise failed[0]

    def _read_again(self, producer: KafkaProducer, error: kafka_errors.KafkaError) -> None:
        """Go back to the offsets that are committed: what was written does not count, or is written again.

        A new producer ends the transaction of the one before.

        Raises
        ------
        PeerError
            Another scorer of the same name has taken over, or the brokers have been away for too long.
        UsageError
            The log-in lacks a right, or a message is too large.
        """
        if not isinstance(error, MOVED):
            try:
                with explained(self._connection.settings):
                    raise error
            except PeerError as explanation:
                self._absence.bear(explanation)
        self.counts.again += 1
        LOG.warning("records read again", reason=repr(error))
        let_go(producer, 0.0)
        self._producer = None
        self._formats.clear()

    def listen(self, seconds: float) -> None:
        """Return when the coordinator has published something, or after this many seconds."""
        self._arrived.wait(seconds)
        self._arrived.clear()

    def close(self) -> None:
        """Close the connections; a static member keeps its partitions for the session timeout."""
        self._listener.close()
        if self._producer is not None:
            let_go(self._producer, 5.0)
        self._consumer.close()
