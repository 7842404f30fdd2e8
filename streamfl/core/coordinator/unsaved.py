"""What the coordinator knows and no Commit saves: what the open round has collected, and who wants to join.

After a kill it is gone: the round is opened again, and clients send again what they sent.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from streamfl.core.bounds import bounded
from streamfl.core.coordinator.aggregate import Aggregation
from streamfl.core.coordinator.ledger import Member
from streamfl.core.coordinator.names import Grant
from streamfl.core.coordinator.open_round import OpenRound
from streamfl.core.coordinator.refusals import Refusals
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.drift.evidence import LiveModel, Observed
from streamfl.core.errors import BrokenInvariantError
from streamfl.core.profiles.base import Answer, Deliberation
from streamfl.core.protocol.alarm import Reading
from streamfl.core.protocol.decisions import Refused
from streamfl.core.protocol.messages import Join, Leave, ModelPublished, Refusal, Score, Scores, Update


@dataclass(frozen=True)
class Undecided:
    """A round whose alarm waits for candidates to be scored; `answers` are those of the stages before."""

    deliberation: Deliberation
    observed: Observed
    aggregation: Aggregation
    asked: Score
    models: tuple[ModelPublished, ...]
    live: tuple[LiveModel, ...]
    since: float
    answers: tuple[Answer, ...] = ()

    def is_answered_by(self, scores: Scores) -> bool:
        """Tell whether scores are of the newest question."""
        return (scores.entry, scores.stage) == (self.asked.entry, self.asked.stage)


@dataclass
class Unsaved:
    """What the coordinator knows and no Commit saves.

    Parameters
    ----------
    open
        The open round; None before the federation begins, or before a saved one is started.
    updates
        Those that count, by client.
    counted
        The same once the round closes, in the order of the clients' names, with granted names only.
    grant
        Which names the round may register; None before it closes.
    undecided
        The alarm that waits for scores, if one does.
    scores
        The answers to it, by client.
    introductions
        Who waits for the federation to begin, by client.
    deferred
        Changes of membership that wait for an alarm to be decided, by client.
    refusals
        What was refused since the entry was opened.
    readings
        Where the detectors stand after the round's updates.
    members
        Copies of the accounts of members that have changed since the last Commit.
    refused
        Messages refused for what they say since the federation began, and how many of them are saved.
    """

    open: OpenRound | None = None
    updates: dict[str, Update] = field(default_factory=dict)
    counted: tuple[Update, ...] = ()
    grant: Grant | None = None
    undecided: Undecided | None = None
    scores: dict[str, Scores] = field(default_factory=dict)
    introductions: dict[str, Join] = field(default_factory=dict)
    deferred: dict[str, Join | Leave] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    refused: int = 0
    saved: int = 0

    def copied(self) -> "Unsaved":
        """Return a copy that changes by itself."""
        return replace(
            self,
            updates=dict(self.updates),
            scores=dict(self.scores),
            introductions=dict(self.introductions),
            deferred=dict(self.deferred),
            refusals=copy(self.refusals),
            members=dict(self.members),
        )

    def following(self, opened: OpenRound) -> None:
        """Begin to collect for a round."""
        self.open, self.updates, self.counted, self.grant = opened, {}, (), None
        self.refusals, self.readings = self.refusals.following(), {}

    @property
    def opened(self) -> OpenRound:
        """Return the open round.

        Raises
        ------
        BrokenInvariantError
            None is open.
        """
        if self.open is None:
            raise BrokenInvariantError("there is something to do in the open round, but none is open")
        return self.open

    def blame(self, state: CoordinatorState, client: str, incarnation: str, reason: str) -> Refused:
        """Refuse a message for what it says; it is held against the member whose incarnation sent it.

        Without an incarnation it is not even announced: any writer may have sent it.
        """
        reason = bounded(reason)
        self.refused += 1
        state.refused = self.refused
        self.refusals.count += 1
        refusal = Refusal(client=client, incarnation=incarnation, entry=state.entry, reason=reason)
        member = state.members.get(client)
        if member is not None and not member.left and incarnation == member.incarnation:
            self.refusals.blame(refusal)
        elif incarnation:
            self.refusals.warn(refusal, state.members)
        return Refused(bounded(client), reason, is_fault=True)
