"""Counts, means and squared deviations of features, mergeable across clients."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.protocol.records import Batch, union

# Values beyond it count as it, so that no sum of squares overflows, of however many records.
LARGEST = 1e100

# Of at least FEWEST values those count as far out that are farther from the median than FAR times what all but RARE
# ones are.
FEWEST, FAR, RARE = 8, 10.0, 1 / 40


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """First and second moments of features, missing values left out.

    Parameters
    ----------
    features
        Names, length d.
    count, mean, m2
        Values seen, their mean, and the sum of their squared deviations from it; shape (d,) each.

    Examples
    --------
    >>> a, b = Moments.of(("x",), np.array([[1.0], [np.nan]])), Moments.of(("x",), np.array([[3.0], [5.0]]))
    >>> both = merged([a, b])
    >>> both.count, both.mean, both.variance.round(4)
    (array([3.]), array([3.]), array([2.6667]))
    """

    features: tuple[str, ...]
    count: FloatArray
    mean: FloatArray
    m2: FloatArray

    @classmethod
    def of(cls, features: tuple[str, ...], X: FloatArray) -> "Moments":
        """Return the moments of the columns of X, shape (n, d); NaN is a missing value."""
        X = np.clip(X, -LARGEST, LARGEST)
        missing = np.isnan(X)
        count = _present(missing).astype(np.float64)
        values = np.where(missing, 0.0, X) if missing.any() else X
        mean = values.sum(axis=0) / np.maximum(count, 1.0)
        deviation = X - mean
        if values is not X:
            deviation[missing] = 0.0
        return cls(features, count, mean, np.einsum("ij,ij->j", deviation, deviation))

    @property
    def fits(self) -> bool:
        """Tell whether there is a number of each for every feature."""
        return all(part.shape == (len(self.features),) for part in (self.count, self.mean, self.m2))

    @property
    def variance(self) -> FloatArray:
        """Return m2 / count, 0 where nothing was seen."""
        variance: FloatArray = self.m2 / np.maximum(self.count, 1.0)
        return variance

    def only(self, which: BoolArray) -> "Moments":
        """Return the same moments with none seen of all other features; `which` has shape (d,)."""
        return Moments(self.features, *(np.where(which, a, 0.0) for a in (self.count, self.mean, self.m2)))

    def where(self, which: BoolArray, other: "Moments") -> "Moments":
        """Return the same moments with those of others, of the same features in the same order, for some of these."""
        pairs = ((self.count, other.count), (self.mean, other.mean), (self.m2, other.m2))
        return Moments(self.features, *(np.where(which, theirs, own) for own, theirs in pairs))

    def among(self, features: Collection[str]) -> "Moments":
        """Return the moments of those of its features that are among some."""
        return self.aligned(tuple(name for name in self.features if name in features))

    def aligned(self, features: tuple[str, ...]) -> "Moments":
        """Return the same moments in another order of features, with none seen of those it lacks."""
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
    """Return the moments of the features of some batches, values far out counted nearer: see `without_outliers`.

    Batches of one set of features are joined first, so that how a source was polled leaves no trace.
    """
    alike: dict[tuple[str, ...], list[FloatArray]] = {}
    for batch in batches:
        alike.setdefault(batch.features, []).append(batch.X)
    return merged(
        [Moments.of(features, without_outliers(np.concatenate(parts))) for features, parts in alike.items()]
    )


def without_outliers(X: FloatArray) -> FloatArray:
    """Return records of which no value is far from all the others of its feature.

    A value farther from the median than FAR times what all but a fortieth of them are, and at least all but one,
    becomes one that is so far: a sensor's sentinel must not stretch the scale of a feature for ever. Of fewer than
    FEWEST, or where most are the same, nothing is known of what is far.

    Parameters
    ----------
    X
        Shape (n, d); NaN is a missing value.

    Examples
    --------
    >>> X = np.array([[0.0, -9999.0], [3.0, 1.0], [2.0, np.nan], [1.0, 0.0]])
    >>> without_outliers(np.vstack([X, X[1:], X[1:], X[1:]]))[0]
    array([  0., -10.])
    """
    there = _present(np.isnan(X))
    if there.max(initial=0) < FEWEST:
        return X
    doubtful = ~_surely_near(X, there)
    if not doubtful.any():
        return X
    nearer = _clipped(X[:, doubtful], there[doubtful])
    if nearer is None:
        return X
    found = X.copy()
    found[:, doubtful] = nearer
    return found


def _present(missing: BoolArray) -> IntArray:
    """Return how many values of each feature are not missing: all of them, as a rule, without being counted."""
    n, d = missing.shape
    return n - missing.sum(axis=0) if missing.any() else np.full(d, n)


def _rank(there: IntArray) -> IntArray:
    """Return which of so many distances, in order, is that of all but a fortieth, and at least all but one."""
    return (np.maximum(there - 1, 0) * (1.0 - RARE)).astype(np.int64)


def _surely_near(X: FloatArray, there: IntArray) -> BoolArray:
    """Tell of which features no value can be far out, without the median, since to sort costs more than to learn.

    Whatever lies within a tenth of the range of the median cannot lie in the lowest and in the highest third of the
    range: if more than a fortieth of the values lies in either, the largest distance is at most FAR times that of all
    but a fortieth.
    """
    least, most = X.min(axis=0), X.max(axis=0)
    third = (most - least) / 3.0
    few = np.minimum(
        (least + third >= X).sum(axis=0, dtype=np.int32), (most - third <= X).sum(axis=0, dtype=np.int32)
    )
    near: BoolArray = few >= there - _rank(there)
    return near


def _clipped(X: FloatArray, there: IntArray) -> FloatArray | None:
    """Return records of which no value is far out, None if that are these; `there` are not missing, by feature."""
    last, columns = np.maximum(there - 1, 0), np.arange(X.shape[1])
    median = np.sort(X, axis=0)[last // 2, columns]  # what is missing comes last
    distances = np.sort(np.abs(X - median), axis=0)
    bound = FAR * distances[_rank(there), columns]
    bound[~(bound > 0.0) | (there < FEWEST)] = np.inf
    return np.clip(X, median - bound, median + bound) if (distances[last, columns] > bound).any() else None
