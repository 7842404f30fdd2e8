"""What is sent and published of the table of ferns: by the places of cells, and in steps; see `Order`.

What is published leaves out the names of features whose moments it has: they are those of the state. While no steps
are agreed on, nothing is known of the cells either, and all is as it is.
"""

from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray, RealArray
from streamfl.online.native.merging.grids import step_of_cells
from streamfl.online.native.merging.rounding import still_counts_as
from streamfl.protocol.digits import in_bits
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.order import Order
from streamfl.protocol.native.steps import Steps


def learnt_as_sent(learnt: NativeLearnt, order: Order) -> NativeLearnt:
    """Return what a client learnt, with places in place of cells, and moments and means of squares in few bits.

    A row that moves nothing counts as so many visits at least, which its reader knows. Only what is beyond is sent,
    nearly always 0, after the visits of all rows that move.
    """
    places, by_place = order.places_of(learnt.cells)
    table = learnt.table[by_place]
    known, moving_first = _of_still(learnt, table)
    visits = (learnt.visits[by_place] - known)[moving_first]
    return replace(
        learnt,
        cells=places,
        visits=visits,
        table=table,
        norms=in_bits(learnt.norms),
        moments=learnt.moments.in_few_bits,
        far=learnt.far.in_few_bits,
        mixture=learnt.mixture.in_few_bits,
    )


def learnt_as_received(learnt: NativeLearnt, order: Order) -> NativeLearnt:
    """Return what a client learnt with cells in place of places; by any writer: what does not fit stays as it is."""
    cells, by_cell = order.cells_at(learnt.cells)
    if learnt.visits.shape != by_cell.shape or learnt.table.ndim != 3 or len(learnt.table) != len(by_cell):
        return learnt
    visits, moving_first = _of_still(learnt, learnt.table)
    visits[moving_first] += learnt.visits
    return replace(learnt, cells=cells, visits=visits[by_cell], table=learnt.table[by_cell])


def _of_still(learnt: NativeLearnt, table: RealArray) -> tuple[FloatArray, IntArray]:
    """Return what is known of the visits to each row, as binary logarithms, and the rows, those that move first."""
    still = ~table.any(axis=(1, 2))
    known = np.where(still, float(still_counts_as(learnt.records, learnt.coarser)), 0.0)
    return known, np.argsort(still, kind="stable")


def change_as_sent(change: NativeChange, order: Order, steps: Steps) -> NativeChange:
    """Return a change as it is published, with places in place of cells, and whole numbers of the steps before it."""
    places, by_place = order.places_of(change.cells)
    step = step_of_cells(steps, change.cells.astype(np.int64))
    moments = replace(change.moments, features=())
    return replace(change, cells=places, table=(change.table / step)[by_place], moments=moments)


def change_as_received(change: NativeChange, order: Order, steps: Steps) -> NativeChange:
    """Return a published change with cells and numbers; it has its shapes."""
    cells, by_cell = order.cells_at(change.cells)
    step = step_of_cells(steps, cells.astype(np.int64))
    return replace(change, cells=cells, table=change.table[by_cell] * step)


def change_named(change: NativeChange, features: tuple[str, ...]) -> NativeChange:
    """Return a published change with the names of the features of its moments, given the features before."""
    if change.moments.features or not change.moments.count.size:
        return change
    return replace(change, moments=replace(change.moments, features=(*features, *change.features)))
