"""The way over a wire: numbers are rounded to grids, and a client's influence is that of its records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import PeerError
from streamfl.learning.fixed_point import LIMIT, SCALE, largest_part, weighted_mean
from streamfl.learning.online_models import Covered
from streamfl.online.native.merging.admission import wrong_learnt
from streamfl.online.native.merging.grids import (
    fitting_steps,
    median_steps,
    next_steps,
    step_of_cells,
    step_of_weights,
)
from streamfl.online.native.merging.placing import placed, placed_weights
from streamfl.online.native.merging.rounding import (
    ROOM,
    most_steps,
    rounded,
    rounded_second,
    rows_sent,
    split_change,
    split_rows,
)
from streamfl.online.native.merging.way import LearntNumbers, Merged, Raw, Way
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.steps import Steps

# Moments are published once in so many rounds. docs/choices.md, "Grids".
EVERY = 8


@dataclass(frozen=True)
class OnGrids(Way):
    """Clients send whole numbers of steps, rounded at random; the coordinator rounds too, and keeps the rest back."""

    every: ClassVar[int] = EVERY

    def numbers(self, raw: Raw, agreed: NativeState, draws: np.random.Generator, coarser: int) -> LearntNumbers:
        """Return numbers on the grids of the round, of the rows of the table that `rows_sent` chooses."""
        table = raw.own.astype(np.float64) - raw.before
        fitting = fitting_steps(raw.weights, table, raw.cells, raw.records, agreed)
        steps = (agreed.steps if agreed.steps.are_known else fitting).coarser(coarser)
        most = most_steps(raw.records, coarser)
        changes = rounded(table, step_of_cells(steps, raw.cells), draws, most)
        sent, counted = rows_sent(changes, raw.visits, raw.records, draws, coarser=coarser)
        weights = rounded(raw.weights, step_of_weights(steps), draws, most)
        cells = raw.cells[sent].astype(np.float64)
        return LearntNumbers(weights, cells, counted[sent], changes[sent], rounded_second(raw.second, steps), fitting)

    def wrong(self, learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
        """Return why what a client learnt cannot be merged, or None if it can."""
        return wrong_learnt(learnt, agreed, covered)

    def merged(self, parts: Sequence[NativeLearnt], agreed: NativeState, grown: NativeState) -> Merged:
        """Return the means over the clients, on the grids of what is published; what is left is kept back.

        What was kept back of the table is changed in place: it is too large to be copied in every round.
        """
        common = agreed.steps if agreed.steps.are_known else median_steps(parts)
        kept_back = agreed.kept_back.over(grown.weights, grown.table)
        weights, left = split_change(_mean_weights(parts, grown, common), kept_back.weights, step_of_weights(common))
        cells, table = _by_visits(parts, grown, common)
        # In the first round nothing else is known of any cell: rows do not wait.
        split = split_rows if agreed.steps.are_known else split_change
        table, kept_back.table[cells] = split(table, kept_back.table[cells], step_of_cells(common, cells))
        moved = table.any(axis=(1, 2))
        return Merged(weights, cells[moved], table[moved], next_steps(parts), replace(kept_back, weights=left))


ON_GRIDS = OnGrids()


def _mean_weights(parts: Sequence[NativeLearnt], grown: NativeState, common: Steps) -> FloatArray:
    """Return the mean of the clients' differences of linear weights, by records, added up in common steps."""
    unit = step_of_weights(common)
    sent = []
    for part in parts:
        ratio = step_of_weights(part.steps_of(grown.steps)) / unit
        sent.append((part.records, _in_common(placed_weights(part, grown), ratio, part, parts) / ROOM))
    return unit * ROOM * weighted_mean(sent)


def _in_common(x: FloatArray, ratio: FloatArray, part: NativeLearnt, parts: Sequence[NativeLearnt]) -> FloatArray:
    """Return a client's numbers in the common steps: so many times those in its own.

    Its own may be of any size, so what cannot be added up is cut off: else others would be blamed for it.
    """
    if (ratio == 1.0).all():
        return x
    most = ROOM * largest_part(part.records, len(parts))
    return np.clip(ratio * x, -most, most)


def _by_visits(parts: Sequence[NativeLearnt], grown: NativeState, common: Steps) -> tuple[IntArray, FloatArray]:
    """Return the cells that any client visited, and the change of each: exact for any order of the clients."""
    named = [part.cells.astype(np.int64) for part in parts]
    cells = _distinct(np.concatenate(named), len(grown.table))
    unit = step_of_cells(common, cells)
    sums, weights = np.zeros((len(cells), *grown.table.shape[1:]), np.int64), np.zeros(len(cells))
    largest = np.zeros(len(cells))
    for part, own in zip(parts, named, strict=True):
        at, visits = np.searchsorted(cells, own), np.ldexp(1.0, part.visits.astype(np.int64))
        ratio = step_of_cells(part.steps_of(grown.steps), own) / unit[at]
        table = part.table.astype(np.float64, copy=False)
        numbers = _in_common(placed(table, part.labels, grown.labels), ratio, part, parts)
        with np.errstate(over="ignore"):  # an overflow is refused below
            scaled = np.rint(numbers * (visits * (SCALE / ROOM))[:, None, None])
        largest[at] += np.abs(scaled).max(axis=(1, 2), initial=0.0)
        if not largest.max(initial=0.0) < LIMIT:
            raise PeerError("an aggregate overflows the fixed-point range: a client's difference is far too large")
        sums[at] += scaled.astype(np.int64)
        weights[at] += visits
    return cells, unit * (sums / (SCALE / ROOM * weights)[:, None, None])


def _distinct(cells: IntArray, rows: int) -> IntArray:
    """Return the distinct cells in order.

    >>> _distinct(np.array([7, 2, 7]), 9)
    array([2, 7])
    """
    named = np.zeros(rows, np.bool_)
    named[cells] = True
    return np.flatnonzero(named)
