"""What one entry of the ledger says about its round: the one form that every view reads.

The result, its report, `watch`, the page, logs, metrics, traces and estimators show a round from here. A field that
is declared with `remark` needs no line in any of them: see there.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import Accepted, RoundClosed, Served

# The key of a field's words.
WORDS = "words"

# The counts of a watermark that are of its round alone.
LATE = ("expired", "unmatched", "repeated", "unusable")


def remark(words: str) -> Any:
    """Declare a count, 0 by default, that is shown with these words wherever it is not 0.

    `watch` and the ledger of the page show it. A count of `RoundLine` is also a key of the result's `per_round`.
    """
    return field(default=0, metadata={WORDS: words})


@dataclass(frozen=True, kw_only=True)
class RoundLine:
    """A round with records, as a line of the result: what is drawn, and what `--per-round` writes."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid"}

    round: int
    epoch: int
    block: int
    records: int  # the good records of all updates that count
    loss: float  # the mean score of the serving model before training, in [0, 1]; NaN if the entry does not tell
    # Classification: the share of the served predictions that were right; None without predictions.
    accuracy: float | None = None
    mae: float | None = None  # regression: their mean absolute error, in the unit of the targets
    no_change: float | None = None  # the same as `accuracy` or `mae` of NoChange
    time: str | None = None  # the time of its last record, as ISO 8601 in UTC, if a replayed file has times


@dataclass(frozen=True, kw_only=True)
class RoundSummary(RoundLine):
    """What an entry of the ledger says about its round. An entry with `records` 0 only moves positions.

    Examples
    --------
    >>> summary = RoundSummary.of(
    ...     RoundClosed(
    ...         entry=8, round=7, epoch=1, block=1, accepted=(), records=40, trained=36, rejected=3,
    ...         losses={"rung-1": 0.25}, serves="rung-1", readings={}, model="9f", registry=1, refused=3, late=2,
    ...         served=Served(records=40, correct=30, no_change=16.0, shares={"fern": 10.0}),
    ...     )
    ... )
    >>> summary.loss, summary.accuracy, summary.mae, summary.no_change, summary.shares
    (0.25, 0.75, None, 0.4, {'fern': 0.25})
    >>> summary.remarks()
    {'rejected': '3 rejected', 'refused': '1 refused', 'late': '2 too late'}
    >>> summary.line
    RoundLine(round=7, epoch=1, block=1, records=40, loss=0.25, accuracy=0.75, mae=None, no_change=0.4, time=None)
    """

    entry: int
    clients: int
    accepted: tuple[Accepted, ...]
    trained: int  # the records that models of rounds were trained on: all but those held out
    rejected: int = remark("rejected")
    unanswered: int = remark("not yet predicted by any model")  # they count as wrong
    # If labels come later: records without a label, and labels that are no use; see `Watermark`.
    expired: int = remark("expired")
    unmatched: int = remark("unmatched")
    repeated: int = remark("repeated")
    unusable: int = remark("unusable")
    refused: int = remark("refused")  # messages
    late: int = remark("too late")  # messages, which are sent again
    unlearnt: int  # the records that an external model could not learn
    awaits_labels: bool = False  # whether labels come later than their records
    # The sums behind `accuracy`, `mae` and `no_change`, and the part of each expert in the predictions.
    served: Served
    serves: str  # the slot of the model that served
    promotions: int  # how often so far a live model has become the incumbent
    model: str  # the SHA-256 of the model that serves next, in hexadecimal digits
    readings: Mapping[str, Reading]  # by detector, its statistic and threshold

    @classmethod
    def of(cls, closed: RoundClosed, *, targets: bool | None = None) -> "RoundSummary":
        """Return what an entry says, by any writer. Fields of the same name are copied.

        Parameters
        ----------
        targets
            Whether its predictions are of targets; None: they are if they have an error.
        """
        served = closed.served
        is_error = served.absolute_error != 0.0 if targets is None else targets
        good = _mean(served.absolute_error if is_error else served.correct, served.records)
        same: dict[str, Any] = {
            one.name: getattr(closed, one.name) for one in fields(cls) if hasattr(closed, one.name)
        }
        return cls(
            **same | late_labels(closed.accepted) | {"refused": closed.refused - closed.late},
            clients=len(closed.accepted),
            unanswered=served.unanswered,
            awaits_labels=any(one.watermark is not None for one in closed.accepted),
            loss=closed.losses.get(closed.serves, math.nan),
            accuracy=None if is_error else good,
            mae=good if is_error else None,
            no_change=_mean(served.no_change, served.records),
        )

    @property
    def line(self) -> RoundLine:
        """Return the line of the result, which holds no update."""
        return RoundLine(**{one.name: getattr(self, one.name) for one in fields(RoundLine)})

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of each expert in the predictions, in [0, 1]."""
        return {name: part / max(1, self.served.records) for name, part in self.served.shares.items()}

    def remarks(self) -> dict[str, str]:
        """Return each count that is not 0 with its words, by the name of its field."""
        counts = ((one.name, getattr(self, one.name), one.metadata[WORDS]) for one in fields(self) if one.metadata)
        return {name: f"{count:,} {words}" for name, count, words in counts if count}


def late_labels(accepted: Iterable[Accepted]) -> dict[str, int]:
    """Return the counts `LATE` of some updates; all 0 if labels do not come later."""
    watermarks = [one.watermark for one in accepted if one.watermark is not None]
    return {name: sum(getattr(watermark, name) for watermark in watermarks) for name in LATE}


def _mean(total: float, predictions: int) -> float | None:
    try:
        return total / predictions if predictions else None
    except OverflowError:  # a forged entry has any whole numbers
        return None
