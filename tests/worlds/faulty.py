"""A transport on a virtual clock that delays, reorders, duplicates and loses messages, and kills machines."""

import heapq
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from streamfl.errors import PeerError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.events import Signed, Unusable
from streamfl.protocol.messages import FromClient, FromCoordinator
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.log.updates import understood
from streamfl.wire import codec, messages, state_bytes
from worlds.lies import Liar, Sent


class Killed(Exception):
    """The machine that was using the transport has been killed, before or after the effect."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a world. All are probabilities, except `delay`, `liars`, `forged` and `misleading`.

    With liars the same seed draws the same delays, losses and kills for as long as the same messages are sent: lies
    are drawn by themselves.

    Examples
    --------
    >>> Faults(loss=0.1).with_liars("c2").lies, Faults(loss=0.1).with_liars("c2").loss
    (0.5, 0.1)
    """

    # That a message is lost, or arrives twice.
    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0  # the mean delay in seconds
    # That a machine is killed at a use of the transport, with even chances before and after its effect.
    kill: float = 0.0

    # The names of hostile members, some of the federation's clients: what is promised to honest clients is not
    # checked of them.
    liars: tuple[str, ...] = ()

    # That a message of a liar is replaced by a lie: an attack of `streamfl_benchmarks.liars.hostile`, other content
    # of any field, or damaged bytes.
    lies: float = 0.0
    # That records of a liar, as it reads them, have absurd values, or many new names of features and labels.
    spoilt: float = 0.0

    # How many forged messages are sent to the coordinator in a second: in the name of a liar or a stranger, earlier
    # messages of any client once more, or no messages at all.
    forged: float = 0.0
    misleading: float = 0.0  # how many forged messages are sent to each client in a second, in the coordinator's name

    def with_liars(self, *names: str) -> "Faults":
        """Return the same faults in a world with these liars, and with forgers."""
        return replace(self, liars=names, lies=0.5, spoilt=0.2, forged=1.0, misleading=0.2)


T = TypeVar("T")

# Much is said again in these worlds: models with every Join, what was lost, and all to every client. To write and
# read it takes far longer than to find it: the latest contents are encoded once, and the latest bytes decoded once.
LATEST = 256
_decoded = lru_cache(LATEST)(messages.decode)
_understood = lru_cache(LATEST)(understood)


@dataclass
class Mailbox(Generic[T]):
    """Messages on their way to one machine, by arrival, encoded as on a real wire.

    >>> clock = ManualClock()
    >>> mailbox = Mailbox[bytes](clock)
    >>> mailbox.put(b"late", delay=2.0)
    >>> mailbox.take(), mailbox.next_arrival
    ([], 2.0)
    >>> clock.sleep_until(2.0)
    >>> mailbox.take()
    [b'late']
    """

    clock: ManualClock
    _heap: list[tuple[float, int, T]] = field(default_factory=list)
    _count: int = 0

    def put(self, data: T, delay: float) -> None:
        """Let a message arrive after a delay."""
        self._count += 1
        heapq.heappush(self._heap, (self.clock.now() + delay, self._count, data))

    def take(self) -> list[T]:
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
    """Links between one coordinator and its clients through a bad network."""

    clock: ManualClock  # the virtual time
    rng: np.random.Generator  # draws every fault
    faults: Faults  # the faults that happen
    # Called with the sender and every message that was sent, or committed once that is durable.
    observe: Callable[[str, FromClient | FromCoordinator], None]
    liar: Liar = field(default_factory=lambda: Liar(0, ()))  # draws what liars and forgers say
    to_coordinator: Mailbox[Sent] = field(init=False)
    to_clients: dict[str, Mailbox[bytes]] = field(default_factory=dict)
    saved: bytes | None = None
    _forged_until: float = 0.0
    _encoded: dict[bytes, bytes] = field(default_factory=dict)

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

    def said(self, key: str, data: bytes) -> None:
        """Send what was said in a client's name, by whomever, to the coordinator."""
        message = _understood(data, key)
        if isinstance(message, FromClient):
            self.observe(key, message)
        self.deliver(self.to_coordinator, (key, data))

    def encoded(self, message: FromClient | FromCoordinator) -> bytes:
        """Return a message as bytes, which are kept by its content."""
        if not isinstance(message, messages.MANY):
            return messages.encode(message)
        content = codec.encode(message, header={"type": messages.TYPES[type(message)]})
        if content not in self._encoded:
            if len(self._encoded) >= LATEST:
                self._encoded.clear()
            self._encoded[content] = messages.encode(message)
        return self._encoded[content]

    def forge(self) -> None:
        """Send forged messages, if the world has forgers."""
        seconds = self.clock.now() - self._forged_until
        self._forged_until += seconds
        for _ in range(self.liar.times(self.faults.forged * seconds)):
            self.said(*self.liar.forged())
        for name, mailbox in self.to_clients.items():
            for _ in range(self.liar.times(self.faults.misleading * seconds)):
                self.deliver(mailbox, self.liar.misleading(name))

    def deliver(self, mailbox: Mailbox[T], data: T) -> None:
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
        return [self.to_coordinator.next_arrival, *(box.next_arrival for box in self.to_clients.values())]

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
            faults, liar = self.transport.faults, self.transport.liar
            if self.name not in faults.liars or not liar.happens(faults.lies):
                data = self.transport.encoded(message)
                liar.hear(message, data)
                self.transport.said(message.client, data)
                return
            for key, data in liar.instead_of(message):
                self.transport.said(key, data)

        self.transport.with_kills(effect)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return the messages that have arrived."""
        arrived = []
        for data in self.transport.to_clients[self.name].take():
            with suppress(PeerError):  # what is not a message was forged: a link counts it and continues
                arrived.append(_decoded(data))
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

    def receive(self) -> Sequence[FromClient | Signed | Unusable]:
        """Return the messages that have arrived."""
        return [_understood(data, key) for key, data in self.transport.to_coordinator.take()]

    def refuse(self, reason: str) -> None:
        """Do nothing: a simulation checks refusals in the coordinator's state."""

    def restore(self) -> CoordinatorState | None:
        """Return the state that was committed last."""
        return None if self.transport.saved is None else state_bytes.decode(self.transport.saved)

    def _send(self, published: Sequence[FromCoordinator]) -> None:
        for message in published:
            self.transport.observe("coordinator", message)
            data = self.transport.encoded(message)
            self.transport.liar.hear(message, data)
            for mailbox in self.transport.to_clients.values():
                self.transport.deliver(mailbox, data)
