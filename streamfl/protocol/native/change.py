"""What a round changed in the agreed state of native models: it is published in place of the whole state."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, IntArray, RealArray
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.extremes import Extremes
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import are_sound, no_pairs
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.native.steps import Steps


@dataclass(frozen=True, eq=False)
class NativeChange:
    """The change of an agreed state in a round; what is not called a change is what holds after the round.

    The coordinator also makes the new state from it, so that it is the same everywhere to the last bit.

    Parameters
    ----------
    features, labels
        The appended names.
    second, each
        The sum of z z^T over the records that were measured since it was published last, in the shape that second
        moments have after the round; and how many records each of these stands for. 0: this change does
        not contain them, so records count as if they were like all before.
    weights
        The change of the linear weights, in the shape that they have after the round.
    cells, table
        The rows of the table that changed, rising, shape (rows,), whole numbers; and their changes, shape
        (rows, rates, columns). As published, if steps were agreed on before: places, and whole numbers of steps.
    moments
        Of the features, empty: as they were published last.
    since
        The records learnt before those that `second` is about; 0: all but those of the round.

    Examples
    --------
    >>> from streamfl.protocol.moments import NOTHING
    >>> from streamfl.protocol.native.settings import NativeSettings
    >>> before = NativeState.none(NativeSettings("linear"))
    >>> none, ones = np.zeros((0, 2, 2)), np.ones((2, 3, 2))
    >>> change = NativeChange(("x",), ("a", "b"), np.eye(2), ones, np.zeros(0), none, 4, NOTHING, np.ones(2))
    >>> after = change.after(before)
    >>> after.features, after.second.tolist(), float(after.weights.sum()), after.seen
    (('x',), [[1.0, 0.0], [0.0, 1.0]], 12.0, 4)
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    features: tuple[str, ...]
    labels: tuple[str, ...]
    second: FloatArray
    weights: FloatArray
    cells: FloatArray
    table: RealArray
    seen: int
    moments: Moments
    norms: FloatArray
    chain: str = ""
    rests: Mapping[str, Rest] = field(default_factory=dict)
    centre: float = 0.0
    mixture: AgreedMixture = field(default_factory=AgreedMixture)
    steps: Steps = field(default_factory=Steps)
    each: float = 1.0
    pairs: FloatArray = field(default_factory=no_pairs)
    branches: Mapping[str, AgreedMixture] = field(default_factory=dict)
    extremes: Extremes = ()
    since: int = 0

    def fits(self, before: NativeState, rows: int) -> bool:
        """Tell whether it can be a change of some state, whose table has so many rows."""
        inputs, columns = 1 + len(before.features) + len(self.features), before.weights.shape[2] + len(self.labels)
        cells = self.cells
        return (
            self.weights.shape == (inputs, before.weights.shape[1], columns)
            and self.second.shape == ((inputs, inputs) if before.second.size else (0, 0))
            and cells.ndim == 1
            and self.table.shape == (len(cells), before.table.shape[1], columns)
            and bool(((cells >= 0) & (cells < rows) & (cells == np.floor(cells))).all())
            and bool((np.diff(cells) > 0).all())
            and all(bool(np.isfinite(array).all()) for array in (self.weights, self.second, self.table))
            and math.isfinite(self.each)
            and 0 <= self.since <= before.seen
            and are_sound(self.pairs, len(before.labels) + len(self.labels))
        )

    def chain_after(self, before: NativeState) -> str:
        """Return the digest of all changes up to this one, given the state before.

        Places of cells follow from that state. So whoever has another one reads other cells, and this shows it.
        """
        centre, pairs = [np.array([self.centre])] * bool(self.centre), [self.pairs] * bool(len(self.pairs))
        numbers = self.weights, self.cells, self.table, *centre, *self.mixture.weights, *pairs
        learnt = self.seen != before.seen or len(self.cells) or self.weights.any()
        chain = chained(before.chain, *numbers) if learnt else before.chain
        branches = [part for each in self.branches.values() for part in each.weights]
        return chained(chain, *branches) if branches else chain

    def after(self, before: NativeState) -> NativeState:
        """Return the state after the round, with the table of the state before: see `rows`."""
        grown = before.grown(self.features, self.labels, table=False)
        return replace(
            grown,
            second=self._second(grown),
            weights=grown.weights + self.weights,
            seen=self.seen,
            moments=self.moments if self.moments.count.size else before.moments,
            norms=self.norms,
            chain=self.chain,
            rests=self.rests,
            centre=self.centre,
            mixture=self.mixture,
            steps=self.steps,
            pairs=self.pairs,
            branches=self.branches,
            extremes=self.extremes,
        )

    def _second(self, grown: NativeState) -> FloatArray:
        """Return the second moments; those that were counted as like all before give way to measured ones."""
        second, seen = grown.second, max(1, grown.seen)
        if not self.each:
            return second + second * ((self.seen - grown.seen) / seen)
        return (second * (self.since / seen) if self.since else second) + self.each * self.second

    def rows(self, before: RealArray) -> npt.NDArray[np.float32]:
        """Return the rows `cells` of the table after the round, from those before, with all columns.

        Clients keep the table in 32 bits, so it changes in 32 bits everywhere.
        """
        return before.astype(np.float32, copy=False) + self.table.astype(np.float32, copy=False)


def chained(before: str, *changes: FloatArray | IntArray) -> str:
    """Return a digest of all changes so far: a digest of the whole table would cost more than the round."""
    digest = hashlib.sha256(before.encode())
    for array in changes:
        digest.update(np.ascontiguousarray(array).ravel().data)
    return digest.hexdigest()
