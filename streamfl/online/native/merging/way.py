"""How what native models learnt goes from a client to the coordinator. A federation has one way, chosen once."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray, RealArray
from streamfl.learning.online_models import Covered
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.kept_back import KeptBack
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.steps import Steps


class Raw(NamedTuple):
    """What the records of a round did to the agreed state, before anything is rounded."""

    records: int  # how many there were
    weights: FloatArray  # the difference of the linear weights
    # The rows of the table that changed, rising; what they were and are, in 32 bits, and the visits to each.
    cells: IntArray
    before: RealArray
    own: RealArray
    visits: IntArray
    second: FloatArray  # the sum of z z^T; empty if it is not the client's turn


class LearntNumbers(NamedTuple):
    """The numbers of `NativeLearnt` in which ways differ; see there."""

    weights: FloatArray
    cells: FloatArray
    visits: FloatArray
    table: RealArray
    second: FloatArray
    steps: Steps


@dataclass(frozen=True, eq=False)
class Merged:
    """The differences of all clients as one."""

    weights: FloatArray  # the change of the linear weights
    # The rows of the table that change, rising, and the change of each.
    cells: IntArray
    table: RealArray
    steps: Steps = field(default_factory=Steps)  # the steps of the next round
    kept_back: KeptBack = field(default_factory=KeptBack)  # what is kept back for the next change


class Way(ABC):
    """A way from a client to the coordinator."""

    every: ClassVar[int]
    """The coordinator publishes moments at least once in this many rounds."""

    @abstractmethod
    def numbers(self, raw: Raw, agreed: NativeState, draws: np.random.Generator, coarser: int) -> LearntNumbers:
        """Return the numbers that a client sends.

        Parameters
        ----------
        draws
            The draws by which numbers are rounded.
        coarser
            So many times are steps doubled, at most `COARSEST`.
        """

    @abstractmethod
    def wrong(self, learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
        """Return why what a client learnt cannot be merged, or None if it can."""

    @abstractmethod
    def merged(self, parts: Sequence[NativeLearnt], agreed: NativeState, grown: NativeState) -> Merged:
        """Return the differences of all clients as one.

        Parameters
        ----------
        parts
            What each client learnt; at least one.
        agreed, grown
            The agreed state from which they learnt, and the same with the names of now.
        """

    def chain_after(self, change: NativeChange, before: NativeState) -> str:
        """Return the digest of all changes up to this one, given the state before: see `NativeChange`."""
        return change.chain_after(before)
