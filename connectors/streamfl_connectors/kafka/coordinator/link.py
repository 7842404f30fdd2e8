"""The coordinator's link: all of its writes are transactional, so that no write of a fenced coordinator counts."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import structlog
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl.bounds import bounded
from streamfl.errors import PeerError, TakenOverError, UsageError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import Ended, FromClient, FromCoordinator, ModelPublished, RoundOpened
from streamfl.runtime.log import commands, control
from streamfl.runtime.log.dead_letters import DeadLetter
from streamfl.runtime.log.parts import Headers, PartAssembly, cut
from streamfl.runtime.log.signatures import stamp_of
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.log.tensors import END, STAYING, VERSIONS, Tensors, key_of, place_of, slot_of, version_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.log.updates import assembled, completed
from streamfl.runtime.ports import WrongState
from streamfl.wire import messages, state_bytes
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import TAKEN_OVER, Connection, explained
from streamfl_connectors.kafka.coordinator import state_topic
from streamfl_connectors.kafka.coordinator.ends import Ends
from streamfl_connectors.kafka.coordinator.state_topic import KEYS, LastState, last_state
from streamfl_connectors.kafka.last_round import last_opened
from streamfl_connectors.kafka.reading import bounds

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# Dead letters are written together; at so many, or so many bytes, they are written at once.
MOST_LETTERS, MOST_LETTER_BYTES = 1000, 4 * 1024 * 1024

# The fewest bytes of a part of a client's message, or `part_bytes` if that is less; the last part may have fewer.
LEAST_PART = 64 * 1024

# Errors of a dead-letter topic for letters that it will never accept.
NEVER_TAKEN = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.TopicAuthorizationFailedError,
)

# Milliseconds that brokers wait for further states. A fetch that is under way when a reader moves on makes the next
# one wait for so long: half a second by default, and a takeover now and then with it.
STATE_WAIT_MS = 20

# Seconds between two looks for partitions that were added to the topic of updates, and milliseconds after which the
# consumer asks for them: clients write there as soon as their producers know of them.
LOOK_AGAIN, NEWS_MS = 5.0, 10_000

# Seconds before a failed transaction is repeated.
PAUSE = 0.1

# Seconds after which models that are in the log are written again, if they are published again: to clients that ask.
# One that has them asks for nothing, and one that began takes them from the log, so whoever asks that late may have
# lost them to forged ones. Sooner they would be written once for each client that joins.
AGAIN = 30.0


class _Written(NamedTuple):
    """What of a slot is in the log: its version, when that was written last, and the most parts of any version."""

    version: int
    at: float
    parts: int


class KafkaCoordinatorLink:
    """`streamfl.runtime.ports.ServedCoordinatorLink` on Kafka.

    `begin` fences every other coordinator of the federation, also one that was only suspended.

    Parameters
    ----------
    connection
        To the brokers.
    topics
        The federation's topics.
    ends
        The ends of the record partitions.
    wrong
        Returns why a state cannot be continued, or None.
    """

    def __init__(
        self, connection: Connection, topics: Topics, ends: Ends, wrong: WrongState = CoordinatorState.wrong
    ) -> None:
        self._connection = connection
        self._settings = connection.settings
        self._signatures = connection.signatures
        self._topics = topics
        self._ends = ends
        self._wrong = wrong
        self._producer = self._new_producer()
        self._consumer = connection.consumer(group_id=topics.coordinator_group, metadata_max_age_ms=NEWS_MS)
        self._states = connection.consumer(fetch_max_wait_ms=STATE_WAIT_MS)
        self._members: frozenset[str] = frozenset()
        self._assembly = PartAssembly(
            self._settings.largest_update,
            least=min(LEAST_PART, self._settings.part_bytes),
            budget=self._settings.unfinished_bytes,
            allows=lambda name: name in self._members,
        )
        self._arrived: deque[Any] = deque()
        self._taken: Any = None
        self._handled: dict[TopicPartition, int] = {}
        self._letters: list[DeadLetter] = []
        self._letter_bytes = 0
        self.unwritten = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self._unusable = Tally(LOG, "unusable message")
        self._written: dict[str, _Written] = {}
        self._live: set[str] = set()
        self._listened = False
        self._look_at = 0.0
        self._saved: bytes | None = None
        self._saves = 0

    def get_ready(self) -> None:
        """Do what takes long and fences nobody: connect, learn where the topics are, read a state as `begin` does.

        kafka-python's clients wait for 0.1 s before each of them learns where a topic is.
        """
        self._last_state(self._states)
        self._assign()
        self._ends.get_ready()
        with explained(self._settings.bootstrap_servers):
            for topic in (self._topics.control, self._topics.models, self._topics.state):
                self._producer.partitions_for(topic)

    def begin(self) -> None:
        """Fence every other coordinator; continue from the state and the input offsets that were committed last."""
        self._fence()
        last = self._last_state(self._states)
        committed = self._assign()
        self._require_state(last, began=last.data is None and (committed or self._has_ledger()))
        self._states.close()
        self._saved = last.data
        self._update_members(self.restore())

    # --- publishing --------------------------------------------------------------------------------------------

    def publish(self, published: Sequence[FromCoordinator]) -> None:
        """Publish messages to all clients, all or none."""
        self._write_letters()
        self._transact(published, None)

    def commit(self, published: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Publish messages to all clients, save the state and commit the input offsets, all or nothing."""
        self._write_letters()
        self._transact(published, state_bytes.encode(state))
        self._update_members(state)

    def _transact(self, published: Sequence[FromCoordinator], state: bytes | None) -> None:
        """Carry out a transaction."""
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
            self._saved, self._saves = state, self._saves + 1
        self._written = written
        self._live = next(
            (_slots(message) for message in reversed(published) if isinstance(message, RoundOpened)), self._live
        )

    def _repeated(self, attempt: Callable[[bool], None]) -> None:
        """Carry out a transaction, and repeat it if it failed, for `patience` seconds; then the coordinator ends."""
        until, failed = time.monotonic() + self._settings.patience, False
        while True:
            try:
                with explained(self._settings.bootstrap_servers):
                    return attempt(failed)
            except PeerError as error:
                if _is_fenced(error.__cause__):
                    raise TakenOverError(TAKEN_OVER) from error
                if time.monotonic() >= until or not isinstance(error.__cause__, kafka_errors.KafkaError):
                    raise
                LOG.warning("transaction repeated", reason=str(error))
                failed = True
                time.sleep(PAUSE)

    def _went_through(self, state: bytes | None) -> bool:
        """Start a new producer after a failed transaction, and tell whether that one was committed nevertheless."""
        return self._renew(state) != self._saved

    def _renew(self, state: bytes | None = None) -> bytes | None:
        """Start a new producer after a failed transaction; return the last state.

        A new producer fences any other coordinator. So there must be none that has committed since: this process may
        have been suspended, and not know of it.
        """
        self._fail_if_overtaken(state)
        let_go(self._producer, 0.0)
        self._producer = self._new_producer()
        self._fence()
        return self._fail_if_overtaken(state)

    def _fail_if_overtaken(self, state: bytes | None) -> bytes | None:
        with closing(self._connection.consumer()) as reader:  # one from before might wait for its broker for ever
            last = self._last_state(reader).data
        if last is None and self._saved is not None:
            raise UsageError(self._lost_state())
        if last not in (self._saved, state):
            raise TakenOverError(TAKEN_OVER)
        return last

    def _write(self, published: Sequence[FromCoordinator], state: bytes | None) -> dict[str, _Written]:
        """Write messages and state; return what of each slot is in the log afterwards."""
        written, now = dict(self._written), time.monotonic()
        for message in published:
            if not isinstance(message, Tensors):
                for value, headers in control.written(message, signer=self._signatures.own):
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
            self._move_on()
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
        parts, stamp = cut(data, self._settings.part_bytes), stamp_of(self._signatures.own, place, data)
        for part in parts:
            name = f"{key}/{part.number}".encode()
            self._send(topic, part.value, (*part.headers, *stamp), key=name)
        return len(parts)

    def _remove(self, key: str, part: int) -> None:
        """Write a tombstone for a part of a value among the models."""
        name = f"{key}/{part}".encode()
        self._send(self._topics.models, None, stamp_of(self._signatures.own, place_of(name), b""), key=name)

    def _send(self, topic: str, value: bytes | None, headers: Headers = (), key: bytes | None = None) -> None:
        """Write within a transaction; an immediate failure fails the transaction, which kafka-python does not do."""
        sent = self._producer.send(topic, value, key=key, headers=list(headers), partition=0)
        if sent.failed():
            raise sent.exception

    def _move_on(self) -> None:
        offsets = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in self._handled.items()}
        if offsets:
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

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

    def _fence(self) -> None:
        """From here on no write of another coordinator counts."""
        with explained(self._settings.bootstrap_servers):
            self._producer.init_transactions()

    # --- receiving ---------------------------------------------------------------------------------------------

    def _assign(self) -> bool:
        """Read from the last committed offset, or from the first message; tell whether any offset was committed."""
        with explained(self._settings.bootstrap_servers):
            partitions = self._partitions(self._topics.updates)
            if not partitions:
                raise UsageError(f"this log-in may not see {self._topics.updates}; grant it READ on that topic")
            ordered = self._partitions(self._topics.commands)
            if not ordered:
                remedy = f"grant this log-in READ on {self._topics.commands}"
                LOG.warning("operators' commands are not read", topic=self._topics.commands, remedy=remedy)
            partitions += ordered
            self._consumer.assign(partitions)
            began = self._go_to(partitions)
        self._look_at = time.monotonic() + LOOK_AGAIN
        return began

    def _go_to(self, partitions: Sequence[TopicPartition]) -> bool:
        """Go to the last committed offsets, or to the first messages; tell whether any offset was committed."""
        began = False
        for partition, begin in self._consumer.beginning_offsets(partitions).items():
            committed = self._consumer.committed(partition)
            began |= committed is not None
            self._consumer.seek(partition, max(begin, committed or 0))
        return began

    def _take_new_partitions(self) -> None:
        """Read partitions that were added to the topic of updates, too."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_AGAIN
        assigned = self._consumer.assignment()
        new = [partition for partition in self._partitions(self._topics.updates) if partition not in assigned]
        if new:
            LOG.info("partitions taken", topic=self._topics.updates, partitions=[one.partition for one in new])
            self._consumer.assign([*assigned, *new])
            self._go_to(new)

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self._consumer.partitions_for_topic(topic) or ())]

    def receive(self) -> Iterator[FromClient | Signed | Ordered | Unusable]:
        """Yield the messages that have arrived; a message that was yielded counts as handled at the next commit."""
        if not self._listened:
            self.listen(0.0)
        self._listened = False
        while self._arrived:
            message = self._arrived.popleft()
            self._handled[TopicPartition(message.topic, message.partition)] = message.offset + 1
            self._taken = message
            self.bytes_read += len(message.value or b"")
            whole = self._understood(message)
            if whole is not None:
                yield whole
        self._taken = None
        self._write_letters()

    def _understood(self, message: Any) -> FromClient | Signed | Ordered | Unusable | None:
        if message.topic == self._topics.commands:
            return commands.understood(message.value, message.headers, self._signatures.operators)
        clients = self._signatures.clients
        return completed(self._assembly, message.key, message.headers, message.value, clients)

    # --- dead letters ------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Keep the message that was yielded last as a dead letter, once.

        It is written before the offset moves past it, in one transaction with other letters. After a kill it may be
        written twice, with the same place.
        """
        message, self._taken = self._taken, None
        if message is None:
            return
        self._unusable.note(message.topic, reason, partition=message.partition, offset=message.offset)
        place = (message.topic, message.partition, message.offset)
        letter = DeadLetter.of(*place, reason, message.key, message.value)
        self._letters.append(letter)
        self._letter_bytes += letter.size
        if len(self._letters) >= MOST_LETTERS or self._letter_bytes >= MOST_LETTER_BYTES:
            self._write_letters()

    def _write_letters(self) -> None:
        """Write the waiting letters; if the topic will never accept them, they are logged, counted and dropped."""
        letters, self._letters, self._letter_bytes = self._letters, [], 0
        if not letters:
            return
        try:
            self._repeated(lambda failed: self._bury_letters(letters, failed))
        except _NotTakenError as error:
            self.unwritten += len(letters)
            LOG.error(  # noqa: TRY400  it is the topic's fault: a traceback adds nothing
                "dead letters were not written",
                letters=len(letters),
                in_all=self.unwritten,
                reason=bounded(str(error.__cause__)),
                remedy=f"grant WRITE on {self._topics.dead_letters}, or raise its max.message.bytes",
            )

    def _bury_letters(self, letters: Sequence[DeadLetter], failed: bool) -> None:
        if failed:
            self._renew()
        self._producer.begin_transaction()
        try:
            sent = [dead_letters.write(self._producer, self._topics.dead_letters, letter) for letter in letters]
            self._producer.flush()
            for one in sent:
                if one.failed():
                    raise one.exception
        except NEVER_TAKEN as error:
            self._producer.abort_transaction()
            raise _NotTakenError from error
        self._producer.commit_transaction()

    def listen(self, seconds: float) -> None:
        """Return when a message has arrived, or after so many seconds."""
        self._listened = True  # a second poll at once sometimes makes the next one wait for half a second
        if self._arrived:
            return
        with explained(self._settings.bootstrap_servers):
            polled = self._polled(seconds)
        for batch in polled.values():
            self._arrived.extend(batch)

    def _polled(self, seconds: float) -> Mapping[TopicPartition, Sequence[Any]]:
        self._take_new_partitions()
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=int(1000 * seconds))
        except kafka_errors.OffsetOutOfRangeError as error:
            # Old messages of clients are gone; the clients ask again on their own.
            LOG.warning("messages of clients were deleted unread", positions=str(error))
            for partition in error.args[0]:
                self._consumer.seek_to_beginning(partition)
            return {}
        return polled

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        """Return the position after the last record of each partition.

        Parameters
        ----------
        partitions
            Their names in the ledger.

        Returns
        -------
        0 for a partition that does not exist, or holds no records; None without the right to see it, or without an
        answer.
        """
        return self._ends.of(partitions)

    def log_ids(self, partitions: Collection[str]) -> Mapping[str, str | None]:
        """Return the identity of the topic of each partition: Kafka gives a new one to a topic that is made again."""
        return self._ends.ids_of(partitions)

    # --- the state ---------------------------------------------------------------------------------------------

    def restore(self) -> CoordinatorState | None:
        """Return the state that was committed last, if any."""
        return None if self._saved is None else state_bytes.decode(self._saved)

    def _last_state(self, reader: KafkaConsumer) -> LastState:
        with explained(self._settings.bootstrap_servers):
            return last_state(
                reader,
                self._topics.state,
                self._settings.largest_update,
                self._signatures.coordinator,
                wrong=self._wrong,
            )

    def _require_state(self, last: LastState, *, began: bool) -> None:
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
        raise UsageError(self._lost_state())

    def _lost_state(self) -> str:
        what = f"{self._topics.state} has no state any more, but the federation has already started"
        why = "the topic was emptied, or deleted and made again; with a new state, clients would learn records twice"
        return f"{what}: {why}; restore the topic from a copy, or begin again under another [federation] name"

    def _has_ledger(self) -> bool:
        """Tell whether the control topic holds the round of a commit, or held one that was deleted since.

        A commit is one transaction: a coordinator that was killed in its first one has left nothing to be read.
        """
        with explained(self._settings.bootstrap_servers):
            begin, end = bounds(self._states, TopicPartition(self._topics.control, 0))
            if begin == end == 0:
                return False
            try:
                opened = last_opened(self._states, self._topics.control, self._signatures.coordinator)
            except kafka_errors.AuthorizationError as error:
                remedy = f"grant this log-in READ on {self._topics.control}"
                LOG.warning("this log-in cannot check whether a state was lost", reason=str(error), remedy=remedy)
                return False
            _, models = bounds(self._states, TopicPartition(self._topics.models, 0))
        return bool(opened) or (begin > 0 and models > 0)  # models are never deleted for their age

    def _update_members(self, state: CoordinatorState | None) -> None:
        """Note the members: only they may send large values in parts."""
        if state is None:
            return
        members = state.members
        self._members = frozenset(
            assembled(name, state.keys.get(name, "")) for name, member in members.items() if not member.evicted
        )

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        self._states.close()
        self._ends.close()
        let_go(self._producer, 5.0)


class _NotTakenError(Exception):
    """The dead-letter topic will never accept these letters; the cause says why."""


FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)


def _is_fenced(error: BaseException | None) -> bool:
    """Tell whether another producer has taken over; kafka-python may only name the error, within another one."""
    return isinstance(error, FENCED) or any(kind.__name__ in repr(error) for kind in FENCED)


def _slots(opened: RoundOpened) -> set[str]:
    return {slot.name for slot in opened.slots}
