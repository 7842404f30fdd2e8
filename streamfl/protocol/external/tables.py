"""The state of an external model as named tables of numbers."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.protocol.external.keys import keys_of, text_of

Rule = Literal["mean", "sum", "moments", "least", "most"]

# Rules with fixed columns; under the other rules columns are labels, and new ones are added.
FIXED: tuple[Rule, ...] = ("moments", "least", "most")

# The value of a cell that no record has changed.
MISSING: dict[Rule, float] = {"mean": 0.0, "sum": 0.0, "moments": 0.0, "least": np.inf, "most": -np.inf}


@dataclass(frozen=True, eq=False)
class ExportedTable:
    """A matrix with named rows and columns, and the rule by which clients' tables are merged.

    Raises
    ------
    ValueError
        The shape does not match the names, or a name occurs twice.

    Examples
    --------
    >>> ExportedTable.column("mean", "weight", {"x": 0.5, "y": -1.0}).aligned(("y", "z"), ("weight",))
    array([[-1.],
           [ 0.]])
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # `mean`: weighted mean. `sum`: counts, added. `moments`: the columns are count, mean and either variance or m2,
    # the sum of squared deviations; merged to the moments of the pooled records. `least`, `most`: the extreme.
    rule: Rule
    # The texts of keys; see `keys.py`.
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray  # shape (rows, columns)

    def __post_init__(self) -> None:
        """Check the names against the shape."""
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise ValueError(f"{len(self.rows)} rows and {len(self.columns)} columns, but {self.values.shape} values")
        if len(set(self.rows)) != len(self.rows) or len(set(self.columns)) != len(self.columns):
            raise ValueError("a row or a column is named twice")

    @classmethod
    def column(cls, rule: Rule, name: str, values: Mapping[Hashable, float]) -> "ExportedTable":
        """Return a table with a single column."""
        return cls.of(rule, {key: (value,) for key, value in values.items()}, (name,))

    @classmethod
    def of(cls, rule: Rule, rows: Mapping[Hashable, tuple[float, ...]], columns: tuple[str, ...]) -> "ExportedTable":
        """Return a table of complete rows, each with a value for every column."""
        values = np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), len(columns))
        return cls(rule, tuple(text_of(key) for key in rows), columns, values)

    @classmethod
    def grid(cls, rule: Rule, columns: Mapping[Hashable, Mapping[Hashable, float]]) -> "ExportedTable":
        """Return a table of columns that need not have the same rows; a missing value is 0.

        >>> ExportedTable.grid("sum", {"up": {"x": 1}, "down": {"x": 2, "y": 3}}).values
        array([[1., 2.],
               [0., 3.]])
        """
        rows = list(dict.fromkeys(row for column in columns.values() for row in column))
        cells = {row: tuple(column.get(row, 0.0) for column in columns.values()) for row in rows}
        return cls.of(rule, cells, tuple(text_of(key) for key in columns))

    def is_like(self, other: "ExportedTable") -> bool:
        """Tell whether both are merged in the same way."""
        return self.rule == other.rule and (self.rule not in FIXED or self.columns == other.columns)

    def aligned(self, rows: tuple[str, ...], columns: tuple[str, ...]) -> FloatArray:
        """Return the values for other rows and columns; names that it lacks get the rule's `MISSING` value."""
        if (rows, columns) == (self.rows, self.columns):
            return self.values
        row_at = {name: i for i, name in enumerate(rows)}
        column_at = {name: j for j, name in enumerate(columns)}
        kept_rows = [i for i, name in enumerate(self.rows) if name in row_at]
        kept_columns = [j for j, name in enumerate(self.columns) if name in column_at]
        to_rows = [row_at[self.rows[i]] for i in kept_rows]
        to_columns = [column_at[self.columns[j]] for j in kept_columns]
        wide = np.full((len(rows), len(columns)), MISSING[self.rule])
        wide[np.ix_(to_rows, to_columns)] = self.values[np.ix_(kept_rows, kept_columns)]
        return wide

    def by_row(self) -> dict[Any, list[float]]:
        """Return the values of each row by its key, which may be a tuple."""
        return dict(zip(keys_of(self.rows), self.values.tolist(), strict=True))

    def by_column(self) -> dict[Hashable, dict[Hashable, float]]:
        """Return the values of each column by its key, as a dict by row.

        >>> ExportedTable.grid("sum", {True: {"x": 1}, False: {"x": 2}}).by_column()
        {True: {'x': 1.0}, False: {'x': 2.0}}
        """
        rows = keys_of(self.rows)
        values = self.values.T.tolist()
        return {
            key: dict(zip(rows, column, strict=True))
            for key, column in zip(keys_of(self.columns), values, strict=True)
        }

    def single(self) -> dict[Hashable, float]:
        """Return the values of the only column, by row."""
        return {key: value for key, (value,) in self.by_row().items()}


@dataclass(frozen=True, eq=False)
class Exported:
    """The exported state of an external model: everything that a federation merges.

    `streamfl.wire.codec` writes it as JSON and safetensors; it holds no pickle, and reading it runs no code.

    Examples
    --------
    >>> weights = ExportedTable.column("mean", "weight", {"x": 0.5})
    >>> from streamfl.wire import codec
    >>> bytes_ = codec.encode(Exported("PAClassifier", {"PAClassifier.weights": weights}))
    >>> codec.decode(Exported, bytes_).tables["PAClassifier.weights"].single()
    {'x': 0.5}
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    model: str  # the classes of the model, such as `StandardScaler | LogisticRegression`
    # By path: the steps that lead to an estimator, a dot, and the name of the table.
    tables: Mapping[str, ExportedTable]

    @property
    def names(self) -> int:
        """Count the names of rows and columns."""
        return sum(len(table.rows) + len(table.columns) for table in self.tables.values())
