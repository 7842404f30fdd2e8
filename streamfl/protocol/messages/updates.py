"""What a client tells about the records of a round."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.protocol.digits import significant
from streamfl.protocol.external.state import ExternalLearnt
from streamfl.protocol.messages.base import FieldGroup, Message
from streamfl.protocol.messages.decision_rule import Tried
from streamfl.protocol.messages.ledger import HeldRecord, SampledRound, Watermark
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.records import Span
from streamfl.protocol.registry import TargetUnit

Learnt = NativeLearnt | ExternalLearnt


@dataclass(frozen=True, kw_only=True)
class SlotLosses:
    """A client's scores of one model, as sums over its records, so that totals are exact for any split."""

    # The sums of the scores and of their squares.
    loss: float
    square: float
    proper: float  # the sum of the proper scores
    history: float = 0.0  # the sum over the sampled rounds of share x mean score
    history_share: float = 0.0  # the sum of those shares
    history_records: int = 0  # the records behind `history`


@dataclass(frozen=True, kw_only=True)
class LabelSums:
    """The sums of one model's scores over the records of one label."""

    label: str
    count: int  # the records
    # The sums of their scores and of the squares of these.
    loss: float
    square: float


@dataclass(frozen=True, kw_only=True)
class Served:
    """How right the predictions were that a client served, each made just before its record was learnt."""

    records: int = 0  # the predictions counted
    correct: int = 0  # classification: those that were right
    # Classification: those made before there was any model, and so wrong; 15 bytes of an entry.
    unanswered: int = 0
    absolute_error: float = 0.0  # regression: the sum of |prediction - target|, in the unit of the records
    # The same for the baseline that repeats the truth of the record before: a count, or a sum of errors.
    no_change: float = 0.0
    # By the name of each expert, its part in the predictions, in [0, 1], times the records.
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def beside_no_change(self) -> tuple[float, float] | None:
        """Return how many were right and how many of NoChange, or both sums of errors; None without predictions.

        >>> Served(records=4, correct=3, no_change=1.0).beside_no_change
        (3.0, 1.0)
        >>> Served(records=4, absolute_error=2 / 3, no_change=5.5).beside_no_change, Served().beside_no_change
        ((0.666667, 5.5), None)
        """
        if not self.records:
            return None
        return significant(self.correct or self.absolute_error), significant(self.no_change)


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(FieldGroup):
    """What an update says about its records in numbers; where clients send sums, it has these in place of them.

    >>> Numbers().are_none, Numbers(squared_norm=2.0).are_none
    (True, False)
    """

    losses: Mapping[str, SlotLosses] = field(default_factory=dict)  # by slot, the scores before training

    # By trained slot, the weights after the local step minus those before it, in the space in which the base
    # algorithm averages; of a whitened slot, the sum of gradients, see `Slot.whitened`. Shape (d + 1, columns).
    # Labels in `Update.new_labels` have columns after the registered ones.
    differences: Mapping[str, FloatArray] = field(default_factory=dict)

    # The scores by label: on this round's records of the model that the round tests, which is the one that serves the
    # client unless `RoundOpened.tested` names another; and on the holdout of earlier rounds of the one that serves
    # it.
    new: tuple[LabelSums, ...] = ()
    old: tuple[LabelSums, ...] = ()

    # Of the registered features and those in `Update.new_features`, in this order and without their names, if
    # `MomentsAsked.moments` and it is the client's turn, or if there are new ones.
    moments: Moments | None = None

    # If labels come later: likewise, of the registered features of the records that have come since the last update,
    # whatever their labels; not if these are fewer than `min_records`.
    arrived: Moments | None = None

    # The sum over records of z z^T, shape (d + 1, d + 1), if `MomentsAsked.second_moments` and it is the client's
    # turn; on the grid of the round.
    second_moments: FloatArray | None = None
    # The sum over records of |z|^2, and the largest |z|.
    squared_norm: float = 0.0
    largest_norm: float = 0.0
    target: TargetUnit = TargetUnit()  # regression: the location and scale of its targets
    served: Served = Served()  # how right its predictions were
    tried: tuple[Tried, ...] = ()  # what the powers of `DecisionRule.tried` would have answered
    learnt: Learnt | None = None  # what its records did to the online models, if `RoundOpened.online`

    # When the first and the last good record were measured, as read, the earlier time first: milliseconds since 1970,
    # whole numbers; None if no record has a time. For people: see `Finding.times`.
    times: tuple[int, int] | None = None

    @property
    def are_none(self) -> bool:
        """Tell whether they say nothing of any record."""
        lists = any(map(len, (self.losses, self.differences, self.new, self.old, self.tried)))
        parts = (self.moments, self.arrived, self.second_moments, self.learnt, self.times)
        norms = self.squared_norm == self.largest_norm == 0.0
        says_more = lists or any(part is not None for part in parts)
        return norms and self.target == TargetUnit() and self.served == Served() and not says_more


@dataclass(frozen=True, kw_only=True)
class KeptRecords(FieldGroup):
    """Which records of a round its client keeps for later rounds, and which it no longer does."""

    sample: SampledRound | None = None  # the records that it keeps for the history sample, if any
    held: tuple[HeldRecord, ...] = ()  # records that enter the holdout
    let_go: tuple[int, ...] = ()  # the ordinals of records that leave the holdout


@dataclass(frozen=True, kw_only=True, eq=False)
class Update(Message):
    """Client: its part of a round. Sent once a round, when its buffer closes; again if it did not count.

    At most one update a client counts for an entry; `RoundClosed` says which. docs/trust.md says what its numbers
    reveal of records. An update with `records` 0 has only `spans` and `rejected`.
    """

    client: str
    attempt: str  # the incarnation and a counter: it tells this update from any other for the same round
    # As in the `RoundOpened` that it answers:
    entry: int
    round: int
    epoch: int
    registry: int
    records: int  # the good records
    trained: int  # the records that the differences were trained on: all but those held out; 0 without differences
    rejected: int  # the bad records
    spans: tuple[Span, ...]  # the positions that good and bad records cover, one span a partition
    numbers: Numbers = Numbers()  # what the records show, each client's own; none of them if `TotalsAsked.pooled`
    new_labels: tuple[str, ...] = ()  # labels of its records that are not registered yet
    # Features of its records that are not registered yet; they are not used before they are.
    new_features: tuple[str, ...] = ()
    kept: KeptRecords = KeptRecords()  # the records that it keeps for later rounds
    watermark: Watermark | None = None  # how far it has come in the features, if labels come later
    period: int | None = None  # with rounds by event time, the period of its next record, if that is known

    # If `TotalsAsked.pooled`, all numbers about the records: whole numbers of 64 bits, in base64; see
    # `streamfl.learning.pooling`. They are masked if there is a roster.
    sums: str = ""

    @property
    def reached(self) -> dict[str, int]:
        """Return how far it goes in each partition, that of a watermark included."""
        reached = {span.partition: span.end for span in self.spans}
        return reached if self.watermark is None else {**reached, self.watermark.partition: self.watermark.features}
