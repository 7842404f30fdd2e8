"""Nodes: a machine with its ports. A node passes events to the machine and carries out its decisions.

Threads and sockets stay behind the ports.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streamfl.bounds import bounded
from streamfl.machines.client.machine import Client
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.protocol.decisions import (
    Answered,
    ClientDecision,
    Commit,
    CoordinatorDecision,
    Dropped,
    Fetch,
    Finished,
    OverBudget,
    PostUpdate,
    Predicted,
    Publish,
    Refused,
    Seek,
    Send,
)
from streamfl.protocol.events import (
    BufferDue,
    ClientEvent,
    FeaturesEnded,
    RecordsFetched,
    RecordsRead,
    SourceEnded,
    Stopped,
    Tick,
    WindowFull,
)
from streamfl.protocol.messages import Ended, FromCoordinator, RoundClosed, Unmask
from streamfl.protocol.records import Batch
from streamfl.runtime.ports import ClientLink, CoordinatorLink, DelayedSource, Source
from streamfl.runtime.reading import ReadCounts


class Node(Protocol):
    """A machine that the loop can drive."""

    @property
    def finished(self) -> bool:
        """Whether it has nothing more to do."""
        ...

    @property
    def wakes_at(self) -> float | None:
        """Return when it wants a Tick."""
        ...

    def step(self, now: float) -> bool:
        """Handle what has arrived or is due; return whether there was anything."""
        ...


def unobserved(event: object) -> None:
    """Ignore events, but raise what a client dropped: without an observer it would go unnoticed.

    Raises
    ------
    Exception
        The error of the dropped message.
    """
    if isinstance(event, Dropped):
        raise event.error


@dataclass
class ClientNode:
    """A client with its source and its link."""

    # The client, the source of its records, and its link to the coordinator.
    machine: Client
    source: Source
    link: ClientLink

    # Called with the client's local measurements, with messages that it could not use, and with updates that take
    # more bytes than their budget.
    observe: Callable[[Answered | Predicted | PostUpdate | Dropped | OverBudget], None] = unobserved
    finished: bool = False
    reading: ReadCounts = field(default_factory=ReadCounts)  # counts the records that the source has returned
    _end_reported: bool = False
    _delayed_source: DelayedSource | None = field(init=False)

    def __post_init__(self) -> None:
        self._delayed_source = self.source if isinstance(self.source, DelayedSource) else None

    @property
    def wakes_at(self) -> float | None:
        """Return when the client wants a Tick."""
        return self.machine.wakes_at

    def step(self, now: float) -> bool:
        """Pass on messages that have arrived, then records that the client has room for."""
        events = not_overtaken(self.link.receive())
        for event in events:
            self.handle(event, now)
        return self._read(now) or self._tick(now) or bool(events)

    def close_round(self, now: float) -> None:
        """Close the round with the records that are there."""
        self.step(now)
        self.handle(BufferDue(), now)

    def stop(self, now: float) -> None:
        """Stop the client: it finishes its update in flight, and leaves."""
        self.handle(Stopped(), now)

    def _read(self, now: float) -> bool:
        batches = self._polled()
        if batches:
            self.reading.returned(batches)
            self.handle(RecordsRead(batches), now)
        elif self.source.ended and not self._end_reported:
            self._end_reported = True
            self.handle(SourceEnded(), now)
        elif (
            self._delayed_source is not None
            and self._delayed_source.features_ended
            and not self.machine.intake.features_ended
        ):
            self.handle(FeaturesEnded(), now)
        elif self._is_stuck():
            self.handle(WindowFull(), now)
        else:
            return False
        return True

    def _polled(self) -> tuple[Batch, ...]:
        room, features = self.machine.room, self.machine.features_room
        if self._delayed_source is not None:
            waits = self.machine.intake.queued > 0
            return tuple(self._delayed_source.poll_halves(room, features, waits=waits)) if room or features else ()
        return tuple(self.source.poll(room)) if room else ()

    def _is_stuck(self) -> bool:
        """Tell whether features come next for which there is no room, and the client has not been told so."""
        machine, source = self.machine, self._delayed_source
        if source is None or machine.intake.is_stuck or machine.features_room or not machine.room:
            return False
        return source.features_next

    def _tick(self, now: float) -> bool:
        wakes_at = self.machine.wakes_at
        due = wakes_at is not None and now >= wakes_at
        if due:
            self.handle(Tick(), now)
        return due

    def handle(self, event: ClientEvent, now: float) -> None:
        """Pass one event to the client, and carry out its decisions."""
        for decision in self.machine.handle(event, now):
            self._carry_out(decision, now)

    def _carry_out(self, decision: ClientDecision, now: float) -> None:
        match decision:
            case Send(message):
                self.link.send(message)
            case Seek(positions, needed):
                if self._delayed_source is None:
                    self.source.seek(positions)
                else:
                    self._delayed_source.seek(positions, needed)
                self.reading.begins(self.machine.accounted or 0, needed or positions)
                self._end_reported = False
            case Fetch(positions):
                self.handle(RecordsFetched(tuple(self.source.fetch(positions))), now)
            case Answered() | Predicted() | PostUpdate() | Dropped() | OverBudget():
                self.observe(decision)
            case Finished():
                self.finished = True


def not_overtaken(messages: Sequence[FromCoordinator]) -> list[FromCoordinator]:
    """Return messages, but no question for seeds that came too late, because its entry is closed.

    A host that was suspended reads both at once. Its answer would help nobody.
    """
    if Unmask not in map(type, messages):
        return list(messages)
    closed = max((message.entry for message in messages if isinstance(message, RoundClosed)), default=0)
    return [message for message in messages if not isinstance(message, Unmask) or message.entry > closed]


@dataclass
class CoordinatorNode:
    """A coordinator with its link. A message refused for its content is kept before the input moves past it."""

    # The coordinator and its link to all clients.
    machine: Coordinator
    link: CoordinatorLink
    # Called with every published message and every refusal.
    observe: Callable[[FromCoordinator | Refused], None] = unobserved
    finished: bool = False
    _is_over: bool = False  # nobody took part when the machine last said that it has finished

    @property
    def wakes_at(self) -> float | None:
        """Return when the coordinator wants a Tick, or may end."""
        moments = (self.machine.wakes_at, self.machine.stays_until if self._is_over and not self.finished else None)
        return min((at for at in moments if at is not None and at < math.inf), default=None)

    def start(self, now: float) -> None:
        """Begin, or continue from the last commit."""
        self._carry_out(self.machine.start(now))

    def step(self, now: float) -> bool:
        """Pass on messages that have arrived, and a Tick when it is due."""
        busy = False
        for message in self.link.receive():
            busy = True
            self._carry_out(self.machine.handle(message, now), message.client)
        wakes_at = self.machine.wakes_at
        due = wakes_at is not None and now >= wakes_at
        if due:
            self._carry_out(self.machine.handle(Tick(), now))
        while self.machine.has_questions:
            self._carry_out(self.machine.answer(now))
        self._carry_out(self.machine.announce(now))
        self.finished = self._is_over and now >= self.machine.stays_until  # a client may have joined since
        return due or busy

    def end(self) -> None:
        """Tell all clients that this coordinator ends."""
        self._carry_out([Publish((Ended(entry=self.machine.state.entry),))])

    def _carry_out(self, decisions: Sequence[CoordinatorDecision], sender: str | None = None) -> None:
        """Carry out decisions; a refusal of `sender` concerns the last received message."""
        for decision in decisions:
            match decision:
                case Publish(messages):
                    self.link.publish(messages)
                    self._observe_all(messages)
                case Commit(messages):
                    self.link.commit(messages, self.machine.state)
                    self._observe_all(messages)
                case Refused(client, reason, is_fault):
                    if is_fault and sender is not None and client == bounded(sender):
                        self.link.refuse(reason)
                    self.observe(decision)
                case Finished():
                    self._is_over = True

    def _observe_all(self, messages: Sequence[FromCoordinator]) -> None:
        for message in messages:
            self.observe(message)
