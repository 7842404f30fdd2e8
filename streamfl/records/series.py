"""A series alone, which has a target and no features: its last values become the features."""

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.table import Texts

LAST = 12  # values: a year of months, half a day of hours
DISTINCT = 10  # with more different numbers, a series alone is one of amounts


def last_values(name: str, values: FloatArray, clients: Texts | None = None) -> tuple[list[str], FloatArray]:
    """Return names and values of features: what the series was 1, 2, ... records before.

    Parameters
    ----------
    values
        The targets, shape (n,).
    clients
        Whose each one is; None: of one series.

    Returns
    -------
    Names, and an array of shape (n, `LAST`), NaN before the first value.

    >>> names, X = last_values("sales", np.array([1.0, 2.0, 3.0]))
    >>> names[:2], X[:, :2]
    (['sales[-1]', 'sales[-2]'], array([[nan, nan], [ 1., nan], [ 2.,  1.]]))
    >>> last_values("sales", np.array([1.0, 2.0, 3.0]), np.array(["a", "b", "a"]))[1][:, 0]
    array([nan, nan,  1.])
    """
    X = np.full((len(values), LAST), np.nan)
    owner = np.zeros(len(values)) if clients is None else np.unique(clients, return_inverse=True)[1]
    for one in np.unique(owner):
        rows = np.flatnonzero(owner == one)
        for lag in range(1, min(LAST + 1, len(rows))):
            X[rows[lag:], lag - 1] = values[rows[:-lag]]
    return [f"{name}[-{lag}]" for lag in range(1, LAST + 1)], X
