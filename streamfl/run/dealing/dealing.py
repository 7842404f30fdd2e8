"""Deals the records of a table to the clients of a federation."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table, Texts
from streamfl.records.values.cells import listed, texts
from streamfl.sampling import generator

MAX_CLIENTS = 1000
USUAL_CLIENTS = 10
SPLITS = "round-robin, column:NAME, dirichlet:A"

# A recorded stream is learnt in about ROUNDS_WANTED rounds, of FEWEST records or more in total: with fewer the
# detector has little to test.
ROUNDS_WANTED, FEWEST = 100, 20


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The records of one client, in order. The position of a record is its number among them; bad records count."""

    rows: IntArray  # the row in the table of each good record, shape (n,)
    y: FloatArray  # the label index or target of each good record, shape (n,); an imposed drift may change it
    rejected: tuple[Rejection, ...] = ()  # the bad records by increasing position

    def __len__(self) -> int:
        """Count the records, good and bad."""
        return len(self.rows) + len(self.rejected)

    def good_before(self, position: int) -> int:
        """Count the good records before a position.

        >>> log = Log(np.array([7, 8]), np.zeros(2), (Rejection(1, "no label"),))
        >>> [log.good_before(position) for position in range(4)]
        [0, 1, 1, 2]
        """
        return position - bisect_left(self.rejected, position, key=lambda bad: bad.position)


@dataclass(frozen=True, slots=True, eq=False)
class _Deal:
    """The rows of each client's good records, and the indices of its bad ones, both increasing."""

    names: tuple[str, ...]
    good: list[IntArray]
    bad: list[IntArray]

    @classmethod
    def by_owner(cls, names: tuple[str, ...], good: IntArray, bad: IntArray) -> "_Deal":
        """Group records by owner, an index into `names`."""
        return cls(names, _grouped(good, len(names)), _grouped(bad, len(names)))


def deal(table: Table, clients: int | None, split: str, seed: int) -> dict[str, Log]:
    """Deal every record of a table to exactly one client, in the order of the file.

    Parameters
    ----------
    clients
        The number of clients; None: as many as `column:NAME` has values, else 10.
    split
        `round-robin`: record i of the file goes to client i mod `clients`; bad records count.
        `column:NAME`: each value of that column is a client, named `NAME=value`; a missing value is "".
        `dirichlet:A`: the records of each class are dealt in proportions drawn from Dirichlet(A). The smaller A is,
        the more clients differ in their classes. A client may get nothing.
        With the last two, a bad record goes to the client of the good record before it.
    seed
        Seed of the proportions and of the records drawn for them.

    Returns
    -------
    The log of each client by name: `NAME=value`, or c0, c1, ..., padded with zeros to equal length.

    Raises
    ------
    UsageError
        If the split is unknown or does not fit the table, there are more clients than records, or `clients` is not
        the number of values of the column.

    >>> from streamfl.records.files.covtype import covtype
    >>> logs = deal(covtype(), 12, "round-robin", seed=0)
    >>> list(logs)[:2], logs["c01"].rows[:3], len(logs["c11"])
    (['c00', 'c01'], array([ 1, 13, 25]), 7746)
    """
    kind, _, argument = split.partition(":")
    if column := client_column(split):
        dealt = _by_column(table, column)
        _check_count(table, clients, column, len(dealt.names))
    elif kind == "dirichlet":
        dealt = _by_dirichlet(table, _counted(table, clients), _concentration(argument, split), seed)
    elif split == "round-robin":
        dealt = _in_turn(table, _counted(table, clients))
    else:
        raise UsageError(f"--split {split}: there is no such split; use one of {SPLITS}")
    return _logs(table, dealt)


def client_column(split: str) -> str:
    """Return the column whose values are the clients of a split; empty if there is none.

    >>> client_column("column:site"), client_column("round-robin")
    ('site', '')
    """
    kind, _, column = split.partition(":")
    return column if kind == "column" else ""


def usual_size(records: int, clients: int, *, min_records: int, fewest: int = FEWEST) -> int:
    """Return the records of a client's round that make about 100 rounds of a recorded stream.

    Parameters
    ----------
    min_records
        Minimum number of records in a client's round.
    fewest
        Minimum number of records in a round, over all clients.

    >>> usual_size(92_962, 20, min_records=10), usual_size(500, 10, min_records=10)
    (46, 10)
    >>> usual_size(500, 1, min_records=10)
    20
    """
    return max(min_records, math.ceil(fewest / clients), min(1000, records // (clients * ROUNDS_WANTED)))


def _check_count(table: Table, clients: int | None, name: str, values: int) -> None:
    if clients not in {None, values}:
        what = f"--clients {clients}: column {name!r} of {table.name} has {values} values, and each value is a client"
        raise UsageError(f"{what}; leave --clients out, or use another --split")


def _counted(table: Table, clients: int | None) -> int:
    records = len(table) + len(table.rejected)
    if clients is None:
        return max(1, min(USUAL_CLIENTS, records))
    if clients < 1:
        raise UsageError(f"--clients {clients}: a federation needs at least 1 client")
    if clients > records:
        raise UsageError(f"--clients {clients}: {table.name} has only {records} records; give at most as many")
    return clients


def _concentration(argument: str, split: str) -> float:
    try:
        value = float(argument)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"--split {split}: A must be a positive number; try dirichlet:0.1")
    return value


def _numbered(clients: int) -> tuple[str, ...]:
    width = len(str(clients - 1))
    return tuple(f"c{i:0{width}}" for i in range(clients))


def _in_turn(table: Table, clients: int) -> _Deal:
    names = _numbered(clients)
    if not table.rejected:
        rows = [np.arange(first, len(table), clients) for first in range(clients)]
        return _Deal(names, rows, [np.zeros(0, np.int64)] * clients)
    bad = np.array([rejection.position for rejection in table.rejected], np.int64)
    return _Deal.by_owner(names, table.places % clients, bad % clients)


def _by_dirichlet(table: Table, clients: int, concentration: float, seed: int) -> _Deal:
    if not table.labels:
        raise UsageError(f"--split dirichlet: {table.name} is a regression, which has no classes; use round-robin")
    random = generator(seed, "deal")
    owner = np.empty(len(table), np.int64)
    for label in range(len(table.labels)):
        rows = np.flatnonzero(table.y == label)
        share = random.dirichlet(np.full(clients, concentration))
        ends = np.round(np.cumsum(share) / share.sum() * len(rows)).astype(np.int64)
        owner[rows] = random.permutation(np.repeat(np.arange(clients), np.diff(ends, prepend=0)))
    return _Deal.by_owner(_numbered(clients), owner, _followers(table, owner))


def _by_column(table: Table, name: str) -> _Deal:
    values, owner = np.unique(_texts_of(table, name), return_inverse=True)
    if len(values) > MAX_CLIENTS:
        what = f"--split column:{name}: {len(values)} values in {table.name}, more than {MAX_CLIENTS} clients"
        raise UsageError(f"{what}; use a column with fewer, or round-robin")
    owner = owner.astype(np.int64)
    return _Deal.by_owner(tuple(f"{name}={value}" for value in values), owner, _followers(table, owner))


def _texts_of(table: Table, name: str) -> Texts:
    if name in table.columns:
        return table.columns[name]
    if name not in table.features:
        what = f"--split column:{name}: {table.name} has no such column; the columns are {listed(table.features)}"
        raise UsageError(f"{what}; name one of them")
    numbers, where = np.unique(table.X[:, table.features.index(name)], return_inverse=True)
    return texts(numbers.tolist())[where]


def _followers(table: Table, owner: IntArray) -> IntArray:
    """Return the owner of each bad record: that of the good record before it, else of the first good record."""
    bad = np.array([rejection.position for rejection in table.rejected], np.int64)
    return owner[np.maximum(np.searchsorted(table.places, bad) - 1, 0)]


def _logs(table: Table, dealt: _Deal) -> dict[str, Log]:
    each = zip(dealt.names, dealt.good, dealt.bad, strict=True)
    return {name: _log(table, rows, bad) for name, rows, bad in each}


def _grouped(owner: IntArray, clients: int) -> list[IntArray]:
    """Return the indices that belong to each client, increasing."""
    small = owner.astype(np.min_scalar_type(clients))  # small integers: NumPy uses radix sort, twenty times faster
    order = np.argsort(small, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1])


def _log(table: Table, rows: IntArray, bad: IntArray) -> Log:
    if not len(bad):
        return Log(rows, table.y[rows])
    rejected = [table.rejected[i] for i in bad]
    before = np.searchsorted(table.places[rows], np.array([r.position for r in rejected], np.int64))
    moved = (Rejection(int(n) + i, r.reason) for i, (n, r) in enumerate(zip(before, rejected, strict=True)))
    return Log(rows, table.y[rows], tuple(moved))
