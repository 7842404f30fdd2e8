"""Large whole numbers as limbs of 48 bits, which are added one by one in int64: sums of features on any scale.

The second moment about a common point needs twice the digits of the mean, and the scale of a feature is not known
before clients have told it. So means, their squares, and squared deviations are sent as whole multiples of small
powers of two, in several limbs; the total is exact.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.moments import Moments

BITS = 48

# Means are multiples of 2^-48 and at most 2^64 in size; their squares, and squared deviations, multiples of 2^-96.
# With 2^14 values a client that is 126 bits, 238, and 240 with deviations of up to 2^65.
POINT, FARTHEST = 48, 2.0**64
IN_MEAN, IN_SQUARE = 3, 5


def split(numbers: Sequence[int], limbs: int) -> IntArray:
    """Return whole numbers as limbs of their sign, the lowest first, shape (n, limbs); too large ones are clipped.

    >>> split([2**48 + 3, -5], 2)
    array([[ 3,  1],
           [-5,  0]])
    """
    most = 2 ** (BITS * limbs) - 1
    rows = [[(min(abs(n), most) >> (BITS * i)) & (2**BITS - 1) for i in range(limbs)] for n in numbers]
    signs = np.array([-1 if n < 0 else 1 for n in numbers], np.int64)
    return np.array(rows, np.int64).reshape(len(numbers), limbs) * signs[:, None]


def joined(limbs: IntArray) -> list[int]:
    """Return the whole numbers of (sums of) limbs.

    >>> joined(split([2**90, -5], 2) + split([1, 2**60], 2)) == [2**90 + 1, 2**60 - 5]
    True
    """
    return [sum(limb << (BITS * i) for i, limb in enumerate(row)) for row in limbs.tolist()]


def moments_in_limbs(moments: Moments) -> dict[str, IntArray]:
    """Return moments as whole numbers that can be added up over clients.

    Returns
    -------
    `values`, the counts, shape (d,); `means`, n times the mean, (d, 3); `squares`, n times its square, (d, 5); and
    `deviations`, the squared deviations from it, (d, 5).
    """
    counts = [round(n) for n in moments.count.tolist()]
    means = [round(min(max(m, -FARTHEST), FARTHEST) * 2.0**POINT) for m in moments.mean.tolist()]
    deviations = [round(min(m2, FARTHEST**2 * max(1, n)) * 2.0 ** (2 * POINT)) for m2, n in _with(moments.m2, counts)]
    return {
        "values": np.array(counts, np.int64),
        "means": split([n * m for n, m in zip(counts, means, strict=True)], IN_MEAN),
        "squares": split([n * m * m for n, m in zip(counts, means, strict=True)], IN_SQUARE),
        "deviations": split(deviations, IN_SQUARE),
    }


def moments_of_limbs(features: tuple[str, ...], parts: dict[str, IntArray]) -> Moments:
    """Return the moments of all clients' values.

    Whatever was added up, they are finite, and no count or deviation is below 0.

    Parameters
    ----------
    features
        Their names, length d.
    parts
        Sums of what `moments_in_limbs` returns.

    Examples
    --------
    >>> X = np.array([[1e9], [1e9 + 1.0], [1e9 + 5.0]])
    >>> each = [moments_in_limbs(Moments.of(("x",), part)) for part in (X[:1], X[1:])]
    >>> both = moments_of_limbs(("x",), {name: each[0][name] + each[1][name] for name in each[0]})
    >>> both.count, both.mean - 1e9, both.m2
    (array([3.]), array([2.]), array([14.]))
    """
    counts = [max(0, n) for n in parts["values"].tolist()]
    rows = zip(counts, *(joined(parts[name]) for name in ("means", "squares", "deviations")), strict=True)
    mean, m2 = [], []
    for n, means, squares, deviations in rows:
        between = squares - Fraction(means * means, n) if n else 0
        mean.append(float(Fraction(means, n << POINT)) if n else 0.0)
        m2.append(max(0.0, float(Fraction(deviations + between) / 2 ** (2 * POINT))) if n else 0.0)
    return Moments(features, np.array(counts, np.float64), np.array(mean), np.array(m2))


def _with(numbers: FloatArray, counts: list[int]) -> list[tuple[float, int]]:
    return list(zip(numbers.tolist(), counts, strict=True))
