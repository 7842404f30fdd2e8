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
    # How many times a restarted coordinator has opened the entry again, as far as known. The last start asks.
    resumed: int = 0

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
    score: Score | None = None  # the newest Score, which is of the last start of the coordinator that is known
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
        """Tell whether a Score is about the update in flight, and no newer one is known."""
        return self.is_for(score.entry) and (score.resumed, score.stage) >= self._newest

    @property
    def _newest(self) -> tuple[int, int]:
        """Return the last start that is known, and the stage of its newest Score; 0 before the first."""
        return (0 if self.sent is None else self.sent.resumed, 0 if self.score is None else self.score.stage)

    def ask(self, score: Score) -> None:
        """Keep a Score about the update if it is newer: of a later stage, or of a start whose opening was missed."""
        if self.sent is not None and self.is_for(score.entry) and (score.resumed, score.stage) > self._newest:
            self.score, self.sent = score, replace(self.sent, scores=None, resumed=score.resumed)

    def turn_to(self, opened: RoundOpened | None) -> None:
        """Note that another round is open, or the same one with other models."""
        self.score = None
        if opened is not None and opened.entry == self.refused:
            self.sent = None  # it was made from another opening's models

    def resume(self, opened: RoundOpened) -> list[Update]:
        """Return the update again for a later start of the coordinator, which lost it and asks from stage 1 on."""
        if self.sent is None or not self.is_for(opened.entry) or opened.resumed <= self.sent.resumed:
            return []
        self.score, self.sent = None, replace(self.sent, scores=None, resumed=opened.resumed)
        return [self.sent.update]

    def join(self, joined: Joined, *, moved: bool) -> list[Update | Scores]:
        """Follow Joined, by which the client's place has `moved` or not; return the messages to send again."""
        if moved or not self.is_for(joined.entry):
            self.sent = None
        if self.sent is not None and self.sent.resumed != joined.resumed:  # what it has asked before counts no more
            self.sent = replace(self.sent, scores=None, resumed=joined.resumed)
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
