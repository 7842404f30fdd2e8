"""Sums in fixed point, which do not depend on the order of addition."""

from collections.abc import Iterable

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError

# Fixed-point steps for each unit, and the bound on a sum in steps. docs/choices.md, "Bounds and rounding".
SCALE = 2.0**32
LIMIT = 2.0**62


def largest_part(weight: int, parts: int) -> float:
    """Return the largest absolute value with which `parts` parts of a weight can be added without overflow.

    >>> largest_part(1000, 20)
    26843.5456
    """
    return 0.5 * LIMIT / SCALE / parts / max(1, weight)


# The number of members for which a sum has room. docs/choices.md, "Bounds and rounding".
MEMBERS = 1000


def shortened(x: FloatArray, weight: int) -> FloatArray:
    """Return a difference, scaled down if it is too large to be added to those of other clients.

    >>> shortened(np.array([3e5, -1e5]), 100), shortened(np.array([3.0, 4.0]), 100)
    (array([2684.35456   , -894.78485333]), array([3., 4.]))
    """
    most, size = 0.5 * largest_part(weight, MEMBERS), float(np.abs(x).max(initial=0.0))
    return x * (most / size) if size > most else x


def exact_sum(parts: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of arrays, with every number rounded to a multiple of 2^-32 and added in int64.

    Raises
    ------
    PeerError
        The sum overflows, or there are no parts.

    >>> exact_sum([np.array([1.0, 0.5]), np.array([0.25, -0.5])])
    array([1.25, 0.  ])
    """
    each = list(parts)
    return weighted_mean([(1, part) for part in each]) * len(each)


def weighted_mean(parts: Iterable[tuple[int, FloatArray]]) -> FloatArray:
    """Return sum(n x) / sum(n), with every n x rounded to a multiple of 2^-32 and added in int64.

    Integer addition is associative, so neither the order of arrival nor partial sums can change a bit.

    Parameters
    ----------
    parts
        Weights n >= 1, and arrays of one shape.

    Raises
    ------
    PeerError
        A product or the sum overflows, or there are no parts.

    Examples
    --------
    >>> weighted_mean([(1, np.array([1.0])), (3, np.array([5.0]))])
    array([4.])
    """
    weights, each = 0, []
    with np.errstate(over="ignore"):  # an overflow is refused just below
        for weight, x in parts:
            weights += weight
            each.append(x * (weight * SCALE))
    if not each:
        raise PeerError("no client trained on any record")
    scaled = np.rint(np.array(each))
    largest = np.abs(scaled).reshape(len(each), -1).max(axis=1, initial=0.0)
    if not sum(largest.tolist()) < LIMIT:
        raise PeerError("an aggregate overflows the fixed-point range: a client's difference is far too large")
    mean: FloatArray = scaled.astype(np.int64).sum(axis=0) / (SCALE * weights)
    return mean
