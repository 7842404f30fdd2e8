"""The update that a client has sent for the next ledger entry, and the Score about it, until the entry closes."""

from dataclasses import dataclass, replace

from streamfl.arrays import FloatArray
from streamfl.machines.client.work.comparison import Comparison
from streamfl.protocol.messages import (
    Accepted,
    Disclosed,
    Joined,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Update,
)
from streamfl.protocol.records import Batch


@dataclass(frozen=True)
class SentUpdate:
    """An update that was sent and is not yet in the ledger, with the records it was made from.

    The design matrix is not kept: it is ten times the size of everything else, and rarely needed again.
    """

    update: Update  # the message
    batches: tuple[Batch, ...]  # the round's records
    kept: tuple[Batch, ...]  # the records that join the history sample once the update is accepted
    comparison: Comparison  # the held-out records after the round
    # Indices into `labels`, or targets in their original unit, shape (n,).
    truth: FloatArray
    labels: tuple[str, ...]
    scores: Scores | None = None  # the answer to Score, if one was sent
    # The pending records over which a total was already disclosed when the update was made.
    disclosed: Disclosed | None = None

    def is_accepted_by(self, accepted: Accepted, closed: RoundClosed) -> bool:
        """Tell whether a ledger entry accepts this update, and not another one under the client's name."""
        update = self.update
        sent = (update.attempt, update.spans, update.records, update.rejected, update.watermark)
        entered = (accepted.attempt, accepted.spans, accepted.records, accepted.rejected, accepted.watermark)
        return sent == entered and closed.records >= accepted.records


@dataclass
class InFlight:
    """The update in flight, if there is one."""

    sent: SentUpdate | None = None  # the update, with the answer to Score
    score: Score | None = None  # the Score of the newest stage
    # The entry for which an update was refused, 0 for none. The client waits before it tries that entry again.
    refused: int = 0

    @property
    def is_to_score(self) -> bool:
        """Tell whether a Score has not been answered."""
        return self.score is not None and self.sent is not None and self.sent.scores is None

    def is_for(self, entry: int) -> bool:
        """Tell whether an update for an entry is in flight."""
        return self.sent is not None and self.sent.update.entry == entry

    def is_current(self, score: Score) -> bool:
        """Tell whether a Score is about the update in flight, and no later stage is known."""
        return self.is_for(score.entry) and (self.score is None or score.stage >= self.score.stage)

    def ask(self, score: Score) -> None:
        """Keep a Score about the update if its stage is newer."""
        is_newest = self.score is None or score.stage > self.score.stage
        if is_newest and self.sent is not None and self.is_for(score.entry):
            self.score, self.sent = score, replace(self.sent, scores=None)

    def turn_to(self, opened: RoundOpened | None) -> None:
        """Note that another round is open, or the same one with other models."""
        self.score = None
        if opened is not None and opened.entry == self.refused:
            self.sent = None  # it was made from another opening's models

    def resume(self, opened: RoundOpened) -> list[Update]:
        """Return the update again for a restarted coordinator, which lost it and asks for scores from stage 1 on."""
        if self.sent is None or not (opened.resumed and self.is_for(opened.entry)):
            return []
        self.score, self.sent = None, replace(self.sent, scores=None)
        return [self.sent.update]

    def join(self, joined: Joined, *, moved: bool) -> list[Update | Scores]:
        """Follow Joined, by which the client's place has `moved` or not; return the messages to send again."""
        if moved or not self.is_for(joined.entry):
            self.sent = None
        if self.sent is None or self.sent.scores is None:
            self.score = None  # an unanswered Score is published again
        if self.sent is None or self.refused == joined.entry:
            return []
        return [self.sent.update] if self.sent.scores is None else [self.sent.update, self.sent.scores]

    def refuse(self, entry: int) -> bool:
        """Note that the update for an entry was refused; return whether it is the one in flight."""
        if self.is_for(entry):
            self.refused = entry
        return self.is_for(entry)

    def forget(self) -> None:
        """Forget the update in flight."""
        self.sent = self.score = None
