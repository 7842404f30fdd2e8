"""Standardisation record by record: each by the moments of those before it."""

from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray
from streamfl.core.moments import LARGEST, Moments

# In deviations: farther out counts as this far.
FARTHEST = 5.0

# A spread below this part of the mean is rounding.
LEAST_SPREAD = 1e-9


@dataclass
class RunningScaler:
    """Scales every record by the moments of all records before it, then counts it in.

    Sums are of differences to a fixed point near the values, so that squares do not cancel.

    Parameters
    ----------
    near
        That point, by feature; NaN until a value is seen. Shape (d,), like the rest.
    count, total, square
        Values seen, and the sums of their differences and of the squares of these.

    Examples
    --------
    >>> scaler = RunningScaler.of(Moments(("x",), np.array([2.0]), np.array([1.0]), np.array([2.0])), ("x",))
    >>> scaler.scaled(np.array([[3.0], [np.nan], [100.0]]))
    array([[2.],
           [0.],
           [5.]])
    """

    near: FloatArray
    count: FloatArray
    total: FloatArray
    square: FloatArray

    @classmethod
    def of(cls, moments: Moments, features: tuple[str, ...]) -> "RunningScaler":
        """Return the scaler that goes on from some moments."""
        m = moments.aligned(features)
        near = np.where(m.count > 0.0, m.mean, np.nan)
        return cls(near, m.count.copy(), np.zeros(len(features)), m.m2.copy())

    def grown(self, more: int) -> None:
        """Take in features that nothing is known of."""
        self.near = np.append(self.near, np.full(more, np.nan))
        self.count, self.total, self.square = (np.append(a, np.zeros(more)) for a in self._sums)

    def moments(self, features: tuple[str, ...], *, since: Moments) -> Moments:
        """Return the moments of the values counted in since those that it went on from."""
        before = since.aligned(features)
        count = self.count - before.count
        mean = self.total / np.maximum(count, 1.0)
        m2 = np.maximum(self.square - before.m2 - count * mean * mean, 0.0)
        return Moments(features, count, np.nan_to_num(self.near) + mean, m2)

    def scaled(self, X: FloatArray, *, count: bool = True) -> FloatArray:
        """Return records standardised and clipped, each before it is counted in; a missing value is the mean.

        Parameters
        ----------
        X
            Shape (n, d); NaN is a missing value.
        count
            Whether they are counted in; else all are standardised by what is known now.
        """
        X = np.clip(X, -LARGEST, LARGEST)
        there = ~np.isnan(X)
        if not count:
            return self._standardised(np.where(there, X - self.near, 0.0), there, self._sums)
        if len(X) == 1:
            before = self._sums
            moved = self._count(X, there)
            return self._standardised(moved, there, before)
        self._draw_near(X, there)
        moved = np.where(there, X - self.near, 0.0)
        # Running sums from left to right: the same bits whether records come one by one or together.
        counts, totals, squares = (
            np.cumsum(np.vstack([start, steps]), axis=0)
            for start, steps in zip(self._sums, (there.astype(np.float64), moved, moved * moved), strict=True)
        )
        self.count, self.total, self.square = counts[-1], totals[-1], squares[-1]
        return self._standardised(moved, there, (counts[:-1], totals[:-1], squares[:-1]))

    def count_in(self, X: FloatArray) -> None:
        """Count in one record that has been standardised already; shape (1, d)."""
        X = np.clip(X, -LARGEST, LARGEST)
        self._count(X, ~np.isnan(X))

    def _count(self, X: FloatArray, there: BoolArray) -> FloatArray:
        self._draw_near(X, there)
        moved = np.where(there, X - self.near, 0.0)
        self.count, self.total, self.square = (
            self.count + there[0],
            self.total + moved[0],
            self.square + moved[0] * moved[0],
        )
        return moved

    def _standardised(
        self, moved: FloatArray, there: BoolArray, sums: tuple[FloatArray, FloatArray, FloatArray]
    ) -> FloatArray:
        """Return (x - mean) / spread by the sums before each record; 0 where either is unknown."""
        count, total, square = sums
        n = np.maximum(count, 1.0)
        mean = total / n
        spread = np.sqrt(np.maximum(square / n - mean * mean, 0.0))
        known = there & (spread > LEAST_SPREAD * np.abs(np.nan_to_num(self.near) + mean))
        z = np.divide(moved - mean, spread, out=np.zeros_like(moved), where=known)
        return np.clip(z, -FARTHEST, FARTHEST, out=z)

    @property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.count, self.total, self.square

    def _draw_near(self, X: FloatArray, there: BoolArray) -> None:
        new = np.isnan(self.near)
        if new.any():
            first = X[there.argmax(axis=0), np.arange(X.shape[1])]
            self.near = np.where(new, first, self.near)
