"""The records of all clients of one host, which is a member of the group that divides the partitions."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import MemberState

from streamfl.core.errors import PeerError
from streamfl.log.dead_letters import DeadLetter
from streamfl.log.intake import Intake
from streamfl.log.partition import LogSource, PartitionReader, not_held
from streamfl.log.placement import may_hold_records, wrong_placement
from streamfl.log.tally import Tally
from streamfl.log.topics import Topics
from streamfl.ports import ClientProgress, Decoded, Placement, ReadingCounts, RecordFormat
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.absence import Absence, let_go
from streamfl_connectors.kafka.administration import partition_counts, require
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.reading import bounds, is_end, name_of, read_to

LOG = structlog.get_logger("streamfl.kafka.records")

# The most bytes of a fetch, from one partition and in all. They bound what a client holds beyond its room.
FETCHED_OF_ONE, FETCHED = 512 * 1024, 16 * 1024 * 1024

# A poll returns everything that was fetched. kafka-python 3.0.12 loses the rest of a fetch if its partition is paused
# between two polls: after `resume` it is neither returned nor fetched again.
EVERYTHING = 1_000_000

# Seconds between two searches for topics that match a name with a *.
LOOK_AGAIN = 5.0

# While the group rebalances, a poll waits for so many milliseconds: without a wait it hardly ever joins. Otherwise
# polls do not wait, the host does.
GROUP_POLL_MS = 300


class RecordConsumer:
    """Reads the partitions that the group assigns to this host, and routes them to clients.

    Parameters
    ----------
    connection, topics
        Where to read.
    host
        The name of this member of the group. It is the same after a restart, so the host gets its partitions back at
        once.
    placement, records
        Which topics hold records, of which clients, and how messages hold them.
    counts
        The counts that are updated.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        host: str,
        placement: Placement,
        records: RecordFormat,
        counts: ReadingCounts,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._placement = placement
        self._format = records
        self._counts = counts
        self._intake = Intake(placement, records, counts)
        self._consumer: KafkaConsumer = connection.consumer(
            group_id=topics.clients_group,
            group_instance_id=host,
            session_timeout_ms=connection.settings.session_timeout_ms,
            heartbeat_interval_ms=connection.settings.session_timeout_ms // 4,
            partition_assignment_strategy=(CooperativeStickyAssignor(),),
            max_poll_records=EVERYTHING,
            max_partition_fetch_bytes=FETCHED_OF_ONE,
            fetch_max_bytes=FETCHED,
        )
        self._letters: KafkaProducer = connection.producer(linger_ms=20)
        self._unwritten = Tally(LOG, "a dead letter was not written")
        self._again: KafkaConsumer | None = None
        self._admin: KafkaAdminClient | None = None
        self._readers: dict[TopicPartition, PartitionReader] = {}
        self._paused: set[TopicPartition] = set()
        self._subscribed: list[str] = []
        self._look_at = 0.0
        self._absence = Absence(connection.settings.patience)

    # --- the group ---------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        """Subscribe to the topics that exist; search again now and then if names have a *.

        It does not use kafka-python's patterns: with these, a poll that does not wait never joins the group. Nor does
        it use the consumer's own list of topics: to ask for all of them makes the group rebalance without end.
        """
        names = self._placement.topics
        starred = any("*" in name for name in names)
        if time.monotonic() < self._look_at or (self._subscribed and not starred):
            return
        self._look_at = time.monotonic() + LOOK_AGAIN
        there = self._listed() if starred else names
        wanted = sorted(topic for topic in there if may_hold_records(self._placement, self._topics.own, topic))
        if not wanted:
            LOG.warning("no topic of that name yet", topics=list(names))
        elif wanted != self._subscribed:
            if starred:
                require(wrong_placement(self._placement, partition_counts(self._administrator(), wanted)))
            self._subscribed = wanted
            self._consumer.subscribe(wanted)

    def _listed(self) -> Sequence[str]:
        topics: Sequence[str] = self._administrator().list_topics()
        return topics

    def _administrator(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = self._connection.admin()
        return self._admin

    def _follow_the_group(self) -> None:
        """Begin to read partitions that were assigned to this host, and forget those that were revoked."""
        assigned = self._consumer.assignment()
        if assigned == self._readers.keys():
            return
        for partition in self._readers.keys() - assigned:
            LOG.info("partition given up", partition=name_of(partition))
            del self._readers[partition]
            self._intake.give_up(name_of(partition))
        for partition in sorted(assigned - self._readers.keys()):
            self._readers[partition] = self._begun(partition)
        self._paused &= assigned

    def _begun(self, partition: TopicPartition) -> PartitionReader:
        begin, end = bounds(self._consumer, partition)
        hint = self._consumer.committed(partition)
        first = begin if self._placement.start == "earliest" else end
        offset = first if hint is None else min(max(hint, begin), end)
        self._consumer.seek(partition, offset)
        LOG.info("partition taken", partition=name_of(partition), offset=offset)
        return self._intake.begin(
            partition.topic,
            partition.partition,
            offset,
            lambda positions: self._explained_again(partition, positions),
        )

    @property
    def sources(self) -> dict[str, LogSource]:
        """Return the sources of this host's clients, by client."""
        return {client: source for reader in self._readers.values() for client, source in reader.clients.items()}

    # --- reading -----------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Read further partitions with room; tell whether there were messages."""
        try:
            with explained(self._connection.settings.bootstrap_servers):
                polled = self._polled()
        except PeerError as error:
            self._absence.bear(error)
            return False
        self._absence.over()
        for partition, messages in polled.items():
            if partition in self._readers:
                self._take(partition, messages)
        return bool(polled)

    def _polled(self) -> Mapping[TopicPartition, Sequence[Any]]:
        self._subscribe()
        if not self._subscribed:
            return {}
        self._follow_the_group()
        self._place()
        self._steer()
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=self._join())
        except kafka_errors.NoOffsetForPartitionError:
            return {}  # partitions without committed offsets: the next call sets where they begin
        except kafka_errors.OffsetOutOfRangeError as error:
            self._lost(error.args[0])
            return {}
        return polled

    def _join(self) -> int:
        """Join the group if it rebalances; return how many milliseconds the next poll waits for that.

        A poll of kafka-python 3.0.12 that begins to join, because topics are new or the subscription has changed, may
        end before the group has answered. When the answer is on its way, the next poll finds no reason to join, and
        never reads it: this member would stay without its new partitions, send no heartbeats and be removed. So the
        reason is repeated until the member has joined.
        """
        if self._consumer.group_metadata().state == MemberState.STABLE:
            return 0
        self._consumer._coordinator.request_rejoin()
        return GROUP_POLL_MS

    @property
    def hungry(self) -> bool:
        """Tell whether any partition has room, or none is assigned yet."""
        return not self._readers or len(self._paused) < len(self._readers)

    def _place(self) -> None:
        """Check positions from the ledger against the ends of the logs."""
        sought = [partition for partition, reader in self._readers.items() if reader.sought]
        if not sought:
            return
        begins, ends = self._consumer.beginning_offsets(sought), self._consumer.end_offsets(sought)
        for partition in sought:
            self._readers[partition].check_sought(begins[partition], ends[partition], self._format.stride)

    def _steer(self) -> None:
        """Seek, pause and resume partitions by the clients' positions and room."""
        for partition, reader in self._readers.items():
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

    def _take(self, partition: TopicPartition, messages: Sequence[Any]) -> None:
        marks = [message.offset for message in messages if is_end(message)]
        for letter in self._intake.take(self._readers[partition], messages, marks):
            self._bury(letter)

    def _bury(self, letter: DeadLetter) -> None:
        place = letter.place
        try:
            sent = dead_letters.write(self._letters, self._topics.dead_letters, letter)
        except kafka_errors.KafkaError as error:
            self._not_buried(place, error)
        else:
            sent.add_errback(lambda error: self._not_buried(place, error))
            self._counts.dead_letters += 1

    def _not_buried(self, place: tuple[str, int, int], error: Exception) -> None:
        """Log a dead letter that was not written; its record still counts as rejected."""
        topic, partition, offset = place
        self._unwritten.note(topic, repr(error), partition=partition, offset=offset)

    def _lost(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue where a log still holds messages; clients that need lost ones fail, unless losses are allowed."""
        for partition, offset in positions.items():
            begin, end = bounds(self._consumer, partition)
            reader, stride = self._readers[partition], self._format.stride
            for source in reader.clients.values():
                beyond, gone = source.next > end * stride, source.next < begin * stride
                if not source.failed and (beyond or (gone and self._placement.lost == "stop")):
                    source.fail(not_held(reader.name, source.next // stride, begin, end))
            if offset < begin:
                LOG.error("records lost", partition=name_of(partition), first=offset, last=begin - 1)
            self._consumer.seek(partition, min(max(offset, begin), end))

    def _explained_again(self, partition: TopicPartition, positions: Sequence[int]) -> Decoded:
        with explained(self._connection.settings.bootstrap_servers):
            return self._read_again(partition, positions)

    def _read_again(self, partition: TopicPartition, positions: Sequence[int]) -> Decoded:
        """Return old records by position, through a consumer of its own, without those that the log lost."""
        if self._again is None:
            self._again = self._connection.consumer()
        stride = self._format.stride
        wanted = sorted({position // stride for position in positions})
        values: dict[int, bytes | None] = {}
        self._again.assign([partition])
        begin, end = bounds(self._again, partition)
        for offset in wanted:
            if not begin <= offset < end or offset in values:
                continue
            self._again.seek(partition, offset)
            until = time.monotonic() + self._connection.settings.patience
            for messages in read_to(self._again, partition, offset + 1):
                values.update((message.offset, message.value) for message in messages)
                if time.monotonic() >= until:
                    break
        there = [offset for offset in wanted if offset in values]
        return self._format.fresh().decode(there, [values[offset] for offset in there])

    # --- settling ----------------------------------------------------------------------------------------------

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Commit how far every partition is settled: a hint for the next host of a partition, and for lag tools."""
        offsets = {}
        for partition, reader in self._readers.items():
            position = reader.settled(progress)
            offsets[partition] = OffsetAndMetadata(position // self._format.stride, "", -1)
        if not offsets:
            return
        try:
            self._consumer.commit(offsets, timeout_ms=2000)
        except kafka_errors.FencedInstanceIdError:
            # Only this error shows it: kafka-python silently stops its heartbeats and continues to poll.
            with explained(self._connection.settings.bootstrap_servers):
                raise
        except kafka_errors.KafkaError as error:
            LOG.info("the group's offsets were not committed; they are behind the ledger", reason=repr(error))

    def close(self) -> None:
        """Close the connections; a static member keeps its partitions for the session timeout."""
        let_go(self._letters, 5.0)
        self._consumer.close()
        for other in (self._again, self._admin):
            if other is not None:
                other.close()
