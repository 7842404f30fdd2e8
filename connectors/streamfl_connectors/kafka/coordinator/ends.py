"""What the coordinator asks about topics of records: where their partitions end, and whether they are still the same.

No client can have read beyond an end, whatever its update says; and positions in a topic mean nothing in another one
that has been made in its place.
"""

import math
import time
from collections.abc import Collection, Mapping

import structlog
from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import OffsetSpec
from kafka.protocol.consumer.offsets import IsolationLevel

from streamfl.errors import PeerError, UsageError
from streamfl.runtime.log.placement import partition_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Placement
from streamfl_connectors.kafka.absence import Absence
from streamfl_connectors.kafka.connection import Connection, explained

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# Seconds before brokers that did not answer are asked again.
PAUSE = 0.2

# Seconds for which the identity of a topic is taken to stay the same.
STAYS = 5.0

# The most topics without an identity of which it is remembered for so long that they were asked for.
MOST_UNKNOWN = 1_000

# What brokers before Apache Kafka 2.8 say of a topic's identity.
NO_ID = "00000000-0000-0000-0000-000000000000"

# Errors of a topic whose end cannot be known, now or ever.
UNKNOWN_END = (
    kafka_errors.UnknownTopicOrPartitionError,
    kafka_errors.AuthorizationError,
    kafka_errors.InvalidTopicError,
)


class Ends:
    """Asks for the ends of partitions of records.

    Parameters
    ----------
    stride
        The positions that a message takes up.
    """

    def __init__(self, connection: Connection, topics: Topics, placement: Placement, stride: int) -> None:
        self._connection = connection
        self._own = topics.own
        self._placement = placement
        self._stride = stride
        self._admin: KafkaAdminClient | None = None
        self._ids: dict[str, str] = {}  # by topic
        self._unknown: list[str] = []  # topics without, which were asked for meanwhile
        self._asked_at = -math.inf

    def get_ready(self) -> None:
        """Connect before the first question."""
        self._admin = self._admin or self._connection.admin()

    def of(self, partitions: Collection[str]) -> dict[str, int | None]:
        """Return the position after the last committed record of each partition.

        Parameters
        ----------
        partitions
            Their names in the ledger, `topic/number`.

        Returns
        -------
        0 for a name that is not a partition of the placement; None without the right to see it, or without an answer.
        """
        named = {name: self._partition(name) for name in partitions}
        asked = {partition for partition in named.values() if partition is not None}
        ends = self._patiently(asked) if asked else {}
        positions = {one: None if end is None else end * self._stride for one, end in ends.items()}
        return {name: 0 if one is None else positions.get(one) for name, one in named.items()}

    def ids_of(self, partitions: Collection[str]) -> dict[str, str | None]:
        """Return the identity of the topic of each partition, as of a few seconds ago; None where it is unknown."""
        topics = {name: one.topic for name in partitions if (one := self._partition(name)) is not None}
        to_ask = set(topics.values()) - self._ids.keys() - set(self._unknown)
        if time.monotonic() - self._asked_at >= STAYS:
            self._asked_at = time.monotonic()
            self._unknown = []
            to_ask = self._ids.keys() | topics.values()
        if to_ask:
            self._ids |= self._identities(sorted(to_ask))
            self._unknown = [*self._unknown, *sorted(to_ask - self._ids.keys())][-MOST_UNKNOWN:]
        return {name: self._ids.get(topics[name]) if name in topics else None for name in partitions}

    def _identities(self, topics: list[str]) -> dict[str, str]:
        """Ask the brokers; return the identities that they tell.

        Where they do not answer, or refuse the coordinator, no client is to blame: nothing is known.
        """
        try:
            with explained(self._connection.settings):
                self._admin = self._admin or self._connection.admin()
                described = self._admin.describe_topics(topics)
        except (PeerError, UsageError) as error:
            LOG.warning("the identities of topics are unknown", reason=str(error))
            return {}
        return {one["name"]: str(one["topic_id"]) for one in described if one.get("topic_id") not in (None, NO_ID)}

    def _partition(self, name: str) -> TopicPartition | None:
        place = partition_of(self._placement, self._own, name)
        return None if place is None else TopicPartition(*place)

    def _patiently(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        absence = Absence(self._connection.settings.patience)
        while True:
            try:
                with explained(self._connection.settings):
                    return self._asked(partitions)
            except UsageError as error:  # the coordinator's, of which no client is to hear
                return _unknown_ends(error)
            except PeerError as error:
                try:
                    absence.bear(error)
                except PeerError:
                    return _unknown_ends(error)
                time.sleep(PAUSE)

    def _asked(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        self._admin = self._admin or self._connection.admin()
        return ends_of(self._admin, partitions)

    def close(self) -> None:
        """Close the connection."""
        if self._admin is not None:
            self._admin.close()


def ends_of(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
    """Return the next offset of each partition.

    0 for one that does not exist; None without the right to see its topic. A partition without an end fails the
    request of all, which are then asked for without it.
    """
    try:
        return _listed(admin, partitions)
    except UNKNOWN_END:
        counts = _counts(admin, sorted({partition.topic for partition in partitions}))
    there = [one for one in partitions if one.partition < (counts.get(one.topic, 0) or 0)]
    nowhere = {one: None if counts.get(one.topic, 0) is None else 0 for one in partitions if one not in there}
    try:
        return {**nowhere, **(_listed(admin, there) if there else {})}
    except UNKNOWN_END:  # a partition was deleted at this moment
        return nowhere


def _unknown_ends(error: PeerError | UsageError) -> Mapping[TopicPartition, int | None]:
    LOG.warning("the ends of record partitions are unknown", reason=str(error))
    return {}


def _counts(admin: KafkaAdminClient, topics: list[str]) -> dict[str, int | None]:
    """Return how many partitions each topic has: 0 if it does not exist, None without the right to see it."""
    described = admin.describe_topics(topics)
    denied = kafka_errors.TopicAuthorizationFailedError.errno
    return {
        topic["name"]: None if topic["error_code"] == denied else len(topic["partitions"] or ())
        for topic in described
    }


def _listed(admin: KafkaAdminClient, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
    latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
    ends = admin.list_partition_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    return {partition: end.offset for partition, end in ends.items()}
