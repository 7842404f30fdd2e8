"""Converts River's records, dicts and data frames, to rows of numbers, by the rules of files."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from river.utils import dataframe

from streamfl.arrays import FloatArray
from streamfl.records.columns import MAX_VALUES, TIMES, Column, LeftOutColumn, NumberColumn, TextColumn, infer
from streamfl.records.values.cells import Cells, number, plain, quoted, text

# Key orders of records that are cached, and columns that are left out and remembered: there may be ever more of both.
MOST_ORDERS, MOST_LEFT_OUT = 1000, 1000


# The features of records with the same keys, which hold numbers only, and these keys in their order.
KeyOrder = tuple[tuple[str, ...], tuple[Any, ...]]


@dataclass(slots=True, eq=False)
class Encoded:
    """Records as rows of numbers, and what they teach about their columns."""

    features: tuple[str, ...]
    X: FloatArray  # shape (n, d)
    columns: Mapping[str, Column] | None = None  # those that are new, or have new values
    unusable: Mapping[str, Sequence[object]] | None = None  # cells that are not what their column holds


@dataclass(slots=True, eq=False)
class LastRow:
    """The record of numbers that was read last: one that is learnt was mostly predicted just before."""

    order: KeyOrder = ((), ())
    values: list[Any] = field(default_factory=list)
    encoded: Encoded | None = None

    def of(self, x: Mapping[Any, Any], order: KeyOrder) -> Encoded:
        """Return a record of numbers as a row, the same object for the same record.

        Raises
        ------
        TypeError, ValueError, ArithmeticError
            A value is not a number.
        """
        features, keys = order
        values = [x[key] for key in keys]
        if self.encoded is None or order is not self.order or values != self.values:
            row = np.fromiter(values, np.float64, len(values))[None]
            self.order, self.values, self.encoded = order, values, Encoded(features, row)
        return self.encoded


@dataclass
class Rows:
    """Turns records into rows. Columns are in alphabetical order, whatever the order of the keys in the dict.

    A federation keeps features in the same order, so it need not reorder the columns of every record. The first value
    of a column says what it holds, by the rules of files: numbers, or texts, of which each becomes a feature of 0 or
    1. Reading teaches nothing: `learn` does.

    Examples
    --------
    >>> rows = Rows()
    >>> record = rows.row({"wind": "NW", "ok": True, "x": None})
    >>> record.features, record.X
    (('ok', 'wind=NW', 'x'), array([[ 1.,  1., nan]]))
    >>> rows.learn(record)
    >>> rows.row({"wind": "S", "ok": "NA"}).features, rows.row({"wind": None}).X
    (('ok', 'wind=NW', 'wind=S'), array([[nan]]))
    """

    without: str | None = None  # a feature to leave out, if any
    columns: dict[str, Column] = field(default_factory=dict)  # what each column holds
    unusable: dict[str, int] = field(default_factory=dict)  # by column, how many learnt cells were not what it holds
    _orders: dict[tuple[Any, ...], KeyOrder] = field(default_factory=dict)  # by the keys of records of numbers
    _last: LastRow = field(default_factory=LastRow)

    def row(self, x: Mapping[Any, Any]) -> Encoded:
        """Return one record as a row.

        Raises
        ------
        ValueError
            The record is not a dict, or two features have the same name.
        """
        if type(x) is not dict and not isinstance(x, Mapping):
            raise ValueError(f"a record is a {type(x).__name__}: a dict of features to values is expected")
        keys = tuple(x)
        known = self._orders.get(keys)
        if known is not None:
            try:
                return self._last.of(x, known)
            except (TypeError, ValueError, ArithmeticError):
                pass
        named = _named([key for key in keys if self.without is None or key != self.without])
        used = {name: key for name, key in named.items() if not isinstance(self.columns.get(name), LeftOutColumn)}
        if known is None and self._are_numbers(used) and len(self._orders) < MOST_ORDERS:
            features = tuple(sorted(used))
            self._orders[keys] = features, tuple(used[name] for name in features)
        return self._read({name: [plain(x[named[name]])] for name in sorted(named)}, 1)

    def many(self, X: Any) -> "ManyRows":
        """Return the records of a data frame or an array.

        Raises
        ------
        ValueError
            It does not have two dimensions, or two columns have the same name.

        >>> Rows(without="0").many(np.array([[1, 2]])).X
        array([[2.]])
        """
        if hasattr(X, "collect"):
            raise ValueError(f"records are in a {type(X).__name__}, which holds no data yet: collect() it first")
        try:
            if isinstance(X, np.ndarray | Sequence):
                return self._of_array(np.asarray(X))
            return self._of_frame(dataframe.into_frame(X))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"records must be a table, a row each: {error}") from error

    def learn(self, encoded: Encoded) -> None:
        """Keep what records teach about their columns, and warn once about each that is not used as it is given."""
        if encoded.columns is None and encoded.unusable is None:  # the common case
            return
        if encoded.columns:
            self.columns.update(self._remembered(encoded.columns))
            self._orders.clear()
        for name, column in (encoded.columns or {}).items():
            if isinstance(column, LeftOutColumn) and name in self.columns:
                remedy = "streamfl.TimeEncoder makes features of it" if column.why == TIMES else "give it as numbers"
                _warn(f"feature {name!r} {column.why} and is left out: {remedy}")
        for name, cells in (encoded.unusable or {}).items():
            self.unusable[name] = self.unusable.get(name, 0) + len(cells)
            if self.unusable[name] == len(cells):
                _warn(f"feature {name!r} {_wrong(self.columns[name], cells[0])}")

    def _remembered(self, new: Mapping[str, Column]) -> dict[str, Column]:
        """Return new columns without those that are left out, if too many are already."""
        left_out = sum(isinstance(column, LeftOutColumn) for column in self.columns.values())
        others = [name for name, column in new.items() if isinstance(column, LeftOutColumn)]
        forgotten = {*others[max(0, MOST_LEFT_OUT - left_out) :]}
        return {name: column for name, column in new.items() if name not in forgotten}

    def _are_numbers(self, names: Iterable[str]) -> bool:
        return all(isinstance(c := self.columns.get(n), NumberColumn) and not c.reading.unit for n in names)

    def _of_array(self, X: Any) -> "ManyRows":
        if X.ndim != 2:
            raise ValueError(f"their shape is {X.shape}")
        if X.dtype.kind in "cmM":
            raise ValueError(f"they are {X.dtype}")
        names = {str(j): j for j in range(X.shape[1])}
        j = names.pop(str(self.without), None)
        excluded = None if j is None else column(X[:, j])
        if X.dtype.kind in "biuf" and self._are_numbers(names):
            return ManyRows(tuple(names), np.array(X[:, [*names.values()]], np.float64, order="C"), excluded=excluded)
        given = {name: _cells(X[:, j].tolist() if X.dtype.kind in "OUS" else X[:, j]) for name, j in names.items()}
        return ManyRows.of(self._read(given, len(X)), excluded)

    def _of_frame(self, frame: Any) -> "ManyRows":
        named = _named([name for name in frame.columns if str(name) != self.without])
        excluded = next((frame[name].to_list() for name in frame.columns if str(name) == self.without), None)
        if named and self._are_numbers(named) and all(_holds_numbers(frame.schema[own]) for own in named.values()):
            X = dataframe.to_numpy(frame.select([*named.values()]))
            if X.dtype.kind in "biuf":
                return ManyRows(tuple(named), np.array(X, np.float64, order="C"), excluded=excluded, frame=frame)
        given = dict[str, Cells]()
        for name, own in named.items():
            texts = isinstance(self.columns.get(name), TextColumn) or not _holds_numbers(frame.schema[own])
            given[name] = _cells(frame[own].to_list() if texts else frame[own].to_numpy())
        return ManyRows.of(self._read(given, len(frame)), excluded, frame)

    def _read(self, given: Mapping[str, Cells], n: int) -> Encoded:
        """Return the rows of n records, from their cells by column."""
        kinds = {name: kind for name, cells in given.items() if (kind := self._kind(name, cells)) is not None}
        changed = {name: kind for name, kind in kinds.items() if kind is not self.columns.get(name)}
        features, parts, unusable = list[str](), [np.zeros((n, 0))], dict[str, Sequence[object]]()
        for name, cells in given.items():
            kind = kinds.get(name)
            own = (name,) if kind is None else kind.features
            values = np.full((n, len(own)), np.nan)
            if wrong := {} if kind is None else kind.encode(cells, values):
                unusable[name] = [cells[i] for i in wrong]
            features += own
            parts.append(values)
        _check_names(features, [feature for kind in changed.values() for feature in kind.features])
        order = [*range(len(features))]
        if any(isinstance(kind, TextColumn) for kind in kinds.values()):
            order.sort(key=features.__getitem__)
        X, names = np.ascontiguousarray(np.hstack(parts)[:, order]), tuple(features[j] for j in order)
        new = {name: replace(c, late=frozenset()) if isinstance(c, TextColumn) else c for name, c in changed.items()}
        return Encoded(names, X, new or None, unusable or None)

    def _kind(self, name: str, cells: Cells) -> Column | None:
        """Return what a column holds, with the values that are new in these cells; None if it has no value yet."""
        known = self.columns.get(name) or _kind(name, cells)
        return None if known is None else known.followed(cells)


@dataclass(slots=True, eq=False)
class ManyRows(Encoded):
    """Many records at once, from a data frame or an array, whose columns are called "0", "1" and so on."""

    excluded: Sequence[Any] | None = None  # the values of the column that was left out, if there was one
    frame: Any = None  # the data frame; None for an array

    @classmethod
    def of(cls, rows: Encoded, excluded: Sequence[Any] | None, frame: Any = None) -> "ManyRows":
        """Return rows with what they came from."""
        return cls(rows.features, rows.X, rows.columns, rows.unusable, excluded, frame)

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


def _check_names(features: Sequence[str], new: Sequence[str]) -> None:
    for feature in new:
        whole_text(feature, "a feature")
    if len({*features}) < len(features):
        twice = next(name for name in features if features.count(name) > 1)
        raise ValueError(f"two features have the same name {twice!r}, one for a value of a text: rename a column")


def _kind(name: str, cells: Cells) -> Column | None:
    """Return what a column holds, by its first value; None if it has none."""
    if isinstance(cells, np.ndarray):
        return None if np.isnan(cells).all() else NumberColumn(name)
    first = next((cell for cell in cells if text(cell)), None)
    if first is None or isinstance(first, int | float):
        return None if first is None else NumberColumn(name)
    found = infer(name, [first])
    if not isinstance(found, TextColumn):
        return found
    try:
        number(first)
    except ValueError as error:
        if "decimal mark" not in str(error):
            return TextColumn(name, ())  # its values are those of the records
    return NumberColumn(name)


def _cells(cells: Any) -> Cells:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return [plain(cell) for cell in cells]


def _holds_numbers(kind: Any) -> bool:
    return bool(kind.is_numeric() or str(kind) == "Boolean")


def _wrong(column: Column, cell: object) -> str:
    if isinstance(column, TextColumn):
        return f"has more than {MAX_VALUES} values: later ones, such as {quoted(cell)}, set none of its features"
    return f"began with numbers: what is not one, such as {quoted(cell)}, counts as missing"


def _warn(what: str) -> None:
    warnings.warn(what, stacklevel=4)


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


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN or another that means a missing one, as pandas.NA and NaT do.

    >>> is_missing(None), is_missing(float("nan")), is_missing(0.0), is_missing("")
    (True, True, False, False)
    """
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 - NaN is not itself
    except (TypeError, ValueError):  # pandas.NA is neither true nor false; an array is several values
        return not isinstance(value, np.ndarray)


def client_name(value: Any) -> str:
    """Return the name of a client: "" for a missing value, "1" for 1.0.

    pandas turns a column of ints with a missing value into floats.

    >>> client_name(1.0), client_name("north"), client_name(float("nan"))
    ('1', 'north', '')
    """
    if is_missing(value):
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
        raise ValueError(f"{what} is {abridged(text)}, {why}") from None
    return text


def abridged(value: Any) -> str:
    """Return the repr of a value, cut at 80 characters.

    >>> abridged("x"), len(abridged(10**400))
    ("'x'", 80)
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
