"""The published models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.external.state import ExternalState
from streamfl.protocol.messages.base import Message
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.registry import Registry

# The agreed state of the online models, and what a client's records of one round did to it.
AgreedState = NativeState | ExternalState


@dataclass(frozen=True, kw_only=True, eq=False)
class RegistryPublished(Message):
    """Coordinator: a version of the registry. Published before the first round that uses it."""

    registry: Registry  # feature order, labels, scaler and unit of targets, with their version


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelPublished(Message):
    """Coordinator: the weights of one version of a slot. Published before the first message that names it."""

    # What `Slot` names.
    slot: str
    version: int
    registry: int  # the version of the registry in whose coordinates the weights are
    weights: FloatArray  # shape (d + 1, columns)

    @cached_property
    def largest_weight(self) -> float:
        """Return the largest magnitude of a weight, NaN without a matrix; cached for all clients of a process."""
        return float(np.abs(self.weights).max(initial=0.0)) if self.weights.ndim == 2 else math.nan


# What the difference of a model is taken from, unless from another model of its message.
BEFORE, NOTHING = -1, -2


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelsChanged(Message):
    """Coordinator: all models of a round, as differences from those of the round before and from one another.

    Published in place of `ModelPublished` while rounds continue. A client that lacks a model asks with `Join`, and
    gets all of them whole.
    """

    version: int  # the round, which is the version of every slot
    slots: tuple[str, ...]

    # For each, what its difference is taken from: `BEFORE`, the version before of the same slot; `NOTHING`; or the
    # place in `slots` of one before it.
    bases: tuple[int, ...]
    exponents: FloatArray  # the steps of differences, as powers of two by row of a weight matrix, shape (d + 1,)
    # The differences in these steps, whole numbers, one slot below the other, shape (slots (d + 1), columns).
    numbers: FloatArray
    # Of all models after the change. It fails where the version before was a forged one.
    digest: str

    @cached_property
    def largest_number(self) -> float:
        """Return the largest magnitude of a difference in steps; cached for all clients of a process."""
        return float(np.abs(self.numbers).max(initial=0.0))

    @cached_property
    def known(self) -> list[tuple[tuple[FloatArray | None, ...], Mapping[str, FloatArray]]]:
        """Return the models that were found last, and those before: the clients of a process share them."""
        return []


@dataclass(frozen=True, kw_only=True, eq=False)
class OnlinePublished(Message):
    """Coordinator: the agreed state of the online models. Published for every round."""

    version: int  # the round that begins with it
    # The state; of native models, also its change since the version before, for clients that have that.
    agreed: AgreedState | NativeChange

    @property
    def is_whole(self) -> bool:
        """Tell whether the state is complete, for a client that lacks the version before."""
        return not isinstance(self.agreed, NativeChange)
