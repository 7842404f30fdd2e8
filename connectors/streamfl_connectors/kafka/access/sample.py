"""The newest messages of topics: `check` decodes them as clients would, `init` looks what they hold."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from streamfl.errors import UsageError
from streamfl.runtime.log.placement import pattern
from streamfl.runtime.log.sample import NAMES_LISTED, listed, tried
from streamfl.runtime.ports import CheckResult, RecordFormat, TopicSample
from streamfl_connectors.kafka.administration import partition_counts
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.reading import is_end, name_of, read_to

# The most messages and bytes of a partition, the most partitions with messages, and the seconds to wait for each.
MESSAGES, BYTES, PARTITIONS, PATIENCE = 200, 32 * 1024 * 1024, 5, 20.0

# The most messages of a poll of all partitions.
MOST_POLLED = 5_000


def findings(
    connection: Connection, topics: Mapping[str, int], records: RecordFormat, dead_letters: str
) -> Iterator[CheckResult]:
    """Yield findings on some partitions that hold messages, and one on those that hold none."""
    empty = []
    for name, messages in newest(connection, topics):
        if messages:
            yield tried(name, messages, records, dead_letters)
        else:
            empty.append(name)
    if empty:
        yield _nothing_in(empty)


def newest(connection: Connection, topics: Mapping[str, int]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the name of a partition and its newest messages, without end-of-stream marks; some have none.

    It ends after a few partitions that have some.
    """
    partitions = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(topics[topic])]
    looked_at = 0
    with closing(connection.consumer()) as consumer:
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for partition in partitions:
            if looked_at == PARTITIONS:
                break
            messages = _newest(consumer, partition, begins[partition], ends[partition])
            looked_at += bool(messages)
            yield name_of(partition), messages


def matching(admin: KafkaAdminClient, names: Sequence[str], without: frozenset[str]) -> dict[str, int]:
    """Return how many partitions the topics have that are named, with a * for any text; not of those `without`.

    Raises
    ------
    UsageError
        There is none of a name.
    """
    every = sorted(topic for topic in admin.list_topics() if not topic.startswith("__") and topic not in without)
    found: list[str] = []
    for name in names:
        matched = [topic for topic in every if re.fullmatch(pattern(name), topic)]
        if not matched:
            raise UsageError(f"no topic is named {name}; there are {listed(every, NAMES_LISTED) or 'none'}; name one")
        found += matched
    return partition_counts(admin, found)


def sample(connection: Connection, topics: Mapping[str, int]) -> TopicSample:
    """Return the newest messages of topics, by how many partitions each has."""
    messages = {
        name: [(one.timestamp / 1000, one.value or b"") for one in found]
        for name, found in newest(connection, topics)
    }
    return TopicSample(topics, {name: found for name, found in messages.items() if found})


def _newest(consumer: KafkaConsumer, partition: TopicPartition, begin: int, end: int) -> list[Any]:
    """Return the newest messages of a partition, without end-of-stream marks."""
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


def ends_of(connection: Connection, topics: Mapping[str, int], most: int) -> tuple[TopicSample, TopicSample]:
    """Return the newest and the oldest messages of all partitions of topics, with their keys."""
    newest, oldest = (_sampled(topics, end) for end in at_both_ends(connection, topics, most))
    return newest, oldest


def _sampled(topics: Mapping[str, int], partitions: Sequence[Sequence[Any]]) -> TopicSample:
    named = {f"{found[0].topic}/{found[0].partition}": found for found in partitions if found}
    messages = {name: [(one.timestamp / 1000, one.value or b"") for one in found] for name, found in named.items()}
    return TopicSample(topics, messages, {name: [one.key for one in found] for name, found in named.items()})


def at_both_ends(
    connection: Connection, topics: Mapping[str, int], most: int
) -> tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]:
    """Return the newest and the oldest messages of each partition, in all about so many of each, without marks.

    Messages that are both count as newest.
    """
    partitions = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(topics[topic])]
    each = -(-most // max(1, len(partitions)))
    with closing(connection.consumer()) as consumer:
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        tails = {one: (max(begins[one], ends[one] - each), ends[one]) for one in partitions}
        heads = {one: (begins[one], min(begins[one] + each, tails[one][0])) for one in partitions}
        return _between(consumer, tails), _between(consumer, heads)


def _between(consumer: KafkaConsumer, ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[list[Any]]:
    """Return the messages between two offsets of each partition."""
    found: dict[TopicPartition, list[Any]] = {partition: [] for partition in ranges}
    consumer.assign([*ranges])
    consumer.resume(*consumer.paused())  # to assign the same partitions again resumes none
    for partition, (begin, _) in ranges.items():
        consumer.seek(partition, begin)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        left = {partition for partition, (_, end) in ranges.items() if consumer.position(partition) < end}
        if not left:
            break
        consumer.pause(*(ranges.keys() - left - consumer.paused()))
        for partition, messages in consumer.poll(timeout_ms=500, max_records=MOST_POLLED).items():
            here = [one for one in messages if one.offset < ranges[partition][1] and not is_end(one)]
            found[partition] += here
    return [*found.values()]


def _nothing_in(names: Sequence[str]) -> CheckResult:
    remedy = "start what writes there; a client without records takes no part"
    return CheckResult("records", "warning", f"no record in {listed(names, NAMES_LISTED)}", remedy)
