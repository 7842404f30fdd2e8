"""A consumer that stops at a batch for which a library is missing here, whoever polls it."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import MemberState

from streamfl.errors import UsageError
from streamfl_connectors.kafka.batches import UnreadableBatch

Polled = Mapping[TopicPartition, Sequence[Any]]


class LibraryMissingError(UsageError):
    """Messages cannot be unpacked for lack of a library; passed over they would be lost for ever.

    Parameters
    ----------
    unpacked
        What was polled, of each partition up to the first of these messages: for a reader that can continue.
    wrong
        By partition, where the first of these messages is, and what to do.
    """

    def __init__(self, unpacked: Polled, wrong: Mapping[TopicPartition, str]) -> None:
        super().__init__("; ".join(wrong.values()))
        self.unpacked = unpacked
        self.wrong = wrong


class Consumer(KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
    """Every consumer of kafka-python; it also is a `RecordReader`."""

    @property
    def is_joined(self) -> bool:
        """Tell whether the group does not rebalance, as far as this member knows."""
        return bool(self.group_metadata().state == MemberState.STABLE)

    def rejoin(self) -> None:
        """Have the next poll join the group.

        A poll of kafka-python 3.0.12 that begins to join, because topics are new or the subscription has changed, may
        end before the group has answered. When the answer is on its way, the next poll finds no reason to join, and
        never reads it: this member would stay without its new partitions, send no heartbeats and be removed. So the
        reason is repeated until the member has joined.
        """
        self._coordinator.request_rejoin()

    def poll(self, timeout_ms: int = 0, **others: Any) -> Polled:
        """Return the next messages.

        Raises
        ------
        LibraryMissingError
            Some are packed, and the library is missing.
        """
        return all_unpacked(super().poll(timeout_ms=timeout_ms, **others))


def all_unpacked(polled: Polled) -> Polled:
    """Return what was polled, if every batch could be unpacked.

    Raises
    ------
    LibraryMissingError
        One could not, for lack of a library.
    """
    unpacked, wrong = dict(polled), {}
    for partition, messages in polled.items():
        at = next((i for i, message in enumerate(messages) if isinstance(message.value, UnreadableBatch)), None)
        if at is not None:
            place = f"{partition.topic}/{partition.partition}, up to offset {messages[at].offset}"
            wrong[partition] = f"{place}: {messages[at].value.decode()}"
            unpacked[partition] = messages[:at]
    if wrong:
        raise LibraryMissingError(unpacked, wrong)
    return polled
