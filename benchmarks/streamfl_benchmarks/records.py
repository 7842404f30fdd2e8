"""The records of a drawn stream, in memory: the same for every method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.errors import UsageError
from streamfl.protocol.records import Batch, Span
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl_benchmarks.drawn import DrawnStream, Rows, drawn_rounds, lifetimes
from streamfl_benchmarks.peers.base import ClientRecords
from streamfl_benchmarks.recorded import recorded_rounds

# The only client, if one place has all records.
PLACE = "c0"


@dataclass(frozen=True, slots=True, eq=False)
class ClientRounds:
    """All rounds of one client, one after another.

    Parameters
    ----------
    rows, y
        Rows of the table and labels, shape (n,): eight bytes a record, since features are not copied.
    ends
        Where each round ends, shape (rounds,).
    """

    rows: Rows
    y: Rows
    ends: IntArray

    def round(self, t: int) -> slice:
        """Return where round t lies; after the last round there is nothing."""
        if t > len(self.ends):
            return slice(0, 0)
        return slice(int(self.ends[t - 2]) if t > 1 else 0, int(self.ends[t - 1]))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the records of each round."""
        return tuple(np.diff(self.ends, prepend=0).tolist())

    def repeats(self, t: int) -> int:
        """Count the records of round t whose label the record before has too: where NoChange is right."""
        here = self.round(t)
        y = self.y[max(0, here.start - 1) : here.stop]
        return int((y[1:] == y[:-1]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A stream that has been drawn.

    Parameters
    ----------
    stream, table
        What was drawn, from what.
    clients
        The records of every client that there ever is.
    """

    stream: DrawnStream
    table: Table
    clients: Mapping[str, ClientRounds]

    @classmethod
    def of(cls, stream: DrawnStream, table: Table) -> Self:
        """Draw a stream, or take the table's records as they come."""
        return cls(stream, table, {name: _joined(rounds) for name, rounds in _rounds(stream, table).items()})

    def together(self) -> tuple[Self, ...]:
        """Return the stream as one federation has it."""
        return (self,)

    def apart(self) -> tuple[Self, ...]:
        """Return the stream of each client as one of its own."""
        return tuple(replace(self, clients={name: own}) for name, own in self.clients.items())

    def in_one_place(self) -> tuple[Self, ...]:
        """Return the stream as that of one client, who has a round's records client by client.

        Raises
        ------
        UsageError
            If some clients drift alone: they could no longer be told apart.
        """
        if self.stream.drift == "local":
            raise UsageError("--drift local: with all records in one place no client drifts alone; leave it out")
        return (replace(self, clients={PLACE: _joined(map(self._merged, range(1, self.stream.rounds + 1)))}),)

    def _merged(self, t: int) -> tuple[Rows, FloatArray]:
        parts = [(own.rows[own.round(t)], own.y[own.round(t)]) for own in self.clients.values()]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([y for _, y in parts]).astype(np.float64)

    def logs(self) -> dict[str, Log]:
        """Return what a federation is dealt."""
        return {name: Log(cast(IntArray, own.rows), own.y.astype(np.float64)) for name, own in self.clients.items()}

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the sizes of each client's rounds."""
        return {name: own.sizes for name, own in self.clients.items()}

    def batch(self, client: str, t: int) -> Batch:
        """Return the records of a client's round t as a federation reads them."""
        own = self.clients[client]
        here = own.round(t)
        X = self.table.X[own.rows[here]].astype(np.float64, copy=False)
        positions = np.arange(here.start, here.stop, dtype=np.int64)
        y = own.y[here].astype(np.float64)
        return Batch(Span(client, here.start, here.stop), positions, self.table.features, X, y, self.table.labels)

    def round(self, t: int, Z: Numbers) -> Sequence[ClientRecords]:
        """Return the records of round t, client by client, `Z` being all of `with_intercept`."""
        return [_gathered(own, t, Z) for own in self.clients.values()]


def with_intercept(table: Table) -> Numbers:
    """Return the table's features and a last column of 1, shape (n, d + 1), in their own type."""
    return np.concatenate([table.X, np.ones((len(table), 1), table.X.dtype)], axis=1)


def _rounds(stream: DrawnStream, table: Table) -> Mapping[str, Iterable[tuple[Rows | IntArray, FloatArray]]]:
    if stream.is_recorded:
        clients, size = stream.clients, stream.round_size
        return recorded_rounds(table, clients=clients, round_size=size, rounds=stream.rounds)
    return {lifetime.name: drawn_rounds(stream, table, lifetime) for lifetime in lifetimes(stream)}


def _joined(rounds: Iterable[tuple[Rows | IntArray, FloatArray]]) -> ClientRounds:
    parts = [(rows.astype(np.int32), y.astype(np.int32)) for rows, y in rounds]
    ends = np.cumsum([len(rows) for rows, _ in parts], dtype=np.int64)
    return ClientRounds(np.concatenate([r for r, _ in parts]), np.concatenate([y for _, y in parts]), ends)


def _gathered(own: ClientRounds, t: int, Z: Numbers) -> ClientRecords:
    here = own.round(t)
    return ClientRecords(Z[own.rows[here]].astype(np.float64, copy=False), own.y[here].astype(np.float64))
