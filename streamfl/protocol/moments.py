"""Counts, means and squared deviations of features, mergeable across clients."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.protocol.digits import BITS, in_bits
from streamfl.protocol.records import Batch, union

# Larger values are clipped to it, so that no sum of squares overflows.
LARGEST = 1e100

# An outlier, among at least FEWEST values: farther from the median than FAR times the distance within which all but
# the share RARE of the values lie.
FEWEST, FAR, RARE = 8, 10.0, 1 / 40


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """First and second moments of features, without missing values.

    Examples
    --------
    >>> a, b = Moments.of(("x",), np.array([[1.0], [np.nan]])), Moments.of(("x",), np.array([[3.0], [5.0]]))
    >>> both = merged([a, b])
    >>> both.count, both.mean, both.variance.round(4)
    (array([3.]), array([3.]), array([2.6667]))
    """

    features: tuple[str, ...]  # names, length d
    # The number of values, their mean, and the sum of their squared deviations from it; shape (d,) each.
    count: FloatArray
    mean: FloatArray
    m2: FloatArray

    @classmethod
    def of(cls, features: tuple[str, ...], X: FloatArray) -> "Moments":
        """Return the moments of the columns of X, shape (n, d); NaN is a missing value."""
        values = np.clip(X, -LARGEST, LARGEST)
        missing = np.isnan(values)
        count = _present(missing).astype(np.float64)
        has_gaps = bool((count < len(X)).any())
        if has_gaps:
            np.copyto(values, 0.0, where=missing)
        mean = values.sum(axis=0) / np.maximum(count, 1.0)
        values -= mean  # in place: a new array takes longer than the difference
        if has_gaps:
            np.copyto(values, 0.0, where=missing)
        return cls(features, count, mean, np.einsum("ij,ij->j", values, values))

    @property
    def is_sound(self) -> bool:
        """Tell whether all arrays have one number for each feature."""
        return all(part.shape == (len(self.features),) for part in (self.count, self.mean, self.m2))

    @property
    def unnamed(self) -> "Moments":
        """Return the moments without the names of their features; of none, those that messages leave out."""
        return replace(self, features=()) if self.count.size else NOTHING

    @property
    def variance(self) -> FloatArray:
        """Return m2 / count, 0 where there are no values."""
        variance: FloatArray = self.m2 / np.maximum(self.count, 1.0)
        return variance

    @property
    def in_few_bits(self) -> "Moments":
        """Return the moments in few digits, far below what chance does to them: as updates carry them.

        A mean is rounded to less than a 256th of the deviation, squared deviations to 8 bits. Where all values are
        equal, nothing is rounded.

        >>> few = Moments.of(("x", "y"), np.array([[0.1, 0.7], [0.2, 0.7], [0.4, 0.7]])).in_few_bits
        >>> few.mean.round(6), few.m2.round(6)
        (array([0.233398, 0.7     ]), array([0.046631, 0.      ]))
        """
        step = np.ldexp(1.0, np.frexp(np.sqrt(self.variance))[1] - 1 - BITS)
        varies = (self.m2 > 0.0) & (np.abs(self.mean) < step * 2.0**31)
        mean = np.where(varies, step * np.rint(self.mean / step), self.mean)
        return Moments(self.features, self.count, mean, in_bits(self.m2))

    def only(self, which: BoolArray) -> "Moments":
        """Return the moments with a count of 0 for all other features; `which` has shape (d,)."""
        return Moments(self.features, *(np.where(which, a, 0.0) for a in (self.count, self.mean, self.m2)))

    def where(self, which: BoolArray, other: "Moments") -> "Moments":
        """Return the moments, with those of `other` for some features; both have the same features in order."""
        pairs = ((self.count, other.count), (self.mean, other.mean), (self.m2, other.m2))
        return Moments(self.features, *(np.where(which, replacement, own) for own, replacement in pairs))

    def among(self, features: Collection[str]) -> "Moments":
        """Return the moments of the features that are in `features`."""
        return self.aligned(tuple(name for name in self.features if name in features))

    def aligned(self, features: tuple[str, ...]) -> "Moments":
        """Return the moments in another order of features, with a count of 0 for features that it lacks."""
        if features == self.features:
            return self
        at = {name: j for j, name in enumerate(self.features)}
        columns = [at.get(name, len(self.features)) for name in features]
        return Moments(features, *(np.append(a, 0.0)[columns] for a in (self.count, self.mean, self.m2)))


NOTHING = Moments((), np.zeros(0), np.zeros(0), np.zeros(0))


def merged(parts: Sequence[Moments]) -> Moments:
    """Return the moments of all the records behind the parts, over the union of their features.

    Chan, Golub and LeVeque 1983: m2 = sum m2_i + sum n_i (mean_i - mean)^2. The order of the parts fixes the order
    of the features, and the last bits.
    """
    features = union([part.features for part in parts])
    aligned = [part.aligned(features) for part in parts]
    zero = np.zeros(len(features))
    count = sum((a.count for a in aligned), zero)
    mean = sum((a.count * a.mean for a in aligned), zero) / np.maximum(count, 1.0)
    m2 = sum((a.m2 + a.count * (a.mean - mean) ** 2 for a in aligned), zero)
    return Moments(features, count, mean, m2)


def moments_of(batches: Iterable[Batch]) -> Moments:
    """Return the moments of the features of some batches, with outliers moved nearer: see `without_outliers`.

    Batches with the same features are concatenated first, so that the result does not depend on how a source was
    polled.
    """
    alike: dict[tuple[str, ...], list[FloatArray]] = {}
    for batch in batches:
        alike.setdefault(batch.features, []).append(batch.X)
    return merged([_of_near(features, np.concatenate(parts)) for features, parts in alike.items()])


def _of_near(features: tuple[str, ...], X: FloatArray) -> Moments:
    moments = Moments.of(features, X)
    nearer = without_outliers(X, moments)
    return moments if nearer is X else Moments.of(features, nearer)


def without_outliers(X: FloatArray, moments: Moments | None = None) -> FloatArray:
    """Return records with outliers clipped: a sensor's sentinel must not stretch the scale of a feature for ever.

    The bound is FAR times the distance from the median within which all but a fortieth of a feature's values lie, and
    at least all but one. Features with fewer than FEWEST values, or with mostly equal ones, are not clipped.

    Parameters
    ----------
    X
        Shape (n, d); NaN is a missing value.
    moments
        The moments of its columns, if they are known.

    Examples
    --------
    >>> X = np.array([[0.0, -9999.0], [3.0, 1.0], [2.0, np.nan], [1.0, 0.0]])
    >>> without_outliers(np.vstack([X, X[1:], X[1:], X[1:]]))[0]
    array([  0., -10.])
    """
    moments = Moments.of((), X) if moments is None else moments
    if moments.count.max(initial=0.0) < FEWEST:
        return X
    values = np.ascontiguousarray(X.T)  # NumPy is six times as fast along records that lie side by side
    with np.errstate(over="ignore"):  # a distance too large for a number is infinite
        doubtful = np.flatnonzero(~_surely_near(values, moments))
        if not len(doubtful):
            return X
        ordered = np.sort(values[doubtful], axis=1)  # missing values are sorted last
        median, bound, is_beyond = _bounds(ordered, moments.count[doubtful].astype(np.int64))
        if not is_beyond.any():
            return X
        beyond, median, bound = doubtful[is_beyond], median[is_beyond], bound[is_beyond]
        clipped = X.copy()
        clipped[:, beyond] = np.clip(X[:, beyond], median - bound, median + bound)
    return clipped


def _present(missing: BoolArray) -> IntArray:
    """Return how many values of each feature are not missing; the usual case, all of them, needs no count."""
    n, d = missing.shape
    return n - missing.sum(axis=0) if missing.any() else np.full(d, n)


def _rank(present: IntArray | FloatArray) -> IntArray:
    """Return the rank, among sorted distances, within which all but a fortieth lie, and at least all but one."""
    return (np.maximum(present - 1, 0) * (1.0 - RARE)).astype(np.int64)


def _surely_near(values: FloatArray, moments: Moments) -> BoolArray:
    """Return the features that cannot have outliers, by their moments: to sort takes as long as all the rest.

    Let L be the largest distance from the median, and let all but a share f of the values lie within q of it. Their
    mean square s^2 about the mean is at most that about the median, (1 - f) q^2 + f L^2. So if L > FAR q, then
    L > FAR s / sqrt(1 + (FAR^2 - 1) f). The median is at most s from the mean, and L at most s more than the largest
    distance from the mean.

    Parameters
    ----------
    values
        Shape (d, n).
    """
    count = np.maximum(moments.count, 1.0)
    beyond = (count - 1.0 - _rank(count)) / count
    farthest = np.maximum(values.max(axis=1) - moments.mean, moments.mean - values.min(axis=1))
    most = FAR / np.sqrt(1.0 + (FAR * FAR - 1.0) * beyond) - 1.0
    near: BoolArray = farthest <= most * np.sqrt(moments.variance)
    return near


def _bounds(ordered: FloatArray, present: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the median of each feature, the bound on distances from it, and whether a value lies beyond that.

    The values nearest to the median lie side by side.

    Parameters
    ----------
    ordered, present
        The values of each feature, rising and missing ones last, shape (d, n), and how many are present.
    """
    last, rank, features = np.maximum(present - 1, 0), _rank(present), np.arange(len(ordered))
    median = ordered[features, last // 2]
    first = np.minimum(np.arange((last - rank).max(initial=0) + 1), (last - rank)[:, None])
    below, above = (np.take_along_axis(ordered, at, axis=1) for at in (first, first + rank[:, None]))
    within = np.maximum(median[:, None] - below, above - median[:, None]).min(axis=1)
    bound = FAR * within
    bound[~(bound > 0.0) | (present < FEWEST)] = np.inf
    farthest = np.maximum(median - ordered[:, 0], ordered[features, last] - median)
    return median, bound, farthest > bound
