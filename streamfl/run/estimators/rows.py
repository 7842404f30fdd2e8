"""Converts River's records, dicts and data frames, to rows of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from river.utils import dataframe

from streamfl.arrays import FloatArray
from streamfl.records.values.cells import number
from streamfl.records.values.missing import WORDS

# Key orders of records that are cached.
MOST_ORDERS = 1000


@dataclass
class Rows:
    """Turns dicts into rows. Columns are in alphabetical order, whatever the order of the keys in the dict.

    A federation keeps features in the same order, so it need not reorder the columns of every record.

    Examples
    --------
    >>> rows = Rows()
    >>> rows.row({"b": 1, "a": True}), rows.row({"a": 0, "b": None})
    ((('a', 'b'), array([[1., 1.]])), (('a', 'b'), array([[ 0., nan]])))
    """

    without: str | None = None  # a feature to leave out, if any
    _orders: dict[tuple[Any, ...], tuple[tuple[str, ...], tuple[Any, ...]]] = field(default_factory=dict)

    def row(self, x: Mapping[Any, Any]) -> tuple[tuple[str, ...], FloatArray]:
        """Return the names and the values of one record, shape (1, d).

        Raises
        ------
        ValueError
            The record is not a dict, a value is not a number, or two features have the same name.
        """
        if not isinstance(x, Mapping):
            raise ValueError(f"a record is a {type(x).__name__}: a dict of features to values is expected")  # noqa: TRY004
        features, keys = self._order(tuple(x))
        try:
            values = np.fromiter([x[key] for key in keys], np.float64, len(keys))
        except (TypeError, ValueError, OverflowError):
            values = np.array([_number(key, x[key]) for key in keys])
        return features, values[None, :]

    def _order(self, keys: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        known = self._orders.get(keys)
        if known is None:
            named = _named([key for key in keys if key != self.without])
            features = tuple(sorted(named))
            known = features, tuple(named[name] for name in features)
            if len(self._orders) < MOST_ORDERS:
                self._orders[keys] = known
        return known


@dataclass(frozen=True)
class ManyRows:
    """Many records at once, from a data frame or an array."""

    # The columns' names and the values, shape (n, d); those of an array are called "0", "1" and so on.
    features: tuple[str, ...]
    X: FloatArray
    excluded: Sequence[Any] | None = None  # the values of the column that was left out, if there was one
    frame: Any = None  # the data frame; None for an array

    def column_like(self, values: Any) -> Any:
        """Return one value per record: a series of the data frame's library, or an array."""
        if self.frame is None:
            return np.array(values)
        return dataframe.to_native_series(values, name="", like=self.frame.head(len(values)))

    def table_like(self, values: FloatArray, names: Sequence[Any]) -> Any:
        """Return one row per record: a data frame if the records came as one, else an array."""
        if self.frame is None:
            return values
        return dataframe.to_native_frame(dict(zip(names, values.T, strict=True)), like=self.frame)


def table(X: Any, without: str | None = None) -> ManyRows:
    """Return the records of a data frame or an array, without one of its columns.

    Raises
    ------
    ValueError
        It does not have two dimensions, holds a value that is not a number, or two columns have the same name.

    >>> table(np.array([[1, 2]]), without="0")
    ManyRows(features=('1',), X=array([[2.]]), excluded=[1], frame=None)
    """
    if hasattr(X, "collect"):
        raise ValueError(f"records are in a {type(X).__name__}, which holds no data yet: collect() it first")
    try:
        if isinstance(X, np.ndarray | Sequence):
            return _of_array(np.asarray(X), without)
        return _of_frame(dataframe.into_frame(X), without)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"records must be numbers, a row each: {error}; encode a column that is not numeric, or leave it out"
        ) from error


def _of_array(X: Any, without: str | None) -> ManyRows:
    if X.ndim != 2:
        raise ValueError(f"their shape is {X.shape}")
    if X.dtype.kind in "cmM":
        raise ValueError(f"they are {X.dtype}")
    names = [str(j) for j in range(X.shape[1])]
    kept = [j for j, name in enumerate(names) if name != without]
    excluded = column(X[:, names.index(without)]) if without in names else None
    own = tuple(names[j] for j in kept)
    return ManyRows(own, _by_rows(X[:, kept], own), excluded)


def _by_rows(X: Any, names: Sequence[Any]) -> FloatArray:
    """Return numbers as a new C-contiguous array, the layout of saved files, so that sums give the same bits."""
    if X.dtype.kind in "OUS":
        rows = [[_number(name, value) for name, value in zip(names, row, strict=True)] for row in X.tolist()]
        return np.array(rows, np.float64).reshape(X.shape)
    return np.array(X, np.float64, order="C")


def _of_frame(frame: Any, without: str | None) -> ManyRows:
    kept = [name for name in frame.columns if str(name) != without]
    times = [name for name in kept if frame.schema[name].is_temporal()]
    if times:
        raise ValueError(f"column {times[0]!r} holds times, of which streamfl.TimeEncoder makes numbers")
    excluded = next((frame[name].to_list() for name in frame.columns if str(name) == without), None)
    try:
        X = _by_rows(dataframe.to_numpy(frame.select(kept)) if kept else np.zeros((len(frame), 0)), kept)
    except (TypeError, ValueError):  # a column of texts, which may be numbers all the same
        X = np.array([[_number(name, value) for value in frame[name].to_list()] for name in kept]).T.copy()
    return ManyRows(tuple(_named(kept)), X, excluded, frame)


def _named(keys: Iterable[Any]) -> dict[str, Any]:
    """Return the keys by their names."""
    named: dict[str, Any] = {}
    for key in keys:
        other = named.setdefault(whole_text(str(key), "a feature's name"), key)
        if other is not key:
            raise ValueError(f"features {other!r} and {key!r} have the same name {str(key)!r}: rename one")
    return named


def column(y: Any) -> Sequence[Any]:
    """Return labels or targets, one per record, from a series, an array or a list.

    Raises
    ------
    ValueError
        `y` is none of these, or does not have one dimension.

    >>> column(np.array([1, 2]))
    [1, 2]
    """
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) != 1:
        raise ValueError(f"labels or targets must be one per record, but their shape is {shape}: take one column")
    if isinstance(y, Sequence) and not isinstance(y, str | bytes):
        return y
    try:
        values: Sequence[Any] = y.tolist() if hasattr(y, "tolist") else dataframe.into_series(y).to_list()
    except TypeError as error:
        raise ValueError(
            f"labels or targets are in a {type(y).__name__}: give a series, an array or a list"
        ) from error
    return values


def client_name(value: Any) -> str:
    """Return the name of a client: "" for a missing value, "1" for 1.0.

    pandas turns a column of ints with a missing value into floats.

    >>> client_name(1.0), client_name("north"), client_name(float("nan"))
    ('1', 'north', '')
    """
    try:
        missing = value is None or bool(value != value)  # noqa: PLR0124 - NaN is not itself
    except TypeError:  # pandas.NA is neither true nor false
        missing = True
    if missing:
        return ""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else whole_text(str(value), "a client's name")


def whole_text(text: str, what: str) -> str:
    r"""Return a text, or refuse it if it has half a surrogate pair: it could not be encoded as UTF-8.

    >>> whole_text("caf" + chr(0xDCE9), "a label")
    Traceback (most recent call last):
    ValueError: a label is 'caf\udce9', which has half a surrogate pair: decode it with its real encoding
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        why = "which has half a surrogate pair: decode it with its real encoding"
        raise ValueError(f"{what} is {short(text)}, {why}") from None
    return text


def _number(name: Any, value: Any) -> float:
    """Return a value as a number, by the rules of files; NaN for None, `pandas.NA`, or a word such as "NA"."""
    try:
        return number(value) if value is None or isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        if str(value).lower() in WORDS:
            return float("nan")
        encoder = "streamfl.TimeEncoder" if isinstance(value, date) else "preprocessing.OneHotEncoder"
        what = f"feature {name!r} is {short(value)}, which is not a number"
        raise ValueError(f"{what}: encode it first, for instance with {encoder}") from None


def short(value: Any) -> str:
    """Return the repr of a value, cut at 80 characters.

    >>> short("x"), len(short(10**400))
    ("'x'", 80)
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
