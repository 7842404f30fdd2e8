"""The coordinator's end: everything it tells is transactional, so nothing of a fenced one counts."""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl import codec, messages
from streamfl.core.errors import PeerError
from streamfl.core.messages import FromClient, FromCoordinator, ModelPublished, RoundOpened
from streamfl.core.standing import Standing
from streamfl_connectors.kafka import dead_letters
from streamfl_connectors.kafka.absence import let_go
from streamfl_connectors.kafka.connection import TAKEN_OVER, Connection, explained
from streamfl_connectors.kafka.dead_letters import DeadLetter
from streamfl_connectors.kafka.parts import Assembly, cut
from streamfl_connectors.kafka.standing_topic import KEY, last_standing
from streamfl_connectors.kafka.tensors import STAYING, VERSIONS, Tensors, key_of, slot_of, version_of
from streamfl_connectors.kafka.topics import Topics

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# Dead letters that wait for the next transaction; more are counted only.
MOST_LETTERS = 1000

# Seconds before a failed transaction is repeated.
PAUSE = 0.1


class KafkaCoordinatorLink:
    """`streamfl.ports.ServedCoordinatorLink` on Kafka.

    Making one fences every other coordinator of the federation: also one that only slept.

    Parameters
    ----------
    connection
        To the brokers.
    topics
        Of the federation.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = connection
        self._settings = connection.settings
        self._topics = topics
        self._producer = self._transactional_producer()
        self._consumer = connection.consumer(group_id=topics.coordinator_group)
        self._assembly = Assembly(self._settings.largest_update)
        self._arrived: deque[Any] = deque()
        self._taken: Any = None
        self._handled: dict[TopicPartition, int] = {}
        self._letters: list[DeadLetter] = []
        self._written: dict[str, tuple[int, int]] = {}
        self._live: set[str] = set()
        self._listened = False
        self._saved = self._last_standing()
        self._assign()

    # --- telling -----------------------------------------------------------------------------------------------

    def publish(self, told: Sequence[FromCoordinator]) -> None:
        """Tell all clients, all or nothing."""
        self._transact(told, None)

    def commit(self, told: Sequence[FromCoordinator], standing: Standing) -> None:
        """Tell all clients, save the standing and move the input offsets on, all or nothing."""
        self._transact(told, codec.encode(standing))

    def _transact(self, told: Sequence[FromCoordinator], standing: bytes | None) -> None:
        """Carry a transaction out, again if it failed; bounded, then the coordinator ends and is restarted."""
        until, failed, written = time.monotonic() + self._settings.patience, False, self._written
        while True:
            try:
                with explained(self._settings.bootstrap_servers):
                    if not failed or not self._went_through(standing):
                        self._producer.begin_transaction()
                        written = self._write(told, standing)
                        self._producer.commit_transaction()
                break
            except PeerError as error:
                if _is_fenced(error.__cause__):
                    raise PeerError(TAKEN_OVER) from error
                if time.monotonic() >= until or not isinstance(error.__cause__, kafka_errors.KafkaError):
                    raise
                LOG.warning("transaction repeated", reason=str(error))
                failed = True
                time.sleep(PAUSE)
        self._saved = standing or self._saved
        self._written = written
        self._live = next(
            (_slots(message) for message in reversed(told) if isinstance(message, RoundOpened)), self._live
        )
        self._letters.clear()

    def _went_through(self, standing: bytes | None) -> bool:
        """Begin anew after a transaction that failed, and tell whether it had been committed all the same.

        A new producer takes over from any other coordinator: so not if one has committed since, which this one, that
        may have slept, does not know of.
        """
        self._fail_if_overtaken(standing)
        let_go(self._producer, 0.0)
        self._producer = self._transactional_producer()
        return self._fail_if_overtaken(standing) != self._saved

    def _fail_if_overtaken(self, standing: bytes | None) -> bytes | None:
        last = self._last_standing()
        if last not in (self._saved, standing):
            raise PeerError(TAKEN_OVER)
        return last

    def _write(self, told: Sequence[FromCoordinator], standing: bytes | None) -> dict[str, tuple[int, int]]:
        """Write all of it; return which slots are in the log then, each with its version and most parts."""
        written = dict(self._written)
        for message in told:
            if not isinstance(message, Tensors):
                self._producer.send(self._topics.control, messages.encode(message), partition=0)
                continue
            slot = slot_of(message)
            version, most = written.get(slot, (-1, 0))
            if version != version_of(message):
                parts = self._write_parts(self._topics.models, key_of(message), messages.encode(message))
                written[slot] = (version_of(message), max(parts, most))
        for slot in self._dead(told):
            self._bury(slot)
            del written[slot]
        for letter in self._letters:
            dead_letters.write(self._producer, self._topics.dead_letters, letter)
        if standing is not None:
            self._write_parts(self._topics.state, KEY, standing)
            self._move_on()
        return written

    def _write_parts(self, topic: str, key: str, data: bytes) -> int:
        """Write a value, and return in how many parts."""
        parts = cut(data, self._settings.part_bytes)
        for part in parts:
            name = f"{key}/{part.number}".encode()
            self._producer.send(topic, part.value, key=name, headers=list(part.headers), partition=0)
        return len(parts)

    def _move_on(self) -> None:
        offsets = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in self._handled.items()}
        if offsets:
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def _dead(self, told: Sequence[FromCoordinator]) -> set[str]:
        """Return the slots that no open round names any more."""
        opened = [message for message in told if isinstance(message, RoundOpened)]
        if not opened:
            return set()
        live = _slots(opened[-1])
        fresh = {message.slot for message in told if isinstance(message, ModelPublished)}
        return set(self._written) - STAYING - live - self._live - fresh

    def _bury(self, slot: str) -> None:
        """Write tombstones, so that compaction lets go of a slot."""
        _, parts = self._written[slot]
        for version in range(VERSIONS):
            for part in range(parts):
                self._producer.send(self._topics.models, None, key=f"{slot}/{version}/{part}".encode(), partition=0)

    def _transactional_producer(self) -> KafkaProducer:
        # kafka-python waits for `retry_backoff_ms` several times in a transaction, which takes 0.1 s by default.
        producer = self._connection.producer(
            transactional_id=self._topics.coordinator_group,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            retry_backoff_ms=2,
            linger_ms=0,
        )
        with explained(self._settings.bootstrap_servers):
            producer.init_transactions()
        return producer

    # --- hearing -----------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Read the clients' messages on from the last commit, or from the first that is still there."""
        with explained(self._settings.bootstrap_servers):
            numbers = self._consumer.partitions_for_topic(self._topics.updates) or set()
            partitions = [TopicPartition(self._topics.updates, number) for number in sorted(numbers)]
            self._consumer.assign(partitions)
            for partition, begin in self._consumer.beginning_offsets(partitions).items():
                committed = self._consumer.committed(partition)
                self._consumer.seek(partition, max(begin, committed or 0))

    def receive(self) -> Iterator[FromClient]:
        """Return what has arrived; one that is taken out counts as handled at the next commit."""
        if not self._listened:
            self.listen(0.0)
        self._listened = False
        while self._arrived:
            message = self._arrived.popleft()
            self._handled[TopicPartition(message.topic, message.partition)] = message.offset + 1
            self._taken = message
            understood = self._understood(message)
            if understood is not None:
                yield understood

    def refuse(self, reason: str) -> None:
        """Keep the message that was taken out last as a dead letter."""
        if self._taken is not None:
            self._unusable(self._taken, reason)

    def _understood(self, message: Any) -> FromClient | None:
        client = (message.key or b"").decode(errors="replace")
        try:
            whole = self._assembly.add(client, message.headers, message.value or b"")
            told = None if whole is None else messages.decode(whole)
        except PeerError as error:
            self._unusable(message, str(error))
            return None
        if told is None:
            return None
        if not isinstance(told, FromClient) or told.client != client:
            self._unusable(message, f"no message of client {client!r}")
            return None
        return told

    def _unusable(self, message: Any, reason: str) -> None:
        LOG.warning("unusable message", partition=message.partition, offset=message.offset, reason=reason)
        if len(self._letters) < MOST_LETTERS:
            place = (message.topic, message.partition, message.offset)
            self._letters.append(DeadLetter(*place, reason, message.key, message.value))

    def listen(self, seconds: float) -> None:
        """Return when a message has arrived, or after so many seconds."""
        self._listened = True  # a second poll at once would, now and then, make the next one wait for half a second
        if self._arrived:
            return
        with explained(self._settings.bootstrap_servers):
            polled = self._polled(seconds)
        for found in polled.values():
            self._arrived.extend(found)

    def _polled(self, seconds: float) -> Mapping[TopicPartition, Sequence[Any]]:
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = self._consumer.poll(timeout_ms=int(1000 * seconds))
        except kafka_errors.OffsetOutOfRangeError as error:
            # The clients' messages of long ago are gone; they ask again by themselves.
            LOG.warning("messages of clients were deleted unread", positions=str(error))
            for partition in error.args[0]:
                self._consumer.seek_to_beginning(partition)
            return {}
        return polled

    # --- remembering -------------------------------------------------------------------------------------------

    def restore(self) -> Standing | None:
        """Return the standing that was committed last, if any."""
        return None if self._saved is None else codec.decode(Standing, self._saved)

    def ends(self, partitions: Collection[str]) -> Mapping[str, int | None]:
        """Return that no end can be told yet."""
        return dict.fromkeys(partitions)

    def _last_standing(self) -> bytes | None:
        reader = self._connection.consumer()
        try:
            with explained(self._settings.bootstrap_servers):
                return last_standing(reader, self._topics.state, self._settings.largest_update)
        finally:
            reader.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
        let_go(self._producer, 5.0)


FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)


def _is_fenced(error: BaseException | None) -> bool:
    """Tell whether another producer has taken over; once its own thread knows, kafka-python only names the reason."""
    return isinstance(error, FENCED) or any(kind.__name__ in repr(error) for kind in FENCED)


def _slots(opened: RoundOpened) -> set[str]:
    return {slot.name for slot in opened.slots}
