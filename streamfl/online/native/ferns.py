"""Ferns: sets of random binary tests of features, whose combined answers select a cell of a table."""

from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.kernels.ferns import Tests, find_cells
from streamfl.protocol.native.settings import DEPTHS, FERNS, TOUCHED
from streamfl.sampling import generator

_ALL_TESTS = FERNS * sum(depth for depth, _ in DEPTHS)


@dataclass(frozen=True, eq=False)
class Ferns:
    """The ferns over some features: the same at every client with the same seed, whatever the order of features.

    Each test compares one standardised feature with a threshold drawn from N(0, 1). For every test a number is drawn
    for each feature, and the feature with the largest is tested. So a new feature takes over only its share of the
    tests, and what was learnt with the others remains valid.

    References
    ----------
    Ozuysal, Calonder, Lepetit, Fua 2010, for ferns; Thaler and Ravishankar 1998, for the choice by the largest draw.

    Examples
    --------
    >>> ferns = Ferns(0, ()).over(("x", "y"))
    >>> cells = ferns.cells(np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    >>> cells.shape, bool((cells[1] == cells[2]).all()), int((cells[0] != cells[1]).sum())
    ((3, 200), True, 198)
    """

    seed: int  # the federation's seed
    features: tuple[str, ...] = ()  # names, length d
    _chosen: IntArray = field(default_factory=lambda: np.zeros(_ALL_TESTS, np.int64))
    _largest: FloatArray = field(default_factory=lambda: np.full(_ALL_TESTS, -1.0))
    _thresholds: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_thresholds", generator(self.seed, "fern").standard_normal(_ALL_TESTS))

    def over(self, features: tuple[str, ...]) -> "Ferns":
        """Return the ferns over more features; the present ones come first."""
        if features == self.features:
            return self
        chosen, largest = self._chosen.copy(), self._largest.copy()
        for j in range(len(self.features), len(features)):
            drawn = generator(self.seed, "fern", features[j]).random(_ALL_TESTS)
            wins = drawn > largest
            chosen[wins], largest[wins] = j, drawn[wins]
        return replace(self, features=features, _chosen=chosen, _largest=largest)

    def cells(self, Z: FloatArray) -> IntArray:
        """Return the row of the table that each fern selects for each record.

        Parameters
        ----------
        Z
            Standardised features, shape (n, d).

        Returns
        -------
        Shape (n, TOUCHED), int64: the shallow ferns first.
        """
        cells = np.zeros((len(Z), TOUCHED), np.int64)
        for z, row in zip(np.hstack([np.ones((len(Z), 1)), Z]), cells, strict=True):
            find_cells(self.tests, z, row, np.ones(len(DEPTHS), np.bool_), 0, 1)
        return cells

    @property
    def tests(self) -> Tests:
        """Return the feature and the threshold of every test."""
        return Tests(self._chosen, self._thresholds)
