"""What the clients agree on, as it follows their records: names, scale, the unit of targets, the features' norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamfl.core.messages import Join, Update
from streamfl.core.moments import Moments, merged
from streamfl.core.registry import Registry, TargetUnit, ordered


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """The registry, and what it is made from.

    Parameters
    ----------
    registry
        In force for the open round.
    squared_norm
        Running mean of |z|^2, by which scale-free steps are divided.
    unscaled
        Features of which no value has been seen yet; the first round with some scales them, frozen or not.
    moments
        Moments of the features of accepted records; they stop growing when the scaler freezes.
    """

    registry: Registry
    squared_norm: float
    unscaled: tuple[str, ...] = ()
    moments: Moments | None = None

    @classmethod
    def of(cls, joins: Sequence[Join], *, scaling: bool) -> "Agreement":
        """Return the first agreement: the clients' first records tell features, labels and scale.

        Their moments serve the first round only: its updates bring those of the same records again.
        """
        moments = merged([join.moments for join in joins])
        labels = ordered({label for join in joins for label in join.labels})
        d = len(moments.features)
        registry = Registry(1, moments.features, labels, np.zeros(d), np.ones(d), middle_unit(joins))
        if scaling:
            registry = registry.scaled_by(moments)
        norm = _expected_squared_norm(registry, moments, sum(join.records for join in joins))
        return cls(registry, norm, _unseen(moments.features, moments) if scaling else ())

    def after(
        self, updates: Sequence[Update], *, t: int, frozen: bool, unit: TargetUnit | None = None
    ) -> "Agreement":
        """Return the agreement after round t: new names registered, the scale followed, the norm averaged.

        Parameters
        ----------
        updates
            Those accepted, by client.
        t
            The round.
        frozen
            Whether the scaler stays as it is, but for features that were not scaled yet.
        unit
            A new unit of targets, with a new epoch.
        """
        registry = _grown(self.registry, updates)
        if unit is not None:
            registry = registry.in_unit(unit)
        grown = replace(self, registry=registry, squared_norm=self._norm_after(updates, t))
        parts = [update.moments for update in updates if update.moments is not None]
        return grown._scaled(merged(parts), self.registry.features, frozen=frozen) if parts else grown

    def _scaled(self, seen: Moments, known: tuple[str, ...], *, frozen: bool) -> "Agreement":
        """Return the agreement with a scaler that follows moments: all features, or if frozen the new ones."""
        waiting = (*self.unscaled, *self.registry.features[len(known) :])
        unscaled = _unseen(waiting, seen)
        if frozen:
            fresh = set(waiting) - set(unscaled)
            registry = self.registry.scaled_by(seen, only=fresh) if fresh else self.registry
            return replace(self, registry=registry, unscaled=unscaled)
        moments = merged([self.moments, seen]) if self.moments else seen
        return replace(self, registry=self.registry.scaled_by(moments), unscaled=unscaled, moments=moments)

    def _norm_after(self, updates: Sequence[Update], t: int) -> float:
        """Return the mean of |z|^2 over all rounds at first, then over about the last twenty."""
        norm = math.fsum(update.squared_norm for update in updates) / sum(update.records for update in updates)
        return self.squared_norm + max(1.0 / (t + 1), 0.05) * (norm - self.squared_norm)


def middle_unit(parts: Sequence[Join] | Sequence[Update]) -> TargetUnit:
    """Return the median of the clients' units, those without records left out."""
    units = [part.target for part in parts if part.records]
    if not units:
        return TargetUnit()
    return TargetUnit(float(np.median([u.centre for u in units])), float(np.median([u.scale for u in units])))


def _unseen(features: tuple[str, ...], moments: Moments) -> tuple[str, ...]:
    count = moments.aligned(features).count
    return tuple(name for name, values in zip(features, count, strict=True) if not values)


def _grown(registry: Registry, updates: Sequence[Update]) -> Registry:
    features = sorted({name for update in updates for name in update.new_features})
    labels = sorted({label for update in updates for label in update.new_labels})
    return registry.grown(features, labels) if features or labels else registry


def _expected_squared_norm(registry: Registry, moments: Moments, records: int) -> float:
    """Return the mean |z|^2 of the records behind the moments, the constant 1 included."""
    seen = moments.count / max(1, records)
    about = (moments.variance + (moments.mean - registry.mean) ** 2) / registry.scale**2
    return 1.0 + float(np.sum(seen * about))
