"""A matrix that grows at its end without ever being there twice."""

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.streams.table import Numbers


class GrowingRows:
    """Rows put below one another, in half the memory (float32) as long as every number fits exactly.

    The memory grows by a quarter at a time, in place, so that the peak is a quarter above what is stored.

    Parameters
    ----------
    features
        The names of the columns.

    >>> rows = GrowingRows(("a", "b"))
    >>> rows.add(np.array([[1.0, np.nan], [2.0, 3.0]])); rows.matrix().dtype
    dtype('float32')
    >>> rows.add(np.array([[0.1, 0.2]])); rows.matrix()
    array([[1. , nan], [2. , 3. ], [0.1, 0.2]])
    """

    def __init__(self, features: tuple[str, ...]) -> None:
        self.features = features
        self._X = np.empty((0, len(features)), np.float32)
        self._n = 0

    def __len__(self) -> int:
        """Count the rows."""
        return self._n

    def add(self, X: FloatArray) -> None:
        """Put rows at the end."""
        if self._X.dtype == np.float32 and not _fits(X):
            self._X = self._X.astype(np.float64)
        end = self._n + len(X)
        if end > len(self._X):
            self._resize(max(end, len(self._X) * 5 // 4))
        self._X[self._n : end] = X
        self._n = end

    def matrix(self) -> Numbers:
        """Return all rows; add none afterwards."""
        self._resize(self._n)
        return self._X

    def _resize(self, rows: int) -> None:
        # The check would refuse while a debugger or a traceback looks on; no view of the matrix outlives a call here.
        self._X.resize((rows, len(self.features)), refcheck=False)


def _fits(X: FloatArray) -> bool:
    with np.errstate(over="ignore"):
        small = X.astype(np.float32)
    return bool(np.all((small == X) | np.isnan(X)))
