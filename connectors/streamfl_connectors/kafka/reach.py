"""How far partitions of records go, and how far hosts have read them: what a page tells of lag."""

from collections.abc import Collection

from kafka import TopicPartition
from kafka import errors as kafka_errors

from streamfl.runtime.log.placement import partition_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import PartitionReach, Placement
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.coordinator.ends import ends_of
from streamfl_connectors.kafka.hosts.settled import SettledOffset


class KafkaPartitionEnds:
    """`streamfl.runtime.ports.PartitionEnds`: asks the brokers for ends, and for what hosts have committed.

    Parameters
    ----------
    stride
        The positions that a message takes up.
    """

    def __init__(self, connection: Connection, topics: Topics, placement: Placement, stride: int) -> None:
        self._connection, self._topics = connection, topics
        self._placement, self._stride = placement, stride
        self._admin = connection.admin()

    def of(self, partitions: Collection[str]) -> dict[str, PartitionReach]:
        """Return how far partitions go, by their names in the ledger; without those of which that is not known."""
        places = {name: partition_of(self._placement, self._topics.own, name) for name in partitions}
        named = {name: TopicPartition(*place) for name, place in places.items() if place is not None}
        if not named:
            return {}
        with explained(self._connection.settings):
            ends = ends_of(self._admin, [*named.values()])
            read = self._read([one for one in named.values() if ends.get(one)])
        return {
            name: PartitionReach(end * self._stride, None if at is None else at * self._stride)
            for name, one in named.items()
            if (end := ends.get(one)) is not None
            for at in [read.get(one)]
        }

    def _read(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return how far hosts have read partitions, by what they commit; without the right to see that, nothing."""
        group = self._topics.clients_group
        try:
            committed = self._admin.list_group_offsets({group: partitions})[group] if partitions else {}
        except kafka_errors.GroupAuthorizationFailedError:
            return {}
        return {one: SettledOffset.of(at).read_before for one, at in committed.items()}

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()
