"""A generalised likelihood ratio (GLR) test for a rise of the mean loss."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detector import ScoreDetector
from streamfl.protocol.alarm import Alarm, Reading

# The standard deviation of a normal variable over its median absolute value. docs/choices.md, "Other detectors".
NORMAL = 1.4826


@dataclass
class GLRDetector(ScoreDetector):
    """Alarms when, at the best split of a window, the later losses lie above the earlier ones.

    Input: the pooled loss of each round, in [0, 1]. Guarantee: none proven; a heuristic with a measured run length.
    Cost: O(window) a round.

    With n losses in the window and a split after s of them,
    G = max over s of s (n - s) / n (max(0, mean2 - mean1 - margin))^2 / (2 sigma^2). It alarms if
    G >= (1 + 1/n) ln(2 n sqrt(n + 2) run_length).
    sigma^2 = max((1.4826 median |first differences|)^2 / 2, 1 / (4 records a round)).

    References
    ----------
    Besson, Kaufmann, Maillard and Seznec, "Efficient change-point detection for tackling piecewise-stationary
    bandits", 2022, for the threshold's form; Lai and Xing 2010 for the GLR with a margin.

    Examples
    --------
    >>> glr = GLRDetector()
    >>> for t in range(1, 11):
    ...     assert glr.take(t, 0.2, records=1000) is None
    >>> glr.take(11, 0.32, records=1000)
    Alarm(cause='glr', statistic=14.7..., threshold=11.5..., since=11, ...)
    """

    run_length: float = 500.0  # the run length to a false alarm that the threshold aims at, in rounds
    margin: float = 0.03  # a rise of the mean loss that is too small to matter
    window: int = 200  # the largest number of rounds kept
    shortest: int = 8  # the least number of rounds before a test
    losses: list[float] = field(default_factory=list)
    kind: Literal["glr"] = "glr"
    reading: Reading | None = None

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""
        # A score in [0, 1] has a variance of at most 1/4.
        return self.test(t, loss, 1.0 / (4.0 * max(1, records)))

    def test(self, t: int, loss: float, variance: float) -> Alarm | None:
        """Take the loss of round t with a known variance, and return an alarm if there is one.

        Parameters
        ----------
        variance
            A lower bound on sigma^2: the variance of the mean over the round's records.
        """
        self.losses = [*self.losses, loss][-self.window :]
        n = len(self.losses)
        if n < self.shortest:
            self.reading = None
            return None
        gains = _gains(np.array(self.losses), self.margin)
        split = int(gains.argmax())
        statistic = float(gains[split]) / (2.0 * max(self._variance(), variance))
        threshold = (1.0 + 1.0 / n) * math.log(2.0 * n * math.sqrt(n + 2.0) * self.run_length)
        self.reading = Reading(statistic, threshold)
        if statistic < threshold:
            return None
        return Alarm("glr", statistic, threshold, since=t - n + split + 2)

    def reset(self, *, filled: bool = False) -> None:
        """Forget every loss, after a restart."""
        self.losses = []
        self.reading = None

    def _variance(self) -> float:
        """Return the variance of a round's loss around a mean that seldom changes."""
        steps = np.sort(np.abs(np.diff(self.losses)))
        # Takes less than half of np.median's time; the class mix runs two such tests a label and round.
        median = float(steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2.0
        return (NORMAL * median) ** 2 / 2.0


def _gains(losses: FloatArray, margin: float) -> FloatArray:
    """Return s (n - s) / n (max(0, mean2 - mean1 - margin))^2 for the splits s = 1 .. n - 1."""
    n = len(losses)
    s = np.arange(1, n)
    before = np.cumsum(losses)[:-1]
    rise = (losses.sum() - before) / (n - s) - before / s - margin
    gains: FloatArray = s * (n - s) / n * np.maximum(rise, 0.0) ** 2
    return gains
