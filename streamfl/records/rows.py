"""A matrix that grows at its end in place, without a second copy."""

import numpy as np

from streamfl.arrays import FloatArray, Numbers


class GrowingRows:
    """A growing matrix, kept as float32 as long as every number fits exactly, else as float64.

    Memory grows in place by a quarter at a time, so the peak is a quarter above the stored size.

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
        """Append rows."""
        if self._X.dtype == np.float32 and not _fits(X):
            self._X = self._X.astype(np.float64)
        end = self._n + len(X)
        if end > len(self._X):
            self._resize(max(end, len(self._X) * 5 // 4))
        self._X[self._n : end] = X
        self._n = end

    def matrix(self) -> Numbers:
        """Return all rows. Add none afterwards."""
        self._resize(self._n)
        return self._X

    def _resize(self, rows: int) -> None:
        # The check would fail under a debugger; here no view of the matrix outlives a call.
        self._X.resize((rows, len(self.features)), refcheck=False)


def _fits(X: FloatArray) -> bool:
    with np.errstate(over="ignore"):
        small = X.astype(np.float32)
    return bool(np.all((small == X) | np.isnan(X)))
