"""The registry that all clients agree on: the order of features and labels, the scaler, the unit of targets."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from math import isfinite

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.protocol.early import FARTHER
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Batch, aligned
from streamfl.protocol.time_features import DEVIATION, are_of_time

# Standardised values are clipped to this many deviations: one broken sensor must not outweigh all records of a round.
# Without standardisation the bound only prevents an overflow of gradients.
FARTHEST, FARTHEST_UNSCALED = 50.0, 1e4

# A feature whose mean has moved by so many deviations needs a new scale.
MOVED = 3.0


@dataclass(frozen=True, slots=True)
class TargetUnit:
    """A robust location and scale of regression targets: models predict (y - centre) / scale.

    A scale of 0 means that no target is known; 1 may mean that all targets were equal.

    >>> TargetUnit.of(np.array([1.0, 2.0, 3.0, 100.0]))
    TargetUnit(centre=2.5, scale=1.4826)
    """

    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: FloatArray) -> "TargetUnit":
        """Return the median and 1.4826 times the median absolute deviation; the deviation where that is 0."""
        if not len(y):
            return cls()
        centre = float(np.median(y))
        deviations = y - centre  # a large constant would cost digits
        return cls(centre, 1.4826 * float(np.median(np.abs(deviations))) or float(np.std(deviations)) or 1.0)

    @property
    def is_known(self) -> bool:
        """Tell whether any target was known."""
        return self.scale > 0.0

    def gives_way_to(self, other: "TargetUnit") -> bool:
        """Tell whether another unit should replace this one, because this one has no scale, or the default one.

        >>> nothing, same, some = TargetUnit(0.0, 0.0), TargetUnit(5.0, 1.0), TargetUnit(5.0, 0.1)
        >>> nothing.gives_way_to(same), same.gives_way_to(some), some.gives_way_to(TargetUnit(6.0, 0.2))
        (True, True, False)
        """
        return other.is_known and (not self.is_known or self.scale == 1.0 != other.scale)


@dataclass(frozen=True, eq=False)
class Registry:
    """A version of the coordinates of the weights.

    A row of a weight matrix belongs to a feature, the last row to the constant 1; a column belongs to a label.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> registry = Registry(1, ("x", "late"), ("a",), np.zeros(2), np.ones(2))
    >>> scaled = registry.scaled_by(Moments.of(("x",), np.array([[1.0], [3.0]])))
    >>> scaled.unscaled
    ('late',)
    >>> scaled.design([Batch(Span("p", 0, 1), np.arange(1), ("x",), np.array([[5.0]]), np.zeros(1), ("a",))])
    array([[3., 0., 1.]])
    """

    version: int  # grows with every change
    # Names; new ones are appended. In regression there are no labels.
    features: tuple[str, ...]
    labels: tuple[str, ...]

    # The scaler: z = (x - mean) / scale; shape (d,) each. A mean of NaN marks a feature whose scale is not known yet:
    # its values count as missing, so its weights stay 0.
    mean: FloatArray
    scale: FloatArray
    target: TargetUnit = TargetUnit()  # the unit of regression targets
    farthest: float = FARTHEST  # the magnitude to which z is clipped

    @property
    def rows(self) -> int:
        """Return the number of rows of a weight matrix: the features and the intercept."""
        return len(self.features) + 1

    @cached_property
    def feature_names(self) -> frozenset[str]:
        """Return the names of features, to look one up; cached for all clients of a process."""
        return frozenset(self.features)

    @cached_property
    def label_names(self) -> frozenset[str]:
        """Return the labels, to look one up; cached for all clients of a process."""
        return frozenset(self.labels)

    def scaled_by(self, moments: Moments, *, only: Collection[str] | None = None) -> "Registry":
        """Return a registry that standardises by these moments; a constant feature is only centred.

        So is a feature of the time: the first records show too little of a day, a week or a year to scale it by.
        With `only`, all other features keep their scale.
        """
        aligned = moments.aligned(self.features)
        deviation = np.sqrt(aligned.variance)
        deviation = np.where(are_of_time(self.features), np.maximum(deviation, DEVIATION), deviation)
        scale = np.where(deviation > 1e-12 * np.maximum(np.abs(aligned.mean), 1.0), deviation, 1.0)
        follows = np.array([only is None or name in only for name in self.features], dtype=np.bool_)
        seen = np.where(aligned.count > 0, aligned.mean, np.nan)
        mean, scale = np.where(follows, seen, self.mean), np.where(follows, scale, self.scale)
        return replace(self, version=self.version + 1, mean=mean, scale=scale)

    def moved(self, moments: Moments) -> tuple[str, ...]:
        """Return the features whose mean moved by at least MOVED deviations, by the larger of both spreads.

        >>> registry = Registry(1, ("x",), (), np.zeros(1), np.ones(1))
        >>> near, far = (np.array([[mean - 1.0], [mean + 1.0]]) for mean in (2.0, 4.0))
        >>> registry.moved(Moments.of(("x",), near)), registry.moved(Moments.of(("x",), far))
        ((), ('x',))
        """
        now = moments.aligned(self.features)
        distance = np.abs(now.mean - self.mean)
        far = distance >= MOVED * np.maximum(self.scale, np.sqrt(now.variance))
        measured = (now.count > 0) & (now.variance > 0.0)
        return tuple(compress(self.features, far & measured))

    @property
    def unscaled(self) -> tuple[str, ...]:
        """Return the features whose scale is not known yet."""
        return tuple(name for name, mean in zip(self.features, self.mean, strict=True) if np.isnan(mean))

    def grown(self, features: Sequence[str], labels: Sequence[str], *, mean: float = np.nan) -> "Registry":
        """Return a registry with names appended; new features get this mean, and scale 1."""
        more = len(features)
        return replace(
            self,
            version=self.version + 1,
            features=(*self.features, *features),
            labels=(*self.labels, *labels),
            mean=np.append(self.mean, np.full(more, mean)),
            scale=np.append(self.scale, np.ones(more)),
        )

    def unknown_features(self, batches: Sequence[Batch]) -> tuple[str, ...]:
        """Return the features with a value in some batches that are not registered, in alphabetical order.

        A column without a value is no feature yet: a source that is polled in other pieces may not have it.
        """
        others = [batch for batch in batches if batch.features != self.features]
        return tuple(sorted({name for batch in others for name in batch.valued(self.features)}))

    def in_unit(self, target: TargetUnit) -> "Registry":
        """Return a registry with another unit of targets."""
        return replace(self, version=self.version + 1, target=target)

    def design(self, batches: Sequence[Batch]) -> FloatArray:
        """Return the records as rows z and a last column of ones, shape (n, d + 1); a missing value is the mean."""
        return self.measured(batches)[0]

    @cached_property
    def wrong(self) -> str | None:
        """Return why it cannot be used, or None; cached for all clients of a process."""
        d, target = len(self.features), self.target
        if len(set(self.features)) != d or len(set(self.labels)) != len(self.labels):
            return "the registry has a name twice"
        if self.mean.shape != (d,) or self.scale.shape != (d,):
            return "the scaler does not fit its features"
        scales = (*self.scale.tolist(), self.farthest)
        unit = isfinite(target.centre) and isfinite(target.scale) and target.scale >= 0.0  # 0: none is known yet
        known = unit and self.farthest <= FARTHEST_UNSCALED and all(isfinite(one) and one > 0.0 for one in scales)
        return None if known and not np.isinf(self.mean).any() else "the scaler, or the unit of targets, is not valid"

    @cached_property
    def _scaler(self) -> tuple[FloatArray, FloatArray]:
        """Return what is subtracted from whole rows of a design, and by what they are multiplied.

        The last column becomes (0 - -1) * 1 = 1: whole rows are faster than all columns but one.
        """
        return np.append(self.mean, -1.0), np.append(1.0 / self.scale, 1.0)

    def measured(self, batches: Sequence[Batch]) -> tuple[FloatArray, FloatArray]:
        """Return the design of some batches and the squared norm of each of its rows, shape (n,)."""
        Z = np.empty((sum(map(len, batches)), self.rows))
        z, at = Z[:, :-1], 0
        for batch in batches:
            z[at : at + len(batch)] = aligned(batch.X, batch.features, self.features)
            at += len(batch)
        Z[:, -1] = 0.0
        subtrahend, factor = self._scaler
        Z -= subtrahend
        Z *= factor
        norms = np.einsum("ij,ij->i", Z, Z)
        if not norms.max(initial=0.0) <= self.farthest * self.farthest:  # a value is missing, or may need clipping
            if np.isnan(norms).any():
                np.nan_to_num(z, copy=False, nan=0.0)
            np.clip(z, -self.farthest, self.farthest, out=z)
            norms = np.einsum("ij,ij->i", Z, Z)
        return Z, norms

    def targets(self, batches: Sequence[Batch], labels: tuple[str, ...]) -> FloatArray:
        """Return each record's label index in `labels`, or its target in the registry's unit; shape (n,)."""
        if not batches:
            return np.zeros(0)
        if not labels:
            y = np.concatenate([batch.y for batch in batches])
            return (y - self.target.centre) / self.target.scale
        if all(batch.labels == labels for batch in batches):
            return np.concatenate([batch.y for batch in batches])
        at = {label: i for i, label in enumerate(labels)}
        codes = [np.array([at.get(label, -1) for label in batch.labels], dtype=np.float64) for batch in batches]
        return np.concatenate([c[b.y.astype(np.intp)] for c, b in zip(codes, batches, strict=True)])


def ordered(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels in numerical order if all are whole numbers, else in alphabetical order.

    >>> ordered(["10", "9", "-1"]), ordered(["10", "9", "x"])
    (('-1', '9', '10'), ('10', '9', 'x'))
    """
    names = sorted(labels)
    return tuple(sorted(names, key=float) if all(_is_whole(name) for name in names) else names)


def _is_whole(name: str) -> bool:
    try:
        return float(name).is_integer()
    except ValueError:
        return False


# The largest weight after a change of scales: steps and averages keep far below ten times that, and a client takes
# weights up to ten orders of magnitude more.
LARGEST_WEIGHT = 1e90


def re_expression(old: Registry, new: Registry, columns: int) -> Callable[[FloatArray], FloatArray]:
    """Return the map of weights from an old registry to a newer one, under which no prediction changes.

    New features and labels get rows and columns of zeros. With z = (x - m) / s and z' = (x - m') / s',
    w' = w s' / s and b' = b + sum_j w_j (m'_j - m_j) / s_j; a new unit of targets scales and shifts the outputs. A
    feature whose values were all clipped under the old scale was a constant, and goes into the intercept. Weights
    beyond `LARGEST_WEIGHT` are cut: only records with absurd values lead to them, and no client takes such a model.

    Parameters
    ----------
    old, new
        `new` has the names of `old` first, in the same order.
    columns
        Columns of a weight matrix under `new`.

    Examples
    --------
    >>> old = Registry(1, ("x",), ("a",), np.array([0.0]), np.array([1.0]))
    >>> new = Registry(2, ("x",), ("a",), np.array([10.0]), np.array([2.0]))
    >>> re_expression(old, new, 1)(np.array([[3.0], [1.0]]))
    array([[ 6.],
           [31.]])
    """
    d = len(old.features)
    with np.errstate(over="ignore"):  # what is infinite is cut
        stretch = np.minimum(new.scale[:d] / old.scale, LARGEST_WEIGHT)
        shift = (np.nan_to_num(new.mean[:d] - old.mean) / old.scale)[:, None]  # weights of an unknown scale are 0
    stretch = np.where(_all_far_out(old, new), 0.0, stretch)[:, None]
    shift = np.clip(shift, -old.farthest, old.farthest)
    before, after = old.target, new.target
    # Without a known unit, targets were already measured in the new one.
    same = not before.is_known or before == after
    unit = 1.0 if same else before.scale / after.scale
    offset = 0.0 if same else (before.centre - after.centre) / after.scale

    def change(W: FloatArray) -> FloatArray:
        changed = np.zeros((new.rows, columns))
        kept = slice(0, W.shape[1])
        changed[:d, kept] = W[:d] * stretch * unit
        changed[-1, kept] = (W[-1] + (W[:d] * shift).sum(axis=0)) * unit + offset
        bounded: FloatArray = np.clip(changed, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        return bounded

    return change


def change_of_coordinates(old: Registry, new: Registry) -> FloatArray:
    """Return M with z' = M z, z the features of a record under an old registry and z' under a newer one.

    The row of a feature with an unusable old scale is 0: see `rescaled_features`.

    >>> old = Registry(1, ("x",), ("a",), np.array([0.0]), np.array([1.0]))
    >>> change_of_coordinates(old, Registry(2, ("x",), ("a",), np.array([10.0]), np.array([2.0])))
    array([[ 0.5, -5. ],
           [ 0. ,  1. ]])
    """
    d = len(old.features)
    M = np.zeros((new.rows, old.rows))
    M[:d, :d] = np.diag(old.scale / new.scale[:d])
    M[:d, -1] = np.nan_to_num(old.mean - new.mean[:d]) / new.scale[:d]  # a feature without a scale was at its mean
    M[:d][rescaled_features(old, new)] = 0.0
    M[-1, -1] = 1.0
    return M


def rescaled_features(old: Registry, new: Registry) -> BoolArray:
    """Return the features whose old scale was unusable, if the newer registry is right; shape (d,)."""
    stretched = FARTHER * new.scale[: len(old.scale)] < old.scale
    return _all_far_out(old, new) | (stretched & ~np.isnan(old.mean))


def _all_far_out(old: Registry, new: Registry) -> BoolArray:
    """Return the features whose values the old registry all clipped, if the newer one is right; shape (d,)."""
    return np.abs(np.nan_to_num(new.mean[: len(old.mean)] - old.mean)) > old.farthest * old.scale


def widened(W: FloatArray, columns: int) -> FloatArray:
    """Return W with columns of zeros appended, for labels that are new in this round.

    >>> widened(np.array([[1.0]]), 2)
    array([[1., 0.]])
    """
    more = columns - W.shape[1]
    return np.hstack([W, np.zeros((len(W), more))]) if more else W


def placed_columns(W: FloatArray, columns: IntArray, total: int) -> FloatArray:
    """Return W with its columns at the given places among `total` columns, the others 0.

    >>> placed_columns(np.array([[1.0, 2.0]]), np.array([0, 2]), 3)
    array([[1., 0., 2.]])
    """
    wide = np.zeros((W.shape[0], total))
    wide[:, columns] = W
    return wide
