"""The agreement of all clients, updated from their records: names, scale, unit of targets, the features' norm."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import NAMED, Limits
from streamfl.learning.grid import exponents
from streamfl.learning.influence import HEAVIEST
from streamfl.learning.second_moments import EVER, RIDGE, SecondMoments
from streamfl.machines.coordinator.names import named_by, with_room
from streamfl.protocol.early import FEW, Early, followed
from streamfl.protocol.messages import Join, Update
from streamfl.protocol.moments import NOTHING, Moments, merged
from streamfl.protocol.registry import FARTHEST, FARTHEST_UNSCALED, Registry, TargetUnit, ordered
from streamfl.protocol.tempered import tempered


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """The registry, and the sums it is computed from.

    Examples
    --------
    >>> moments = Moments.of(("x",), np.array([[1.0], [2.0], [6.0]]))
    >>> join = Join(client="c0", nonce="7f", moments=moments, labels=("b", "a"), records=3)
    >>> agreed = Agreement.of([join], scaling=True)
    >>> agreed.registry.labels, agreed.registry.mean, round(agreed.squared_norm, 6)
    (('a', 'b'), array([3.]), 2.0)
    """

    registry: Registry  # the registry of the open round
    squared_norm: float  # running mean of |z|^2, by which scale-free steps are divided
    scaling: bool = True  # whether features are standardised at all
    # Moments of the features of accepted records since the last restart; they stop growing when the scaler freezes.
    moments: Moments | None = None
    # Second moments of the features in registry coordinates; None until any were sent.
    second: SecondMoments | None = None
    # Whether there was a restart after the scaler froze; since then it follows only features that have moved.
    settled: bool = False
    # The mean number of records of a client in the last round; at first of those that it joined with.
    size: float = 0.0

    # The square roots of the second moments to expect by the clients' Joins, shape (d + 1,); empty if these tell
    # nothing of values.
    expected: FloatArray = field(default_factory=lambda: np.zeros(0))
    early: Early = field(default_factory=Early)  # what is kept of these moments to judge the first values with

    @classmethod
    def of(cls, joins: Sequence[Join], *, scaling: bool, limits: Limits = NAMED, fewest: int = 1) -> "Agreement":
        """Return the first agreement: the clients' Joins determine features, labels and scale.

        Their moments are used for the first round only, since its updates carry those of the same records again.
        Names beyond the limits are left out, in the order of the clients, and those that fewer than `fewest` name.
        """
        moments = merged(tempered([join.moments for join in joins]))
        labels = ordered(with_room(named_by((join.labels for join in joins), fewest), (), limits.most_labels(0)))
        named = set(named_by((join.moments.features for join in joins), fewest))
        features = [name for name in moments.features if name in named]
        moments = moments.aligned(with_room(features, (), limits.most_features(len(labels))))
        d = len(moments.features)
        farthest = FARTHEST if scaling else FARTHEST_UNSCALED
        registry = Registry(
            1,
            moments.features,
            labels,
            np.zeros(d),
            np.ones(d),
            middle_unit((join.records, join.target) for join in joins),
            farthest,
        )
        if scaling:
            registry = registry.scaled_by(moments)
        middle = median_low([join.records for join in joins]) if joins else 0
        records = sum(min(join.records, HEAVIEST * middle) for join in joins)
        squares = _expected_squares(registry, moments, records)
        size = records / max(1, len(joins))
        expected = np.sqrt(squares) if moments.count.any() else np.zeros(0)  # clients may name features alone
        return cls(registry, float(squares.sum()), scaling, size=size, expected=expected)

    def after(
        self,
        updates: Sequence[Update],
        *,
        t: int,
        frozen: bool,
        unit: TargetUnit | None = None,
        clients: int | None = None,
    ) -> "Agreement":
        """Return the agreement after round t: new names registered, the scale followed, the norm averaged.

        Parameters
        ----------
        updates
            The accepted updates, in the order of the clients.
        frozen
            Whether the scaler is fixed, except for features that have no scale yet.
        unit
            A new unit of targets; None keeps the old one.
        clients
            How many clients with records the updates are of; None: each is of one.
        """
        registry = self._grown(updates)
        if unit is not None:
            registry = registry.in_unit(unit)
        grown = replace(self, registry=registry, squared_norm=self._norm_after(updates, t))
        parts = [update.numbers.moments for update in updates if update.numbers.moments is not None]
        if parts and self.scaling:
            grown = grown._scaled(merged(tempered(parts)), frozen=frozen)
        sizes = [update.records for update in updates if update.records]
        size = sum(sizes) / (clients or len(sizes))
        return replace(grown, second=self._second_after(updates, grown.registry), size=size)

    def during(self, updates: Sequence[Update]) -> "Agreement":
        """Return the agreement that whitens the steps of the round of these updates."""
        parts, records, total = _second_moments(updates)
        return replace(self, second=self._second.beside(parts, records, of=total)) if records else self

    def whitened(self, slope: FloatArray) -> FloatArray:
        """Return A^-1 slope, A the second moments; before there are any, a multiple of 1 with the same trace."""
        if self.second is None:
            return slope * (self._varying / ((1.0 + RIDGE) * self.squared_norm))
        return self.second.whitened(slope)

    def half_whitened(self, slopes: FloatArray) -> FloatArray:
        """Return L^-1 slopes, A = L L^T the same second moments: noise is then alike in all directions."""
        if self.second is None:
            return slopes * math.sqrt(self._varying / ((1.0 + RIDGE) * self.squared_norm))
        return self.second.half_whitened(slopes)

    @property
    def _varying(self) -> int:
        """Return over how many rows |z|^2 is spread: features without a scale are 0."""
        return self.registry.rows - len(self.registry.unscaled)

    @property
    def exponents(self) -> tuple[int, ...]:
        """Return the grid of the next round, see `MomentsAsked.exponents`; empty before any record was measured."""
        deviation = self.deviation
        return exponents(deviation, self.size) if deviation is not None and self.size > 0.0 else ()

    @property
    def deviation(self) -> FloatArray | None:
        """Return the root mean squares of the features and of the constant 1; None before any record was measured."""
        deviation = self.expected if self.second is None else self.second.deviation
        return deviation if len(deviation) == self.registry.rows else None

    @property
    def _second(self) -> SecondMoments:
        d = self.registry.rows
        return self.second or SecondMoments(np.zeros((d, d)), 0.0)

    def _second_after(self, updates: Sequence[Update], registry: Registry) -> SecondMoments | None:
        """Return the second moments after a round, in the new coordinates; None with too many features."""
        if registry.rows > EVER:
            return None
        parts, records, total = _second_moments(updates)
        second = self._second.after(parts, records, of=total) if records else self.second
        if second is None or registry is self.registry:
            return second
        return second.re_expressed(self.registry, registry)

    def _scaled(self, seen: Moments, *, frozen: bool) -> "Agreement":
        """Return the agreement with its scaler updated from moments; if frozen, only for features without a scale."""
        if frozen:
            return replace(self, registry=self._scaled_where(self.registry.unscaled, seen))
        moments, early = followed(self.moments or NOTHING, self.early, seen)
        if self.settled:
            registry = self._scaled_where((*self.registry.moved(moments), *self.registry.unscaled), moments)
        else:
            registry = self.registry.scaled_by(moments)
        return replace(self, registry=registry, moments=moments, early=early)

    @property
    def has_few_values(self) -> bool:
        """Tell whether too few values were seen since the last restart to estimate a scale."""
        return self.moments is None or bool(self.moments.count.max(initial=0.0) < FEW)

    def _scaled_where(self, names: tuple[str, ...], moments: Moments) -> Registry:
        return self.registry.scaled_by(moments, only=names) if names else self.registry

    def restarted(self) -> "Agreement":
        """Return the agreement of a new epoch: features may have moved, so their moments start again."""
        return replace(self, moments=None, settled=True, early=Early())

    def _grown(self, updates: Sequence[Update]) -> Registry:
        features = sorted({name for update in updates for name in update.new_features})
        labels = labels_seen_first(updates)
        mean = np.nan if self.scaling else 0.0
        return self.registry.grown(features, labels, mean=mean) if features or labels else self.registry

    def _norm_after(self, updates: Sequence[Update], t: int) -> float:
        """Return the mean of |z|^2 over all rounds at first, then over about the last twenty."""
        norm = math.fsum(update.numbers.squared_norm for update in updates) / sum(
            update.records for update in updates
        )
        return self.squared_norm + max(1.0 / (t + 1), 0.05) * (norm - self.squared_norm)


def _second_moments(updates: Sequence[Update]) -> tuple[list[FloatArray], int, int]:
    """Return the sums of z z^T in the updates, the number of their records, and that of all updates."""
    sent = [
        (u.numbers.second_moments, u.records) for u in updates if u.numbers.second_moments is not None and u.records
    ]
    return [moments for moments, _ in sent], sum(records for _, records in sent), sum(u.records for u in updates)


def labels_seen_first(updates: Sequence[Update]) -> tuple[str, ...]:
    """Return the new labels of a round, in the order of their columns after the registered ones."""
    return tuple(sorted({label for update in updates for label in update.new_labels}))


def middle_unit(targets: Iterable[tuple[int, TargetUnit]]) -> TargetUnit:
    """Return the median of the clients' units, without clients that have no records; a scale of 0 if none is left.

    `targets` are each client's records and unit.

    If the clients have too few records to estimate a scale (it is 1 then), return the scale of their centres.
    """
    units = [unit for records, unit in targets if records]
    if not units:
        return TargetUnit(0.0, 0.0)
    between = TargetUnit.of(np.array([u.centre for u in units]))
    scale = float(np.median([u.scale for u in units]))
    return TargetUnit(between.centre, between.scale if scale == TargetUnit().scale else scale)


def _expected_squares(registry: Registry, moments: Moments, records: int) -> FloatArray:
    """Return the mean z^2 of each feature and of the constant 1, for the records behind the moments."""
    seen = moments.count / max(1, records)
    about = (moments.variance + (moments.mean - registry.mean) ** 2) / registry.scale**2
    clipped = np.minimum(about, registry.farthest * registry.farthest)  # values farther out are clipped to that
    squares = np.nan_to_num(seen * clipped)
    return np.append(squares, 1.0)
