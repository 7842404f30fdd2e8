"""One column of a file as features: a number, or one 0/1 feature for each value of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.streams.cells import SEPARATED, Cells, is_number, listed, numbers, quoted, text
from streamfl.streams.request import Request
from streamfl.streams.times import looks_like_times, named_as_times

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


@dataclass(frozen=True, slots=True)
class Aside:
    """A column that is left out, since it is no feature.

    Parameters
    ----------
    name
        Its name.
    why
        What it is; columns of the same kind are told of together.
    """

    name: str
    why: str

    @property
    def features(self) -> tuple[str, ...]:
        """It has none."""
        return ()

    def encode(self, cells: Cells, out: FloatArray) -> dict[int, str]:
        """Do nothing: nothing in it is bad."""
        return {}


TIMES = "looks like a time"
FREE = f"is text with more than {MAX_VALUES} values"

Column = NumberColumn | TextColumn | Aside


def judge(name: str, cells: Cells) -> Column | None:
    """Decide what a column is from its first records; None while all its cells are missing.

    It is text if none of its values in the first 1000 records is a number, and left out if these look like times, or
    are more than 50. A column that is empty there is decided by the first block of records in which it has a value.
    """
    if isinstance(cells, np.ndarray):
        said = [text(cell) for cell in cells[:SAMPLE].tolist()] if named_as_times(name) else []
        return Aside(name, TIMES) if looks_like_times(name, said) else NumberColumn(name)
    found = [cell for cell in cells[:SAMPLE] if text(cell)] or [cell for cell in cells if text(cell)]
    if not found:
        return None
    if looks_like_times(name, [text(cell) for cell in found]):
        return Aside(name, TIMES)
    words = {text(cell) for cell in found if isinstance(cell, str)}
    if not words or any(is_number(cell) for cell in found):
        return NumberColumn(name)
    if len(words) <= MAX_VALUES:
        return TextColumn(name, tuple(sorted(words)))
    if all(SEPARATED.fullmatch(word) for word in words):
        return Aside(name, f"holds numbers such as {quoted(min(words))}, which are to be written as 1234.5")
    return Aside(name, FREE)


def told(request: Request, aside: Sequence[Aside]) -> str:
    """Return what to say of all columns that are left out.

    >>> print(told(Request("a.csv"), [Aside("ts", TIMES), Aside("id", FREE), Aside("note", FREE)]))
    left out: column ts looks like a time (--time ts keeps it with the records); columns id, note: each is text with
    more than 50 values
    """
    parts = []
    for why in dict.fromkeys(column.why for column in aside):
        names = [column.name for column in aside if column.why == why]
        of = f"column {listed(names)}" if len(names) == 1 else f"columns {listed(names)}: each"
        keep = f" (--time {names[0]} keeps it with the records)" if why == TIMES and request.time is None else ""
        parts.append(f"{of} {why}{keep}")
    return f"left out: {'; '.join(parts)}"
