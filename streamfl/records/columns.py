"""Encodes a column of a file as features: one number, or a 0/1 feature per value of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.cells import SEPARATED, Cells, is_number, listed, numbers, quoted, text
from streamfl.records.csv_block import LazyTexts
from streamfl.records.request import Request
from streamfl.records.times import looks_like_times, named_as_times

SAMPLE = 1000  # records by which the kind of a column is inferred
MAX_VALUES = 50  # of a text column; with more it is probably a name or an address, not a category


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers: one feature of the same name."""

    name: str

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return (self.name,)

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Write the feature to `out`, shape (n, 1); return the errors by index of the bad cells."""
        out[:, 0], bad = numbers(cells)
        return bad


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of texts: a 0/1 feature per known value. An unknown value is all zeros, a missing one all NaN.

    >>> out = np.empty((3, 2))
    >>> TextColumn("colour", ("blue", "red")).encode(["red", "green", ""], out), out
    ({}, array([[ 0.,  1.], [ 0.,  0.], [nan, nan]]))
    """

    name: str
    values: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features: `column=value`."""
        return tuple(f"{self.name}={value}" for value in self.values)

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Write the features to `out`, shape (n, number of values); every text is valid."""
        if isinstance(cells, LazyTexts):
            numbers, distinct = cells.coded()
            each = np.empty((len(distinct), len(self.values)))
            self.encode(distinct, each)
            out[:] = each[numbers]
            return {}
        place = {value: i for i, value in enumerate(self.values)} | {"": -1}
        which = np.array([place.get(text(cell), len(place)) for cell in cells])
        out[:] = which[:, None] == np.arange(len(self.values))
        out[which == -1] = np.nan
        return {}


@dataclass(frozen=True, slots=True)
class LeftOutColumn:
    """A column that is left out, since it is not a feature.

    Parameters
    ----------
    name
        Its name.
    why
        The reason; columns with the same reason are reported together.
    """

    name: str
    why: str

    @property
    def features(self) -> tuple[str, ...]:
        """It has no features."""
        return ()

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Do nothing."""
        return {}


TIMES = "looks like a time"
FREE = f"is text with more than {MAX_VALUES} values"

Column = NumberColumn | TextColumn | LeftOutColumn


def infer(name: str, cells: Cells) -> Column | None:
    """Infer the kind of a column from its first records; None while all its cells are missing.

    A column is text if none of its values in the first 1000 records is a number. It is left out if these look like
    times, or if there are more than 50 of them. A column without a value there is inferred from the first block in
    which it has one.
    """
    if isinstance(cells, np.ndarray):
        words = [text(cell) for cell in cells[:SAMPLE].tolist()] if named_as_times(name) else []
        return LeftOutColumn(name, TIMES) if looks_like_times(name, words) else NumberColumn(name)
    said = [(cell, text(cell)) for cell in cells[:SAMPLE]]
    found = [one for one in said if one[1]] or [one for one in zip(cells, map(text, cells), strict=True) if one[1]]
    if not found:
        return None
    if looks_like_times(name, [word for _, word in found]):
        return LeftOutColumn(name, TIMES)
    values = {word for cell, word in found if isinstance(cell, str)}
    if not values or any(is_number(cell) for cell, _ in found):
        return NumberColumn(name)
    if len(values) <= MAX_VALUES:
        return TextColumn(name, tuple(sorted(values)))
    if all(SEPARATED.fullmatch(value) for value in values):
        return LeftOutColumn(
            name, f"holds numbers such as {quoted(min(values))}; write them as 1234.5 to make it a feature"
        )
    return LeftOutColumn(name, FREE)


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
        keep = f" (--time {names[0]} keeps it with the records)" if why == TIMES and request.time is None else ""
        parts.append(f"{of} {why}{keep}")
    return f"left out: {'; '.join(parts)}"
