"""What a client has sent for the next entry of the ledger, and what it is asked about it, until the entry closes."""

from dataclasses import dataclass, replace

from streamfl.core.arrays import FloatArray
from streamfl.core.client.comparison import Comparison
from streamfl.core.protocol.messages import Accepted, Joined, RoundClosed, RoundOpened, Score, Scores, Update
from streamfl.core.protocol.records import Batch


@dataclass(frozen=True)
class Sent:
    """An update that was sent and not yet closed, with what it was made from.

    The design matrix is not kept: it is ten times the size of everything else, and seldom needed again.

    Parameters
    ----------
    update
        The message.
    batches
        The round's records.
    kept
        Those of them that go to the history sample once they are accepted.
    comparison
        What is held back from then on.
    truth, labels
        Label indices of `labels`, or targets in their own unit, shape (n,).
    scores
        The answer to Score that was sent after it, if any was asked for.
    """

    update: Update
    batches: tuple[Batch, ...]
    kept: tuple[Batch, ...]
    comparison: Comparison
    truth: FloatArray
    labels: tuple[str, ...]
    scores: Scores | None = None

    def is_what(self, accepted: Accepted, closed: RoundClosed) -> bool:
        """Tell whether an entry of the ledger accepts this update, and not another in the client's name."""
        update = self.update
        said = (update.attempt, update.spans, update.records, update.rejected)
        told = (accepted.attempt, accepted.spans, accepted.records, accepted.rejected)
        return said == told and closed.records >= accepted.records


@dataclass
class InFlight:
    """The update in flight, if there is one.

    Parameters
    ----------
    sent
        The update, and the answer to Score.
    score
        The newest stage of what is asked.
    refused
        The entry for which an update was refused, 0 for none: that entry is tried again only after a while.
    """

    sent: Sent | None = None
    score: Score | None = None
    refused: int = 0

    @property
    def is_to_score(self) -> bool:
        """Tell whether Score waits for an answer."""
        return self.score is not None and self.sent is not None and self.sent.scores is None

    def is_for(self, entry: int) -> bool:
        """Tell whether an update for an entry is in flight."""
        return self.sent is not None and self.sent.update.entry == entry

    def ask(self, score: Score) -> None:
        """Take the newest stage of what is asked about the update."""
        is_newest = self.score is None or score.stage > self.score.stage
        if is_newest and self.sent is not None and self.is_for(score.entry):
            self.score, self.sent = score, replace(self.sent, scores=None)

    def turn_to(self, opened: RoundOpened | None) -> None:
        """Take note that another round is open than was known, or the same one with other models."""
        self.score = None
        if opened is not None and opened.entry == self.refused:
            self.sent = None  # it was made from what another opening named

    def resume(self, opened: RoundOpened) -> list[Update]:
        """Return what a coordinator that was started again has lost: it asks for scores from stage 1 on."""
        if self.sent is None or not (opened.resumed and self.is_for(opened.entry)):
            return []
        self.score, self.sent = None, replace(self.sent, scores=None)
        return [self.sent.update]

    def join(self, joined: Joined, *, moved: bool) -> list[Update | Scores]:
        """Take the ledger's word, by which the client has `moved` or not; return what is to be sent again."""
        if moved or not self.is_for(joined.entry):
            self.sent = None
        if self.sent is None or self.sent.scores is None:
            self.score = None  # what could not be answered is told again
        if self.sent is None or self.refused == joined.entry:
            return []
        return [self.sent.update] if self.sent.scores is None else [self.sent.update, self.sent.scores]

    def refuse(self, entry: int) -> bool:
        """Note that the update for an entry was refused; tell whether it is the one in flight."""
        if self.is_for(entry):
            self.refused = entry
        return self.is_for(entry)

    def forget(self) -> None:
        """Forget what is in flight."""
        self.sent = self.score = None
