"""Converts labels numbered by first appearance to the classes of a block of records."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.registry import ordered


def classes(codes: IntArray, texts: Sequence[str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the class index of each record, and the labels that occur, in their order.

    A label without a record is left out, so that it is not taken for an observed one.

    Parameters
    ----------
    codes
        Shape (n,): the number of each record's label.

    >>> classes(np.array([2, 0, 2]), ["10", "unused", "9"])
    (array([0., 1., 0.]), ('9', '10'))
    """
    used = np.flatnonzero(np.bincount(codes, minlength=len(texts))).tolist()
    labels = ordered(texts[code] for code in used)
    place = {label: i for i, label in enumerate(labels)}
    index = np.zeros(len(texts))
    index[used] = [place[texts[code]] for code in used]
    return index[codes], labels
