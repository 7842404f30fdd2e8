"""Reads one cell of a record as a number or as text, and quotes it in messages."""

import math
import re
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray
from streamfl.printable import printable
from streamfl.records.csv_block import LazyTexts
from streamfl.records.table import Numbers

# Missing values, in any case, as written by pandas, R and databases, and in the UCI repository.
MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "null", "none", "?", "-"})

# A number with separators between its digits.
SEPARATED = re.compile(r"\s*[-+]?\d[\d.]*[,_' ][\d.,_' ]*")

Cells = Sequence[object] | Numbers
"""A column as read: texts from CSV, values from JSON, an array from a typed format."""


def number(cell: object) -> float:
    """Return a cell as a number, possibly infinite; NaN for a missing value: see `MISSING`.

    Parameters
    ----------
    cell
        A text, a number, a boolean (0 or 1), or None.

    Raises
    ------
    ValueError
        If it is none of these, or a text that is not a number; the message quotes the cell.

    >>> number(" 2.5 "), number(True), number(""), number("N/A"), number(None)
    (2.5, 1.0, nan, nan, nan)
    >>> number("1,234.5")
    Traceback (most recent call last):
    ValueError: "1,234.5" is not a number: write it as 1234.5, with a point and no separators
    """
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return math.nan
    separated = isinstance(cell, str) and "_" in cell  # float() reads 1_000; here it is an error
    if isinstance(cell, str | int | float) and not separated:
        try:
            return float(cell)
        except OverflowError:
            return math.inf
        except ValueError:
            pass
    remedy = ": write it as 1234.5, with a point and no separators" if SEPARATED.fullmatch(str(cell)) else ""
    raise ValueError(f"{quoted(cell)} is not a number{remedy}")


def is_number(cell: object) -> bool:
    """Return whether a cell holds a number, finite or infinite; a missing value is not one."""
    try:
        return not math.isnan(number(cell))
    except ValueError:
        return False


def text(cell: object) -> str:
    """Return a cell as text, "" for a missing value; whole numbers have no decimal point.

    >>> text(" red "), text(3.0), text(0.5), text(float("nan")), text(True)
    ('red', '3', '0.5', '', 'True')
    """
    if cell is None:
        return ""
    if isinstance(cell, float):
        if math.isnan(cell):
            return ""
        return str(int(cell)) if cell.is_integer() else repr(cell)
    stripped = str(cell).strip()
    return "" if stripped.lower() == "nan" else stripped


def numbers(cells: Cells) -> tuple[FloatArray, dict[int, str]]:
    """Read a column as numbers.

    Returns
    -------
    The values, possibly infinite, NaN where missing or bad; and the errors by index of the bad cells.

    >>> numbers(["1", "", "x", "inf"])
    (array([ 1., nan, nan, inf]), {2: '"x" is not a number'})
    """
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64, copy=False), {}
    if isinstance(cells, LazyTexts):
        values, odd = cells.numbers()
        values[list(odd)], wrong = _looked_up(list(odd.values()))
        at = list(odd)
        return values, {at[i]: why for i, why in wrong.items()}
    return _looked_up(_hashable(cells))


def _looked_up(cells: Sequence[object]) -> tuple[FloatArray, dict[int, str]]:
    """Parse each distinct cell once: columns repeat values, and a look-up is faster than parsing."""
    table, wrong = _table(set(cells))
    values = np.fromiter(map(table.__getitem__, cells), np.float64, len(cells))
    bad = {i: wrong[cell] for i, cell in enumerate(cells) if cell in wrong} if wrong else {}
    return values, bad


def _table(cells: set[object]) -> tuple[dict[object, float], dict[object, str]]:
    kinds = set(map(type, cells))
    if kinds <= {int, float, bool} or (kinds == {str} and "_" not in "".join(cast(set[str], cells))):
        try:  # the common case: nothing is missing or bad
            return dict(zip(cells, map(float, cast(set[float], cells)), strict=True)), {}
        except (ValueError, OverflowError):
            pass
    table: dict[object, float] = {}
    wrong: dict[object, str] = {}
    for cell in cells:
        try:
            table[cell] = number(cell)
        except ValueError as error:
            table[cell], wrong[cell] = math.nan, str(error)
    return table, wrong


def _hashable(cells: Sequence[object]) -> Sequence[object]:
    """Return the cells with lists, which JSON may contain, as text."""
    if list in set(map(type, cells)):
        return [str(cell) if isinstance(cell, list) else cell for cell in cells]
    return cells


def texts(cells: Cells) -> npt.NDArray[np.str_]:
    """Return each cell of a column as text."""
    return np.array([text(cell) for cell in _plain(cells)], np.str_)


def _plain(cells: Cells) -> Sequence[object]:
    return cells.tolist() if isinstance(cells, np.ndarray) else cells


def quoted(cell: object) -> str:
    r"""Quote a cell for a message: on one line, at most 40 characters of it.

    >>> print(quoted("two\nlines"), quoted("x" * 50)[-6:], quoted('6" pipe'))
    "two\nlines" xx..." "6\" pipe"
    """
    shown = str(cell)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return '"' + printable(shown.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def listed(names: Sequence[str]) -> str:
    """List up to twenty names for a message.

    >>> listed(["a", "b"])
    'a, b'
    """
    shown = ", ".join(quoted(n)[1:-1] for n in names[:20])
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names)} in all)"
