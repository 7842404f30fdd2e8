"""Pairs of a client's features: all of them, or as many as there is room for, drawn evenly from all."""

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.native.settings import OWN_PAIRS

NO_PAIRS = np.zeros((0, 2), np.int64)


def with_new(pairs: IntArray, before: int, now: int, draws: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the pairs of more features, and the places of those that are new.

    Every pair of all features is there with the same probability (Vitter 1985, reservoir sampling).

    Parameters
    ----------
    pairs
        The pairs of the first `before` features, shape (n, 2).
    before, now
        How many features there were, and are.

    Examples
    --------
    >>> pairs, new = with_new(NO_PAIRS, 0, 3, np.random.default_rng(0))
    >>> pairs.tolist(), new.tolist()
    ([[0, 1], [0, 2], [1, 2]], [0, 1, 2])
    >>> pairs, new = with_new(pairs, 3, 40, np.random.default_rng(0))
    >>> len(pairs), int((pairs[:, 0] < pairs[:, 1]).sum()), int(pairs.max() < 40)
    (100, 100, 1)
    """
    order = np.arange(before * (before - 1) // 2, now * (now - 1) // 2)
    places = order.copy()
    drawn = order >= OWN_PAIRS
    places[drawn] = draws.integers(0, order[drawn] + 1)
    taken = places < OWN_PAIRS
    later = ((1.0 + np.sqrt(1.0 + 8.0 * order[taken])) / 2.0).astype(np.int64)
    earlier = order[taken] - later * (later - 1) // 2
    places = places[taken]
    grown = np.zeros((max(len(pairs), int(places.max(initial=-1)) + 1), 2), np.int64)
    grown[: len(pairs)] = pairs
    grown[places] = np.column_stack([earlier, later])  # of several in one place the last one stays
    return grown, np.unique(places)
