"""A test whether a model has become less sure: a change of the beta distribution of its confidences."""

import math

import numpy as np
from scipy.special import betaln

from streamfl.arrays import FloatArray

CERTAIN = 1e-6  # confidences stay this far from 0 and 1, where the density may have no finite logarithm


def change_point(confidences: FloatArray, *, sensitivity: float, least: int = 100) -> int | None:
    """Return the index of the first confidence after a change, or None.

    Each index with at least `least` confidences on either side splits them. If the mean of the later part is lower by
    at least the share `sensitivity`, a beta distribution is fitted to each part by its moments. The statistic is the
    logarithm of the ratio of the likelihoods of the later part under both; the test alarms if the largest of all
    splits is above -ln(sensitivity).

    Parameters
    ----------
    confidences
        Each record's largest predicted probability, the oldest first, shape (n,).
    sensitivity
        Smallest relative fall of the mean; and, in the threshold, of the likelihood.
    least
        Smallest number of confidences in a part.

    References
    ----------
    Haque, Khan and Baron, "SAND: semi-supervised adaptive novel class detection and classification over data stream",
    AAAI 2016.

    Examples
    --------
    >>> sure, unsure = np.tile([0.85, 0.9, 0.95], 40), np.tile([0.4, 0.5, 0.6], 40)
    >>> change_point(np.concatenate([sure, unsure]), sensitivity=0.1)
    120
    >>> change_point(np.concatenate([unsure, sure]), sensitivity=0.1) is None
    True
    """
    x, n = np.clip(confidences, CERTAIN, 1.0 - CERTAIN), len(confidences)
    k = np.arange(least, n - least + 1)
    if not len(k):
        return None
    sums = np.cumsum([x, x**2, np.log(x), np.log1p(-x)], axis=1)
    before, after = sums[:, k - 1] / k, (sums[:, -1:] - sums[:, k - 1]) / (n - k)
    ratios = (n - k) * (_likelihood(after, after) - _likelihood(before, after))
    ratios[after[0] > (1.0 - sensitivity) * before[0]] = -math.inf
    best = int(ratios.argmax())
    return int(k[best]) if ratios[best] > -math.log(sensitivity) else None


def _likelihood(fitted: FloatArray, of: FloatArray) -> FloatArray:
    """Return the mean log-density of parts, by beta distributions that are fitted to other parts.

    Both have the means of x, x^2, ln x and ln(1 - x) of each part, shape (4, parts).
    """
    mean, square, _, _ = fitted
    size = mean * (1.0 - mean) / np.maximum(square - mean**2, CERTAIN) - 1.0
    a, b = mean * size, (1.0 - mean) * size
    logs: FloatArray = (a - 1.0) * of[2] + (b - 1.0) * of[3] - betaln(a, b)
    return logs
