"""The schema on real records: the newest messages are decoded as clients would, and it is told how that went."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from streamfl.core.protocol.records import Rejection
from streamfl.ports import Decoded, Finding, RecordFormat
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.reading import is_end, name_of, read_to

# What is read: messages of a partition, their bytes, partitions that hold any, and seconds until it must be there.
MESSAGES, BYTES, PARTITIONS, PATIENCE = 200, 32 * 1024 * 1024, 5, 20.0

REASONS_TOLD, NAMES_TOLD = 3, 8


def findings(
    connection: Connection, topics: Mapping[str, int], records: RecordFormat, dead_letters: str
) -> Iterator[Finding]:
    """Return what is found in some partitions that hold messages, and which hold none.

    Parameters
    ----------
    connection
        To the brokers; nothing is committed.
    topics
        How many partitions each topic has.
    records
        How messages hold records.
    dead_letters
        Where bad records would go.
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
                offsets, values = zip(*((message.offset, message.value) for message in messages), strict=True)
                yield judged(name, records.fresh().decode(offsets, values), records.stride, dead_letters)
            else:
                empty.append(name)
    if empty:
        yield _nothing_in(empty)


def _newest(consumer: KafkaConsumer, partition: TopicPartition, begin: int, end: int) -> list[Any]:
    """Return the newest messages of a partition, without marks of an end."""
    found: list[Any] = []
    consumer.assign([partition])
    consumer.seek(partition, max(begin, end - MESSAGES))
    until, size = time.monotonic() + PATIENCE, 0
    for messages in read_to(consumer, partition, end):
        found += [message for message in messages if not is_end(message)]
        size += sum(len(message.value or b"") for message in messages)
        if size >= BYTES or time.monotonic() >= until:
            break
    return found


def _nothing_in(names: Sequence[str]) -> Finding:
    remedy = "start what writes there; a client without records takes no part"
    return Finding("records", "warning", f"no record in {listed(names, NAMES_TOLD)}", remedy)


def listed(names: Sequence[str], at_most: int = 5) -> str:
    """Name the first few.

    >>> listed("abcd", at_most=2)
    'a, b and 2 more'
    """
    more = len(names) - at_most
    return ", ".join(names[:at_most]) + (f" and {more} more" if more > 0 else "")


def judged(name: str, decoded: Decoded, stride: int, dead_letters: str) -> Finding:
    """Return what is found in messages of one partition.

    >>> nothing = np.zeros(0)
    >>> bad = (Rejection(7, "no label"), Rejection(8, "no label"), Rejection(9, "empty"))
    >>> decoded = Decoded(nothing.astype(int), (), np.zeros((0, 0)), nothing, (), (), bad, (), nothing)
    >>> judged("a/0", decoded, 1, "f.dead-letter").found
    'none of 3 records can be used: offset 7: no label | offset 9: empty'
    """
    good, bad = len(decoded.positions), len(decoded.rejected)
    if not bad and decoded.remarks:
        return Finding(name, "warning", _described(decoded), "; ".join(decoded.remarks))
    if not bad:
        return Finding(name, "ok", _described(decoded))
    reasons = _reasons(decoded.rejected, stride)
    if not good:
        remedy = "correct format or [records.fields] in the settings, or what is written there"
        return Finding(name, "error", f"none of {bad} records can be used: {reasons}", remedy)
    found = f"{bad} of {good + bad} records cannot be used: {reasons}; the others: {_described(decoded)}"
    remedy = f"correct what writes them, or [records.fields]; the clients put them into {dead_letters}"
    remedy = "; ".join([remedy, *decoded.remarks])
    return Finding(name, "warning", found, remedy)


def _reasons(rejected: Sequence[Rejection], stride: int) -> str:
    """Tell the first few reasons, each where it was met first."""
    first: dict[str, int] = {}
    for rejection in rejected:
        first.setdefault(rejection.reason, rejection.position)
    told = [f"{_place(position, stride)}: {reason}" for reason, position in first.items()]
    more = len(told) - REASONS_TOLD
    return " | ".join(told[:REASONS_TOLD]) + (f" | {more} more reasons" if more > 0 else "")


def _place(position: int, stride: int) -> str:
    """Tell where a record is.

    >>> _place(17, 1), _place(17 * 64 + 2, 64)
    ('offset 17', 'offset 17, record 2')
    """
    offset, number = divmod(position, stride)
    return f"offset {offset}" + (f", record {number}" if stride > 1 else "")


def _described(decoded: Decoded) -> str:
    """Tell what good records hold."""
    seen = int((~np.isnan(decoded.X)).any(axis=0).sum())
    parts = [f"{len(decoded.positions)} records", f"{seen} features"]
    if decoded.labels:
        labels = [decoded.labels[i] for i in np.unique(decoded.y).astype(int)]
        parts.append(f"labels {listed(labels, NAMES_TOLD)}")
    else:
        parts.append(f"targets from {decoded.y.min():g} to {decoded.y.max():g}")
    if decoded.clients:
        parts.append(f"{len(set(decoded.clients))} clients")
    return ", ".join(parts)
