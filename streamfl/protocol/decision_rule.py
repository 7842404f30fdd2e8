"""How probabilities become an answer: the one place that decides."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.delayed import NO_LABEL
from streamfl.protocol.registry import widened


def likeliest(P: FloatArray) -> FloatArray:
    """Return the index of the largest number of each row, the first among equals; -1 if all are 0, or there are none.

    >>> likeliest(np.array([[0.2, 0.5], [0.5, 0.5], [0.0, 0.0]])), likeliest(np.zeros((1, 0)))
    (array([ 1.,  0., -1.]), array([-1.]))
    """
    if not P.shape[1]:
        return np.full(len(P), float(NO_LABEL))
    found: FloatArray = np.where(P.any(axis=1), P.argmax(axis=1), NO_LABEL).astype(np.float64)
    return found


def named(codes: FloatArray, labels: Sequence[str]) -> list[str | None]:
    """Return the labels with some indices, None for -1.

    >>> named(np.array([1.0, -1.0]), ("no", "yes"))
    ['yes', None]
    """
    return [labels[code] if code >= 0 else None for code in codes.astype(np.intp).tolist()]


def together(parts: Sequence[FloatArray], columns: int) -> FloatArray:
    """Return predictions of consecutive records as one array; labels that were not known yet have probability 0.

    >>> together([np.zeros((1, 0)), np.ones((1, 1))], 2)
    array([[0., 0.],
           [1., 0.]])
    """
    return np.concatenate([np.zeros((0, columns)), *(widened(part, columns) for part in parts)])
