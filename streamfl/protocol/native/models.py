"""The agreed state of native models, from which each client's learning starts in every round."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, RealArray
from streamfl.protocol.early import Early
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.extremes import Extremes
from streamfl.protocol.native.extremes import are_sound as are_extremes
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.order import Order
from streamfl.protocol.native.pairs import are_sound, no_pairs
from streamfl.protocol.native.settings import FERN, KINDS, NativeSettings
from streamfl.protocol.native.sleeping import Rest, together
from streamfl.protocol.native.steps import Steps
from streamfl.protocol.native.unpublished import Unpublished


@dataclass(frozen=True, eq=False)
class NativeState:
    """The agreed weights of native models, and what their steps need.

    Row 0 of the linear weights belongs to the constant 1, the rows from 1 on belong to the features.

    Examples
    --------
    >>> models = NativeState.none(NativeSettings("linear")).grown(("x",), ("a", "b"))
    >>> models.weights.shape, models.second.shape, models.table.shape
    ((2, 3, 2), (2, 2), (0, 2, 2))
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # Names; new ones are appended. In regression there are no labels, and one column.
    features: tuple[str, ...]
    labels: tuple[str, ...]
    seen: int  # the number of records learnt since they began, or began again
    moments: Moments  # the moments of the features, by which they are standardised
    norms: FloatArray  # the mean squared norms of the inputs of linear models and of ferns, shape (2,)
    second: FloatArray  # the sum over records of z z^T, shape (d + 1, d + 1); empty without whitened models
    weights: FloatArray  # linear weights, shape (d + 1, models, columns)

    # What each cell of a fern adds to an output, shape (rows, rates, columns); the ferns of all depths one after
    # another. It is held in 32 bits, which all its values fit: see `NativeChange.rows`.
    table: RealArray
    chain: str = ""  # a digest of all changes so far
    rests: Mapping[str, Rest] = field(default_factory=dict)  # the sleep of each group of experts: see `sleeping`
    # Moments by which glitches among first values, and features that have moved, are found: see `agreed_moments`.
    early: Early = field(default_factory=Early)
    far: Moments = NOTHING

    # The value from which targets are measured: a prediction is the centre plus what weights and cells add. Without
    # meaning before the first record; until then each client measures from the mean of its own targets.
    centre: float = 0.0
    mixture: AgreedMixture = field(default_factory=AgreedMixture)  # how the agreed experts' predictions are mixed
    steps: Steps = field(default_factory=Steps)  # the grids on which clients send what they learnt from it
    # How often one label followed another at all clients, shape (pairs, 3), of which older rounds count less.
    pairs: FloatArray = field(default_factory=no_pairs)
    # What the coordinator's rounding has kept back of weights and table.
    kept_back: KeptBack = field(default_factory=KeptBack)
    # Moments that clients have sent since the last publication.
    unpublished: Unpublished = field(default_factory=Unpublished)
    # How they are mixed for the clients of each branch, by its name.
    branches: Mapping[str, AgreedMixture] = field(default_factory=dict)

    # The least and the largest target of all clients since the beginning; empty before any, if those of some are not
    # known, and for labels.
    extremes: Extremes = ()
    times_begun_again: int = 0  # a client that knows fewer forgets its own models

    def __post_init__(self) -> None:
        """Hold the table in 32 bits; a message may bring 64."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a forged one, which is not sound then
            object.__setattr__(self, "table", np.asarray(self.table, np.float32))

    @cached_property
    def order(self) -> Order:
        """Return the order in which messages about it name cells, made before its table is changed in place."""
        return Order.of(self.table)

    def mixture_of(self, branch: str) -> AgreedMixture:
        """Return the mixture of a branch, which begins with its own model alone; without a name that of all."""
        return self.branches.get(branch, self.mixture.of_last()) if branch else self.mixture

    def sleeps(self, expert: str) -> bool:
        """Tell whether an expert sleeps."""
        rest = self.rests.get(together(expert))
        return rest is not None and rest.left > 0

    @property
    def asleep(self) -> tuple[str, ...]:
        """Return the groups of experts that sleep."""
        return tuple(name for name, rest in self.rests.items() if rest.left)

    @property
    def published(self) -> "NativeState":
        """Return it without what only the coordinator needs to judge moments and to round the next change."""
        return replace(self, early=Early(), far=NOTHING, kept_back=KeptBack(), unpublished=Unpublished())

    @classmethod
    def none(cls, settings: NativeSettings) -> "NativeState":
        """Return the state of models that have learnt nothing, without features."""
        columns = 1 if settings.targets else 0
        return cls(
            features=(),
            labels=(),
            seen=0,
            moments=NOTHING,
            norms=np.zeros(2),
            second=np.zeros((1, 1) if settings.has_linear else (0, 0)),
            weights=np.zeros((1, len(settings.names), columns)),
            table=np.zeros((settings.table_rows, len(FERN), columns), np.float32),
        )

    def is_sound(self, settings: NativeSettings, rows: int) -> bool:
        """Tell whether all arrays have the shapes that names and settings require, the table so many rows.

        Compiled loops do not check indices: in an array that is too small they would touch foreign memory.
        """
        inputs, columns = 1 + len(self.features), 1 if settings.targets else len(self.labels)
        return (
            all(part.is_sound for part in (self.moments, self.early.first, self.early.later, self.far))
            and 0 <= self.seen < 2**62
            and math.isfinite(self.centre)
            and all(rest.is_sound for rest in self.rests.values())
            and self.weights.shape == (inputs, len(settings.names), columns)
            and self.second.shape == ((inputs, inputs) if settings.has_linear else (0, 0))
            and self.norms.shape == (2,)
            and self.table.shape == (rows, len(FERN), columns)
            and all(bool(np.isfinite(x).all()) for x in (self.weights, self.second, self.norms, self.table))
            and all(each.is_sound(len(settings.agreed_experts)) for each in (self.mixture, *self.branches.values()))
            and self.steps.are_sound(len(settings.names), KINDS)
            and are_sound(self.pairs, len(self.labels))
            and are_extremes(self.extremes)
            and self.kept_back.is_sound(self.weights, self.table)
            and self.unpublished.is_sound(self.second)
        )

    def grown(self, features: tuple[str, ...], labels: tuple[str, ...], *, table: bool = True) -> "NativeState":
        """Return the models with zeros for appended names; with `table` False, the table is left as it is."""
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
