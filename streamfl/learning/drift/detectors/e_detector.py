"""The e-detector: evidence against a bound on the mean loss, with a run length that needs no assumptions."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamfl.errors import UsageError
from streamfl.learning.drift.detector import ScoreDetector
from streamfl.protocol.alarm import Alarm, Reading

# Stakes on a loss above the bound; below 1, so that a single loss of 0 cannot erase the evidence.
# docs/choices.md, "Other detectors".
STAKES = (0.1, 0.2, 0.4, 0.8)


@dataclass
class EProcessDetector(ScoreDetector):
    """Alarms when bets that losses exceed a bound m would have paid off, begun in whichever round was best.

    Input: the pooled loss of each round, in [0, 1]. Guarantee: as long as E[loss | past] <= m, the mean number of
    rounds to an alarm is at least `run_length`, whatever the losses' distribution and dependence; exact only if m is
    given. Cost: O(1) a round.

    For every stake, M <- (M + 1)(1 + stake (loss / m - 1)), a Shiryaev-Roberts sum of bets with mean at most 1. The
    statistic is ln of the mean M over the stakes, the threshold ln(run_length). The price of the guarantee is that
    the losses' variance is not used: finding a rise by a tenth of m takes tens of rounds.

    Raises
    ------
    UsageError
        The bound is not positive.

    References
    ----------
    Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", 2024.

    Examples
    --------
    >>> detector = EProcessDetector(bound=0.2)
    >>> alarms = [detector.take(t, 0.2 if t <= 40 else 0.6, records=1000) for t in range(1, 45)]
    >>> alarms[:43] == 43 * [None], alarms[43]
    (True, Alarm(cause='e-detector', statistic=6.4..., threshold=6.2..., since=41, ...))
    """

    run_length: float = 500.0  # 1 / alpha

    # m, a bound on the mean loss without drift. None learns it: the least mean of `shortest` successive rounds since
    # the last reset, plus `margin`. Nothing is tested before. So m follows a model that improves, and never rises.
    # The guarantee is then approximate: the least of many means lies below the true mean, which the margin must make
    # up for.
    bound: float | None = None
    margin: float = 0.03  # a rise of the mean loss that is too small to matter
    shortest: int = 8  # the number of rounds over which m is learnt
    kind: Literal["e-detector"] = "e-detector"
    recent: list[float] = field(default_factory=list)
    least: float | None = None
    evidence: list[float] = field(default_factory=lambda: len(STAKES) * [0.0])
    excess: float = 0.0
    since: int | None = None
    reading: Reading | None = None

    def __post_init__(self) -> None:
        """Check the bound."""
        if self.bound is not None and self.bound <= 0.0:
            raise UsageError(f"e-detector: the bound {self.bound} is not positive; give one above 0, or none")

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""
        m = self._mean_without_drift()
        self._learn(loss)
        if m is None:
            self.reading = None
            return None
        self._date(t, loss - m)
        # The evidence is kept as ln(1 + M): it is 0 before the first bet, and M may overflow.
        bets = [a + math.log1p(stake * (loss / m - 1.0)) for a, stake in zip(self.evidence, STAKES, strict=True)]
        self.evidence = [float(np.logaddexp(0.0, bet)) for bet in bets]
        self.reading = Reading(
            float(np.logaddexp.reduce(bets)) - math.log(len(STAKES)),
            math.log(self.run_length),
        )
        if self.reading.statistic < self.reading.threshold:
            return None
        return Alarm("e-detector", self.reading.statistic, self.reading.threshold, since=self.since or t)

    def reset(self, *, filled: bool = False) -> None:
        """Forget every loss, after a restart."""
        self.recent, self.least = [], None
        self.evidence = len(STAKES) * [0.0]
        self.excess, self.since, self.reading = 0.0, None, None

    def _mean_without_drift(self) -> float | None:
        """Return m as learnt from earlier rounds, so that a bet never depends on the loss it is about."""
        if self.bound is not None:
            return self.bound
        return None if self.least is None else self.least + self.margin

    def _learn(self, loss: float) -> None:
        self.recent = [*self.recent, loss][-self.shortest :]
        if len(self.recent) == self.shortest:
            mean = math.fsum(self.recent) / self.shortest
            self.least = mean if self.least is None else min(self.least, mean)

    def _date(self, t: int, over: float) -> None:
        """Date the change: the first round since which the sum of loss - m has stayed above 0."""
        if self.excess <= 0.0:
            self.excess, self.since = 0.0, t
        self.excess += over
