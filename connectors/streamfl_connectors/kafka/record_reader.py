"""What reads records and labels in bulk: the only part of a connector for which the client library decides the cost.

Models, updates, transactions and administration bring a few messages a second, and go through kafka-python.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from kafka import OffsetAndMetadata, TopicPartition


class RecordReader(Protocol):
    """A consumer of committed messages, with the methods and errors of kafka-python that are used here.

    Partitions are assigned by hand, or by the group that it joins with `subscribe`. It reads a partition from where
    `seek` says, and raises NoOffsetForPartitionError or returns nothing of it before.
    """

    @property
    def is_joined(self) -> bool:
        """Whether the group does not rebalance, as far as this member knows."""
        ...

    def rejoin(self) -> None:
        """Have the next poll join the group, if it is not joined; nothing where that needs no poll."""
        ...

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        ...

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions; those that were read before go on."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        ...

    def poll(self, timeout_ms: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """Return messages that have arrived, after so many milliseconds at most; none of paused partitions.

        Raises
        ------
        OffsetOutOfRangeError
            The log does not hold a position; its first argument is the positions by partition.
        KafkaError
            Another error of kafka-python.
        """
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read a partition from an offset on."""
        ...

    def position(self, partition: TopicPartition) -> int:
        """Return the offset that is read next; at the end of a log it is behind the markers of transactions."""
        ...

    def has_passed(self, partition: TopicPartition, offset: int) -> bool:
        """Tell whether the position is at an offset or behind it, as far as is known: the brokers are not asked."""
        ...

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition as of the last fetch; None before the first one."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no messages of partitions for a while."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Return messages of paused partitions again."""
        ...

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        ...

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still holds."""
        ...

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each partition behind its committed messages."""
        ...

    def committed(self, partition: TopicPartition, *, metadata: bool = False) -> Any:
        """Return the offset that the group has committed, with its metadata if they are asked for; None: none."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_ms: int) -> None:
        """Commit offsets; an error may be raised by a later commit.

        Raises
        ------
        FencedInstanceIdError
            Another process has taken the name of this member.
        """
        ...

    def close(self) -> None:
        """Close the connections; a member with a name stays in the group for the session timeout."""
        ...
