"""What the coordinator knows and no Commit saves: messages of the open round, and clients that wait to join.

After a kill it is lost: the round is opened again, and clients send their messages again.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from streamfl.bounds import bounded
from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.evidence import LiveModel
from streamfl.learning.profiles.base import Answer, Deliberation
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.round.deadline import Deadline
from streamfl.machines.coordinator.round.open_round import OpenRound
from streamfl.machines.coordinator.round.refusals import Refusals
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import Refused
from streamfl.protocol.events import Ordered
from streamfl.protocol.messages import (
    Join,
    Leave,
    ModelPublished,
    Refusal,
    Score,
    Scores,
    Unmask,
    Unmasked,
    Update,
)


@dataclass(frozen=True)
class PendingAlarm:
    """The alarm of a closing round, while candidates are scored; `answers` are those of earlier stages."""

    closing: Closing
    deliberation: Deliberation
    asked: Score
    models: tuple[ModelPublished, ...]
    live: tuple[LiveModel, ...]
    since: float
    answers: tuple[Answer, ...] = ()

    def is_answered_by(self, scores: Scores) -> bool:
        """Tell whether scores answer the newest Score."""
        asked = self.asked
        return (scores.entry, scores.resumed, scores.stage) == (asked.entry, asked.resumed, asked.stage)


@dataclass(frozen=True)
class Enquiry:
    """What a kind of round asks clients before it can use what they have sent."""

    asked: Unmask  # the enquiry, as it is published
    since: float = 0.0  # when it was asked, in seconds
    closing: Closing | None = None  # the round whose updates it is about; None if it is about scores
    answers: dict[str, Unmasked] = field(default_factory=dict)  # the answers so far, by client

    @property
    def missing_clients(self) -> set[str]:
        """Return the clients that have not answered."""
        return set(self.asked.attempts) - self.answers.keys()


@dataclass
class Unsaved:
    """What the coordinator knows and no Commit saves."""

    # The open round; None before the federation begins, or before a saved one is started.
    open: OpenRound | None = None
    updates: dict[str, Update] = field(default_factory=dict)  # the accepted updates, by client
    # By partition, the identities of the logs that they are about, where they are known.
    logs: dict[str, str] = field(default_factory=dict)
    # By client, how many of its names had to wait in the round that closed last.
    waiting: Mapping[str, int] = field(default_factory=dict)
    pending_alarm: PendingAlarm | None = None  # the alarm that waits for scores; None if there is none
    scores: dict[str, Scores] = field(default_factory=dict)  # the scores for it, by client
    # The enquiry that clients have to answer before the round can continue; None if there is none.
    enquiry: Enquiry | None = None
    deadline: Deadline = field(default_factory=Deadline)  # how long the open round waits for updates
    # The open round, and when it was opened for the first time since the coordinator started.
    begun: tuple[int, float] = (0, 0.0)
    # The Joins of clients that wait for the federation to begin, by client.
    introductions: dict[str, Join] = field(default_factory=dict)
    introduced: int = 0  # about how many bytes these take: to weigh all for each of them would take long
    # Changes of membership that wait for the alarm, by client.
    deferred: dict[str, Join | Leave] = field(default_factory=dict)
    ordered: Ordered | None = None  # the operator's command that waits for the alarm
    refusals: Refusals = field(default_factory=Refusals)  # the refusals since the entry was opened
    # Copies of the accounts of members that have changed since the last Commit.
    members: dict[str, Member] = field(default_factory=dict)
    # How many messages were refused for their content since the federation began, and how many of these are saved.
    refused: int = 0
    saved: int = 0

    def copy(self) -> "Unsaved":
        """Return an independent copy."""
        return replace(
            self,
            updates=dict(self.updates),
            logs=dict(self.logs),
            scores=dict(self.scores),
            enquiry=None if self.enquiry is None else replace(self.enquiry, answers=dict(self.enquiry.answers)),
            introductions=dict(self.introductions),
            deferred=dict(self.deferred),
            refusals=copy(self.refusals),
            members=dict(self.members),
        )

    def collect_for(self, opened: OpenRound) -> None:
        """Start collecting for a new round."""
        self.open, self.updates, self.logs, self.enquiry = opened, {}, {}, None
        if self.begun[0] != opened.message.round:
            self.begun = opened.message.round, opened.since
        self.refusals = self.refusals.for_next_entry()

    def pass_deadline(self) -> None:
        """Note that the deadline closes the open round."""
        self.deadline = replace(self.deadline, has_passed=True)

    def end_deadline(self, least: float) -> None:
        """Begin the deadline of the next round: how long it is depends on when the updates of this one came."""
        took = self.deadline.came - self.open_round.waited_from
        self.deadline = self.deadline.next(in_time=len(self.updates), took=took, least=least)

    def restart_deadline(self, now: float) -> None:
        """Let the deadline of the open round begin again."""
        self.open = replace(self.open_round, since=now)

    def introduce(self, join: Join) -> None:
        """Keep a Join until the federation begins, in place of an earlier one of the client."""
        self.withdraw(join.client)
        self.introductions[join.client] = join
        self.introduced += join.memory

    def withdraw(self, client: str) -> None:
        """Forget the Join of a client that waits for the federation to begin, if there is one."""
        join = self.introductions.pop(client, None)
        self.introduced -= 0 if join is None else join.memory

    def collect(self, update: Update, logs: Mapping[str, str], now: float) -> None:
        """Keep an accepted update; `logs` are the identities of the logs that it is about, where they are known."""
        self.updates[update.client] = update
        self.deadline = replace(self.deadline, came=now)
        self.logs |= logs
        self.refusals.at_fault.pop(update.client, None)

    def collect_scores(self, scores: Scores) -> None:
        """Keep accepted scores, of granted names only."""
        if self.pending_alarm is not None:
            grant = self.pending_alarm.closing.grant
            self.scores[scores.client] = grant.scores(scores, self.updates[scores.client])

    def collect_answer(self, answer: Unmasked) -> None:
        """Keep an accepted answer to the enquiry."""
        if self.enquiry is not None:
            self.enquiry.answers[answer.client] = answer

    @property
    def changes_wait(self) -> bool:
        """Tell whether changes of membership, or a command, wait for the alarm."""
        return bool(self.deferred) or self.ordered is not None

    def take_changes(self) -> list[Join | Leave | Ordered]:
        """Take the changes that waited for the alarm, in the order of the clients' names; the command comes last."""
        waiting = [self.deferred[client] for client in sorted(self.deferred)]
        ordered = [] if self.ordered is None else [self.ordered]
        self.deferred, self.ordered = {}, None
        return [*waiting, *ordered]

    def without_changes(self) -> "Unsaved":
        """Return a copy without the changes that wait for the alarm."""
        return replace(self.copy(), deferred={}, ordered=None)

    @property
    def open_round(self) -> OpenRound:
        """Return the open round.

        Raises
        ------
        BrokenInvariantError
            None is open.
        """
        if self.open is None:
            raise BrokenInvariantError("the open round is asked for, but none is open")
        return self.open

    def blame(self, state: CoordinatorState, client: str, incarnation: int | None, reason: str) -> Refused:
        """Refuse a message for its content; it counts against the member whose incarnation sent it.

        If that is not known the refusal is not announced: any writer may have sent the message.
        """
        reason = bounded(reason)
        self.refused += 1
        state.refused = self.refused
        self.refusals.count += 1
        refusal = Refusal(client=client, incarnation=incarnation or 0, entry=state.entry, reason=reason)
        member = state.members.get(client)
        if member is not None and not member.left and incarnation and incarnation == member.incarnation:
            self.refusals.blame(refusal)
        elif incarnation is not None:
            self.refusals.warn(refusal, state.members)
        return Refused(bounded(client), reason, is_fault=True)
