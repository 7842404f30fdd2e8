"""A transport inside one process: the default for replays, and the reference for other transports."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Fenced, FromClient, FromCoordinator, Joined, Left
from streamfl.wire import state_bytes


@dataclass
class MemoryTransport:
    """Links between one coordinator and its clients. Messages are immutable values and are passed on as they are.

    `observe` is called with every message that is sent or published.

    >>> from streamfl.protocol.messages import Leave
    >>> transport = MemoryTransport()
    >>> client, coordinator = transport.client("c0"), transport.coordinator()
    >>> client.send(Leave(client="c0", nonce="7f"))
    >>> coordinator.receive()
    [Leave(client='c0', nonce='7f', after=0)]
    """

    _to_coordinator: deque[FromClient] = field(default_factory=deque)
    _to_clients: dict[str, deque[FromCoordinator]] = field(default_factory=dict)
    _saved: bytes | None = None
    durable: bool = False
    observe: Callable[[FromClient | FromCoordinator], None] | None = None

    def client(self, name: str) -> "MemoryClientLink":
        """Return the link of a client; it receives what is published from now on."""
        self._to_clients[name] = deque()
        return MemoryClientLink(self._to_coordinator, self._to_clients[name], self.observe)

    def drop(self, name: str) -> None:
        """Drop the link of a client: nothing more is kept for it."""
        self._to_clients.pop(name, None)

    def coordinator(self) -> "MemoryCoordinatorLink":
        """Return the coordinator's link."""
        return MemoryCoordinatorLink(self)


@dataclass(frozen=True)
class MemoryClientLink:
    """A client's link in memory."""

    outbox: deque[FromClient]
    inbox: deque[FromCoordinator]
    observe: Callable[[FromClient | FromCoordinator], None] | None = None

    def send(self, message: FromClient) -> None:
        """Send to the coordinator."""
        if self.observe is not None:
            self.observe(message)
        self.outbox.append(message)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived."""
        return _drained(self.inbox)


@dataclass(frozen=True)
class MemoryCoordinatorLink:
    """The coordinator's link in memory. It saves the state only if `durable`: a replay is never continued."""

    transport: MemoryTransport

    def publish(self, messages: Sequence[FromCoordinator]) -> None:
        """Publish to all clients; an answer to one client is delivered to that client only."""
        inboxes, observe = self.transport._to_clients, self.transport.observe
        for message in messages:
            if observe is not None:
                observe(message)
            if not isinstance(message, Joined | Left | Fenced):
                for inbox in inboxes.values():
                    inbox.append(message)
            elif message.client in inboxes:
                inboxes[message.client].append(message)

    def commit(self, messages: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Publish to all clients and save the state."""
        if self.transport.durable:
            self.transport._saved = state_bytes.encode(state)
        self.publish(messages)

    def receive(self) -> Sequence[FromClient]:
        """Return the messages that have arrived."""
        return _drained(self.transport._to_coordinator)

    def refuse(self, reason: str) -> None:
        """Keep nothing: in one process refusals reach the observer."""

    def restore(self) -> CoordinatorState | None:
        """Return the last committed state."""
        saved = self.transport._saved
        return None if saved is None else state_bytes.decode(saved)


def _drained(queue: deque) -> list:  # type: ignore[type-arg]
    messages = list(queue)
    queue.clear()
    return messages
