"""Checks the schema on real records: the newest messages are decoded as clients would decode them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from streamfl.log.sample import NAMES_LISTED, listed, tried
from streamfl.ports import Finding, RecordFormat
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.reading import is_end, name_of, read_to

# The most messages and bytes of a partition, the most partitions with messages, and the seconds to wait for each.
MESSAGES, BYTES, PARTITIONS, PATIENCE = 200, 32 * 1024 * 1024, 5, 20.0


def findings(
    connection: Connection, topics: Mapping[str, int], records: RecordFormat, dead_letters: str
) -> Iterator[Finding]:
    """Yield findings on some partitions that hold messages, and one on those that hold none.

    Parameters
    ----------
    connection
        To the brokers; nothing is committed.
    topics
        How many partitions each topic has.
    records
        How messages hold records.
    dead_letters
        The topic to which clients would write bad records.
    """
    partitions = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(topics[topic])]
    empty, looked_at = [], 0
    with closing(connection.consumer()) as consumer:
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for partition in partitions:
            if looked_at == PARTITIONS:
                break
            name = name_of(partition)
            messages = _newest(consumer, partition, begins[partition], ends[partition])
            if messages:
                looked_at += 1
                yield tried(name, messages, records, dead_letters)
            else:
                empty.append(name)
    if empty:
        yield _nothing_in(empty)


def _newest(consumer: KafkaConsumer, partition: TopicPartition, begin: int, end: int) -> list[Any]:
    """Return the newest messages of a partition, without end-of-stream marks."""
    newest: list[Any] = []
    consumer.assign([partition])
    consumer.seek(partition, max(begin, end - MESSAGES))
    until, size = time.monotonic() + PATIENCE, 0
    for messages in read_to(consumer, partition, end):
        newest += [message for message in messages if not is_end(message)]
        size += sum(len(message.value or b"") for message in messages)
        if size >= BYTES or time.monotonic() >= until:
            break
    return newest


def _nothing_in(names: Sequence[str]) -> Finding:
    remedy = "start what writes there; a client without records takes no part"
    return Finding("records", "warning", f"no record in {listed(names, NAMES_LISTED)}", remedy)
