"""Labels that were numbered as they came, as the classes of a block of records."""

from collections.abc import Sequence

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.protocol.registry import ordered


def classes(codes: IntArray, texts: Sequence[str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the class index of each record, and the labels that occur, in their order.

    A label that no record has is left out: who sees it would take it for one that some record had.

    Parameters
    ----------
    codes
        Shape (n,): the number of each record's label.
    texts
        The labels by number, no two the same.

    >>> classes(np.array([2, 0, 2]), ["10", "unused", "9"])
    (array([0., 1., 0.]), ('9', '10'))
    """
    used = np.flatnonzero(np.bincount(codes, minlength=len(texts))).tolist()
    labels = ordered(texts[code] for code in used)
    place = {label: i for i, label in enumerate(labels)}
    index = np.zeros(len(texts))
    index[used] = [place[texts[code]] for code in used]
    return index[codes], labels
