"""An auditor: it checks from outside, by messages and accounts, what must hold in every run despite all faults."""

from dataclasses import dataclass, field

from streamfl.core.client.phase import Phase, may_follow
from streamfl.core.coordinator import phase as coordinator
from streamfl.core.protocol.decisions import ClientDecision
from streamfl.core.protocol.events import ClientEvent, CoordinatorEvent
from streamfl.core.protocol.messages import Accepted, FromClient, FromCoordinator, Restarted, RoundClosed, Update
from streamfl.testing.violation import Violation

# The fields of a message that its line in the transcript shows.
SHOWN = ("client", "attempt", "incarnation", "slot", "version", "entry", "round", "epoch", "cause", "chosen")


@dataclass
class Audit:
    """The auditor of a run: it watches every message, and keeps its own copy of the ledger.

    Parameters
    ----------
    transcript
        One line for each event.
    sent, positions, accepted, rejected, closed, restarts
        Updates by client and attempt; the ledger's positions by client and partition; records accepted and rejected
        by client; the ledger's entries; and restarts.

    Examples
    --------
    >>> from streamfl.core.protocol.events import Tick
    >>> Audit().accounts("c0", read=10, accounted=4, pending=5)
    Traceback (most recent call last):
    streamfl.testing.violation.Violation: c0 has read 10 records, but 4 accounted for + 5 pending
    >>> Audit().moves("c0", Phase.LEFT, Tick(), [], Phase.JOINING)
    Traceback (most recent call last):
    streamfl.testing.violation.Violation: c0 is led from LEFT to JOINING by Tick
    """

    transcript: list[str] = field(default_factory=list)
    sent: dict[tuple[str, str], Update] = field(default_factory=dict)
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    closed: list[RoundClosed] = field(default_factory=list)
    restarts: list[Restarted] = field(default_factory=list)

    def note(self, now: float, node: str, event: str) -> None:
        """Write a line into the transcript."""
        self.transcript.append(f"{now:9.3f}  {node:<12} {event}")

    def watch(self, now: float, node: str, message: FromClient | FromCoordinator) -> None:
        """Check a message that was sent or committed."""
        self.note(now, node, summary(message))
        match message:
            case Update():
                self.sent[message.client, message.attempt] = message
            case RoundClosed():
                self._entry(message)
            case Restarted():
                self._restart(message)
            case _:
                pass

    def accounts(self, client: str, read: int, accounted: int, pending: int) -> None:
        """Check a client's own accounts: records read = accepted + rejected + pending."""
        if read != accounted + pending:
            raise Violation(f"{client} has read {read} records, but {accounted} accounted for + {pending} pending")

    def moves(
        self, client: str, before: Phase, event: ClientEvent, decisions: list[ClientDecision], after: Phase
    ) -> None:
        """Check a client's change of phase.

        Parameters
        ----------
        client
            Its name.
        before, after
            Its phases before and after the event.
        event, decisions
            The event, and the client's decisions.
        """
        if not may_follow(before, event, decisions, after):
            raise Violation(f"{client} is led from {before.name} to {after.name} by {type(event).__name__}")

    def coordinates(self, before: coordinator.Phase, event: CoordinatorEvent, after: coordinator.Phase) -> None:
        """Check what an event has made of the coordinator's phase."""
        if not coordinator.may_follow(before, event, after):
            raise Violation(f"coordinator is led from {before.name} to {after.name} by {type(event).__name__}")

    def _entry(self, closed: RoundClosed) -> None:
        last = self.closed[-1] if self.closed else None
        if closed.entry != (last.entry + 1 if last else 1):
            raise Violation(f"ledger entry {closed.entry} follows {last.entry if last else 0}")
        if last and (closed.round, closed.epoch) < (last.round + bool(last.records), last.epoch):
            raise Violation(f"round {closed.round} of epoch {closed.epoch} follows round {last.round}")
        self.closed.append(closed)
        for accepted in closed.accepted:
            self._accepted(closed, accepted)

    def _accepted(self, closed: RoundClosed, accepted: Accepted) -> None:
        update = self.sent.get((accepted.client, accepted.attempt))
        if update is None:
            raise Violation(f"entry {closed.entry} accepts an update that {accepted.client} never sent")
        if (update.entry, update.round, update.epoch) != (closed.entry, closed.round, closed.epoch):
            raise Violation(f"entry {closed.entry} accepts an update made for entry {update.entry}")
        for span in accepted.spans:
            place = (accepted.client, span.partition)
            if span.start != self.positions.get(place, 0):
                raise Violation(f"{span} accepted, but the ledger stands at {self.positions.get(place, 0)}")
            self.positions[place] = span.end
        self.accepted[accepted.client] = self.accepted.get(accepted.client, 0) + accepted.records
        self.rejected[accepted.client] = self.rejected.get(accepted.client, 0) + accepted.rejected

    def _restart(self, restarted: Restarted) -> None:
        last = self.restarts[-1].epoch if self.restarts else 1
        if restarted.epoch != last + 1:
            raise Violation(f"epoch {restarted.epoch} follows epoch {last}")
        self.restarts.append(restarted)


def summary(message: FromClient | FromCoordinator) -> str:
    """Return one line about a message, without its arrays."""
    fields = {name: value for name in SHOWN if (value := getattr(message, name, None)) is not None}
    spans = "".join(f" [{s.start},{s.end})" for s in message.spans) if isinstance(message, Update) else ""
    accepts = " accepts " + " ".join(a.attempt for a in message.accepted) if isinstance(message, RoundClosed) else ""
    return f"{type(message).__name__} " + " ".join(f"{k}={v}" for k, v in fields.items()) + spans + accepts
