"""Encodes records of any form as the features of a finished model, as the records that it learnt were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.protocol.records import without_infinity
from streamfl.records.columns import NumberColumn, TextColumn, decimals
from streamfl.records.objects import flat, names
from streamfl.records.values.cells import CellRules, Cells, listed, plain
from streamfl.records.values.made_features import with_made
from streamfl.records.values.missing import Missing
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import Notation


@dataclass(frozen=True)
class Encoding:
    """The columns that a model knows, and the features that they become.

    Examples
    --------
    >>> encoding = Encoding(("x", "colour=blue", "colour=red"), {"colour": ("blue", "red")})
    >>> encoding.columns
    ('x', 'colour')
    >>> features, X, unusable = encoding.encoded({"colour": ["red", "pink"], "x": ["1", "much"]})
    >>> features, X[0], unusable
    (('colour=blue', 'colour=red', 'x'), array([0., 1., 1.]), {'x': {1: '"much" is not a number'}})
    """

    features: tuple[str, ...]  # the model's features
    # The values of each text column; value v of column c is the feature `c=v`.
    categories: Mapping[str, tuple[str, ...]]
    # Columns that are not features and are ignored: the label, and those that were left out of training.
    others: frozenset[str] = frozenset()
    missing_values: tuple[str, ...] = ()  # what else was missing in training; `not:NA` means that NA was a value
    # By column, the numbers that stood for a missing value.
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)  # by column, the unit that numbers may have
    time_features: TimeFeatures | None = None  # which features are made of the times; None: none are

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that records have, in the order of the features."""
        return tuple(dict.fromkeys(column for feature in self.features for column in self._columns_of(feature)))

    @cached_property
    def times(self) -> tuple[str, ...]:
        """Return the columns whose times become features."""
        return () if self.time_features is None else self.time_features.columns

    def _columns_of(self, feature: str) -> tuple[str, ...]:
        if self.time_features is not None and feature in self.time_features.names:
            return self.times
        return (self._column_of.get(feature, feature),)

    @cached_property
    def _column_of(self) -> dict[str, str]:
        return {f"{column}={value}": column for column, values in self.categories.items() for value in values}

    def unknown(self, given: Sequence[str]) -> list[str]:
        """Return the names that mean nothing to the model, and are not known to be no features."""
        known = {*self.features, *self.columns, *self.others}
        return [name for name in given if name not in known]

    def lacking(self, given: Sequence[str]) -> list[str]:
        """Return the columns that are missing: neither they nor any of their features are given."""
        covered = set(given)
        return [
            column
            for column in self.columns
            if column not in covered and covered.isdisjoint(f"{column}={v}" for v in self.categories.get(column, ()))
            if column not in self.times or covered.isdisjoint(self._made_of_times)
        ]

    @property
    def _made_of_times(self) -> tuple[str, ...]:
        return () if self.time_features is None else self.time_features.names

    def _of_numbers(self, column: str, reading: CellRules, mark: Decimal | None) -> CellRules:
        missing = replace(reading.missing, numbers=reading.missing.numbers | {*self.codes.get(column, ())})
        unit = self.units.get(column, "")
        return replace(reading, missing=missing, decimal=reading.decimal or mark, unit=unit)

    def by_column(self, features: Sequence[str]) -> dict[str, list[int]]:
        """Return by column the places of the features that it became."""
        places = dict[str, list[int]]()
        for j, name in enumerate(features):
            places.setdefault(",".join(self._columns_of(name)), []).append(j)
        return places

    def encoded(
        self,
        given: Mapping[str, Cells],
        reading: CellRules | None = None,
        marks: Mapping[str, Decimal | None] | None = None,
        notation: Notation | None = None,
    ) -> tuple[tuple[str, ...], FloatArray, dict[str, dict[int, str]]]:
        """Return the features that are given, their values, and what is not a number and counts as missing.

        Parameters
        ----------
        given
            The cells of each column, all equally many; columns that the model does not know are ignored.
        reading
            How cells are read; by default as in training.
        marks
            The decimal mark of columns, if `reading` has none; by default it is found out from these cells.
        notation
            How times are written; by default as in training.

        Returns
        -------
        Names of features; their values, shape (n, features), NaN where one is missing; by column, reasons by index of
        the record.
        """
        if reading is None:
            reading = CellRules(Missing.of(self.missing_values))
        known = {*self.features, *self.columns}.difference(self.times)
        n = max(map(len, given.values()), default=0)
        numbers = {name: cells for name, cells in given.items() if name in known and name not in self.categories}
        marks = decimals(numbers) if marks is None and reading.decimal is None else marks or {}
        columns = [
            TextColumn(name, self.categories[name], reading.keeping(self.categories[name]))
            if name in self.categories
            else NumberColumn(name, self._of_numbers(name, reading, marks.get(name)))
            for name in given
            if name in known
        ]
        features = tuple(feature for column in columns for feature in column.features)
        X, unusable, at = np.empty((n, len(features))), dict[str, dict[int, str]](), 0
        for column in columns:
            until = at + len(column.features)
            found = column.encode(given[column.name], X[:, at:until])
            if found and isinstance(column, NumberColumn):
                unusable[column.name] = found
            at = until
        X, _ = without_infinity(X)
        if self.time_features is None or not {*self.times} <= {*given}:
            return features, X, unusable
        made, wrong = self.time_features.of_cells(given, notation)
        features, whole = with_made(features, X, self.time_features.names, made)
        return features, whole, unusable | ({self.times[0]: wrong} if wrong else {})


def columns_of(records: Any, features: Sequence[str] | None) -> tuple[dict[str, Cells], int]:
    """Return the columns of some records, by name, and how many records there are.

    Parameters
    ----------
    records
        An array, or rows, of shape (n, d) with `features`, the names of its columns; a list of dicts, in which a
        value of an inner dict is named with a dot; or a data frame of pandas or polars.
    features
        Names of an array's columns; None for dicts and data frames, which have their own.

    Raises
    ------
    UsageError
        The records have another form, or two columns have the same name.

    Examples
    --------
    >>> columns_of([{"x": 1}, {"x": 2, "at": {"y": "a"}}], None)
    ({'x': [1, 2], 'at.y': [None, 'a']}, 2)
    """
    if features is None and isinstance(records, Mapping):
        raise UsageError("this is one record; give a list of records")
    if features is None and hasattr(records, "columns") and hasattr(records, "__getitem__"):
        given = [str(name) for name in records.columns]
        _check_distinct(given)
        return {name: _cells(records[own]) for name, own in zip(given, records.columns, strict=True)}, len(records)
    if features is None and isinstance(records, Sequence) and all(isinstance(one, Mapping) for one in records):
        flattened = [flat({str(name): value for name, value in record.items()}) for record in records]
        return {name: [plain(one.get(name)) for one in flattened] for name in names(flattened)}, len(records)
    if features is None:
        raise UsageError("the columns have no names: give features=, or records as dicts or a data frame")
    X, given = _rows(records, features), list(features)
    columns = X.T if X.dtype == np.float64 else [[plain(cell) for cell in column] for column in X.T.tolist()]
    return dict(zip(given, columns, strict=True)), len(X)


def _rows(records: Any, features: Sequence[str]) -> npt.NDArray[Any]:
    _check_distinct(list(features))
    try:
        X = np.asarray(records)
        X = X if X.dtype.kind in "OUS" else X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"X must be rows of numbers, NaN where one is missing: {error}") from error
    if X.ndim != 2 or X.shape[1] != len(features):
        what = f"X has shape {X.shape}; it needs two dimensions, and a column for each of {tuple(features)}"
        raise UsageError(what)
    return X


def _check_distinct(given: Sequence[str]) -> None:
    if twice := [name for name in dict.fromkeys(given) if given.count(name) > 1]:
        raise UsageError(f"features names {listed(twice)} more than once; name each column once")


def _cells(column: Any) -> Cells:
    """Return a column of a data frame: an array of numbers, or a list in which None is missing."""
    values: npt.NDArray[Any] = column.to_numpy()
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if hasattr(column, "notna"):  # pandas has several missing values
        column = column.astype(object).where(column.notna(), None)
    return [*map(plain, column.to_list())]
