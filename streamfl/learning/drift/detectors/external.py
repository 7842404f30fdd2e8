"""A drift detector of another library, applied to the pooled loss of each round."""

import abc
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from streamfl.learning.drift.detector import ScoreDetector
from streamfl.protocol.alarm import Alarm, Reading

# Losses kept since a reset. docs/choices.md, "Bounds and rounding".
MOST = 4096


class LibraryDetector(Protocol):
    """The interface of another library's detector."""

    def update(self, x: float) -> None:
        """Take a number."""
        ...

    @property
    def drift_detected(self) -> bool:
        """Return whether the last number raised an alarm."""
        ...


@dataclass
class ExternalDetector(ScoreDetector):
    """Alarms when the external detector does and the mean loss rose.

    Input: the pooled loss of each round, in [0, 1]. Guarantee and cost: those of the external detector. The split of
    the losses with the most significant difference of means shows whether the mean rose, since when, and by how much
    (the alarm's statistic). If it fell, the model has improved: no alarm, and the losses before the split are
    forgotten.

    The state is the losses since the last reset. The external detector is rebuilt by feeding them again, so nothing
    is pickled. At 4096 losses the older half is forgotten.

    Raises
    ------
    UsageError
        There is no such detector.
    """

    name: str  # the detector's name in its library
    losses: list[float] = field(default_factory=list)  # the losses since the last reset
    reading: Reading | None = None

    def __post_init__(self) -> None:
        """Build the external detector."""
        self._rebuild()

    @abc.abstractmethod
    def built(self) -> LibraryDetector:
        """Return a new external detector of this name."""

    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""
        self.losses.append(loss)
        self._detector.update(loss)
        if self._detector.drift_detected and len(self.losses) > 1:
            split, rise = _largest_change(self.losses)
            if rise > 0.0:
                return Alarm(self.name, rise, 0.0, since=t - len(self.losses) + split + 1)
            self._forget(split)
        elif len(self.losses) == MOST:
            self._forget(MOST // 2)
        return None

    def reset(self, *, filled: bool = False) -> None:
        """Forget every loss, after a restart."""
        self._forget(len(self.losses))

    def _forget(self, first: int) -> None:
        """Forget the first losses, and rebuild the external detector from the rest."""
        self.losses = self.losses[first:]
        self._rebuild()

    def _rebuild(self) -> None:
        self._detector = self.built()
        for loss in self.losses:
            self._detector.update(loss)


def _largest_change(losses: list[float]) -> tuple[int, float]:
    """Return the split s with the largest s (n - s) / n (mean2 - mean1)^2, and mean2 - mean1.

    >>> _largest_change([0.25, 0.25, 0.75])
    (2, 0.5)
    """
    n, before = len(losses), np.cumsum(losses)
    s = np.arange(1, n)
    rise = (before[-1] - before[:-1]) / (n - s) - before[:-1] / s
    best = int((s * (n - s) / n * rise**2).argmax())
    return best + 1, float(rise[best])
