"""The way of a client that is alone, for good: what it learnt is agreed on as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.learning.online_models import Covered
from streamfl.online.native.merging.admission import damaged
from streamfl.online.native.merging.placing import placed, placed_weights
from streamfl.online.native.merging.way import LearntNumbers, Merged, Raw, Way
from streamfl.protocol.native.change import NativeChange, chained
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.steps import Steps


@dataclass(frozen=True)
class Alone(Way):
    """Nothing is rounded, so nothing is kept back. No other client needs protection from what it sends."""

    every: ClassVar[int] = 1

    def numbers(self, raw: Raw, agreed: NativeState, draws: np.random.Generator, coarser: int) -> LearntNumbers:
        """Return all numbers as they are; how often a cell was visited matters to nobody else."""
        cells = raw.cells.astype(np.float64)
        return LearntNumbers(raw.weights, cells, np.zeros(len(cells)), raw.own - raw.before, raw.second, Steps())

    def wrong(self, learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
        """Return what shows that learning was broken off halfway, or None."""
        return damaged(learnt, agreed, covered)

    def merged(self, parts: Sequence[NativeLearnt], agreed: NativeState, grown: NativeState) -> Merged:
        """Return the differences of the one client."""
        (part,) = parts
        cells = part.cells.astype(np.int64)
        return Merged(placed_weights(part, grown), cells, placed(part.table, part.labels, grown.labels))

    def chain_after(self, change: NativeChange, before: NativeState) -> str:
        """Return a digest of the changes of linear weights, which follow from all predictions, those of cells too.

        No message can be missing or forged, so it only tells one model from another.
        """
        return chained(before.chain, change.weights)


ALONE = Alone()
