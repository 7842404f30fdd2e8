"""The `.state` topic: reading the coordinator's last state from its end."""

from collections import deque
from dataclasses import dataclass

import structlog
from kafka import KafkaConsumer, TopicPartition

from streamfl import codec
from streamfl.core.bounds import bounded
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.errors import PeerError
from streamfl.log.parts import DIGEST, LONGEST, Headers, PartAssembly
from streamfl_connectors.kafka.reading import bounds, read_to

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# States are written under these keys in turn: compaction keeps the newest of each, so one is left to fall back on.
KEYS = ("state", "state-before")

# Messages read back from the end at first; most states have a few parts. Doubled until one is found.
WINDOW = 64

# Candidates that are held at a time, newest last: of a window that has more, the rest is read again.
MOST_HELD = 4


@dataclass(frozen=True, slots=True)
class Found:
    """What the topic holds: the last state as it was written, if any, and how many messages after it are none."""

    data: bytes | None
    skipped: int


def last_state(consumer: KafkaConsumer, topic: str, most_bytes: int) -> Found:
    """Return the state that was committed last; what is none of ours is skipped and counted.

    Parameters
    ----------
    consumer
        Of committed messages.
    topic
        Of states.
    most_bytes
        Largest state.
    """
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    begin, end = bounds(consumer, partition)
    window, skipped = WINDOW, 0
    while begin < end:
        start = max(begin, end - window)
        wholes, strange = _wholes(consumer, partition, start, end, most_bytes)
        for _, data in reversed(wholes):
            if _is_state(data):
                return Found(data, skipped + strange)
            skipped += 1
        if wholes:
            end, window = wholes[0][0], WINDOW  # before the oldest of them
        elif start == begin:
            return Found(None, skipped + strange)
        else:
            window *= 2
    return Found(None, skipped)


def _wholes(
    consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int, most_bytes: int
) -> tuple[deque[tuple[int, bytes]], int]:
    """Return the last values that end in a window, each with the offset of its last part; count what is no part."""
    consumer.seek(partition, start)
    assembly, strange = PartAssembly(most_bytes), 0
    wholes: deque[tuple[int, bytes]] = deque(maxlen=MOST_HELD)
    for messages in read_to(consumer, partition, end):
        for message in messages:
            if message.value is None or message.offset >= end:
                continue
            try:
                whole = assembly.add(_digest(message.headers), message.headers, message.value)
            except PeerError as error:
                strange += 1
                LOG.debug("no state", topic=partition.topic, offset=message.offset, reason=bounded(str(error)))
                continue
            if whole is not None:
                wholes.append((message.offset, whole))
    return wholes, strange


def _digest(headers: Headers) -> str:
    """Return the digest of the whole as its name, so that what lies between its parts does no harm."""
    return (dict(headers).get(DIGEST) or b"")[:LONGEST].hex()


def _is_state(data: bytes) -> bool:
    try:
        wrong = codec.decode(CoordinatorState, data).wrong()
    except PeerError as error:
        wrong = str(error)
    if wrong is not None:
        LOG.error("a state cannot be used; the one before it is", reason=wrong)
    return wrong is None
