"""A drift detector of another library on the pooled loss of each round."""

import abc
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from streamfl.core.drift.detector import ScoreDetector
from streamfl.core.protocol.alarm import Alarm, Reading

# Losses kept since a reset. docs/choices.md, "Bounds and rounding".
MOST = 4096


class Watcher(Protocol):
    """What such a detector must do."""

    def update(self, x: float) -> None:
        """Take a number."""
        ...

    @property
    def drift_detected(self) -> bool:
        """Tell whether the last number raised an alarm."""
        ...


@dataclass
class ExternalDetector(ScoreDetector):
    """Alarms when the other detector says so, and the mean loss rose.

    Input: the pooled loss of each round, in [0, 1]. Guarantee and cost: those of the detector. Whether the mean rose,
    since when and by how much (the alarm's statistic) is told at the split of the losses with the largest
    difference of means. When it fell, the model has learnt: no alarm, and the losses before the split are forgotten.

    The state is the losses since the last reset: the detector itself is built again by feeding them, so that nothing
    is pickled. When there are 4096 of them the older half is forgotten.

    Parameters
    ----------
    name
        What the library calls the detector.
    losses
        Those since the last reset.

    Raises
    ------
    UsageError
        There is no such detector.
    """

    name: str
    losses: list[float] = field(default_factory=list)
    reading: Reading | None = None

    def __post_init__(self) -> None:
        """Build the detector."""
        self._fed()

    @abc.abstractmethod
    def built(self) -> Watcher:
        """Return a fresh detector of this name."""

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
        """Forget every loss: after a restart."""
        self._forget(len(self.losses))

    def _forget(self, first: int) -> None:
        """Forget the first losses, and build the detector again: it is a function of the rest."""
        self.losses = self.losses[first:]
        self._fed()

    def _fed(self) -> None:
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
