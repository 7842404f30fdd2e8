"""Quantiles of a client's last errors: they turn a predicted target into an interval."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

# The quantiles: the middle one, and the ends of an interval that shall hold four fifths of the targets.
# docs/choices.md, "Quantiles of errors".
LEVELS = (0.1, 0.5, 0.9)

# The fewest errors that say anything, and the last ones that are kept. docs/choices.md, "Quantiles of errors".
FEWEST, KEPT = 10, 100

# How far a level moves with each error. docs/choices.md, "Quantiles of errors".
STEP = 0.02


@dataclass
class ErrorQuantiles:
    """Follows the quantiles of `truth - prediction` of one client, from its past errors only.

    A quantile is that of the last 100 errors, at a level of its own. The level rises if more errors lie above the
    quantile than should, and falls if fewer do. So the share of targets within the interval comes near four fifths
    also while errors grow or shrink: Gibbs and Candes, "Adaptive conformal inference under distribution shift", 2021.

    Examples
    --------
    >>> quantiles = ErrorQuantiles()
    >>> for i in range(1000):
    ...     quantiles.learn(float(i * 7 % 11 - 5))
    >>> [round(quantile, 1) for quantile in quantiles.of(100.0)]
    [96.2, 100.5, 104.0]
    """

    levels: list[float] = field(default_factory=lambda: [*LEVELS])
    _last: deque[float] = field(default_factory=deque)
    _sorted: list[float] = field(default_factory=list)

    @classmethod
    def restored(cls, errors: Iterable[float], levels: Iterable[float]) -> "ErrorQuantiles":
        """Return the quantiles after these errors, the oldest first, at these levels."""
        kept = [*errors]
        return cls([*levels], deque(kept), sorted(kept))

    @property
    def errors(self) -> tuple[float, ...]:
        """Return the last errors, the oldest first."""
        return tuple(self._last)

    def of(self, predicted: float) -> tuple[float, ...] | None:
        """Return the quantiles of a target that is predicted, by `LEVELS`; None before ten errors are known."""
        if len(self._sorted) < FEWEST:
            return None
        return tuple(predicted + quantile for quantile in sorted(map(self._at, self.levels)))

    def learn(self, error: float) -> None:
        """Learn the next error."""
        if len(self._sorted) >= FEWEST:
            for i, level in enumerate(LEVELS):
                moved = self.levels[i] + STEP * (level - (error < self._at(self.levels[i])))
                self.levels[i] = min(1.0, max(0.0, moved))
        if len(self._last) == KEPT:
            del self._sorted[bisect_left(self._sorted, self._last.popleft())]
        self._last.append(error)
        insort(self._sorted, error)

    def _at(self, level: float) -> float:
        """Return the quantile of the last errors, between two of them."""
        place = min(max(level * (len(self._sorted) + 1) - 1.0, 0.0), len(self._sorted) - 1.0)
        below = int(place)
        above = min(below + 1, len(self._sorted) - 1)
        share = place - below
        return (1.0 - share) * self._sorted[below] + share * self._sorted[above]
