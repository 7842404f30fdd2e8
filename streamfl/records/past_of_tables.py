"""The past of the records of a table as more of their features."""

from dataclasses import replace

import numpy as np

from streamfl.arrays import IntArray
from streamfl.records.past_features import PastFeatures
from streamfl.records.table import Table
from streamfl.records.values.made_features import with_made


def with_past(table: Table, past: PastFeatures, client_column: str | None = None) -> Table:
    """Return a table with the features that are made of the records before.

    Parameters
    ----------
    client_column
        The column whose values are the clients: the past of a record are the records of its client. None, or of
        another table: all records are of one.

    >>> X, sites = np.array([[1.0], [2.0], [3.0]]), np.array(["e", "w", "e"])
    >>> table = Table("t", ("x",), X, np.zeros(3), ("a",), np.arange(3), columns={"site": sites})
    >>> with_past(table, PastFeatures(lags=(1,)), "site").X[:, 1]
    array([nan, nan,  1.])
    """
    bases = past.bases(table.features)
    X = table.X[:, [table.features.index(name) for name in bases]]
    owner = _owners(table, client_column)
    positions, names = _positions(table, owner), past.names(table.features)
    made = np.empty((len(table), len(names)))
    for one in range(int(owner.max(initial=-1)) + 1):
        rows = np.flatnonzero(owner == one)
        made[rows] = past.of(positions[rows], X[rows])
    features, whole = with_made(table.features, table.X, names, made)
    return replace(table, features=features, X=whole, past=past)


def _owners(table: Table, column: str | None) -> IntArray:
    """Return whose each record is, as a number, shape (n,)."""
    if column is None:
        return np.zeros(len(table), np.int64)
    if column in table.columns:
        return np.unique(table.columns[column], return_inverse=True)[1]
    if column in table.features:
        return np.unique(table.X[:, table.features.index(column)], return_inverse=True)[1]
    return np.zeros(len(table), np.int64)


def _positions(table: Table, owner: IntArray) -> IntArray:
    """Return where each record is in the log of its client; a bad record is in that of the good one before it."""
    bad = np.array([rejection.position for rejection in table.rejected], np.int64)
    whose = owner[np.maximum(np.searchsorted(table.places, bad) - 1, 0)] if len(owner) else bad
    found = np.empty(len(table), np.int64)
    for one in range(int(owner.max(initial=-1)) + 1):
        rows = np.flatnonzero(owner == one)
        found[rows] = np.arange(len(rows)) + np.searchsorted(bad[whose == one], table.places[rows])
    return found
