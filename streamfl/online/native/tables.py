"""The tables of ferns of the clients of one process: agreed values are kept once, and each client's changes apart.

A table has 128,000 rows, of which a client changes some thousand in a round. So the clients that have agreed on the
same values work in one table, in turn: the changes of one are taken out before those of the next are put in.
"""

from dataclasses import dataclass, field
from sys import maxsize
from typing import Any, TypeVar
from weakref import ReferenceType, WeakSet, ref

import numpy as np
import numpy.typing as npt

from streamfl.arrays import IntArray, RealArray, put_rows
from streamfl.online.native.kernels.one_record import Learning
from streamfl.online.native.kernels.steps import COUNTED, Table, Touched
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.order import Order
from streamfl.protocol.native.settings import TOUCHED

F = TypeVar("F", np.float32, np.float64)

# Of so many tables, or ways from a table to the next, it is asked whether their values are the same. There is one of
# each, or two while clients join; more are forged.
COMPARED = 3

NO_TABLE, NO_VISITS = np.zeros((0, 0, 0), np.float32), np.zeros(0, np.int64)


def _no_changes(room: int, rates: int, columns: int) -> Touched:
    return Touched(np.zeros(room, np.int64), np.zeros((room, rates, columns), np.float32), np.zeros(1, COUNTED))


@dataclass(eq=False)
class TableChanges:
    """What one client has changed in a table since its round began."""

    # The rows, and the agreed values there. While the changes are out of the table, `before` is empty.
    touched: Touched
    columns: int  # the number of the client's columns; labels that are new at the client come last
    # The client's values and visits in these rows, while the table has the agreed ones; None while it has these.
    out: tuple[Table, IntArray] | None = None
    arguments: Learning | None = None  # the arguments of the compiled loops while the changes are in the table
    spare: int = 0  # at least so many more rows have room in `touched`; 0: that is not known
    records: IntArray = field(init=False)  # the number of records, shape (1,): a view of `touched.counted`

    def __post_init__(self) -> None:
        """Keep the view: to make it takes as long as to look up the rest."""
        self.records = self.touched.counted["records"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin as a copy, whose view is of its own counts."""
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def cells(self) -> IntArray:
        """Return the changed rows."""
        return self.touched.cells[: int(self.touched.counted["rows"][0])]

    @property
    def before(self) -> Table:
        """Return the agreed values in the changed rows; only while the changes are in the table."""
        return wide(self.touched.before[: len(self.cells)], self.columns)


class AgreedTable:
    """Agreed values, and the changes of at most one client in them.

    Parameters
    ----------
    values
        Shape (rows, rates, width). Columns from `columns` on are 0, but for changes.
    chain
        The digest that their writer claimed; only a hint on where to look for the same values.
    """

    def __init__(self, values: Table, chain: str = "") -> None:
        self.values, self.chain, self.columns = values, chain, values.shape[-1]
        self.visits = np.zeros(len(values), np.int64)
        self.changes: TableChanges | None = None
        # The rows by which the values came from those before, and what they became.
        self.moved: tuple[IntArray, RealArray] = np.zeros(0, np.int64), np.zeros((0, *values.shape[1:]))
        # What a published change does to these values, for clients that know the same: see `NativeLearner.following`.
        self.heard: tuple[object, NativeChange, IntArray, Table] | None = None
        self._order: Order | None = None
        self.users: WeakSet[ClientTable] = WeakSet()
        self._state = object()  # another one when the agreed values are changed in place
        self._next: list[tuple[IntArray, RealArray, ReferenceType[AgreedTable], object]] = []

    # Each method can be repeated after an interruption at any of its steps, or followed by any other.

    def put_in(self, changes: TableChanges) -> None:
        """Put a client's changes in, after those of another client were taken out."""
        if self.changes is not changes:
            self.take_out()
            if len(changes.cells):  # else there is room only
                before = self.values.take(changes.cells, axis=0)[..., : changes.columns]
                changes.touched = changes.touched._replace(cells=changes.cells, before=np.ascontiguousarray(before))
                changes.spare = 0
            self.changes = changes
        if changes.out is not None:
            values, visits = changes.out
            put_rows(self.values, changes.cells, values)
            self.visits[changes.cells] = visits
            changes.out = None

    def take_out(self) -> None:
        """Take the changes out that are in; their client keeps them."""
        changes = self.changes
        if changes is None:
            return
        changes.arguments = None
        if changes.out is None:
            values = np.ascontiguousarray(self.values.take(changes.cells, axis=0)[..., : changes.columns])
            changes.out = values, self.visits.take(changes.cells)
        self.undo(changes)
        nothing = changes.touched.before[:0].copy()  # the agreed values are here
        changes.touched, changes.spare = changes.touched._replace(cells=changes.cells.copy(), before=nothing), 0

    def undo(self, changes: TableChanges) -> None:
        """Restore the agreed values, if these changes are in."""
        if self.changes is changes:
            changes.arguments = None
            put_rows(self.values, changes.cells, changes.before)
            self.visits[changes.cells] = 0
            self.changes = None

    def widen(self, columns: int) -> None:
        """Make room for more columns."""
        if self.values.shape[-1] < columns:
            if self.changes is not None:
                self.changes.arguments = None
            # An eighth more: a copy for each new label would take time that grows with their square.
            self.values = wide(self.values, columns + columns // 8)

    @property
    def order(self) -> Order:
        """Return the order in which messages name cells, by the agreed values."""
        if self._order is None:
            slow, changes = self.values[:, :1, : self.columns].copy(), self.changes
            if changes is not None and changes.out is None:
                before = changes.before[:, :1, : self.columns]
                slow[changes.cells, :, : before.shape[-1]] = before
            self._order = Order.of(slow)
        return self._order

    def has(self, values: Table) -> bool:
        """Tell whether the agreed values are these; a column that one of them lacks is 0."""
        self.take_out()
        both = min(values.shape[-1], self.values.shape[-1])
        more = values[..., both:].any() or self.values[..., both:].any()
        return not more and np.array_equal(values[..., :both], self.values[..., :both])

    def following(self, cells: IntArray, rows: RealArray) -> "AgreedTable | None":
        """Return the table that came from this one by the same rows, if it is still used."""
        self._next = [one for one in self._next if (known := one[2]()) is not None and known._state is one[3]]
        for places, values, table, _ in self._next:
            if np.array_equal(places, cells) and (values is rows or np.array_equal(values, rows)):
                return table()
        return None

    def follows(self, cells: IntArray, rows: RealArray, table: "AgreedTable") -> None:
        """Note by which rows another table came from this one."""
        self._next = [*self._next, (cells, rows, ref(table), table._state)][-COMPARED:]

    def change(self, cells: IntArray, rows: RealArray, chain: str) -> None:
        """Set agreed rows, for all clients that use this table; columns that the rows lack become 0."""
        self.take_out()
        columns, before = rows.shape[-1], self.columns
        self.moved, self.heard, self._order = (cells, rows), None, None
        self.chain, self.columns, self._next, self._state = chain, columns, [], object()
        self.widen(columns)
        self.values[..., columns:before] = 0.0
        put_rows(self.values, cells, rows[: len(cells)])

    def copy(self) -> "AgreedTable":
        """Return a table with the same agreed values."""
        self.take_out()
        return AgreedTable(self.values.copy(), self.chain)


class AgreedTables:
    """The agreed tables of one process: one for all clients that have the same values.

    Whether values are the same is seen by comparing them, never believed: a client may have been sent others.
    """

    def __init__(self) -> None:
        self._all: WeakSet[AgreedTable] = WeakSet()

    def __reduce__(self) -> tuple[type["AgreedTables"], tuple[()]]:
        """Return what makes a copy, which shares nothing."""
        return AgreedTables, ()

    def __iter__(self) -> Any:
        """Iterate over the tables in use."""
        return iter(self._all)

    def add(self, table: AgreedTable) -> AgreedTable:
        """Add a table."""
        self._all.add(table)
        return table

    def of(self, values: Table, chain: str = "") -> AgreedTable:
        """Return a table of these values, the one in use if there is one."""
        claimed = [table for table in self._all if table.chain == chain and len(table.values) == len(values)]
        same = next((table for table in claimed[:COMPARED] if table.has(values)), None)
        return self.add(AgreedTable(values, chain)) if same is None else same

    def after(self, table: AgreedTable, cells: IntArray, rows: RealArray, chain: str) -> AgreedTable:
        """Return the table that one becomes by new rows, for one of its users; the others still have the old one."""
        if not len(cells) and table.columns <= rows.shape[-1]:
            return table
        if (known := table.following(cells, rows)) is not None:
            return known
        if len(table.users) == 1 and not any(other.chain == chain for other in self._all if other is not table):
            table.change(cells, rows, chain)
            return table
        made = table.copy()
        made.change(cells, rows, chain)
        made = self.of(made.values, chain)
        made.moved = cells, rows
        table.follows(cells, rows, made)
        return made


class ClientTable:
    """A table as one client has it: the agreed values with the client's own changes.

    Only one thread may use the tables of one `AgreedTables`.

    Parameters
    ----------
    values
        The agreed values to begin with, shape (rows, rates, columns).

    Examples
    --------
    >>> tables = AgreedTables()
    >>> one, other = (ClientTable(tables, np.zeros((4, 1, 1), np.float32)) for _ in range(2))
    >>> one.agreed is other.agreed
    True
    >>> for table, row in ((one, 2), (other, 3)):
    ...     table.make_room_for(1)
    ...     touched = table.changes.touched  # what the compiled loops do for a record:
    ...     touched.cells[0], touched.counted["rows"][0] = row, 1
    ...     table.values[row] += row
    >>> one.values.ravel().tolist(), other.values.ravel().tolist()
    ([0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 3.0])
    >>> one.begin(np.array([1]), np.array([[[7.0]]]))
    >>> one.values.ravel().tolist(), other.values.ravel().tolist(), one.agreed is other.agreed
    ([0.0, 7.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0], False)
    """

    agreed: AgreedTable
    changes: TableChanges

    def __init__(self, tables: AgreedTables, values: Table) -> None:
        self._tables = tables
        self._move(tables.of(values), values.shape[-1])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which has its own table."""
        self.agreed.take_out()
        changes = self.changes
        cells, before, counted = changes.touched
        touched = Touched(cells.copy(), before.copy(), counted.copy())
        return {
            "_tables": self._tables,
            "agreed": (self.agreed.values.copy(), self.agreed.chain),
            "changes": TableChanges(touched, changes.columns, changes.out),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin as a copy."""
        self._tables, self.changes = state["_tables"], state["changes"]
        self.agreed = self._tables.add(AgreedTable(*state["agreed"]))
        self.agreed.users.add(self)

    def _move(self, agreed: AgreedTable, columns: int, changed: int = 0) -> None:
        agreed.widen(columns)
        agreed.users.add(self)
        room = min(len(agreed.values), 2 * changed)
        touched = _no_changes(room, agreed.values.shape[1], columns)
        self.agreed, self.changes = agreed, TableChanges(touched, columns, spare=room)

    def enter(self) -> AgreedTable:
        """Put the client's changes into the agreed table, and return it."""
        self.agreed.put_in(self.changes)
        return self.agreed

    @property
    def values(self) -> Table:
        """Return the agreed values with the client's changes, shape (rows, rates, columns), until others enter."""
        return self.enter().values[..., : self.changes.columns]

    def agreed_rows(self, cells: IntArray, columns: int) -> Table:
        """Return the agreed values of some rows, with so many columns, shape (cells, rates, columns)."""
        self.agreed.take_out()
        rows = self.agreed.values.take(cells, axis=0)[..., :columns]
        return wide(rows, columns)

    def begin(self, cells: IntArray | None, rows: RealArray, chain: str = "") -> None:
        """Forget all changes, and continue from agreed rows, or all of them if `cells` is None.

        Parameters
        ----------
        cells, rows
            The rows of the table that are new, and their values, shape (cells, rates, columns).
        chain
            The digest that the writer of these rows claims.
        """
        old = self.agreed
        old.undo(self.changes)
        new = (
            self._tables.of(rows.astype(np.float32), chain)
            if cells is None
            else self._tables.after(old, cells, rows, chain)
        )
        self._move(new, rows.shape[-1], len(self.changes.cells))
        if new is not old:
            old.users.discard(self)

    def widen(self, columns: int) -> None:
        """Add columns of zeros, for labels that are new at the client."""
        self.agreed.widen(columns)
        self.changes.arguments, self.changes.columns, self.changes.spare = None, columns, 0

    def make_room_for(self, records: int) -> None:
        """Let the arrays have room for the rows that so many more records may be the first to change."""
        if self.changes.spare < TOUCHED * records:
            self._make_room_for(records)

    def _make_room_for(self, records: int) -> None:
        rows = len(self.enter().values)
        changes, touched = self.changes, self.changes.touched
        wanted = min(rows, int(touched.counted["rows"][0]) + TOUCHED * records)
        if len(touched.cells) < wanted or touched.before.shape[-1] != changes.columns:
            room = min(rows, 4 * wanted)  # a few times only: all arguments are built again
            cells, before = np.zeros(room, np.int64), np.zeros((room, *changes.before.shape[1:]), np.float32)
            cells[: len(changes.cells)], before[: len(changes.cells)] = changes.cells, changes.before
            changes.touched, changes.arguments = Touched(cells, before, touched.counted), None
        room = len(changes.touched.cells)
        changes.spare = maxsize if room == rows else room - int(touched.counted["rows"][0])

    def changed(self) -> tuple[IntArray, Table, Table, IntArray]:
        """Return the rows that the client changed, rising, their agreed values, its own, and the visits of each."""
        table, columns = self.enter(), self.changes.columns
        cells, places = np.sort(self.changes.cells), np.zeros(len(table.visits), np.int64)
        places[self.changes.cells] = np.arange(len(self.changes.cells))
        before = self.changes.before.take(places[cells], axis=0)
        own = np.ascontiguousarray(table.values.take(cells, axis=0)[..., :columns])
        return cells, before, own, table.visits.take(cells)


def wide(array: npt.NDArray[F], columns: int) -> npt.NDArray[F]:
    """Return an array with its last axis padded by zeros to so many columns."""
    more = columns - array.shape[-1]
    return np.concatenate([array, np.zeros((*array.shape[:-1], more), array.dtype)], axis=-1) if more > 0 else array
