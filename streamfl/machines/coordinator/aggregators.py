"""The ways to combine clients' mean differences, by name. All but the mean tolerate a minority of liars.

They combine the differences of the models that rounds train, after the bounds of `bounded`. Each depends on what
clients sent alone, taken in the order of their names, so the order of arrival changes no bit.
"""

from collections.abc import Callable

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.registered import Registered

# The name of one.
Aggregator = str

# The part of the clients that may lie, which is as much as is cut off on either side. docs/choices.md, "Influence".
LIARS = 0.3

# Steps of Weiszfeld's algorithm, and the part of the middle distance below which distances count as equal.
# docs/choices.md, "Influence".
STEPS, NEAREST = 16, 0.1


def mean(X: FloatArray, natural: FloatArray, records: FloatArray) -> FloatArray:
    """Return the mean, weighted by records. The coordinator takes it as an exact sum, see `RoundAggregation`.

    >>> mean(np.array([[1.0], [4.0]]), np.zeros((2, 1)), np.array([1.0, 2.0]))
    array([3.])
    """
    return _mean(X, records)


def trimmed(X: FloatArray, natural: FloatArray, records: FloatArray) -> FloatArray:
    """Return for each number the mean without the three tenths of the clients at either end (Yin et al. 2018).

    >>> trimmed(np.array([[1.0], [2.0], [4.0], [900.0]]), np.zeros((4, 1)), np.ones(4))
    array([3.])
    """
    n = len(X)
    cut = min((n - 1) // 2, int(np.ceil(LIARS * n))) if n > 2 else 0
    kept: FloatArray = np.sort(X, axis=0)[cut : n - cut].mean(axis=0)
    return kept


def median(X: FloatArray, natural: FloatArray, records: FloatArray) -> FloatArray:
    """Return the median of each number (Yin et al. 2018).

    >>> median(np.array([[1.0], [2.0], [900.0]]), np.zeros((3, 1)), np.ones(3))
    array([2.])
    """
    middle: FloatArray = np.median(X, axis=0)
    return middle


def krum(X: FloatArray, natural: FloatArray, records: FloatArray) -> FloatArray:
    """Return the mean over the seven tenths of the clients that are nearest to their neighbours.

    Multi-Krum (Blanchard et al. 2017): a client's score is the sum of its squared distances to this many of the
    others.

    >>> x = np.array([[1.0], [2.0], [3.0], [900.0]])
    >>> krum(x, x, np.ones(4))
    array([1.5])
    """
    n = len(X)
    liars = min(int(np.ceil(LIARS * n)), max(0, n - 2))
    squares = np.array([((natural - own) ** 2).reshape(n, -1).sum(axis=1) for own in natural])
    scores = np.sort(squares, axis=1)[:, 1 : max(2, n - liars - 1)].sum(axis=1)
    chosen = np.sort(np.argsort(scores, kind="stable")[: n - liars])
    return _mean(X[chosen], records[chosen])


def geometric_median(X: FloatArray, natural: FloatArray, records: FloatArray) -> FloatArray:
    """Return the point with the least sum of distances, weighted by records (Pillutla, Kakade and Harchaoui 2022).

    >>> x = np.array([[1.0], [2.0], [3.0], [900.0], [2.0]])
    >>> geometric_median(x, x, np.ones(5)).round(1)
    array([2.])
    """
    weights = records
    for _ in range(STEPS):
        squares = ((natural - _mean(natural, weights)) ** 2).reshape(len(X), -1).sum(axis=1)
        distances = np.sqrt(squares)
        least = NEAREST * float(np.median(distances))
        if not least > 0.0:
            least = max(float(distances.max()), 1.0)
        weights = records / np.maximum(distances, least)
    return _mean(X, weights)


def _mean(X: FloatArray, weights: FloatArray) -> FloatArray:
    shape = (-1, *[1] * (X.ndim - 1))
    mean: FloatArray = (weights.reshape(shape) * X).sum(axis=0) / weights.sum()
    return mean


# Each is a function of each client's mean difference, of the same in units in which noise is alike in all directions,
# and of its records; shapes (clients, ...), (clients, ...) and (clients,).
AGGREGATORS = Registered[Callable[[FloatArray, FloatArray, FloatArray], FloatArray]](
    "aggregation",
    None,
    "streamfl.aggregations",
    {"mean": mean, "trimmed": trimmed, "median": median, "krum": krum, "geometric-median": geometric_median},
)
