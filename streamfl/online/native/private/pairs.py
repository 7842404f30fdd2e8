"""Pairs of a client's features: all of them, or as many as there is room for, drawn evenly from all."""

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.native.settings import OWN_PAIRS

# Only the first features are paired: whoever writes a file may claim any number, and pairs are its square.
MOST_PAIRED = 256


def new_pairs(before: int, now: int, draws: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the pairs that come with more features, and their places among all, of which there are 100 at most.

    What was in a place gives way. Then every pair of all features has a place with the same probability (Vitter 1985,
    reservoir sampling).

    Parameters
    ----------
    before, now
        How many features there were, and are; in their order the new ones come last.

    Returns
    -------
    Pairs, shape (n, 2), the earlier feature first; and places, shape (n,), each at most once.

    Examples
    --------
    >>> pairs, places = new_pairs(0, 3, np.random.default_rng(0))
    >>> pairs.tolist(), places.tolist()
    ([[0, 1], [0, 2], [1, 2]], [0, 1, 2])
    >>> pairs, places = new_pairs(3, 40, np.random.default_rng(0))
    >>> len(pairs), int(pairs[:, 1].min()), int(places.max())
    (100, 4, 99)
    """
    before, now = min(before, MOST_PAIRED), min(now, MOST_PAIRED)
    order = np.arange(before * (before - 1) // 2, now * (now - 1) // 2)
    places = order.copy()
    drawn = order >= OWN_PAIRS
    places[drawn] = draws.integers(0, order[drawn] + 1)
    last = {int(place): number for place, number in zip(places.tolist(), order.tolist(), strict=True)}
    taken = sorted(place for place in last if place < OWN_PAIRS)
    numbers = np.array([last[place] for place in taken], np.int64)
    later = ((1.0 + np.sqrt(1.0 + 8.0 * numbers)) / 2.0).astype(np.int64)
    return np.column_stack([numbers - later * (later - 1) // 2, later]), np.array(taken, np.int64)


def pairs_of(features: int) -> int:
    """Return how many pairs there are of so many features.

    >>> [pairs_of(features) for features in (0, 2, 3, 40, 10**9)]
    [0, 1, 3, 100, 100]
    """
    paired = min(features, MOST_PAIRED)
    return min(paired * (paired - 1) // 2, OWN_PAIRS)
