"""The `.state` topic: finds the last coordinator state, and tells a federation's first start from a lost state."""

from collections import deque
from dataclasses import dataclass

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors

from streamfl.bounds import bounded
from streamfl.errors import PeerError, UsageError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.runtime.log.parts import DIGEST, LONGEST, Headers, PartAssembly
from streamfl.runtime.log.signatures import signer_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import WrongState
from streamfl.wire import state_bytes
from streamfl.wire.signing import Verifier
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.last_round import last_opened
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


class StateTopic:
    """The states of a federation, and whether it has begun."""

    def __init__(self, connection: Connection, topics: Topics, wrong: WrongState) -> None:
        self._settings = connection.settings
        self._verifier = connection.signatures.coordinator
        self._topics = topics
        self._wrong = wrong

    def last(self, reader: KafkaConsumer) -> LastState:
        """Return the state that was committed last."""
        with explained(self._settings):
            return last_state(
                reader, self._topics.state, self._settings.largest_update, self._verifier, wrong=self._wrong
            )

    def require(self, last: LastState, *, began: bool) -> None:
        """Log messages that are not states; refuse to start from nothing if the federation has begun."""
        if last.skipped:
            consequence = "the state before it is used" if last.data is not None else "there is no state"
            LOG.error(
                "unusable messages among the states",
                topic=self._topics.state,
                count=last.skipped,
                consequence=consequence,
            )
        if not began:
            return
        if last.why is not None:
            raise UsageError(f"{self._topics.state} holds no state to continue from: {last.why}")
        raise UsageError(self.lost)

    @property
    def lost(self) -> str:
        """Return that the state is gone, why, and what to do."""
        what = f"{self._topics.state} has no state any more, but the federation has already started"
        why = "the topic was emptied, or deleted and made again; with a new state, clients would learn records twice"
        return f"{what}: {why}; restore the topic from a copy, or begin again under another [federation] name"

    def has_ledger(self, reader: KafkaConsumer) -> bool:
        """Tell whether the control topic holds the round of a commit, or held one that was deleted since.

        A commit is one transaction: a coordinator that was killed in its first one has left nothing to be read.
        """
        with explained(self._settings):
            begin, end = bounds(reader, TopicPartition(self._topics.control, 0))
            if begin == end == 0:
                return False
            try:
                opened = last_opened(reader, self._topics.control, self._verifier)
            except kafka_errors.AuthorizationError as error:
                remedy = f"grant this log-in READ on {self._topics.control}"
                LOG.warning("this log-in cannot check whether a state was lost", reason=str(error), remedy=remedy)
                return False
            _, models = bounds(reader, TopicPartition(self._topics.models, 0))
        return bool(opened) or (begin > 0 and models > 0)  # models are never deleted for their age


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
    most_bytes
        The largest state that is read.
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
    """Return why data are not a state to continue from, or None."""
    try:
        reason = wrong(state_bytes.decode(data))
    except PeerError as error:
        reason = str(error)
    if reason is not None:
        LOG.error("a state cannot be used; the one before it is used instead", reason=reason)
    return reason
