"""The source of one client: its records of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log


class TableSource:
    """The records of one client of a table, read in order: `streamfl.runtime.ports.Source`.

    Parameters
    ----------
    name
        The client, also the name of its only partition.
    times
        When each record of the table was measured, in seconds since 1970; None: not known.

    >>> from streamfl.records.files.covtype import covtype
    >>> from streamfl.run.dealing.dealing import deal
    >>> table = covtype()
    >>> source = TableSource(table, "c3", deal(table, 10, "round-robin", 0)["c3"])
    >>> source.poll(1000)[0].span, source.ended
    (Span(partition='c3', start=0, end=1000), False)
    """

    def __init__(self, table: Table, name: str, log: Log, times: FloatArray | None = None) -> None:
        self._table = table
        self._measured_at = times
        self.name = name
        self._log = log
        self._bad: IntArray = np.array([rejection.position for rejection in log.rejected], np.int64)
        self._at = 0
        steps = np.diff(log.rows)
        self._stride = int(steps[0]) if len(steps) and steps[0] > 0 and (steps == steps[0]).all() else None

    @property
    def ended(self) -> bool:
        """Whether all records have been read."""
        return self._at >= len(self._log)

    @property
    def read(self) -> int:
        """The position of the next record: records read or skipped so far, good and bad."""
        return self._at

    @property
    def length(self) -> int:
        """The number of records, good and bad."""
        return len(self._log)

    @property
    def rejected(self) -> Sequence[Rejection]:
        """The bad records by increasing position."""
        return self._log.rejected

    def between(self, start: int, end: int) -> Batch:
        """Return the records of some positions; the position of `poll` does not change."""
        return self._batch(start, end)

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones, as one batch; () at the end."""
        end = min(self._at + max(limit, 0), len(self._log))
        if end == self._at:
            return ()
        start, self._at = self._at, end
        return (self._batch(start, end),)

    def seek(self, positions: Mapping[str, int]) -> None:
        """Continue at the position of this client, if `positions` has one.

        Raises
        ------
        UsageError
            If the position is beyond the client's records: they are not the records that were read before.
        """
        at = positions.get(self.name, self._at)
        if not 0 <= at <= len(self._log):
            what = f"{self._table.name}: {self.name} has {len(self._log)} records, but its position is {at}"
            raise UsageError(f"{what}; give the same file, clients and split as before")
        self._at = at

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read the good records at these positions again, in order; the position of `poll` does not change."""
        wanted = positions.get(self.name, ())
        again = self.at(np.array(wanted, np.int64))
        return (again,) if len(again) else ()

    def at(self, positions: IntArray) -> Batch:
        """Return the good records at some positions, in order, each once."""
        wanted = np.unique(positions)
        wanted = wanted[(wanted >= 0) & (wanted < len(self._log)) & ~np.isin(wanted, self._bad)]
        span = Span(self.name, int(wanted[0]), int(wanted[-1]) + 1) if len(wanted) else Span(self.name, 0, 0)
        return self._columns(span, wanted, wanted - np.searchsorted(self._bad, wanted))

    def _batch(self, start: int, end: int) -> Batch:
        positions = np.arange(start, end, dtype=np.int64)
        if not len(self._bad):
            return self._columns(Span(self.name, start, end), positions, slice(start, end))
        first, last = np.searchsorted(self._bad, [start, end])
        good = positions if first == last else np.delete(positions, self._bad[first:last] - start)
        batch = self._columns(Span(self.name, start, end), good, slice(start - first, end - last))
        if first == last:
            return batch
        return replace(batch, rejected=self._log.rejected[first:last])

    def _rows(self, which: IntArray | slice) -> IntArray | slice:
        """Return rows of the table, as a slice (which needs no copy) if they are evenly spaced."""
        if self._stride is None or not isinstance(which, slice):
            return self._log.rows[which]
        rows = self._log.rows[which]
        return slice(int(rows[0]), int(rows[-1]) + 1, self._stride) if len(rows) else slice(0, 0)

    def _columns(self, span: Span, positions: IntArray, which: IntArray | slice) -> Batch:
        rows = self._rows(which)
        X = self._table.X[rows].astype(np.float64, copy=False)
        times = None if self._measured_at is None else self._measured_at[rows]
        return Batch(span, positions, self._table.features, X, self._log.y[which], self._table.labels, times=times)
