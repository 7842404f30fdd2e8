"""Second moments of the features, and the steps that they whiten: the quadratic mirror map."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.protocol.registry import Registry, change_of_coordinates, scaled_anew

# Records after which an old one's weight has fallen to a fifth e: 0.95 a round of 2000.
# docs/choices.md, "Whitened steps".
WINDOW = 2000.0 / -np.log(0.95)

# How much of the mean eigenvalue is added to every eigenvalue; results hardly change between 0.03 and 0.1.
# docs/choices.md, "Whitened steps".
RIDGE = 0.05

# Matrices up to this size are refreshed in every round, up to the other in the first four rounds after a restart and
# in every eighth, larger ones are not used: a client's work for them grows with the square of the number of features,
# and so does what it sends. docs/choices.md, "Whitened steps".
EVERY_ROUND, EVER = 512, 2048
SELDOM = 8


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Decaying sums of z z^T, z a record's features with the constant 1.

    phi(W) = tr(W^T A W) / 2 with A = C/N + 0.05 (tr(C/N)/d) I makes a mirror step W - eta A^-1 grad F(W): gradient
    descent in whitened features. W stays in raw coordinates, so a new A changes no prediction. One full-batch step is
    linear in the gradient, so clients send their gradients (differences in the dual space) and A stays here.

    Parameters
    ----------
    total
        C, shape (d, d).
    records
        N, the decayed number of records behind it.

    Examples
    --------
    >>> seen = SecondMoments(np.zeros((2, 2)), 0.0).after([np.array([[4.0, 0.0], [0.0, 1.0]])], records=1)
    >>> seen.whitened(np.array([[4.125], [1.125]]))
    array([[1.],
           [1.]])
    """

    total: FloatArray
    records: float

    def after(self, parts: Sequence[FloatArray], records: int) -> "SecondMoments":
        """Return the moments after a round: `parts` are the clients' sums of z z^T over `records` records in all."""
        left = float(np.exp(-records / WINDOW))
        total: FloatArray = left * self.total
        for part in parts:
            total += part
        return SecondMoments(total, left * self.records + records)

    def beside(self, parts: Sequence[FloatArray], records: int) -> "SecondMoments":
        """Return moments of which half are those of a round: by these its own gradient is whitened.

        Features that came with the round, or vary more in it than they ever did, would else take steps that its
        records do not bear; and what the past knows keeps a round of few records from taking long ones.

        >>> seen = SecondMoments(np.diag([40.0, 0.0]), 10.0).beside([np.diag([0.0, 4.0])], records=2)
        >>> seen.total, seen.records
        (array([[2., 0.],
               [0., 1.]]), 1.0)
        """
        own = SecondMoments(np.zeros_like(self.total), 0.0).after(parts, records)
        if not self.records:
            return own
        half: FloatArray = 0.5 * (self.total / self.records + own.total / own.records)
        return SecondMoments(half, 1.0)

    def re_expressed(self, old: Registry, new: Registry) -> "SecondMoments":
        """Return the moments of the same records in the coordinates of a newer registry.

        Features that are scaled anew vary by 1, and with no other: what they were until then says nothing of them.
        """
        change = change_of_coordinates(old, new)
        total: FloatArray = change @ self.total @ change.T
        anew = np.flatnonzero(scaled_anew(old, new))
        total[anew, anew] = self.records
        return SecondMoments(total, self.records)

    def whitened(self, slope: FloatArray) -> FloatArray:
        """Return A^-1 slope, shape (d, columns)."""
        return np.asarray(np.linalg.solve(self._metric, slope), dtype=np.float64)

    @cached_property
    def _metric(self) -> FloatArray:
        d = len(self.total)
        ridge: FloatArray = (RIDGE * float(np.trace(self.total)) / d) * np.eye(d)
        metric: FloatArray = (self.total + ridge) / self.records
        return metric


def wanted(t: int, d: int) -> bool:
    """Tell whether the second moments of the t-th round after a restart are asked for, d numbers a record.

    >>> [t for t in range(1, 40) if wanted(t, 785)], wanted(3, 55), wanted(1, 5000)
    ([1, 2, 3, 4, 8, 16, 24, 32], True, False)
    """
    return d <= EVERY_ROUND or (d <= EVER and (t <= 4 or t % SELDOM == 0))
