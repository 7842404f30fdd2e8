"""What readers of a partition have in common: its name, its bounds, the way to its end, and the mark of that."""

from collections.abc import Iterator, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streamfl_connectors.kafka.writer import END_OF_STREAM

POLL_MS = 500


def name_of(partition: TopicPartition) -> str:
    """Return the name of a partition in the ledger and in what people read.

    >>> name_of(TopicPartition("forest.records.c07", 0))
    'forest.records.c07/0'
    """
    return f"{partition.topic}/{partition.partition}"


def bounds(consumer: KafkaConsumer, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset that a partition still holds, and the one that comes next."""
    begin: int = consumer.beginning_offsets([partition])[partition]
    end: int = consumer.end_offsets([partition])[partition]
    return begin, end


def read_to(consumer: KafkaConsumer, partition: TopicPartition, end: int) -> Iterator[Sequence[Any]]:
    """Read the one partition that is assigned up to an offset; give what each poll brings, which may be nothing.

    The end is told by position, not by the last message seen: a log may end with transaction markers.
    """
    while consumer.position(partition) < end:
        yield consumer.poll(timeout_ms=POLL_MS).get(partition, ())


def is_end(message: Any) -> bool:
    """Tell whether a message is the mark that its partition has ended."""
    return message.value is None and END_OF_STREAM in dict(message.headers)
