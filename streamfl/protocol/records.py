"""Records as they arrive: in columns, with the position of every record in its source.

Records travel in batches of columns, never one Python object a record: a federation reads millions of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import bounded
from streamfl.errors import BrokenInvariantError
from streamfl.protocol.delayed import Answers, Half

# Tables hold targets as float32, and their squares are summed up: both must stay finite.
LARGEST_TARGET = 1e30


@dataclass(frozen=True, slots=True)
class Rejection:
    """A bad record: its position in the partition, and what is wrong with it.

    It may stand for a run of `count` bad records without a good one among them. `key` is the record's, if labels come
    apart and it could be read, else "".
    """

    position: int
    reason: str
    count: int = 1
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The positions `[start, end)` of one partition.

    >>> Span("c0", 10, 25)
    Span(partition='c0', start=10, end=25)
    """

    partition: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive records of one partition, good ones as columns, bad ones as rejections."""

    span: Span  # the positions that this batch covers; those without a record held none (a transaction's markers)
    positions: IntArray  # the position of each good record, shape (n,), strictly increasing
    features: tuple[str, ...]  # names of the columns of `X`, length d
    X: FloatArray  # feature values, shape (n, d); NaN is a missing value
    # Shape (n,): in classification the index of each record's label in `labels`, in regression its target.
    y: FloatArray
    labels: tuple[str, ...] = ()  # names of the labels; empty in regression
    rejected: tuple[Rejection, ...] = ()  # the bad records among them, by increasing position

    # When each good record was measured, in seconds since 1970, NaN where unknown, shape (n,); None if no time is
    # known. Nothing is learnt or decided from times: they are told with what was found.
    times: FloatArray | None = None
    # If labels come later: which half of its records this is. None: they are whole.
    half: Half | None = None
    # If labels came later: the position of each record's features in their own partition, shape (n,).
    beside: IntArray | None = None
    # What was answered to the records before: their labels came later, or they were too few to be sent.
    answers: Answers | None = None

    def __len__(self) -> int:
        """Count the good records."""
        return len(self.positions)

    @property
    def answered_early(self) -> bool:
        """Tell whether the records came with their labels, were answered, and were too few to be sent then."""
        return self.answers is not None and self.beside is None

    @property
    def bad(self) -> int:
        """Count the bad records."""
        return sum([rejection.count for rejection in self.rejected]) if self.rejected else 0

    @property
    def read(self) -> int:
        """Count all records, good and bad."""
        return len(self.positions) + self.bad

    def head(self, n: int) -> "Batch":
        """Return the batch up to and with its n-th good record, and every bad one before it.

        >>> batch = Batch(Span("p", 0, 4), np.array([0, 2, 3]), ("a",), np.ones((3, 1)), np.zeros(3), ("x",),
        ...               (Rejection(1, "no label"),))
        >>> batch.head(2).span, len(batch.head(2).rejected)
        (Span(partition='p', start=0, end=3), 1)
        """
        if n > len(self):
            return self
        end = int(self.positions[n - 1]) + 1 if n else self.span.start
        if n == len(self) and end == self.span.end:
            return self
        return self._cut(0, n, self.span.start, end)

    def after(self, position: int) -> "Batch":
        """Return the part of the batch that starts at `position`."""
        if position <= self.span.start:
            return self
        first = int(np.searchsorted(self.positions, position))
        return self._cut(first, len(self), min(position, self.span.end), self.span.end)

    def before(self, position: int) -> "Batch":
        """Return the part of the batch that ends at `position`."""
        if position >= self.span.end:
            return self
        last = int(np.searchsorted(self.positions, position))
        return self._cut(0, last, self.span.start, max(position, self.span.start))

    def only(self, rows: IntArray) -> "Batch":
        """Return some of the good records, by increasing row, without the bad ones."""
        return self._of(rows, self.span, ())

    def sound(self) -> "Batch":
        """Return the batch with targets too large to be squared moved to the bad records.

        >>> batch = Batch(Span("p", 0, 2), np.arange(2), ("a",), np.ones((2, 1)), np.array([1e200, 3.0]))
        >>> batch.sound().y, batch.sound().rejected
        (array([3.]), (Rejection(position=0, reason='the target is 1e+200: at most 1e+30', count=1),))
        """
        if self.labels or not len(self.y) or np.abs(self.y).max() <= LARGEST_TARGET:
            return self
        good = np.abs(self.y) <= LARGEST_TARGET
        wrong = [
            Rejection(position, f"the target is {y:g}: at most {LARGEST_TARGET:g}")
            for position, y in zip(self.positions[~good].tolist(), self.y[~good].tolist(), strict=True)
        ]
        rejected = tuple(sorted([*self.rejected, *wrong], key=lambda bad: bad.position))
        return replace(self.only(np.flatnonzero(good)), rejected=rejected)

    def valued(self, besides: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the features besides some that have a value in some record.

        >>> X = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, 3.0]])
        >>> Batch(Span("p", 0, 2), np.arange(2), ("x", "y", "z"), X, np.zeros(2)).valued(besides=("z",))
        ('x',)
        """
        known = {*besides}
        empty = np.all(np.isnan(self.X), axis=0)
        return tuple(
            name for name, is_empty in zip(self.features, empty, strict=True) if not is_empty and name not in known
        )

    def within(self, features: tuple[str, ...] | None, labels: tuple[str, ...] | None) -> "Batch":
        """Return the batch without other features, and with the records of other labels moved to the bad ones.

        Parameters
        ----------
        features, labels
            The names that are kept; None: all.

        >>> batch = Batch(Span("p", 0, 2), np.arange(2), ("x", "y"), np.eye(2), np.array([0.0, 1.0]), ("a", "b"))
        >>> kept = batch.within(("y", "z"), ("b",))
        >>> kept.features, kept.X, kept.y, kept.labels
        (('y',), array([[1.]]), array([0.]), ('b',))
        >>> kept.rejected
        (Rejection(position=0, reason='its label is beyond the limit of 1 labels: a', count=1),)
        """
        batch = self
        if features is not None and not set(features).issuperset(self.features):
            known = set(features)
            columns = [j for j, name in enumerate(self.features) if name in known]
            names = tuple(self.features[j] for j in columns)
            batch = replace(batch, features=names, X=batch.X[:, columns])
        if labels is None or set(labels).issuperset(self.labels):
            return batch
        return batch._of_labels(labels)

    def _of_labels(self, labels: tuple[str, ...]) -> "Batch":
        known = set(labels)
        kept = [code for code, label in enumerate(self.labels) if label in known]
        place = np.full(len(self.labels), -1.0)
        place[kept] = np.arange(len(kept))
        y = place[self.y.astype(np.intp)]
        what = f"its label is beyond the limit of {len(labels)} labels"
        wrong = [
            Rejection(position, bounded(f"{what}: {self.labels[int(code)]}"))
            for position, code in zip(self.positions[y < 0.0].tolist(), self.y[y < 0.0].tolist(), strict=True)
        ]
        good = replace(self, y=y, labels=tuple(self.labels[code] for code in kept)).only(np.flatnonzero(y >= 0.0))
        return replace(good, rejected=tuple(sorted([*self.rejected, *wrong], key=lambda bad: bad.position)))

    def ordinals(self, first: int) -> IntArray:
        """Return the ordinal of each good record; `first` is that of the batch's first record, good or bad.

        >>> batch = Batch(Span("p", 7, 10), np.array([7, 9]), (), np.ones((2, 0)), np.zeros(2), ("x",),
        ...               (Rejection(8, "no label"),))
        >>> batch.ordinals(100)
        array([100, 102])
        """
        ordinals: IntArray = first + np.arange(len(self))
        if not self.rejected:
            return ordinals
        bad = np.cumsum([0, *(r.count for r in self.rejected)])
        before: IntArray = ordinals + bad[self._runs_before()]
        return before

    def _runs_before(self) -> IntArray:
        return np.searchsorted([r.position for r in self.rejected], self.positions)

    def condensed(self) -> "Batch":
        """Return the batch with one rejection for each run of bad records, with the position and reason of its first.

        >>> bad = tuple(Rejection(i, "no label") for i in (7, 8, 10))
        >>> batch = Batch(Span("p", 7, 11), np.array([9]), (), np.ones((1, 0)), np.zeros(1), ("x",), bad)
        >>> [(rejection.position, rejection.count) for rejection in batch.condensed().rejected]
        [(7, 2), (10, 1)]
        """
        runs: dict[int, Rejection] = {}
        before = np.searchsorted(self.positions, [r.position for r in self.rejected]).tolist()
        for run, bad in zip(before, self.rejected, strict=True):
            runs[run] = replace(runs[run], count=runs[run].count + bad.count) if run in runs else bad
        return replace(self, rejected=tuple(runs.values()))

    def _cut(self, first: int, last: int, start: int, end: int) -> "Batch":
        bad = tuple(r for r in self.rejected if start <= r.position < end)
        return self._of(slice(first, last), Span(self.span.partition, start, end), bad)

    def _of(self, rows: IntArray | slice, span: Span, rejected: tuple[Rejection, ...]) -> "Batch":
        return Batch(
            span,
            self.positions[rows],
            self.features,
            self.X[rows],
            self.y[rows],
            self.labels,
            rejected,
            None if self.times is None else self.times[rows],
            None if self.half is None else self.half.of(rows),
            None if self.beside is None else self.beside[rows],
            None if self.answers is None else self.answers.of(rows),
        )


def spans(batches: Sequence[Batch]) -> tuple[Span, ...]:
    """Return the positions that consecutive batches cover, one span a partition, in order of appearance."""
    joined: dict[str, Span] = {}
    for span in (batch.span for batch in batches):
        before = joined.get(span.partition)
        if before is not None and before.end != span.start:
            raise BrokenInvariantError(f"{span} does not follow {before}")
        joined[span.partition] = Span(span.partition, before.start if before else span.start, span.end)
    return tuple(joined.values())


def first_and_last_time(batches: Sequence[Batch]) -> tuple[int, int] | None:
    """Return when the first and the last good record were measured, the earlier first; None if no time is known.

    Only the times of these two records are told, or of those next to them if theirs are unknown.

    Returns
    -------
    Milliseconds since 1970.

    >>> times = np.array([np.nan, 2.0, 3.5])
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), (), np.ones((3, 0)), np.zeros(3), times=times)
    >>> first_and_last_time([batch]), first_and_last_time([batch.head(1)])
    ((2000, 3500), None)
    """
    known = [times[~np.isnan(times)] for times in (batch.times for batch in batches) if times is not None]
    known = [times for times in known if len(times)]
    if not known:
        return None
    first, last = sorted((float(known[0][0]), float(known[-1][-1])))
    return round(1000.0 * first), round(1000.0 * last)


def stacked(batches: Sequence[Batch]) -> Batch:
    """Return the good records of some batches as one batch, over the union of their features and labels.

    A feature that a record lacks is NaN. The span is that of the first batch, and means nothing for the others.

    >>> a = Batch(Span("p", 0, 1), np.arange(1), ("x",), np.array([[1.0]]), np.zeros(1), ("a",))
    >>> b = Batch(Span("q", 0, 1), np.arange(1), ("y",), np.array([[2.0]]), np.zeros(1), ("b",))
    >>> both = stacked([a, b])
    >>> both.X, both.y, both.labels
    (array([[ 1., nan],
           [nan,  2.]]), array([0., 1.]), ('a', 'b'))
    """
    parts = [batch for batch in batches if len(batch)]
    if not parts:
        return Batch(Span("", 0, 0), np.zeros(0, np.int64), (), np.zeros((0, 0)), np.zeros(0))
    features, labels = union([part.features for part in parts]), union([part.labels for part in parts])
    return Batch(
        parts[0].span,
        np.concatenate([part.positions for part in parts]),
        features,
        np.concatenate([_with_columns(part, features) for part in parts]),
        np.concatenate([_coded(part, labels) for part in parts]),
        labels,
        beside=_beside(parts),
    )


def _beside(parts: Sequence[Batch]) -> IntArray | None:
    """Return where the features of records are, if their labels came later."""
    places = [part.beside for part in parts if part.beside is not None]
    return np.concatenate(places) if places else None


def without_infinity(X: FloatArray) -> tuple[FloatArray, int]:
    """Return values with NaN for infinite ones, and how many of these there were.

    >>> without_infinity(np.array([[1.0, -np.inf], [np.nan, np.inf]]))
    (array([[ 1., nan],
           [nan, nan]]), 2)
    """
    if isfinite(np.vdot(X, X)):  # nearly always, and in half the time
        return X, 0
    infinite = np.isinf(X)
    count = int(np.count_nonzero(infinite))
    return (np.where(infinite, np.nan, X), count) if count else (X, 0)


def union(names: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names in the order of their first appearance.

    >>> union([("x", "y"), ("y", "z")])
    ('x', 'y', 'z')
    """
    first = names[0] if names else ()
    if names.count(first) == len(names):
        return first
    return tuple(dict.fromkeys(name for some in names for name in some))


def aligned(X: FloatArray, features: tuple[str, ...], names: tuple[str, ...]) -> FloatArray:
    """Return the columns `names` of values whose columns are `features`; NaN for a name without a column.

    >>> aligned(np.array([[1.0, 2.0]]), ("x", "y"), ("y", "z"))
    array([[ 2., nan]])
    """
    if features == names:
        return X
    at = {name: j for j, name in enumerate(features)}
    columns = [at.get(name, len(features)) for name in names]
    return np.column_stack([X, np.full(len(X), np.nan)])[:, columns]


def _with_columns(batch: Batch, features: tuple[str, ...]) -> FloatArray:
    if batch.features == features:
        return batch.X
    at = {name: j for j, name in enumerate(features)}
    X = np.full((len(batch), len(features)), np.nan)
    X[:, [at[name] for name in batch.features]] = batch.X
    return X


def _coded(batch: Batch, labels: tuple[str, ...]) -> FloatArray:
    if batch.labels == labels:
        return batch.y
    at = {label: float(i) for i, label in enumerate(labels)}
    return np.array([at[label] for label in batch.labels])[batch.y.astype(np.intp)]
