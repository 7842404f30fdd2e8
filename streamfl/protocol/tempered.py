"""Moments of several clients, of which none moves a scale far: what lies far beyond all others is moved nearer."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import union

# Of fewer clients none can be told from the others.
FEWEST = 4

# Values count as at most this many times as many as those of the middle client; means and deviations may lie this
# many deviations from the middle. docs/choices.md, "Influence".
HEAVIEST, FAR = 10.0, 10.0

# The part of the clients whose deviations are not the largest: a feature may be constant at most of them.
MOST = 0.7


def tempered(parts: Sequence[Moments]) -> list[Moments]:
    """Return the moments of clients, each of its own features, none far beyond those of all others; usually the same.

    A deviation is that which at least seven tenths of the clients do not exceed, with that of their means. Where it
    is 0, or fewer than four clients have values, nothing can be told, and moments stay as they are.

    Examples
    --------
    >>> each = [Moments(("x",), np.array([9.0]), np.array([m]), np.array([9.0])) for m in (0.0, 1.0, 2.0, 1.0)]
    >>> liar = Moments(("x",), np.array([2.0**40]), np.array([1e9]), np.array([0.0]))
    >>> *same, moved = tempered([*each, liar])
    >>> all(a is b for a, b in zip(same, each)), moved.count, moved.mean.round(1)
    (True, array([90.]), array([18.9]))
    """
    if len(parts) < FEWEST:
        return list(parts)
    features = union([part.features for part in parts])
    aligned = [part.aligned(features) for part in parts]
    count, mean, m2 = (np.array([getattr(part, name) for part in aligned]) for name in ("count", "mean", "m2"))
    seen = count > 0.0
    enough = seen.sum(axis=0) >= FEWEST
    most = HEAVIEST * _middle(count, seen)
    centre = _middle(mean, seen)
    spread = 1.4826 * _middle(np.abs(mean - centre), seen)
    own = _ranked(np.sqrt(m2 / np.maximum(count, 1.0)), seen, MOST)
    far = FAR * np.sqrt(own**2 + spread**2)
    far = np.where(far > 0.0, far, np.inf)
    new_count = np.minimum(count, most)
    new_mean = np.clip(mean, centre - far, centre + far)
    with np.errstate(invalid="ignore"):  # no values, and no bound
        new_m2 = np.minimum(m2 * new_count / np.maximum(count, 1.0), new_count * far**2)
        odd = enough & seen & ((new_count < count) | (new_mean != mean) | (m2 > count * far**2))
    arrays = (np.where(odd, new, old) for new, old in ((new_count, count), (new_mean, mean), (new_m2, m2)))
    moved = [Moments(features, *own) for own in zip(*arrays, strict=True)]
    each = zip(parts, moved, odd.any(axis=1), strict=True)
    return [new.aligned(part.features) if is_odd else part for part, new, is_odd in each]


def beside(part: Moments, known: Moments, values: float) -> Moments:
    """Return moments that do not lie far beyond those of all earlier values, of features with at least this many.

    >>> known = Moments(("x",), np.array([200.0]), np.array([1.0]), np.array([200.0]))
    >>> beside(Moments(("x",), np.array([9.0]), np.array([1e9]), np.array([1e9])), known, 160.0).mean
    array([11.])
    """
    if not len(part.features):
        return part
    old = known.aligned(part.features)
    far = np.where((old.count >= values) & (old.m2 > 0.0), FAR * np.sqrt(old.variance), np.inf)
    mean = np.clip(part.mean, old.mean - far, old.mean + far)
    m2 = np.minimum(part.m2, np.maximum(part.count, 1.0) * far**2)
    if np.array_equal(mean, part.mean) and np.array_equal(m2, part.m2):
        return part
    return Moments(part.features, part.count, mean, m2)


def _middle(numbers: FloatArray, seen: BoolArray) -> FloatArray:
    """Return the lower median of each column over the clients with values; 0 without any."""
    return _ranked(numbers, seen, 0.5)


def _ranked(numbers: FloatArray, seen: BoolArray, part: float) -> FloatArray:
    """Return the number of each column that a part of the clients with values do not exceed, rounded down."""
    ordered = np.sort(np.where(seen, numbers, np.inf), axis=0)
    at = np.floor(part * np.maximum(seen.sum(axis=0) - 1, 0)).astype(np.int64)
    ranked = ordered[at, np.arange(numbers.shape[1])]
    finite: FloatArray = np.where(np.isfinite(ranked), ranked, 0.0)
    return finite
