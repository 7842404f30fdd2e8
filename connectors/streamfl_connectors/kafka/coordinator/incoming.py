"""Reads what clients and operators send to the coordinator: the topics of updates and of commands."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from streamfl.errors import UsageError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import FromClient
from streamfl.runtime.log import commands
from streamfl.runtime.log.parts import PartAssembly
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.log.updates import assembled, completed
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.silence import BrokerSilence

LOG = structlog.get_logger("streamfl.kafka.coordinator")

# The fewest bytes of a part of a client's message, or `part_bytes` if that is less; the last part may have fewer.
LEAST_PART = 64 * 1024

# Seconds between two looks for partitions that were added to the topic of updates, and milliseconds after which the
# consumer asks for them: clients write there as soon as their producers know of them.
LOOK_AGAIN, NEWS_MS = 5.0, 10_000


class Incoming:
    """The messages of clients and operators, each once, from the offsets that were committed last.

    Attributes
    ----------
    bytes_read
        The bytes of all messages that were read, unusable ones included.
    last
        The Kafka message that was yielded last, until the next one is asked for.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._settings = connection.settings
        self._signatures = connection.signatures
        self._topics = topics
        self._consumer = connection.consumer(group_id=topics.coordinator_group, metadata_max_age_ms=NEWS_MS)
        self._silence = BrokerSilence(self._settings, self._consumer)
        self._members: frozenset[str] = frozenset()
        self._assembly = PartAssembly(
            connection.settings.largest_update,
            least=min(LEAST_PART, connection.settings.part_bytes),
            budget=connection.settings.unfinished_bytes,
            allows=lambda name: name in self._members,
        )
        self._arrived: deque[Any] = deque()
        self._handled: dict[TopicPartition, int] = {}
        self._listened = False
        self._look_at = 0.0
        self.bytes_read = 0
        self.last: Any = None

    def assign(self) -> bool:
        """Read from the last committed offset, or from the first message; tell whether any offset was committed."""
        with explained(self._settings):
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
        """Also read partitions that were added to the topic of updates."""
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

    @property
    def silence(self) -> str:
        """Return why the brokers do not answer; empty if they do."""
        return self._silence.reason

    def listen(self, seconds: float) -> None:
        """Return when a message has arrived, or after this many seconds."""
        self._listened = True  # a second poll at once sometimes makes the next one wait for half a second
        if self._arrived:
            return
        with explained(self._settings):
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
        self._silence.polled(any_came=bool(polled))
        return polled

    def receive(self) -> Iterator[FromClient | Signed | Ordered | Unusable]:
        """Yield the messages that have arrived; from then on, one counts as handled."""
        if not self._listened:
            self.listen(0.0)
        self._listened = False
        while self._arrived:
            message = self._arrived.popleft()
            self._handled[TopicPartition(message.topic, message.partition)] = message.offset + 1
            self.last = message
            self.bytes_read += len(message.value or b"")
            whole = self._understood(message)
            if whole is not None:
                yield whole
        self.last = None

    def _understood(self, message: Any) -> FromClient | Signed | Ordered | Unusable | None:
        if message.topic == self._topics.commands:
            return commands.understood(message.value, message.headers, self._signatures.operators)
        clients = self._signatures.clients
        return completed(self._assembly, message.key, message.headers, message.value, clients)

    def commit_handled(self, producer: KafkaProducer) -> None:
        """Add the offsets after the handled messages to a producer's open transaction."""
        offsets = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in self._handled.items()}
        if offsets:
            producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def note_members(self, state: CoordinatorState) -> None:
        """Note the members: only they may send large values in parts."""
        members = state.members
        self._members = frozenset(
            assembled(name, state.keys.get(name, "")) for name, member in members.items() if not member.evicted
        )

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
