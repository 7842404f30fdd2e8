"""Standardisation record by record, each by the moments of the records before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import plain
from streamfl.online.native.kernels.scaling import FIRST, LEAST_SPREAD, Scales, count_in, scale
from streamfl.protocol.moments import Moments

# A mean that is so small a part of the point from which it was summed is 0, and the rest is rounding: a rare category
# that is 0 for a round would seem to move by 1e-19.
ROUNDING = 1e-12


@dataclass
class RunningScaler:
    """Scales every record by the moments of all records before it, then adds the record to the moments.

    Sums are of differences from a fixed point near the values, so that squares do not cancel.

    Examples
    --------
    >>> scaler = RunningScaler.of(Moments(("x",), np.array([2.0]), np.array([1.0]), np.array([2.0])), ("x",))
    >>> scaler.scaled(np.array([[3.0], [np.nan], [100.0]]))
    array([[2.],
           [0.],
           [5.]])
    """

    # By feature, shape (d,) each: that point, NaN before the first value; the number of values; the sums of their
    # differences from it and of the squares of these; and what is kept to find outliers, see `Scales`.
    sums: Scales

    @classmethod
    def of(cls, moments: Moments, features: tuple[str, ...]) -> "RunningScaler":
        """Return a scaler that continues from some moments."""
        m = moments.aligned(features)
        near = np.where(m.count > 0.0, m.mean, np.nan)
        return cls(known(near, m.count.copy(), m.m2.copy()))

    def grown(self, more: int) -> "RunningScaler":
        """Return the scaler with more features, which have no values yet."""
        new = known(np.full(more, np.nan), np.zeros(more), np.zeros(more))
        return RunningScaler(Scales(*(np.concatenate(both, axis=-1) for both in zip(self.sums, new, strict=True))))

    def over(self, places: IntArray) -> "RunningScaler":
        """Return the scaler of the features at these places, in this order."""
        return self.restored([part[..., places] for part in self.sums])

    def state(self) -> tuple[FloatArray, ...]:
        """Return all sums as floats, to be saved."""
        return tuple(np.array(part, np.float64) for part in self.sums)

    @classmethod
    def restored(cls, state: Sequence[npt.NDArray[Any]]) -> "RunningScaler":
        """Return the scaler of saved sums."""
        near, seen, total, square, first, streak, again = (np.ascontiguousarray(part) for part in state)
        return cls(Scales(near, seen, total, square, first, streak.astype(np.int64), again.astype(np.bool_)))

    @property
    def again(self) -> BoolArray:
        """Return the features that moved so far that their moments began again, shape (d,)."""
        return self.sums.again

    @property
    def varies(self) -> BoolArray:
        """Return the features with more than one value so far, shape (d,); rounding is no other value.

        >>> scaler = RunningScaler(known(np.full(2, np.nan), np.zeros(2), np.zeros(2)))
        >>> scaled = scaler.scaled(np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 1.0]]))
        >>> scaler.varies
        array([False,  True])
        """
        sums, seen = self.sums, np.maximum(self.sums.seen, 1.0)
        mean = sums.total / seen
        deviation = np.sqrt(np.maximum(sums.square / seen - mean * mean, 0.0))
        return np.asarray(deviation > LEAST_SPREAD * np.abs(np.nan_to_num(sums.near) + mean))

    def moments(self, features: tuple[str, ...], *, since: Moments) -> Moments:
        """Return the moments of the values since `since`, or since a feature began again."""
        before, sums = since.aligned(features).only(~self.again), self.sums
        count = sums.seen - before.count
        mean = sums.total / np.maximum(count, 1.0)
        m2 = np.maximum(sums.square - before.m2 - count * mean * mean, 0.0)
        near = np.nan_to_num(sums.near)
        mean = np.where(np.abs(near + mean) <= ROUNDING * np.abs(near), 0.0, near + mean)
        return Moments(features, count, mean, m2)

    def far(self, features: tuple[str, ...]) -> Moments:
        """Return the moments of the last values of each feature, if these were outliers in a row."""
        last = np.where(np.arange(FIRST)[:, None] < self.sums.streak, self.sums.first, np.nan)
        return Moments.of(features, last)

    def scaled(self, X: FloatArray, *, count: bool = True) -> FloatArray:
        """Return records standardised and clipped, each by the records before it; a missing value is the mean.

        Parameters
        ----------
        X
            Shape (n, d); NaN is a missing value.
        count
            Whether each record is then added to the moments; otherwise all are standardised by the present moments.
        """
        X = plain(X)
        Z = np.ones((len(X), 1 + X.shape[1]))
        for i, z in enumerate(Z):
            scale(self.sums, X, i, z)
            if count:
                count_in(self.sums, X, i)
        return Z[:, 1:]


def known(near: FloatArray, seen: FloatArray, square: FloatArray) -> Scales:
    """Return sums for values of which only the mean, the number, and the sum of squared deviations are known."""
    nothing = np.full((FIRST, len(near)), np.nan)
    streak, again = np.zeros(len(near), np.int64), np.zeros(len(near), np.bool_)
    return Scales(near, seen, np.zeros(len(near)), square, nothing, streak, again)
