"""Ferns: random binary tests of features, whose answers together name one of a few hundred cells."""

from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.sampling import generator

FERNS = 100

# Tests a fern, and the cells they lead to; more tests than bits are hashed.
DEPTHS = ((8, 256), (24, 1024))

# Rows of the table of all ferns of all depths.
ROWS = FERNS * sum(cells for _, cells in DEPTHS)

# Cells that one record touches: one a fern.
TOUCHED = FERNS * len(DEPTHS)

_ALL_TESTS = FERNS * sum(depth for depth, _ in DEPTHS)
_FIRST_ROWS = np.concatenate(
    [
        np.arange(FERNS) * cells + FERNS * sum(c for _, c in DEPTHS[:k])
        for k, (_, cells) in enumerate(DEPTHS)
    ]
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Ferns:
    """The ferns over some features: the same at every client that shares the seed, whatever the features' order.

    Each test compares one standardised feature with a threshold drawn from N(0, 1). Which feature: every feature
    draws a number for each test, and the largest wins. So a feature that arrives later takes over only its share of
    the tests, and what was learnt under the others stays true.

    Parameters
    ----------
    seed
        Shared by the federation.
    features
        Names, length d.

    References
    ----------
    Ozuysal, Calonder, Lepetit, Fua 2010, for ferns; Thaler and Ravishankar 1998, for the largest draw.

    Examples
    --------
    >>> ferns = Ferns(0, ()).over(("x", "y"))
    >>> cells = ferns.cells(np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    >>> cells.shape, bool((cells[1] == cells[2]).all()), int((cells[0] != cells[1]).sum())
    ((3, 200), True, 198)
    """

    seed: int
    features: tuple[str, ...] = ()
    _chosen: IntArray = field(default_factory=lambda: np.zeros(_ALL_TESTS, np.int64))
    _largest: FloatArray = field(default_factory=lambda: np.full(_ALL_TESTS, -1.0))
    _thresholds: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_thresholds", generator(self.seed, "fern").standard_normal(_ALL_TESTS))

    def over(self, features: tuple[str, ...]) -> "Ferns":
        """Return the ferns over more features, in which those of before come first."""
        chosen, largest = self._chosen.copy(), self._largest.copy()
        for j in range(len(self.features), len(features)):
            drawn = generator(self.seed, "fern", features[j]).random(_ALL_TESTS)
            wins = drawn > largest
            chosen[wins], largest[wins] = j, drawn[wins]
        return replace(self, features=features, _chosen=chosen, _largest=largest)

    def cells(self, Z: FloatArray) -> IntArray:
        """Return the row of the table that each fern of each depth finds for each record.

        Parameters
        ----------
        Z
            Standardised features, shape (n, d).

        Returns
        -------
        Shape (n, TOUCHED), int64: the shallow ferns first.
        """
        if not self.features:
            return np.repeat(_FIRST_ROWS[None, :], len(Z), axis=0)
        above = Z[:, self._chosen] > self._thresholds
        parts, at = [], 0
        for depth, cells in DEPTHS:
            bits = above[:, at : at + FERNS * depth].reshape(len(Z), FERNS, depth)
            parts.append(_hashed(bits @ (1 << np.arange(depth)), depth, cells))
            at += FERNS * depth
        found: IntArray = np.hstack(parts) + _FIRST_ROWS
        return found


def _hashed(numbers: IntArray, depth: int, cells: int) -> IntArray:
    """Return numbers of `depth` bits as cells; Fibonacci hashing where there are fewer cells (Knuth 6.4)."""
    bits = cells.bit_length() - 1
    if depth <= bits:
        return numbers
    product = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    hashed: IntArray = (product >> np.uint64(64 - bits)).astype(np.int64)
    return hashed
