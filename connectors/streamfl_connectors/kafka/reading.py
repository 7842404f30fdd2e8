"""Shared by readers of a partition: its name, its bounds, how it is read to its end, and the end-of-stream mark."""

from collections.abc import Iterator, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streamfl_connectors.kafka.writer import END_OF_STREAM

POLL_MS = 500


def name_of(partition: TopicPartition) -> str:
    """Return the name of a partition in the ledger and in messages for people.

    >>> name_of(TopicPartition("forest.records.c07", 0))
    'forest.records.c07/0'
    """
    return f"{partition.topic}/{partition.partition}"


def bounds(consumer: KafkaConsumer, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset that a partition still holds, and its next offset."""
    begin: int = consumer.beginning_offsets([partition])[partition]
    end: int = consumer.end_offsets([partition])[partition]
    return begin, end


def read_to(consumer: KafkaConsumer, partition: TopicPartition, end: int) -> Iterator[Sequence[Any]]:
    """Read the assigned partition up to an offset; yield the messages of each poll, which may be empty.

    The position decides where it ends, not the last message: a log may end with transaction markers.
    """
    while consumer.position(partition) < end:
        yield consumer.poll(timeout_ms=POLL_MS).get(partition, ())


def is_end(message: Any) -> bool:
    """Tell whether a message is the end-of-stream mark of its partition."""
    return message.value is None and END_OF_STREAM in dict(message.headers)
