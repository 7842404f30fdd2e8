"""Writes the coordinator's transactions: messages to clients, the state, and the offsets of what it has handled."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from streamfl.errors import PeerError, TakenOverError, UsageError
from streamfl.protocol.messages import Ended, FromCoordinator, ModelPublished, RoundOpened
from streamfl.runtime.log import control
from streamfl.runtime.log.parts import Headers, cut
from streamfl.runtime.log.signatures import stamp_of
from streamfl.runtime.log.tensors import END, STAYING, VERSIONS, Tensors, key_of, place_of, slot_of, version_of
from streamfl.runtime.log.topics import Topics
from streamfl.wire import messages
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import TAKEN_OVER, Connection, explained
from streamfl_connectors.kafka.coordinator import state_topic
from streamfl_connectors.kafka.coordinator.incoming import Incoming
from streamfl_connectors.kafka.coordinator.state_topic import KEYS, StateTopic

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# Seconds before a failed transaction is repeated.
PAUSE = 0.1

ENDED_BY_BROKERS = "the brokers have ended it after its timeout"

# Seconds after which models that are in the log are written again, if they are published again: to clients that ask.
# One that has them asks for nothing, and one that began takes them from the log, so whoever asks that late may have
# lost them to forged ones. Sooner they would be written once for each client that joins.
AGAIN = 30.0


class _Written(NamedTuple):
    """What of a slot is in the log: its version, when that was written last, and the most parts of any version."""

    version: int
    at: float
    parts: int


class Transactions:
    """What the coordinator writes: each transaction once, and none after another coordinator has begun.

    Parameters
    ----------
    incoming
        What was handled: a transaction with a state commits its offsets.

    Attributes
    ----------
    saved
        The state that was committed last, as bytes; None: none.
    bytes_written
        The bytes of messages to clients.
    """

    def __init__(self, connection: Connection, topics: Topics, states: StateTopic, incoming: Incoming) -> None:
        self._connection = connection
        self._settings = connection.settings
        self._own = connection.signatures.own
        self._topics = topics
        self._states = states
        self._incoming = incoming
        self._producer = self._new_producer()
        self._written: dict[str, _Written] = {}
        self._live: set[str] = set()
        self._saves = 0
        self.saved: bytes | None = None
        self.bytes_written = 0

    def get_ready(self) -> None:
        """Learn where the topics are, which takes long."""
        with explained(self._settings):
            for topic in (self._topics.control, self._topics.models, self._topics.state):
                self._producer.partitions_for(topic)

    def fence(self) -> None:
        """From here on no write of another coordinator counts."""
        with explained(self._settings):
            self._producer.init_transactions()

    def carry_out(self, published: Sequence[FromCoordinator], state: bytes | None) -> None:
        """Write messages and, if there is one, the state with the offsets of handled messages: all or nothing."""
        written = self._written

        def attempt(failed: bool) -> None:
            nonlocal written
            if failed and self._went_through(state):
                return
            self._producer.begin_transaction()
            written = self._write(published, state)
            self._producer.commit_transaction()

        self._repeated(attempt)
        if state is not None:
            self.saved, self._saves = state, self._saves + 1
        self._written = written
        self._live = next(
            (_slots(message) for message in reversed(published) if isinstance(message, RoundOpened)), self._live
        )

    def carry_out_alone(
        self, write: Callable[[KafkaProducer], None], never_taken: tuple[type[Exception], ...]
    ) -> None:
        """Let `write` write in a transaction of its own; written twice if the answer to its commit is lost.

        Raises
        ------
        NotTakenError
            It raised one of `never_taken`: it would fail each time.
        """

        def attempt(failed: bool) -> None:
            if failed:
                self._renew()
            self._producer.begin_transaction()
            try:
                write(self._producer)
            except never_taken as error:
                self._producer.abort_transaction()
                raise NotTakenError from error
            self._producer.commit_transaction()

        self._repeated(attempt)

    def _repeated(self, attempt: Callable[[bool], None]) -> None:
        """Carry out a transaction; repeat it for `patience` seconds after it failed, then the coordinator ends.

        A transaction that was open for longer than its timeout, because the brokers were away, is ended by the
        brokers. They fence its producer then, as if another coordinator had taken over. It is repeated, too: what
        another one has committed shows in the state, and one that has committed nothing is fenced and ends.
        """
        failed, until = False, math.inf
        while True:
            began = time.monotonic()
            try:
                with explained(self._settings):
                    return attempt(failed)
            except PeerError as error:
                now, is_fenced = time.monotonic(), _is_fenced(error.__cause__)
                if is_fenced and now < began + self._settings.transaction_timeout_ms / 1000.0:
                    raise TakenOverError(TAKEN_OVER) from error
                until = min(until, now + self._settings.patience)
                if now >= until or not isinstance(error.__cause__, kafka_errors.KafkaError):
                    raise
                LOG.warning("transaction repeated", reason=ENDED_BY_BROKERS if is_fenced else str(error))
                failed = True
                time.sleep(PAUSE)

    def _went_through(self, state: bytes | None) -> bool:
        """Start a new producer after a failed transaction, and tell whether that one was committed nevertheless."""
        return self._renew(state) != self.saved

    def _renew(self, state: bytes | None = None) -> bytes | None:
        """Start a new producer after a failed transaction; return the last state.

        A new producer fences any other coordinator. So there must be none that has committed since: this process may
        have been suspended, and not know of it.
        """
        self._fail_if_overtaken(state)
        let_go(self._producer, 0.0)
        self._producer = self._new_producer()
        self.fence()
        return self._fail_if_overtaken(state)

    def _fail_if_overtaken(self, state: bytes | None) -> bytes | None:
        with closing(self._connection.consumer()) as reader:  # one from before might wait for its broker for ever
            last = self._states.last(reader).data
        if last is None and self.saved is not None:
            raise UsageError(self._states.lost)
        if last not in (self.saved, state):
            raise TakenOverError(TAKEN_OVER)
        return last

    def _write(self, published: Sequence[FromCoordinator], state: bytes | None) -> dict[str, _Written]:
        """Write messages and state; return what of each slot is in the log afterwards."""
        written, now = dict(self._written), time.monotonic()
        for message in published:
            if not isinstance(message, Tensors):
                for value, headers in control.written(message, signer=self._own):
                    self._send(self._topics.control, value, headers)
                    self.bytes_written += messages.size_on_log(message, value)
                self._mark_end(message)
                continue
            slot = slot_of(message)
            before = written.get(slot, _Written(-1, now, 0))
            if before.version != version_of(message) or now >= before.at + AGAIN:
                data = messages.encode(message)
                self.bytes_written += len(data)
                parts = self._write_models(key_of(message), data)
                written[slot] = _Written(version_of(message), now, max(parts, before.parts))
        for slot in self._dead(published):
            self._bury(slot)
            del written[slot]
        if state is not None:
            self._write_parts(self._topics.state, KEYS[self._saves % len(KEYS)], state, state_topic.PLACE)
            self._incoming.commit_handled(self._producer)
        return written

    def _mark_end(self, message: FromCoordinator) -> None:
        """Keep the end for hosts that begin later; a coordinator that begins again removes it."""
        if isinstance(message, Ended):
            self._write_models(END, messages.encode(message))
        elif isinstance(message, RoundOpened) and message.resumed:
            self._remove(END, 0)

    def _write_models(self, key: str, data: bytes) -> int:
        """Write a value to the models; return the number of its parts."""
        return self._write_parts(self._topics.models, key, data, place_of(f"{key}/0".encode()))

    def _write_parts(self, topic: str, key: str, data: bytes, place: str) -> int:
        """Write a value, signed for its place; return the number of its parts."""
        parts, stamp = cut(data, self._settings.part_bytes), stamp_of(self._own, place, data)
        for part in parts:
            name = f"{key}/{part.number}".encode()
            self._send(topic, part.value, (*part.headers, *stamp), key=name)
        return len(parts)

    def _remove(self, key: str, part: int) -> None:
        """Write a tombstone for a part of a value among the models."""
        name = f"{key}/{part}".encode()
        self._send(self._topics.models, None, stamp_of(self._own, place_of(name), b""), key=name)

    def _send(self, topic: str, value: bytes | None, headers: Headers = (), key: bytes | None = None) -> None:
        """Write within a transaction; an immediate failure fails the transaction, which kafka-python does not do."""
        sent = self._producer.send(topic, value, key=key, headers=list(headers), partition=0)
        if sent.failed():
            raise sent.exception

    def _dead(self, published: Sequence[FromCoordinator]) -> set[str]:
        """Return the slots that no open round names any more."""
        opened = [message for message in published if isinstance(message, RoundOpened)]
        if not opened:
            return set()
        live = _slots(opened[-1])
        fresh = {message.slot for message in published if isinstance(message, ModelPublished)}
        return set(self._written) - STAYING - live - self._live - fresh

    def _bury(self, slot: str) -> None:
        """Write tombstones, so that compaction removes a slot."""
        for version in range(VERSIONS):
            for part in range(self._written[slot].parts):
                self._remove(f"{slot}/{version}", part)

    def _new_producer(self) -> KafkaProducer:
        # kafka-python waits for `retry_backoff_ms` several times in a transaction, which takes 0.1 s by default.
        return self._connection.producer(
            transactional_id=self._topics.coordinator_group,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            retry_backoff_ms=2,
            linger_ms=0,
        )

    def close(self) -> None:
        """Close the connection."""
        let_go(self._producer, 5.0)


class NotTakenError(Exception):
    """The brokers will never accept what was written; the cause says why."""


FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)


def _is_fenced(error: BaseException | None) -> bool:
    """Tell whether another producer has taken over; kafka-python may only name the error, within another one."""
    return isinstance(error, FENCED) or any(kind.__name__ in repr(error) for kind in FENCED)


def _slots(opened: RoundOpened) -> set[str]:
    return {slot.name for slot in opened.slots}
