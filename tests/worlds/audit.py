"""An auditor: it checks from outside, by messages and accounts, what must hold in every run despite all faults."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamfl.machines.client.ledger.known_ledger import KnownLedger
from streamfl.machines.client.phase import Phase
from streamfl.machines.coordinator import phase as coordinator
from streamfl.protocol.decisions import ClientDecision, Refused
from streamfl.protocol.events import ClientEvent, CoordinatorEvent
from streamfl.protocol.messages import (
    Accepted,
    Finding,
    FromClient,
    FromCoordinator,
    LocalDrift,
    Restarted,
    RoundClosed,
    Update,
)
from streamfl.protocol.records import Batch
from streamfl.testing.violation import Violation
from worlds.delayed import Accounts
from worlds.phases import may_follow, stage_may_follow

# The fields of a message that its line in the transcript shows.
SHOWN = (
    *("client", "attempt", "nonce", "after", "incarnation"),
    *("slot", "version", "entry", "round", "epoch", "cause", "chosen"),
)


@dataclass
class Audit:
    """The auditor of a run: it watches every message, and keeps its own copy of the ledger.

    Examples
    --------
    >>> from streamfl.protocol.events import Tick
    >>> Audit().accounts("c0", read=10, accounted=4, pending=5)
    Traceback (most recent call last):
    streamfl.testing.violation.Violation: c0 has read 10 records, but 4 accounted for + 5 pending
    >>> Audit().moves("c0", Phase.LEFT, Tick(), [], Phase.JOINING)
    Traceback (most recent call last):
    streamfl.testing.violation.Violation: c0 is led from LEFT to JOINING by Tick
    """

    transcript: list[str] = field(default_factory=list)  # one line for each event

    # Updates by client and attempt; the ledger's positions by client and partition; records accepted and rejected by
    # client; the ledger's entries; and restarts.
    sent: dict[tuple[str, str], Update] = field(default_factory=dict)
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    closed: list[RoundClosed] = field(default_factory=list)
    restarts: list[Restarted] = field(default_factory=list)

    # If labels come later: by client and attempt, the records of an update, as the positions of their labels and of
    # their features; the positions of features answered, by client; what the ledger has learnt, by client; and the
    # accounts of honest clients.
    made: dict[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    answered: dict[str, set[int]] = field(default_factory=dict)
    learnt: dict[str, dict[int, int]] = field(default_factory=dict)
    delayed: dict[str, Accounts] = field(default_factory=dict)
    # The clients whose messages may be lies: what they say of themselves is not checked, what the ledger says is.
    liars: frozenset[str] = frozenset()
    # Whether clients receive forged messages: one that is misled about its place may send what is refused.
    misled: bool = False
    closed_at: list[float] = field(default_factory=list)  # when each entry was closed, in seconds
    dropped: int = 0  # how many forged messages clients could not use
    refusals: Counter[str] = field(default_factory=Counter)  # how many messages of clients were refused, by reason

    def note(self, now: float, node: str, event: str) -> None:
        """Write a line into the transcript."""
        self.transcript.append(f"{now:9.3f}  {node:<12} {event}")

    def watch(self, now: float, node: str, message: FromClient | FromCoordinator) -> None:
        """Check a message that was sent or committed."""
        self.note(now, node, summary(message))
        if isinstance(message, Finding):
            self._finding(message)
        match message:
            case Update():
                self.sent[message.client, message.attempt] = message
            case RoundClosed():
                self.closed_at.append(now)
                self._entry(message)
            case Restarted():
                self._restart(message)
            case _:
                pass

    def accounts(self, client: str, read: int, accounted: int, pending: int) -> None:
        """Check a client's own accounts: records read = accepted + rejected + pending."""
        if read != accounted + pending:
            raise Violation(f"{client} has read {read} records, but {accounted} accounted for + {pending} pending")

    def waits(self, client: str, known: KnownLedger, *, told: int, asked: int, pending: int, waiting: int) -> None:
        """Check a client whose labels come later, by what its log holds, and what the ledger says of it.

        Labels read = accepted + rejected + pending; records read = learnt + waiting for their labels + written off.

        Parameters
        ----------
        told, asked
            How many labels, good and bad, and how many good features its source has given out.
        pending, waiting
            How many labels are pending and how many records wait, as it says.
        """
        account, off = self.delayed[client].at(known.entry)
        if known.place is None or not account.is_known_as(client, known.place):
            if not self.misled:
                raise Violation(f"{client} knows {known.place}, but entry {known.entry} leaves it at {account}")
            return
        self.accounts(client, told, account.accepted + account.rejected, pending)
        learnt = len(account.learnt)
        if asked != learnt + waiting + off:
            raise Violation(
                f"{client} has read {asked} records, but {learnt} learnt + {waiting} waiting + {off} expired"
            )

    def answers(self, client: str, batch: Batch) -> None:
        """Note that records were answered."""
        self.answered.setdefault(client, set()).update(batch.positions.tolist())

    def makes(self, update: Update, batches: Sequence[Batch]) -> None:
        """Note which labels and features make the records of an update."""
        pairs: dict[int, int] = {}
        for batch in batches:
            if batch.beside is not None:
                pairs.update(zip(batch.positions.tolist(), batch.beside.tolist(), strict=True))
        self.made[update.client, update.attempt] = pairs

    def moves(
        self, client: str, before: Phase, event: ClientEvent, decisions: list[ClientDecision], after: Phase
    ) -> None:
        """Check a client's change of phase.

        Parameters
        ----------
        before, after
            Its phases before and after the event.
        """
        if not may_follow(before, event, decisions, after):
            raise Violation(f"{client} is led from {before.name} to {after.name} by {type(event).__name__}")

    def coordinates(self, before: coordinator.Phase, event: CoordinatorEvent, after: coordinator.Phase) -> None:
        """Check what an event has made of the coordinator's phase."""
        if not stage_may_follow(before, event, after):
            raise Violation(f"coordinator is led from {before.name} to {after.name} by {type(event).__name__}")

    def _entry(self, closed: RoundClosed) -> None:
        last = self.closed[-1] if self.closed else None
        if closed.entry != (last.entry + 1 if last else 1):
            raise Violation(f"ledger entry {closed.entry} follows {last.entry if last else 0}")
        if last and (closed.round, closed.epoch) < (last.round + bool(last.records), last.epoch):
            raise Violation(f"round {closed.round} of epoch {closed.epoch} follows round {last.round}")
        self.closed.append(closed)
        self._measured(closed)
        for accepted in closed.accepted:
            self._accepted(closed, accepted)

    def _measured(self, closed: RoundClosed) -> None:
        """Check that what an entry tells of single clients adds up to what it tells of all."""
        told, served = [one.measured for one in closed.accepted if one.measured is not None], closed.served
        all_ = (served.correct or served.absolute_error, served.no_change)
        sums = [math.fsum(numbers) for numbers in zip(*told, strict=True)]
        if told and not all(math.isclose(one, other, rel_tol=1e-5) for one, other in zip(sums, all_, strict=True)):
            raise Violation(f"entry {closed.entry} tells {all_} of all clients, and {tuple(sums)} of the single ones")

    def _accepted(self, closed: RoundClosed, accepted: Accepted) -> None:
        if accepted.client not in self.liars:
            self._true(closed, accepted)
        for span in accepted.spans:
            place = (accepted.client, span.partition)
            if span.start != self.positions.get(place, 0):
                raise Violation(f"{span} accepted, but the ledger stands at {self.positions.get(place, 0)}")
            self.positions[place] = span.end
        self.accepted[accepted.client] = self.accepted.get(accepted.client, 0) + accepted.records
        self.rejected[accepted.client] = self.rejected.get(accepted.client, 0) + accepted.rejected
        made = self.made.get((accepted.client, accepted.attempt), {})
        self._learn(accepted.client, made)
        if accepted.client in self.delayed:
            self.delayed[accepted.client].enter(closed.entry, accepted, made)

    def _true(self, closed: RoundClosed, accepted: Accepted) -> None:
        """Check that an honest client sent an update for the entry that accepts it."""
        update = self.sent.get((accepted.client, accepted.attempt))
        if update is None:
            raise Violation(f"entry {closed.entry} accepts an update that {accepted.client} never sent")
        if (update.entry, update.round, update.epoch) != (closed.entry, closed.round, closed.epoch):
            raise Violation(f"entry {closed.entry} accepts an update made for entry {update.entry}")

    def refuses(self, refused: Refused) -> None:
        """Fail if an honest client's message was refused for its content."""
        self.refusals[refused.reason] += 1
        if refused.is_fault and refused.client not in self.liars and not self.misled:
            raise Violation(f"a message of {refused.client}, which is honest, was refused: {refused.reason}")

    def _learn(self, client: str, pairs: Mapping[int, int]) -> None:
        """Check that the records of an update were answered before, and that none is learnt twice."""
        learnt = self.learnt.setdefault(client, {})
        twice = set(pairs.values()).intersection(learnt.values())
        if twice or len(set(pairs.values())) < len(pairs):
            raise Violation(f"{client} learns records twice, whose features are at {sorted(twice)}")
        if not self.answered.get(client, set()).issuperset(pairs.values()):
            raise Violation(f"{client} learns records that it has not answered")
        learnt.update(pairs)

    def _restart(self, restarted: Restarted) -> None:
        last = self.restarts[-1].epoch if self.restarts else 1
        if restarted.epoch != last + 1:
            raise Violation(f"epoch {restarted.epoch} follows epoch {last}")
        self.restarts.append(restarted)

    def _finding(self, finding: Finding) -> None:
        """Check the positions that an announcement tells: those of the ledger, from a round on."""
        found: dict[str, list[int]] = {}
        for closed in (entry for entry in self.closed if entry.round >= finding.known_since):
            for accepted in closed.accepted:
                if isinstance(finding, LocalDrift) and accepted.client not in finding.clients:
                    continue
                for span in accepted.spans:
                    found.setdefault(span.partition, []).extend((span.start, span.end))
        for partition, told in finding.positions.items():
            places = found.get(partition, [])
            if not places or told != (min(places), max(places)):
                raise Violation(
                    f"positions {told} of {partition} since round {finding.known_since}: not the ledger's"
                )


def summary(message: FromClient | FromCoordinator) -> str:
    """Return one line about a message, without its arrays."""
    fields = {name: value for name in SHOWN if (value := getattr(message, name, None)) is not None}
    spans = "".join(f" [{s.start},{s.end})" for s in message.spans) if isinstance(message, Update) else ""
    accepts = " accepts " + " ".join(a.attempt for a in message.accepted) if isinstance(message, RoundClosed) else ""
    return f"{type(message).__name__} " + " ".join(f"{k}={v}" for k, v in fields.items()) + spans + accepts
