"""A transport on a virtual clock that delays, reorders, duplicates and loses messages, and kills machines."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl import messages, state_bytes
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.protocol.messages import FromClient, FromCoordinator
from streamfl.runtime.clock import ManualClock


class Killed(Exception):  # noqa: N818  not an error of the killed machine
    """The machine that was using the transport has been killed, before or after the effect."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a world. All are probabilities, except `delay`, the mean delay in seconds.

    `kill` is the probability of a kill at each use of the transport, with even chances before and after its effect.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    kill: float = 0.0


@dataclass
class Mailbox:
    """Messages on their way to one machine, by arrival, encoded as on a real wire.

    >>> clock = ManualClock()
    >>> mailbox = Mailbox(clock)
    >>> mailbox.put(b"late", delay=2.0)
    >>> mailbox.take(), mailbox.next_arrival
    ([], 2.0)
    >>> clock.sleep_until(2.0)
    >>> mailbox.take()
    [b'late']
    """

    clock: ManualClock
    _heap: list[tuple[float, int, bytes]] = field(default_factory=list)
    _count: int = 0

    def put(self, data: bytes, delay: float) -> None:
        """Let a message arrive after a delay."""
        self._count += 1
        heapq.heappush(self._heap, (self.clock.now() + delay, self._count, data))

    def take(self) -> list[bytes]:
        """Return the messages that have arrived."""
        arrived = []
        while self._heap and self._heap[0][0] <= self.clock.now():
            arrived.append(heapq.heappop(self._heap)[2])
        return arrived

    @property
    def next_arrival(self) -> float | None:
        """Return when the next message arrives."""
        return self._heap[0][0] if self._heap else None


@dataclass
class FaultyTransport:
    """Links between one coordinator and its clients through a bad network.

    Parameters
    ----------
    clock
        The virtual time.
    rng
        Draws every fault.
    faults
        The faults that happen.
    observe
        Called with the sender and every message that was sent, or committed once that is durable.
    """

    clock: ManualClock
    rng: np.random.Generator
    faults: Faults
    observe: Callable[[str, FromClient | FromCoordinator], None]
    to_coordinator: Mailbox = field(init=False)
    to_clients: dict[str, Mailbox] = field(default_factory=dict)
    saved: bytes | None = None

    def __post_init__(self) -> None:
        self.to_coordinator = Mailbox(self.clock)

    def client(self, name: str) -> "FaultyClientLink":
        """Return a new link for a client; messages on their way to its earlier link are lost."""
        self.to_clients[name] = Mailbox(self.clock)
        return FaultyClientLink(self, name)

    def coordinator(self) -> "FaultyCoordinatorLink":
        """Return a new link for the coordinator; messages on their way to its earlier link are lost."""
        self.to_coordinator = Mailbox(self.clock)
        return FaultyCoordinatorLink(self)

    def deliver(self, mailbox: Mailbox, data: bytes) -> None:
        """Send bytes, or lose them, or send them twice."""
        copies = 0 if self._happens(self.faults.loss) else 2 if self._happens(self.faults.duplicate) else 1
        for _ in range(copies):
            delay = float(self.rng.exponential(self.faults.delay)) if self.faults.delay else 0.0
            mailbox.put(data, delay)

    def with_kills(self, effect: Callable[[], None]) -> None:
        """Run an effect, and perhaps kill the calling machine before or after it."""
        killed = self._happens(self.faults.kill)
        before = killed and self._happens(0.5)
        if not before:
            effect()
        if killed:
            raise Killed

    def arrivals(self) -> list[float | None]:
        """Return when each machine's next message arrives; for a machine that has ended that may be in the past."""
        return [box.next_arrival for box in (self.to_coordinator, *self.to_clients.values())]

    def _happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


@dataclass(frozen=True)
class FaultyClientLink:
    """A client's end."""

    transport: FaultyTransport
    name: str

    def send(self, message: FromClient) -> None:
        """Send a message to the coordinator; it may be lost."""

        def effect() -> None:
            self.transport.observe(self.name, message)
            self.transport.deliver(self.transport.to_coordinator, messages.encode(message))

        self.transport.with_kills(effect)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived."""
        arrived = [messages.decode(data) for data in self.transport.to_clients[self.name].take()]
        return [message for message in arrived if isinstance(message, FromCoordinator)]


@dataclass(frozen=True)
class FaultyCoordinatorLink:
    """The coordinator's end: commits are durable, but published messages may be lost on their way to a client."""

    transport: FaultyTransport

    def publish(self, published: Sequence[FromCoordinator]) -> None:
        """Send messages to all clients."""
        self.transport.with_kills(lambda: self._send(published))

    def commit(self, published: Sequence[FromCoordinator], state: CoordinatorState) -> None:
        """Save the state and send messages to all clients: both or neither."""
        saved = state_bytes.encode(state)

        def effect() -> None:
            self.transport.saved = saved
            self._send(published)

        self.transport.with_kills(effect)

    def receive(self) -> Sequence[FromClient]:
        """Return the messages that have arrived."""
        arrived = [messages.decode(data) for data in self.transport.to_coordinator.take()]
        return [message for message in arrived if isinstance(message, FromClient)]

    def refuse(self, reason: str) -> None:
        """Do nothing: a simulation checks refusals in the coordinator's state."""

    def restore(self) -> CoordinatorState | None:
        """Return the state that was committed last."""
        return None if self.transport.saved is None else state_bytes.decode(self.transport.saved)

    def _send(self, published: Sequence[FromCoordinator]) -> None:
        for message in published:
            self.transport.observe("coordinator", message)
            data = messages.encode(message)
            for mailbox in self.transport.to_clients.values():
                self.transport.deliver(mailbox, data)
