"""The coordinator's link: all of its writes are transactional, so that no write of a fenced coordinator counts.

`incoming.py` reads for it, `transactions.py` writes, `state_topic.py` finds the last state, and `refused.py` keeps
messages that the coordinator refuses.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Ordered, Signed, Unusable
from streamfl.protocol.messages import FromClient, FromCoordinator
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import WrongState
from streamfl.wire import state_bytes
from streamfl_connectors.kafka.connection import Connection
from streamfl_connectors.kafka.coordinator.ends import Ends
from streamfl_connectors.kafka.coordinator.incoming import Incoming
from streamfl_connectors.kafka.coordinator.refused import RefusedMessages
from streamfl_connectors.kafka.coordinator.state_topic import StateTopic
from streamfl_connectors.kafka.coordinator.transactions import Transactions

# Milliseconds that brokers wait for further states. A fetch that is under way when a reader moves on makes the next
# one wait for so long: half a second by default, and a takeover now and then with it.
STATE_WAIT_MS = 20


class KafkaCoordinatorLink:
    """`streamfl.runtime.ports.ServedCoordinatorLink` on Kafka.

    `begin` fences every other coordinator of the federation, also one that was only suspended.
    """

    def __init__(
        self, connection: Connection, topics: Topics, ends: Ends, wrong: WrongState = CoordinatorState.wrong
    ) -> None:
        self._states = StateTopic(connection, topics, wrong)
        self._incoming = Incoming(connection, topics)
        self._transactions = Transactions(connection, topics, self._states, self._incoming)
        self._refused = RefusedMessages(self._transactions, topics.dead_letters)
        self._reader = connection.consumer(fetch_max_wait_ms=STATE_WAIT_MS)
        self._ends = ends

    @property
    def bytes_read(self) -> int:
        """Return the bytes of all messages that were read, unusable ones included."""
        return self._incoming.bytes_read

    @property
    def bytes_written(self) -> int:
        """Return the bytes of messages to clients."""
        return self._transactions.bytes_written

    @property
    def silence(self) -> str:
        """Return why the brokers do not answer; empty if they do."""
        return self._incoming.silence

    @property
    def unwritten(self) -> int:
        """Return how many dead letters the topic did not accept."""
        return self._refused.unwritten

    def get_ready(self) -> None:
        """Do what takes long and fences nobody: connect, learn where the topics are, read a state as `begin` does.

        kafka-python's clients wait for 0.1 s before each of them learns where a topic is.
        """
        self._states.last(self._reader)
        self._incoming.assign()
        self._ends.get_ready()
        self._transactions.get_ready()

    def begin(self) -> None:
        """Fence every other coordinator; continue from the state and the input offsets that were committed last."""
        self._transactions.fence()
        last = self._states.last(self._reader)
        committed = self._incoming.assign()
        self._states.require(last, began=last.data is None and (committed or self._states.has_ledger(self._reader)))
        self._reader.close()
        self._transactions.saved = last.data
        state = self.restore()
        if state is not None:
            self._incoming.note_members(state)

    def restore(self) -> CoordinatorState | None:
        """Return the state that was committed last, if any."""
        saved = self._transactions.saved
        return None if saved is None else state_bytes.decode(saved)

    def publish(self, published: Sequence[FromCoordinator]) -> None:
        """Publish messages to all clients, all or none."""
        self._refused.write()
        self._transactions.carry_out(published, None)

    def commit(self, published: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Publish messages to all clients, save the state and commit the input offsets, all or nothing."""
        self._refused.write()
        self._transactions.carry_out(published, state_bytes.encode(state))
        self._incoming.note_members(state)

    def listen(self, seconds: float) -> None:
        """Return when a message has arrived, or after this many seconds."""
        self._incoming.listen(seconds)

    def receive(self) -> Iterator[FromClient | Signed | Ordered | Unusable]:
        """Yield the messages that have arrived; a message that was yielded counts as handled at the next commit."""
        yield from self._incoming.receive()
        self._refused.write()

    def refuse(self, reason: str) -> None:
        """Keep the message that was yielded last as a dead letter, once."""
        message, self._incoming.last = self._incoming.last, None
        if message is not None:
            self._refused.add(message, reason)

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

    def close(self) -> None:
        """Close the connections."""
        self._incoming.close()
        self._reader.close()
        self._ends.close()
        self._transactions.close()
