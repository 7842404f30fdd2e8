"""Merges counts and moments of parts that began at one base, with the base counted once."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray


def added(parts: Sequence[FloatArray], base: FloatArray) -> FloatArray:
    """Return base + sum_i (part_i - base), exact for a single part and for whole numbers; all of one shape.

    >>> added([np.array([5.0]), np.array([7.0])], np.array([4.0]))
    array([8.])
    """
    total: FloatArray = sum(parts, np.zeros_like(base)) - (len(parts) - 1) * base
    return total


def pooled(columns: tuple[str, ...], parts: Sequence[FloatArray], base: FloatArray) -> FloatArray:
    """Return the moments of the pooled records.

    Sums of squares about the pooled mean are added like counts: m2 = sum_i m2_i(mean) - (k - 1) m2_0(mean) with
    m2_i(c) = m2_i + n_i (mean_i - c)^2. No term is larger than the result, so no digits are lost however large the
    base is. Subtracting the base from each part first (Chan et al. backwards) and merging the rest is the same sum.

    Parameters
    ----------
    columns
        count, mean, and perhaps variance or m2.
    parts, base
        Shape (features, columns) each; k parts.

    References
    ----------
    Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician, 1983.

    Examples
    --------
    The base has the values 1 and 3, one client adds 5, the other 7 and 9: together 1, 3, 5, 7, 9.

    >>> base, one, other = np.array([[2.0, 2.0, 2.0]]), np.array([[3.0, 3.0, 8.0]]), np.array([[4.0, 5.0, 40.0]])
    >>> pooled(("count", "mean", "m2"), [one, other], base)
    array([[ 5.,  5., 40.]])
    """
    count = added([part[:, 0] for part in parts], base[:, 0])
    mean = _mean(parts, base, count)
    moments = [count, mean]
    if len(columns) == 3:
        m2 = np.maximum(added([_about(mean, part, columns) for part in parts], _about(mean, base, columns)), 0.0)
        moments.append(m2 / np.maximum(count, 1.0) if columns[2] == "variance" else m2)
    # Moments without new values stay the same to the last bit.
    return np.where((count > base[:, 0])[:, None], np.column_stack(moments), base)


def _about(mean: FloatArray, part: FloatArray, columns: tuple[str, ...]) -> FloatArray:
    """Return a part's sum of squared deviations from another mean than its own."""
    count, own_mean, spread = part.T
    m2 = spread * count if columns[2] == "variance" else spread
    deviations: FloatArray = m2 + count * (own_mean - mean) ** 2
    return deviations


def _mean(parts: Sequence[FloatArray], base: FloatArray, count: FloatArray) -> FloatArray:
    """Return the pooled mean, computed from one of the means, so that a constant stays exactly constant."""
    start = np.zeros(len(base))
    for part in (*reversed(parts), base):
        start = np.where(part[:, 0] > 0.0, part[:, 1], start)
    moved = sum((part[:, 0] * (part[:, 1] - start) for part in parts), np.zeros(len(base)))
    mean: FloatArray = start + moved / np.maximum(count, 1.0)
    return mean
