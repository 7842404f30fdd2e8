"""Records as River gives them, dicts and data frames, as rows of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamfl.core.arrays import FloatArray

# Ways of spelling a record that are remembered.
MOST_ORDERS = 1000


@dataclass
class Rows:
    """Turns dicts into rows; records with the same features share one order of columns, however they are spelt.

    Parameters
    ----------
    without
        A feature that is left out, if any.

    Examples
    --------
    >>> rows = Rows()
    >>> rows.row({"b": 1, "a": True}), rows.row({"a": 0, "b": None})
    ((('b', 'a'), array([[1., 1.]])), (('b', 'a'), array([[nan,  0.]])))
    """

    without: str | None = None
    _orders: dict[tuple[Any, ...], tuple[tuple[str, ...], tuple[Any, ...]]] = field(default_factory=dict)
    _columns: dict[frozenset[str], tuple[str, ...]] = field(default_factory=dict)

    def row(self, x: Mapping[Any, Any]) -> tuple[tuple[str, ...], FloatArray]:
        """Return the names and the values of one record, shape (1, d).

        Raises
        ------
        ValueError
            A value is not a number.
        """
        features, keys = self._order(tuple(x))
        try:
            values = np.fromiter([x[key] for key in keys], np.float64, len(keys))
        except (TypeError, ValueError):
            values = np.array([_number(key, x[key]) for key in keys])
        return features, values[None, :]

    def _order(self, keys: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        known = self._orders.get(keys)
        if known is None:
            named = {str(key): key for key in keys if key != self.without}
            features = self._columns.setdefault(frozenset(named), tuple(named))
            known = features, tuple(named[name] for name in features)
            if len(self._orders) < MOST_ORDERS:
                self._orders[keys] = known
        return known


def table(X: Any) -> tuple[tuple[str, ...], FloatArray]:
    """Return the columns' names and the values, shape (n, d), of a data frame or an array.

    Columns of an array are called "0", "1" and so on.

    Raises
    ------
    ValueError
        It has not two dimensions, or holds what is no number.

    >>> table(np.array([[1, 2]]))
    (('0', '1'), array([[1., 2.]]))
    """
    names = getattr(X, "columns", None)
    values = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a column is not numeric: {error}; encode it first, or leave it out") from error
    if values.ndim != 2:
        raise ValueError(f"records have shape {values.shape}: one row a record and one column a feature are needed")
    if names is None:
        return tuple(map(str, range(values.shape[1]))), values
    return tuple(map(str, names)), values


def column(y: Any) -> Sequence[Any]:
    """Return labels or targets, one a record, of a series, an array or a list."""
    values: Sequence[Any] = y.tolist() if hasattr(y, "tolist") else list(y)
    return values


def _number(name: Any, value: Any) -> float:
    if value is None:
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"feature {name!r} is {value!r}, which is no number: encode it first, as by preprocessing.OneHotEncoder"
        ) from None
