"""How often one label followed another, over all clients; older rounds count less and less."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.pairs import over, summed
from streamfl.protocol.native.settings import FOLLOWING

# What is left of a count after a round, in whole sixteenths, so that it comes to nothing. docs/choices.md, "The last
# answer".
KEPT, PART = 0.95, 16.0


def after_round(before: FloatArray, parts: Sequence[NativeLearnt], labels: tuple[str, ...]) -> FloatArray:
    """Return the pairs after a round; of those after one label, the 16 most frequent.

    Parameters
    ----------
    labels
        All labels by now, those of before first.

    Examples
    --------
    >>> after_round(np.array([[0.0, 0.0, 10.0], [0.0, 1.0, 0.0625]]), [], ("a", "b")).tolist()
    [[0.0, 0.0, 9.5]]
    """
    places = {label: place for place, label in enumerate(labels)}
    old = before.copy()
    old[:, 2] = np.floor(PART * KEPT * old[:, 2]) / PART
    new = [over(part.pairs, np.array([places.get(name, -1) for name in part.labels])) for part in parts]
    return _most_frequent(summed([old[old[:, 2] > 0.0], *new], len(labels)))


def _most_frequent(pairs: FloatArray) -> FloatArray:
    """Return the most frequent pairs after each label, in order."""
    order = np.lexsort((-pairs[:, 2], pairs[:, 0]))
    ranked = pairs[order]
    rank = np.arange(len(ranked)) - np.searchsorted(ranked[:, 0], ranked[:, 0])
    return pairs[np.sort(order[rank < FOLLOWING])]
