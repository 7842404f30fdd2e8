"""The saved state of a client's own model."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.online.native.mixture_state import MixtureState
from streamfl.protocol.moments import FEWEST

# The values of the running means, see `kernels.own.OWN_RUNNING`; and the sums of the scale, see `Scales`.
RUNNING, SCALES, FIRST_VALUES = 6, 7, 4


@dataclass(frozen=True, eq=False)
class OwnState:
    """The saved state of an own model, in the order of its names; of the table, the rows `cells` that are not 0.

    `paired` are the features of which there are pairs, in the order in which they came to vary. `pairs` are the
    places of features, `trust` is that in ferns and pairs: see `kernels.own.Own`.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    features: tuple[str, ...]
    labels: tuple[str, ...]
    weights: FloatArray
    cells: FloatArray
    table: FloatArray
    known: FloatArray
    scales: tuple[FloatArray, ...]
    running: FloatArray
    paired: tuple[str, ...]
    pairs: FloatArray
    trust: FloatArray
    rates: MixtureState | None = None  # the mixture of its rates, for targets

    def is_sound(self, *, targets: bool) -> bool:
        """Tell whether all arrays fit the names; compiled loops do not check indices.

        It does not tell whether `pairs`, `trust`, `cells` and `rates` are as many as a model has.
        """
        columns, d = len(self.labels) if self.rates is None else len(self.rates.best), len(self.features)
        shapes = [(FEWEST, d) if k == FIRST_VALUES else (d,) for k in range(SCALES)]
        numbers = (self.weights, self.table, self.trust, self.known, self.running)
        return (
            len(set(self.features)) == d
            and len(set(self.labels)) == len(self.labels)
            and not (targets and self.labels)
            and self.weights.shape == (1 + d, columns)
            and self.known.shape == (columns,)
            and self.table.shape == (len(self.cells), columns)
            and self.cells.ndim == 1
            and bool(((self.cells >= 0) & (self.cells == np.floor(self.cells))).all())
            and len(set(self.paired)) == len(self.paired)
            and set(self.paired) <= set(self.features)
            and bool(np.isin(self.pairs, np.arange(d)).all())
            and self.trust.ndim == 1
            and bool((self.trust > 0.0).all())
            and [part.shape for part in self.scales] == shapes
            and bool(np.isin(self.scales[-2], np.arange(FEWEST)).all())
            and bool((self.scales[1] >= 0.0).all())
            and self.running.shape == (RUNNING,)
            and targets == (self.rates is not None)
            and (self.rates is None or self.rates.is_sound)
            and all(bool(np.isfinite(part).all()) for part in numbers)
            and bool((self.running[:2] >= 0.0).all())
        )
