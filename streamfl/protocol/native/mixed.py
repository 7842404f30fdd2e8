"""The agreed mixture: how the predictions of the experts that all clients share are mixed."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.digits import in_bits
from streamfl.protocol.native.settings import STACKING
from streamfl.protocol.records import LARGEST_TARGET

# The largest magnitude of a stacked weight. With sound experts they lie between -1 and 3.
LARGEST_WEIGHT = 16.0

# The largest mean square of any difference: of targets, each at most LARGEST_TARGET.
LARGEST_SQUARE = 4.0 * LARGEST_TARGET**2

# Relative slack for the rounding of sums.
ROUNDING = 1e-6


def _none() -> FloatArray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class AgreedMixture:
    """The weights of the experts that all clients share: the native models, and the model that rounds train.

    A client serves with a mixture of its own, which also has experts that only it has. Without arrays nothing is
    agreed, and weights are equal.

    Examples
    --------
    >>> AgreedMixture.equal(4).stacked[0], AgreedMixture.equal(4).is_sound(4), AgreedMixture().is_sound(4)
    (array([0.25, 0.25, 0.25, 0.25]), True, True)
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    best: FloatArray = field(default_factory=_none)  # weights by fixed share, shape (experts,); they sum to 1
    stacked: FloatArray = field(default_factory=_none)  # weights of the stacked mixtures, shape (2, experts)
    outer: FloatArray = field(default_factory=_none)  # weights of these three mixtures, shape (3,); they sum to 1
    # Means of squares by which steps are normalised: see `Mixing`.
    norm: float = 0.0
    variance: float = 0.0
    records: int = 0  # over how many records of a client

    @classmethod
    def equal(cls, experts: int) -> "AgreedMixture":
        """Return equal weights, of so many experts that have predicted nothing yet."""
        mixtures = 1 + len(STACKING)
        stacked = np.full((len(STACKING), experts), 1.0 / experts)
        return cls(stacked[0].copy(), stacked, np.full(mixtures, 1.0 / mixtures))

    def of_last(self) -> "AgreedMixture":
        """Return the mixture in which the last expert, the model that rounds train, has all the weight.

        >>> AgreedMixture.equal(3).of_last().best
        array([0., 0., 1.])
        """
        best, stacked = np.zeros(self.best.shape), np.zeros(self.stacked.shape)
        best[-1:], stacked[..., -1:] = 1.0, 1.0
        return replace(self, best=best, stacked=stacked)

    @property
    def in_few_bits(self) -> "AgreedMixture":
        """Return the mixture with means of squares in few bits."""
        norm, variance = np.minimum(in_bits(np.array([self.norm, self.variance])), LARGEST_SQUARE).tolist()
        return replace(self, norm=norm, variance=variance)

    @property
    def weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return all weights."""
        return self.best, self.stacked, self.outer

    @property
    def is_known(self) -> bool:
        """Tell whether it has weights."""
        return bool(self.best.size or self.stacked.size or self.outer.size)

    def is_sound(self, experts: int) -> bool:
        """Tell whether some clients with so many agreed experts can have learnt it."""
        if not self.is_known:
            return True
        return (
            self.best.shape == (experts,)
            and self.stacked.shape == (len(STACKING), experts)
            and self.outer.shape == (1 + len(STACKING),)
            and _are_shares(self.best)
            and _are_shares(self.outer)
            and bool((np.abs(self.stacked) <= LARGEST_WEIGHT).all())
            and all(0.0 <= square <= LARGEST_SQUARE for square in (self.norm, self.variance))
            and 0 <= self.records < 2**53
        )


def _are_shares(weights: FloatArray) -> bool:
    return bool((weights >= 0.0).all()) and math.isclose(float(weights.sum()), 1.0, rel_tol=ROUNDING)
