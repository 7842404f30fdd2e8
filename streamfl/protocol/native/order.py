"""The order in which cells of ferns are named in messages: those first that have learnt most by what is agreed.

Which cells a round visits follows from the records, and these are like those before. So the cells that have learnt
most come again, and in this order their places lie close together, which takes few bytes. The order follows from the
agreed table alone, which all processes have to the last bit: it is neither sent nor kept.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray

# What a number of 32 bits counts for: its exponent and the first bit of its fraction.
COUNTED = 22

# The largest sum of these numbers over a row: it has sixteen bits, and sixteen bits are sorted in a millisecond.
MOST = 2**16 - 1


class Order(NamedTuple):
    """The order of cells.

    Examples
    --------
    >>> table = np.zeros((5, 2, 2))
    >>> table[1, 0], table[4, 0] = [0.25, -0.25], [8.0, -8.0]
    >>> Order.of(table).cells, Order.of(table).places
    (array([4, 1, 0, 2, 3]), array([2, 1, 3, 4, 0]))
    """

    # The cell at each place, and the place of each cell.
    cells: IntArray
    places: IntArray

    @classmethod
    def of(cls, table: npt.NDArray[np.floating]) -> "Order":
        """Return the order by an agreed table, shape (rows, rates, columns): by the numbers of the slow rate."""
        slow = np.ascontiguousarray(np.abs(table[:, 0]), np.float32).view(np.uint32)
        learnt = np.minimum((slow >> COUNTED).sum(axis=1), MOST)
        cells = np.argsort((MOST - learnt).astype(np.uint16), kind="stable")
        places = np.empty_like(cells)
        places[cells] = np.arange(len(cells))
        return cls(cells, places)

    def places_of(self, cells: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the places of some cells, rising, and the cells that belong to them by their numbers."""
        places = self.places[cells.astype(np.int64)]
        by_place = np.argsort(places)
        return places[by_place].astype(np.float64), by_place

    def cells_at(self, places: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the cells at some places, rising, and the places that belong to them by their numbers.

        Places may be by any writer. If they are not rising whole numbers of cells, they are returned as they are, and
        refused as cells.
        """
        whole = places.astype(np.int64) if self._are_places(places) else None
        if whole is None:
            return places, np.arange(len(places)) if places.ndim else np.zeros(0, np.int64)
        cells = self.cells[whole]
        by_cell = np.argsort(cells)
        return cells[by_cell].astype(np.float64), by_cell

    def _are_places(self, places: FloatArray) -> bool:
        within = places.ndim == 1 and bool(((places >= 0) & (places < len(self.cells))).all())
        return within and bool((places == np.floor(places)).all() and (np.diff(places) > 0).all())
