"""What a client tells of what it has learnt between rounds, when the round ends."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.protocol.moments import NOTHING, Moments


@dataclass(frozen=True, eq=False)
class NativeLearnt:
    """What a client's records of one round did to the agreed models; arrays as in `NativeState`.

    Parameters
    ----------
    features, labels
        The agreed names and then those that it saw first.
    records
        How many.
    moments
        Of their features.
    norms
        Their mean squared norms.
    second
        The sum of z z^T.
    weights
        The difference of the linear weights.
    cells, visits, table
        The rows of the table that were touched, how often, and the difference there.
    unit
        What `weights` and `table` are multiples of: a power of two, 1 unless targets are large or small.
    bearing, right
        How many of its records bear each label, shape (columns,), and of how many of these each of the models said so
        before it learnt them, shape (models, columns).
    again
        The features that have moved so far that their moments began again: what had been agreed is not true any more.
    far
        Of their last values, where these were far out one after another, fewer than it takes to begin again.
    centre
        What it measured targets from: what was agreed on, if anything was.
    unused
        Who has no part in what it serves: see `sleeping`.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    features: tuple[str, ...]
    labels: tuple[str, ...]
    records: int
    moments: Moments
    norms: FloatArray
    second: FloatArray
    weights: FloatArray
    cells: FloatArray
    visits: FloatArray
    table: FloatArray
    bearing: FloatArray
    right: FloatArray
    unit: float = 1.0
    unused: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    far: Moments = NOTHING
    centre: float = 0.0

    unlearnt: ClassVar[int] = 0  # they learn every good record

    def only(self, features: Collection[str], labels: Collection[str]) -> "NativeLearnt":
        """Return the same without the rows and columns of all other names than these."""
        kept = [i for i, name in enumerate(self.features) if name in features]
        rows = [0, *(1 + i for i in kept)]
        columns = [i for i, name in enumerate(self.labels) if name in labels]
        targets = not self.labels
        return replace(
            self,
            features=tuple(self.features[i] for i in kept),
            labels=tuple(self.labels[i] for i in columns),
            moments=self.moments.among(features),
            far=self.far.among(features),
            second=self.second[np.ix_(rows, rows)] if self.second.size else self.second,
            weights=self.weights[rows] if targets else self.weights[rows][..., columns],
            table=self.table if targets else self.table[..., columns],
            bearing=self.bearing if targets else self.bearing[columns],
            right=self.right if targets else self.right[:, columns],
            again=tuple(name for name in self.again if name in features),
        )
