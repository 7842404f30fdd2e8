"""Pairs of labels: how often one followed another. Rows of two labels and a count, in order, each pair once."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray, IntArray


def no_pairs() -> FloatArray:
    """Return that no label has followed any."""
    return np.zeros((0, 3))


def in_turn(labels: FloatArray) -> FloatArray:
    """Return the pairs of labels that come one after another, given as indices.

    >>> in_turn(np.array([0.0, 0.0, 1.0, 0.0, 1.0])).tolist()
    [[0.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 0.0, 1.0]]
    """
    if len(labels) < 2:
        return no_pairs()
    pairs, counts = np.unique(np.column_stack([labels[:-1], labels[1:]]), axis=0, return_counts=True)
    return np.column_stack([pairs, counts])


def over(pairs: FloatArray, to: IntArray) -> FloatArray:
    """Return pairs with label k called `to[k]`, in order; those of a label that is called -1 are left out.

    >>> over(np.array([[0.0, 1.0, 5.0], [1.0, 2.0, 3.0]]), np.array([1, 0, -1])).tolist()
    [[1.0, 0.0, 5.0]]
    """
    if not len(pairs):
        return pairs
    named = np.column_stack([to[pairs[:, :2].astype(np.int64)], pairs[:, 2]])
    named = named[(named[:, :2] >= 0.0).all(axis=1)]
    return named[np.lexsort((named[:, 1], named[:, 0]))]


def are_sound(pairs: FloatArray, labels: int) -> bool:
    """Tell whether they are pairs of so many labels, with counts that are finite and positive."""
    if pairs.ndim != 2 or pairs.shape[1:] != (3,) or not bool(np.isfinite(pairs).all()):
        return False
    codes = pairs[:, :2]
    if not bool(((codes == np.floor(codes)) & (codes >= 0.0) & (codes < labels)).all()):
        return False
    rising = bool((np.diff(codes @ [max(1, labels), 1.0]) > 0.0).all())
    return rising and bool((pairs[:, 2] > 0.0).all())


def summed(parts: Sequence[FloatArray], labels: int) -> FloatArray:
    """Return the pairs of several clients together, of so many labels.

    >>> summed([np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 3.0]])], 2).tolist()
    [[0.0, 0.0, 1.0], [0.0, 1.0, 5.0]]
    """
    together = np.concatenate([no_pairs(), *parts])
    codes, at = np.unique(together[:, 0] * labels + together[:, 1], return_inverse=True)
    if not len(codes):
        return no_pairs()
    return np.column_stack([codes // labels, codes % labels, np.bincount(at, together[:, 2])])
