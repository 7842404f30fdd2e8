"""The consumer of kafka-python as a `RecordReader`."""

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import MemberState


class Consumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
    """Every consumer of kafka-python that is made here."""

    @property
    def is_joined(self) -> bool:
        """Tell whether the group does not rebalance, as far as this member knows."""
        return bool(self.group_metadata().state == MemberState.STABLE)

    def has_passed(self, partition: TopicPartition, offset: int) -> bool:
        """Tell whether the position is at an offset or behind it, as far as is known: the brokers are not asked.

        kafka-python's own `position` asks brokers that have come back whether they still hold it, and waits for them.
        """
        try:
            position = self.position(partition, timeout_ms=0)
        except kafka_errors.RetriableError:
            return False
        return position is not None and position >= offset

    def rejoin(self) -> None:
        """Have the next poll join the group.

        A poll of kafka-python 3.0.12 that begins to join, because topics are new or the subscription has changed, may
        end before the group has answered. When the answer is on its way, the next poll finds no reason to join, and
        never reads it: this member would stay without its new partitions, send no heartbeats and be removed. So the
        reason is repeated until the member has joined.
        """
        self._coordinator.request_rejoin()
