"""The records of all clients of one host, which is a member of the group that divides the partitions."""

import time
from collections.abc import Mapping, Sequence

import structlog
from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors

from streamfl.errors import PeerError
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.placement import may_hold_records
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import (
    CheckResult,
    ClientProgress,
    LabelTopics,
    Placement,
    ReadingCounts,
    RecordFormat,
    Source,
)
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.absence import Absence
from streamfl_connectors.kafka.administration import partition_counts, require
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.hosts.feed import Feed
from streamfl_connectors.kafka.hosts.labels import LabelFeed
from streamfl_connectors.kafka.hosts.settled import SettledOffset
from streamfl_connectors.kafka.lasting import LastingProducer
from streamfl_connectors.kafka.partitions import added, beyond, wrong_placement
from streamfl_connectors.kafka.reading import name_of

LOG = structlog.get_logger("streamfl.kafka.records")

# Seconds between two searches for topics that match a name with a *.
LOOK_AGAIN = 5.0

# While the group rebalances, a poll waits for so many milliseconds: without a wait it hardly ever joins. Otherwise
# polls do not wait, the host does.
GROUP_POLL_MS = 300

# Seconds in which dead letters are stored, and in which offsets are committed after them.
COMMITTED_WITHIN = 2.0


class RecordConsumer:
    """Reads the partitions that the group assigns to this host, and routes them to clients.

    Parameters
    ----------
    host
        The name of this member of the group. It is the same after a restart, so the host gets its partitions back at
        once.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        host: str,
        placement: Placement,
        records: RecordFormat,
        counts: ReadingCounts,
        delayed_labels: LabelTopics | None = None,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._placement = placement
        self._format = records
        self._counts = counts
        self._consumer = connection.record_reader(topics.clients_group, host)
        self._letters = LastingProducer(connection, linger_ms=20)
        self._unwritten = Tally(LOG, "a dead letter was not written")
        self._admin: KafkaAdminClient | None = None
        self._feed = Feed(connection, self._consumer, placement, records, counts, self.bury)
        self.labels: LabelFeed | None = None
        if delayed_labels is not None:
            self.labels = LabelFeed(connection, topics, placement, delayed_labels, counts, self.bury)
        self._subscribed: list[str] = []
        self._look_at = self._count_at = 0.0
        self._of_labels: dict[str, int] = {}  # how many partitions the topics of labels have
        self._left_out: dict[TopicPartition, str] = {}
        self._wrong: list[CheckResult] = []
        self._absence = Absence(connection.settings.patience)

    # --- the group ---------------------------------------------------------------------------------------------

    def subscribe(self) -> bool:
        """Subscribe to the topics that exist; return True.

        Raises
        ------
        UsageError
            There are some, and none fits.
        """
        with explained(self._connection.settings):
            self._subscribe()
        return True

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
        if self.labels is not None and starred:
            wanted = self.labels.with_labels(wanted, there)
        if not wanted:
            LOG.warning("no topic of that name yet", topics=list(names))
        wanted = self._fitting(wanted)
        if wanted and wanted != self._subscribed:
            self._subscribed = wanted
            self._consumer.subscribe(wanted)

    def _fitting(self, topics: Sequence[str]) -> list[str]:
        """Return the topics without new ones that have a wrong number of partitions.

        Partitions that were added to a topic which the group has read stop nobody: see `_follow_the_group`.
        """
        new = [topic for topic in topics if topic not in self._subscribed]
        counts = partition_counts(self._administrator(), new) if new else {}
        wrong = wrong_placement(self._placement, counts)
        unfit = {one.subject for one in wrong if not self._has_begun(one.subject)}
        fitting = [topic for topic in topics if topic not in unfit]
        if not fitting:
            require(wrong)
        for one in wrong:
            if one not in self._wrong:
                event = "topic left out" if one.subject in unfit else "topic read as far as it fits"
                LOG.error(event, topic=one.subject, reason=one.found, remedy=one.remedy)
        self._wrong = wrong
        return fitting

    def _has_begun(self, topic: str) -> bool:
        """Tell whether the group has read a topic."""
        return self._consumer.committed(TopicPartition(topic, 0)) is not None

    def _listed(self) -> Sequence[str]:
        topics: Sequence[str] = self._administrator().list_topics()
        return topics

    def _administrator(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = self._connection.admin()
        return self._admin

    def _follow_the_group(self) -> None:
        """Begin to read partitions that were assigned to this host, and forget those that were revoked.

        Those that no client can read, or not yet, stay with this host unread.
        """
        assigned, readers = self._consumer.assignment(), self._feed.readers
        if assigned == readers.keys() and not self._left_out:
            return
        left_out = self._to_leave_out(assigned)
        for partition in left_out.keys() - self._consumer.paused():
            self._consumer.seek(partition, 0)  # without a position every poll would fail
            self._consumer.pause(partition)
        assigned -= left_out.keys()
        self._consumer.resume(*(assigned & self._left_out.keys()))
        self._left_out = left_out
        for partition in readers.keys() - assigned:
            self._feed.give_up(partition)
            if self.labels is not None:
                self.labels.give_up(partition)
        for partition in sorted(assigned - readers.keys()):
            reader = self._feed.begin(partition, self._settled(partition), wait=self.labels is not None)
            if self.labels is not None:
                self.labels.begin(partition, reader, self._settled(self.labels.beside(partition)))

    def _settled(self, partition: TopicPartition) -> SettledOffset:
        return SettledOffset.of(self._consumer.committed(partition, metadata=True))

    def _to_leave_out(self, assigned: set[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the partitions that no client can read, with the reason, which is logged once."""
        reasons = {one: beyond(self._placement, one.partition) for one in assigned}
        if self.labels is not None:
            reasons |= self._lacking_labels({one for one in assigned - self._feed.readers.keys() if not reasons[one]})
        left_out = {partition: reason for partition, reason in reasons.items() if reason is not None}
        for partition, reason in sorted(left_out.items()):
            if self._left_out.get(partition) != reason:
                found, _, remedy = reason.partition("; ")
                LOG.error("partition left out", partition=name_of(partition), reason=found, remedy=remedy)
        return left_out

    def _lacking_labels(self, partitions: set[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the partitions whose labels have none yet; the brokers are asked now and then."""
        of = {partition: self.labels.topic_of(partition.topic) for partition in partitions} if self.labels else {}
        if partitions - self._left_out.keys() or (of and time.monotonic() >= self._count_at):
            self._count_at = time.monotonic() + LOOK_AGAIN
            self._of_labels |= partition_counts(self._administrator(), sorted(set(of.values())))
        return {
            partition: f"topic {topic} of its labels has no partition {partition.partition}; "
            + added(topic, partition.partition + 1)
            for partition, topic in of.items()
            if partition.partition >= self._of_labels.get(topic, 0)
        }

    @property
    def sources(self) -> Mapping[str, Source]:
        """Return the sources of this host's clients, by client."""
        return self._feed.sources if self.labels is None else self.labels.halves

    # --- reading -----------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Read further partitions with room; tell whether there were messages."""
        try:
            with explained(self._connection.settings):
                return self._read()
        except PeerError as error:
            self._absence.bear(error)
            return False

    def _read(self) -> bool:
        self._subscribe()
        if not self._subscribed:
            return False
        self._follow_the_group()
        polled = self._feed.polled(self._join())
        self._absence.over()
        self._feed.take(polled)
        if self.labels is None:
            return bool(polled)
        self.labels.arrived(polled)
        return self.labels.read(self._feed) or bool(polled)

    def _join(self) -> int:
        """Join the group if it rebalances; return how many milliseconds the next poll waits for that."""
        if self._consumer.is_joined:
            return 0
        self._consumer.rejoin()
        return GROUP_POLL_MS

    @property
    def is_divided(self) -> bool:
        """Tell whether the group does not rebalance, and all partitions that it has assigned are read.

        A partition that a host gives up belongs to nobody until the group has joined again. A host that ended then
        would leave it so, if it is the one to which it was to go.
        """
        assigned = self._consumer.assignment()
        return self._consumer.is_joined and assigned == self._feed.readers.keys() | self._left_out.keys()

    @property
    def hungry(self) -> bool:
        """Tell whether any partition has room, or none is assigned yet."""
        return self._feed.hungry or (self.labels is not None and self.labels.hungry)

    def bury(self, letter: DeadLetter) -> None:
        """Write a dead letter; one that cannot be written is logged."""
        place = letter.place
        try:
            sent = dead_letters.write(self._letters, self._topics.dead_letters, letter)
        except kafka_errors.KafkaError as error:
            self._not_written(place, error)
        else:
            sent.add_errback(lambda error: self._not_written(place, error))
            self._counts.dead_letters += 1

    def _not_written(self, place: tuple[str, int, int], error: Exception) -> None:
        """Log a dead letter that was not written; its record still counts as rejected."""
        topic, partition, offset = place
        self._unwritten.note(topic, repr(error), partition=partition, offset=offset)

    def bury_stored(self, letters: Sequence[DeadLetter]) -> None:
        """Write dead letters; return when they are stored, but for those that cannot be written."""
        for letter in letters:
            self.bury(letter)
        self._letters.flush(self._connection.settings.patience)

    @property
    def partitions(self) -> Mapping[TopicPartition, object]:
        """Return the partitions that are read."""
        return self._feed.readers

    # --- settling ----------------------------------------------------------------------------------------------

    def backlog(self) -> dict[str, int]:
        """Return how many messages of each partition were not read yet; delayed labels included."""
        return self._feed.backlog() | ({} if self.labels is None else self.labels.backlog())

    @property
    def is_behind(self) -> bool:
        """Tell whether any message was not read yet, delayed labels included."""
        return self._feed.is_behind or (self.labels is not None and self.labels.is_behind)

    def settle(self, progress: Mapping[str, ClientProgress]) -> None:
        """Commit how far every partition is settled: a hint for the next host of a partition, and for lag tools.

        It comes after the dead letters that it says have been written.
        """
        offsets = {}
        readers = {**self._feed.readers, **(self.labels.readers if self.labels is not None else {})}
        for partition, reader in readers.items():
            position = reader.settled(progress)
            stride = self._format.stride
            reached = (position, reader.dead_letters_before, reader.head)
            offsets[partition] = SettledOffset(*(one // stride for one in reached)).committed
        if not offsets:
            return
        try:
            self._letters.flush(COMMITTED_WITHIN)
            self._consumer.commit(offsets, timeout_ms=int(1000 * COMMITTED_WITHIN))
        except kafka_errors.FencedInstanceIdError:
            # Only this error shows it: kafka-python silently stops its heartbeats and continues to poll.
            with explained(self._connection.settings):
                raise
        except kafka_errors.KafkaError as error:
            LOG.info("the group's offsets were not committed; they are behind the ledger", reason=repr(error))

    def close(self) -> None:
        """Close the connections; a static member keeps its partitions for the session timeout."""
        self._letters.close(5.0)
        self._consumer.close()
        self._feed.close()
        if self.labels is not None:
            self.labels.close()
        if self._admin is not None:
            self._admin.close()
