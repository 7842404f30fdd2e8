"""Second moments of the features, which whiten steps: the quadratic mirror map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.registry import Registry, change_of_coordinates, rescaled_features

# The records over which an old record's weight falls by a factor of e: 0.95 for each round of 2000.
# docs/choices.md, "Whitened steps".
WINDOW = 2000.0 / -np.log(0.95)

# The part of the mean eigenvalue that is added to every eigenvalue; results hardly change between 0.03 and 0.1.
# docs/choices.md, "Whitened steps".
RIDGE = 0.05

# Matrices up to the first size are refreshed in every round. Those up to the second are refreshed in the first four
# rounds after a restart and in every eighth round. Larger ones are not used, since a client's work and bytes grow
# with the square of the number of features. docs/choices.md, "Whitened steps".
EVERY_ROUND, EVER = 512, 2048
SELDOM = 8


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Decaying sums of z z^T, where z is a record's features with the constant 1.

    The mirror map phi(W) = tr(W^T A W) / 2 with A = C/N + 0.05 (tr(C/N)/d) I has the step W - eta A^-1 grad F(W):
    gradient descent in whitened features. W stays in raw coordinates, so a new A changes no prediction. One
    full-batch step is linear in the gradient, so clients send gradients (differences in the dual space), and A stays
    at the coordinator.

    Examples
    --------
    >>> seen = SecondMoments(np.zeros((2, 2)), 0.0).after([np.array([[4.0, 0.0], [0.0, 1.0]])], records=1)
    >>> seen.whitened(np.array([[4.125], [1.125]]))
    array([[1.],
           [1.]])
    """

    total: FloatArray  # C, shape (d, d)
    records: float  # N, the decayed number of records behind it

    def after(self, parts: Sequence[FloatArray], records: int, *, of: int = 0) -> "SecondMoments":
        """Return the moments after a round.

        Parameters
        ----------
        parts
            The sums of z z^T of the clients that were measured.
        records
            The records behind them.
        of
            The records of all clients in the round, by which older ones fade; at least `records`.
        """
        left = float(np.exp(-max(records, of) / WINDOW))
        total: FloatArray = left * self.total
        for part in parts:
            total += part
        return SecondMoments(total, left * self.records + records)

    def beside(self, parts: Sequence[FloatArray], records: int, *, of: int) -> "SecondMoments":
        """Return moments of the past and of a round, which whiten the round's gradient.

        With past moments alone, features that are new in the round, or vary more than before, would take too long
        steps. With the round's alone, a round of few records would. The round has half the weight if all its clients
        were measured, and less in proportion to the records of those that were.

        Examples
        --------
        >>> seen = SecondMoments(np.diag([40.0, 0.0]), 10.0).beside([np.diag([0.0, 4.0])], records=2, of=2)
        >>> seen.total, seen.records
        (array([[2., 0.],
               [0., 1.]]), 1.0)
        """
        own = SecondMoments(np.zeros_like(self.total), 0.0).after(parts, records)
        if not self.records:
            return own
        weight = 0.5 * records / max(records, of)
        mixed: FloatArray = (1.0 - weight) * self.total / self.records + weight * own.total / own.records
        return SecondMoments(mixed, 1.0)

    def re_expressed(self, old: Registry, new: Registry) -> "SecondMoments":
        """Return the moments of the same records in the coordinates of a newer registry.

        Features that are scaled again get variance 1 and no covariance, since their past values no longer apply.
        """
        change = change_of_coordinates(old, new)
        total: FloatArray = change @ self.total @ change.T
        anew = np.flatnonzero(rescaled_features(old, new))
        total[anew, anew] = self.records
        return SecondMoments(total, self.records)

    def whitened(self, slope: FloatArray) -> FloatArray:
        """Return A^-1 slope, shape (d, columns)."""
        return np.asarray(np.linalg.solve(self._metric, slope), dtype=np.float64)

    def half_whitened(self, slopes: FloatArray) -> FloatArray:
        """Return L^-1 slopes, with A = L L^T: its squared norm is slopes^T A^-1 slopes. Shape (d, columns).

        >>> SecondMoments(np.diag([3.895, 0.105]), 1.0).half_whitened(np.array([[1.0], [1.0]])).T.round(2)
        array([[0.5 , 2.21]])
        """
        try:
            half = np.linalg.cholesky(self._metric)
        except np.linalg.LinAlgError:  # sums that clients rounded, or made up, need not be positive
            return slopes / np.sqrt(np.maximum(np.abs(np.diag(self._metric)), RIDGE))[:, None]
        return np.asarray(np.linalg.solve(half, slopes), dtype=np.float64)

    @property
    def deviation(self) -> FloatArray:
        """Return sqrt(C_jj / N), shape (d,)."""
        return np.asarray(np.sqrt(np.maximum(0.0, np.diag(self.total)) / self.records))

    @cached_property
    def _metric(self) -> FloatArray:
        d = len(self.total)
        ridge: FloatArray = (RIDGE * float(np.trace(self.total)) / d) * np.eye(d)
        metric: FloatArray = (self.total + ridge) / self.records
        return metric


def wanted(t: int, d: int) -> bool:
    """Return whether second moments are collected in the t-th round after a restart, with d numbers a record.

    >>> [t for t in range(1, 40) if wanted(t, 785)], wanted(3, 55), wanted(1, 5000)
    ([1, 2, 3, 4, 8, 16, 24, 32], True, False)
    """
    return d <= EVERY_ROUND or (d <= EVER and (t <= 4 or t % SELDOM == 0))
