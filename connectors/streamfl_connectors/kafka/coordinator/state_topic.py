"""The `.state` topic: reads the last coordinator state from its end."""

from collections import deque
from dataclasses import dataclass

import structlog
from kafka import KafkaConsumer, TopicPartition

from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.runtime.log.parts import DIGEST, LONGEST, Headers, PartAssembly
from streamfl.runtime.log.signatures import signer_of
from streamfl.runtime.ports import WrongState
from streamfl.wire import state_bytes
from streamfl.wire.signing import Verifier
from streamfl_connectors.kafka.reading import bounds, read_to

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# States are written under these keys in turn: compaction keeps the newest of each, so there is always one before.
KEYS = ("state", "state-before")

# What signatures of states are for.
PLACE = "state"

# The first number of messages that are read from the end, doubled until there is a state; most have a few parts.
WINDOW = 64

# The most complete values held at a time; if a window has more, the older ones are read again.
MOST_HELD = 4


@dataclass(frozen=True, slots=True)
class LastState:
    """The last state as it was written, if any; how many messages after it are none, and why the newest is none."""

    data: bytes | None
    skipped: int
    why: str | None = None


def last_state(
    consumer: KafkaConsumer,
    topic: str,
    most_bytes: int,
    verifier: Verifier | None = None,
    *,
    wrong: WrongState = CoordinatorState.wrong,
) -> LastState:
    """Return the state that was committed last; other messages are skipped and counted.

    Parameters
    ----------
    consumer
        A consumer that reads committed messages only.
    topic
        The topic of states.
    most_bytes
        The largest state that is read.
    verifier
        Checks that the coordinator has signed it.
    wrong
        Returns why a state cannot be continued, or None.
    """
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    begin, end = bounds(consumer, partition)
    window, skipped, why = WINDOW, 0, None
    while begin < end:
        start = max(begin, end - window)
        wholes, others = _wholes(consumer, partition, start, end, most_bytes, verifier)
        for _, data in reversed(wholes):
            reason = _wrong(data, wrong)
            if reason is None:
                return LastState(data, skipped + others, why)
            why = why or reason
            skipped += 1
        if wholes:
            end, window = wholes[0][0], WINDOW  # before the oldest of them
        elif start == begin:
            return LastState(None, skipped + others, why)
        else:
            window *= 2
    return LastState(None, skipped, why)


def _wholes(
    consumer: KafkaConsumer,
    partition: TopicPartition,
    start: int,
    end: int,
    most_bytes: int,
    verifier: Verifier | None,
) -> tuple[deque[tuple[int, bytes]], int]:
    """Return the last values that end in a window, each with the offset of its last part; count other messages."""
    consumer.seek(partition, start)
    assembly, others = PartAssembly(most_bytes), 0
    wholes: deque[tuple[int, bytes]] = deque(maxlen=MOST_HELD)
    for messages in read_to(consumer, partition, end):
        for message in messages:
            if message.value is None or message.offset >= end:
                continue
            try:
                if verifier is not None:
                    signer_of(verifier, PLACE, message.headers, message.value)
                whole = assembly.add(_digest(message.headers), message.headers, message.value)
            except PeerError as error:
                others += 1
                LOG.debug("not a state", topic=partition.topic, offset=message.offset, reason=bounded(str(error)))
                continue
            if whole is not None:
                wholes.append((message.offset, whole))
    return wholes, others


def _digest(headers: Headers) -> str:
    """Return the digest of the value as its name, so that messages between its parts do no harm."""
    return (dict(headers).get(DIGEST) or b"")[:LONGEST].hex()


def _wrong(data: bytes, wrong: WrongState) -> str | None:
    """Return why data are no state to continue from, or None."""
    try:
        reason = wrong(state_bytes.decode(data))
    except PeerError as error:
        reason = str(error)
    if reason is not None:
        LOG.error("a state cannot be used; the one before it is used instead", reason=reason)
    return reason
