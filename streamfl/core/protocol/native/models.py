"""The models that clients have agreed on, between which each client's own learning runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.protocol.early import Early
from streamfl.core.protocol.moments import NOTHING, Moments
from streamfl.core.protocol.native.settings import FERN, NativeSettings
from streamfl.core.protocol.native.sleeping import Rest, together


@dataclass(frozen=True, eq=False)
class NativeState:
    """Agreed models, and what their steps need.

    A row of linear weights belongs to the constant 1 or, from row 1 on, to a feature.

    Parameters
    ----------
    features, labels
        Names; new ones are appended. For targets there are no labels, and one column.
    seen
        Records learnt.
    moments
        Of the features' values, by which they are standardised.
    norms
        Mean squared norm of what linear models see, and of what ferns see.
    second
        Sum over records of z z^T, shape (d + 1, d + 1); empty without whitened models.
    weights
        Shape (d + 1, models, columns).
    table
        What each cell of a fern adds, shape (rows, rates, columns); the ferns of all depths one after another.
    chain
        A digest of all changes so far.
    rests
        Who sleeps: see `sleeping`.
    early, far
        By which first values, and features that have moved, are judged: see `agreed_moments`.
    centre
        What targets are measured from: a model says the centre, and what its weights and its cells add. It means
        nothing before any record was seen; then each client measures from the mean of its own.

    Examples
    --------
    >>> models = NativeState.none(NativeSettings("linear")).grown(("x",), ("a", "b"))
    >>> models.weights.shape, models.second.shape, models.table.shape
    ((2, 3, 2), (2, 2), (0, 2, 2))
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    features: tuple[str, ...]
    labels: tuple[str, ...]
    seen: int
    moments: Moments
    norms: FloatArray
    second: FloatArray
    weights: FloatArray
    table: FloatArray
    chain: str = ""
    rests: Mapping[str, Rest] = field(default_factory=dict)
    early: Early = field(default_factory=Early)
    far: Moments = NOTHING
    centre: float = 0.0

    def sleeps(self, expert: str) -> bool:
        """Tell whether an expert sleeps."""
        rest = self.rests.get(together(expert))
        return rest is not None and rest.left > 0

    @property
    def asleep(self) -> tuple[str, ...]:
        """Return which experts sleep."""
        return tuple(name for name, rest in self.rests.items() if rest.left)

    @classmethod
    def none(cls, settings: NativeSettings) -> "NativeState":
        """Return models that have learnt nothing, over no features."""
        columns = 1 if settings.targets else 0
        return cls(
            features=(),
            labels=(),
            seen=0,
            moments=NOTHING,
            norms=np.zeros(2),
            second=np.zeros((1, 1) if settings.has_linear else (0, 0)),
            weights=np.zeros((1, len(settings.names), columns)),
            table=np.zeros((settings.table_rows, len(FERN), columns)),
        )

    def fits(self, settings: NativeSettings, rows: int) -> bool:
        """Tell whether all arrays have the shapes that names and settings give them, the table so many rows.

        Compiled loops look at names only: to them, an array that is too small is other memory.
        """
        inputs, columns = 1 + len(self.features), 1 if settings.targets else len(self.labels)
        return (
            all(part.fits for part in (self.moments, self.early.first, self.early.later, self.far))
            and 0 <= self.seen < 2**62
            and math.isfinite(self.centre)
            and all(rest.is_sound for rest in self.rests.values())
            and self.weights.shape == (inputs, len(settings.names), columns)
            and self.second.shape == ((inputs, inputs) if settings.has_linear else (0, 0))
            and self.norms.shape == (2,)
            and self.table.shape == (rows, len(FERN), columns)
        )

    def grown(self, features: tuple[str, ...], labels: tuple[str, ...], *, table: bool = True) -> "NativeState":
        """Return the same models with zeros for more names, which are appended; without `table` that stays."""
        rows, columns = len(features), len(labels)
        if not rows and not columns:
            return self
        return replace(
            self,
            features=(*self.features, *features),
            labels=(*self.labels, *labels),
            second=np.pad(self.second, (0, rows)) if self.second.size else self.second,
            weights=np.pad(self.weights, ((0, rows), (0, 0), (0, columns))),
            table=np.pad(self.table, ((0, 0), (0, 0), (0, columns))) if columns and table else self.table,
        )
