"""One column of a file as features: a number, or one 0/1 feature for each value of a text."""

from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.streams.cells import SEPARATED, Cells, is_number, numbers, quoted, text
from streamfl.streams.request import Request

SAMPLE = 1000  # records that decide whether a column is text
MAX_VALUES = 50  # of a text column, beyond which it is more likely a name or an address than a category


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers: one feature of the same name."""

    name: str

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        return (self.name,)

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Write the column's features to `out`, shape (n, 1); return what is wrong by index of the bad cell."""
        out[:, 0], bad = numbers(cells)
        return bad


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of texts: a 0/1 feature for each known value; an unknown value is all zeros, a missing one NaN.

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
        """Write the column's features to `out`, shape (n, number of values); no text is bad."""
        place = {value: i for i, value in enumerate(self.values)} | {"": -1}
        which = np.array([place.get(text(cell), len(place)) for cell in cells])
        out[:] = which[:, None] == np.arange(len(self.values))
        out[which == -1] = np.nan
        return {}


Column = NumberColumn | TextColumn


def judge(request: Request, name: str, cells: Cells) -> Column | None:
    """Decide what a column is from its first records; None while all its cells are missing.

    It is text if none of its values in the first 1000 records is a number. A column that is empty there is decided
    by the first block of records in which it has a value.

    Raises
    ------
    UsageError
        If it is text with more than 50 values.
    """
    if isinstance(cells, np.ndarray):
        return NumberColumn(name)
    found = [cell for cell in cells[:SAMPLE] if text(cell)] or [cell for cell in cells if text(cell)]
    if not found:
        return None
    words = {text(cell) for cell in found if isinstance(cell, str)}
    if not words or any(is_number(cell) for cell in found):
        return NumberColumn(name)
    if len(words) > MAX_VALUES:
        if all(SEPARATED.fullmatch(word) for word in words):
            what = f'column "{name}" holds numbers such as {quoted(min(words))}'
            raise request.refusal(what, "write them as 1234.5, with a point and no separators")
        what = f'column "{name}" is text with {len(words)} values in its first records, more than {MAX_VALUES}'
        raise request.refusal(what, f"leave it out with --drop {name}")
    return TextColumn(name, tuple(sorted(words)))
