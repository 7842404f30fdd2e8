"""Encodes a column of a file as features: one number, or a 0/1 feature per value of a text."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.csv_block import LazyTexts
from streamfl.records.request import Request
from streamfl.records.values.cells import (
    USUAL,
    CellRules,
    Cells,
    is_number,
    listed,
    numbered,
    numbers,
    quoted,
    text,
    words,
)
from streamfl.records.values.numerals import Decimal, decimal_marks, in_other_notation, with_unit
from streamfl.records.values.times import looks_like_times, named_as_times

SAMPLE = 1000  # records by which the kind of a column is inferred
MAX_VALUES = 50  # of a text column; with more it is probably a name or an address, not a category
MOSTLY = 0.5  # a column with such a share of numbers is one of numbers
NEARLY_ALL = 0.9  # a column with such a share of numbers with a unit, always the same, is one of numbers


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers: one feature of the same name. A cell that is not a number is missing."""

    name: str
    reading: CellRules = USUAL

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return (self.name,)

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Write the feature to `out`, shape (n, 1); return by index the cells that are not numbers, and why."""
        out[:, 0], unusable = numbers(cells, self.reading)
        return unusable

    def followed(self, cells: Cells) -> "NumberColumn":
        """Return the column itself."""
        return self


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of texts: a 0/1 feature per known value. An unknown value is all zeros, a missing one all NaN.

    >>> out = np.empty((3, 2))
    >>> TextColumn("colour", ("blue", "red")).encode(["red", "green", ""], out), out
    ({1: 'not a known value'}, array([[ 0.,  1.], [ 0.,  0.], [nan, nan]]))
    """

    name: str
    values: tuple[str, ...]
    reading: CellRules = USUAL
    late: frozenset[str] = frozenset()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features: `column=value`."""
        return tuple(f"{self.name}={value}" for value in self.values)

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Write the features to `out`, shape (n, number of values); return by index the cells of other values.

        A value that is new in these records is missing in those before the first one that has it.
        """
        place = {value: i for i, value in enumerate(self.values)} | {"": -1}
        codes, found = numbered(cells, self.reading)
        other = len(self.values)
        which = np.array([place.get(word, other) for word in found], np.int64)[codes]
        out[:] = which[:, None] == np.arange(other)
        out[which == -1] = np.nan
        for value in self.late:
            out[: int((which == place[value]).argmax()), place[value]] = np.nan
        return dict.fromkeys(np.flatnonzero(which == other).tolist(), "not a known value")

    def followed(self, cells: Cells) -> "TextColumn":
        """Return the column with the values that are new in these records, as many as there is room for.

        >>> TextColumn("colour", ("blue",)).followed(["red", "blue", ""]).values
        ('blue', 'red')
        """
        found = dict.fromkeys(numbered(cells, self.reading)[1])
        new = [word for word in found if word and word not in self.values][: MAX_VALUES - len(self.values)]
        return replace(self, values=(*self.values, *new), late=frozenset(new)) if new or self.late else self


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """A column that is left out, since it is not a feature."""

    name: str
    why: str  # the reason; columns with the same reason are reported together

    @property
    def features(self) -> tuple[str, ...]:
        """It has no features."""
        return ()

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Do nothing."""
        return {}

    def followed(self, cells: Cells) -> "LeftOutColumn":
        """Return the column itself."""
        return self


TIMES = "looks like a time"
HALF = "has half of each time"
FREE = f"is text with more than {MAX_VALUES} values"
NOTATION = "looks like numbers in another notation, such as "

Column = NumberColumn | TextColumn | LeftOutColumn


def infer(name: str, cells: Cells, reading: CellRules = USUAL) -> Column | None:
    """Infer the kind of a column from its first records; None while all its cells are missing.

    A column is of numbers if most of its values in the first 1000 records are. Else it is left out if they look like
    times, or if there are more than 50 of them. Else it is text. A column without a value there is inferred from the
    first block in which it has one.
    """
    if isinstance(cells, np.ndarray):
        shown = [text(cell) for cell in cells[:SAMPLE].tolist()] if named_as_times(name) else []
        return LeftOutColumn(name, TIMES) if looks_like_times(name, shown) else NumberColumn(name, reading)
    if isinstance(cells, LazyTexts) and reading.decimal != "," and cells.are_numbers():
        first = next((word for cell in cells[:SAMPLE] if (word := text(cell, reading))), "")
        if first and not looks_like_times(name, [first]):  # the common case
            return NumberColumn(name, reading)
    said = [(cell, text(cell, reading)) for cell in cells[:SAMPLE]]
    found = [one for one in said if one[1]] or [
        one for one in zip(cells, words(cells, reading), strict=True) if one[1]
    ]
    if not found:
        return None
    if looks_like_times(name, [word for _, word in found]):
        return LeftOutColumn(name, TIMES)
    if sum(is_number(cell, reading) for cell, _ in found) >= MOSTLY * len(found):
        return NumberColumn(name, reading)
    units = examples([word for _, word in found])
    if len(units) == 1:
        return NumberColumn(name, replace(reading, unit=next(iter(units))))
    if not any(isinstance(cell, str) for cell, _ in found):
        kind = type(found[0][0])
        what = "lists" if issubclass(kind, list | tuple | Mapping) else f"values of the type {kind.__name__}"
        return LeftOutColumn(name, f"holds {what}")
    values = {word for cell, word in found if isinstance(cell, str | int | float)}  # JSON may mix 1 and "q"
    if len(values) <= MAX_VALUES:
        return TextColumn(name, tuple(sorted(values)), reading)
    if len(units) > 1:
        mixed = " and ".join(quoted(example) for example in [*units.values()][:3])
        return LeftOutColumn(name, f"{NOTATION}{mixed}; write them in one unit")
    if sum(in_other_notation(value) for value in values) > MOSTLY * len(values):
        return LeftOutColumn(
            name, f"{NOTATION}{quoted(min(filter(in_other_notation, values)))}; write them as 1234.5"
        )
    return LeftOutColumn(name, FREE)


def examples(found: Sequence[str]) -> dict[str, str]:
    """Return by unit the first number that has it, if nearly all texts are numbers with a unit.

    >>> examples(["5 mV", "7 mV"]), examples(["5 mV", "2 V"]), examples(["5 mV", "on"])
    ({'mV': '5 mV'}, {'mV': '5 mV', 'V': '2 V'}, {})
    """
    units, n = dict[str, str](), 0
    for word in found:
        if (parts := with_unit(word)) is not None:
            units.setdefault(parts[1], word)
            n += 1
    return units if n >= NEARLY_ALL * len(found) else {}


def decimals(columns: Mapping[str, Cells], usual: Decimal = ".") -> dict[str, Decimal | None]:
    """Return the decimal mark of each column, from its first records.

    Parameters
    ----------
    usual
        The mark of a file in which no number shows which one it is.

    Returns
    -------
    The only mark with which all cells of the column can be numbers; if there are two, the one of the other columns.
    None if the column has numbers with each.

    >>> decimals({"a": ["17,1", "9"], "b": ["1,250", "3,001"], "c": ["1,5", "1.5"], "d": ["1.25"]})
    {'a': ',', 'b': ',', 'c': None, 'd': '.'}
    >>> decimals({"a": ["1,250", "9"], "b": ["x"]})
    {'a': '.', 'b': '.'}
    """
    marks = {name: _marks(cells) for name, cells in columns.items()}
    commas = any(found == {","} for found in marks.values())
    mark: Decimal = "," if commas or (usual == "," and not any("." in found for found in marks.values())) else "."
    one: dict[frozenset[Decimal], Decimal | None] = {frozenset(): mark, frozenset((",", ".")): None}
    return {name: one[found] if found in one else next(iter(found)) for name, found in marks.items()}


def _marks(cells: Cells) -> frozenset[Decimal]:
    if isinstance(cells, np.ndarray):
        return frozenset()
    texts = (cell for cell in cells[:SAMPLE] if isinstance(cell, str))
    if isinstance(cells, LazyTexts) and cells.are_numbers():  # which have no comma: one point is enough
        return frozenset(islice(decimal_marks(texts), 1))
    return frozenset(decimal_marks(dict.fromkeys(texts)))


def describe(request: Request, left_out: Sequence[LeftOutColumn]) -> str:
    """Return a note on all columns that are left out.

    >>> columns = [LeftOutColumn("ts", TIMES), LeftOutColumn("id", FREE), LeftOutColumn("note", FREE)]
    >>> print(describe(Request("a.csv"), columns))
    left out: column ts looks like a time (--time ts keeps it with the records); columns id, note: each is text with
    more than 50 values
    """
    parts = []
    for why in dict.fromkeys(column.why for column in left_out):
        names = [column.name for column in left_out if column.why == why]
        of = f"column {listed(names)}" if len(names) == 1 else f"columns {listed(names)}: each"
        times = {TIMES: names[0], HALF: ",".join(names)}.get(why) if request.time is None else None
        keep = f" (--time {shlex.quote(times)} keeps it with the records)" if times is not None else ""
        parts.append(f"{of} {why}{keep}")
    return f"left out: {'; '.join(parts)}"
