"""Reads one cell of a record as a number or as text, and quotes it in messages."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.printable import printable
from streamfl.records.csv_block import LazyTexts
from streamfl.records.values.missing import USUAL as USUAL_MISSING
from streamfl.records.values.missing import WORDS, Missing
from streamfl.records.values.numerals import Decimal, numeral, with_unit

Cells = Sequence[object] | Numbers
"""A column as read: texts from CSV, values from JSON, an array from a typed format."""

_WHOLE = re.compile(r"[-+]?\d+(?:\.0+|,0{1,2})")


@dataclass(frozen=True, slots=True)
class CellRules:
    """How cells are read, wherever they come from."""

    missing: Missing = USUAL_MISSING  # what counts as missing
    decimal: Decimal | None = None  # the decimal mark; None: as the number is written
    unit: str = ""  # the unit that may stand at numbers, "" if none may

    def keeping(self, values: Sequence[str]) -> "CellRules":
        """Return the same reading, but these are values: somebody has declared them, or a model has learnt them.

        >>> text("none"), text("none", USUAL.keeping(["none", "red"]))
        ('', 'none')
        """
        kept = {value.strip().lower() for value in values} & self.missing.words
        return replace(self, missing=replace(self.missing, words=self.missing.words - kept)) if kept else self


USUAL = CellRules()
NAMES = CellRules(Missing(frozenset({"", "nan"})))
"""How names of clients are read: one may be called NA."""


def plain(value: object) -> object:
    """Return a value as a cell of a file: None for a missing one, as pandas and NumPy write it.

    >>> plain(np.float32(0.5)), plain(np.datetime64("NaT")), plain(10**400) == 10**400
    (0.5, 'NaT', True)
    """
    if value is None or type(value) in {str, float, int, bool}:
        return value
    if isinstance(value, str | np.datetime64 | np.timedelta64):
        return str.__str__(value) if isinstance(value, str) else str(value)
    if isinstance(value, np.generic):
        return value.item()
    try:
        return float(cast("float", value))
    except (TypeError, ValueError, OverflowError):
        return None if str(value).lower() in WORDS else value


def number(cell: object, reading: CellRules = USUAL) -> float:
    """Return a cell as a number, possibly infinite; NaN for a missing value.

    Parameters
    ----------
    cell
        A text, a number, a boolean (0 or 1), or None.
    reading
        What is missing, and what the decimal mark is.

    Raises
    ------
    ValueError
        If it is none of these, or a text that is not a number; the message quotes the cell.

    >>> number(" 2.5 "), number(True), number(""), number("N/A"), number(None), number("1,234.5")
    (2.5, 1.0, nan, nan, nan, 1234.5)
    >>> number("1,234")
    Traceback (most recent call last):
    ValueError: "1,234" may be 1234 or 1.234: name the decimal mark
    """
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        return _of_text(cell, reading)
    if not isinstance(cell, int | float):
        raise ValueError(f"{quoted(cell)} is not a number")  # noqa: TRY004  the caller catches ValueError
    try:
        value = float(cell)
    except OverflowError:
        return math.inf
    return math.nan if value in reading.missing.numbers else value


def _of_text(cell: str, reading: CellRules) -> float:
    if reading.unit and (found := with_unit(cell)) and found[1] == reading.unit:
        cell = found[0]
    if cell.strip().lower() in reading.missing.words:
        return math.nan
    value = None
    if "_" not in cell and not (reading.decimal == "," and "." in cell):  # float() reads 1_0
        with suppress(ValueError):
            value = float(cell)
    if value is None:
        try:
            value = numeral(cell, reading.decimal)
        except ValueError as error:
            raise ValueError(f"{quoted(cell)} {error}: name the decimal mark") from None
    if value is None:
        raise ValueError(f"{quoted(cell)} is not a number")
    return math.nan if value in reading.missing.numbers else value


def is_number(cell: object, reading: CellRules = USUAL) -> bool:
    """Return whether a cell holds a number, finite or infinite; a missing value is not one."""
    try:
        return not math.isnan(number(cell, reading))
    except ValueError:
        return False


def text(cell: object, reading: CellRules = USUAL) -> str:
    """Return a cell as text, "" for a missing value. The same value has the same text, however it is written.

    >>> text(" red "), text(3.0), text("3.00"), text(0.5), text(float("nan")), text("NA"), text(True), text("true")
    ('red', '3', '3', '0.5', '', '', 'True', 'True')
    """
    if cell is None:
        return ""
    if isinstance(cell, float):
        if math.isnan(cell) or cell in reading.missing.numbers:
            return ""
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if not isinstance(cell, str):
        return "" if isinstance(cell, int) and cell in reading.missing.numbers else str(cell)
    stripped = cell.strip()
    low = stripped.lower()
    if low in reading.missing.words:
        return ""
    if low in {"true", "false"}:
        return low.capitalize()
    return whole(stripped) if stripped.endswith("0") else stripped


def whole(word: str) -> str:
    """Return a whole number without its decimal mark, any other text as it is.

    >>> whole("+1.0"), whole("17,0"), whole("1,000"), whole("2.10"), whole("-0.0")
    ('1', '17', '1,000', '2.10', '0')
    """
    if not _WHOLE.fullmatch(word):
        return word
    digits = re.split("[.,]", word)[0].removeprefix("+")
    return "0" if digits == "-0" else digits


def numbers(cells: Cells, reading: CellRules = USUAL) -> tuple[FloatArray, dict[int, str]]:
    """Read a column as numbers.

    Returns
    -------
    The values, possibly infinite, NaN where missing or not a number; and the reasons by index of the latter.

    >>> numbers(["1", "", "x", "inf"])
    (array([ 1., nan, nan, inf]), {2: '"x" is not a number'})
    """
    if isinstance(cells, np.ndarray):
        return _without(cells.astype(np.float64, copy=False), reading), {}
    if isinstance(cells, LazyTexts) and reading.decimal != "," and not reading.unit:
        values, others = cells.numbers()
        values[list(others)], wrong = _looked_up(list(others.values()), reading)
        at = list(others)
        return _without(values, reading), {at[i]: why for i, why in wrong.items()}
    return _looked_up(_hashable(cells), reading)


def _without(values: FloatArray, reading: CellRules) -> FloatArray:
    if not reading.missing.numbers:
        return values
    return np.where(np.isin(values, list(reading.missing.numbers)), np.nan, values)


def _looked_up(cells: Sequence[object], reading: CellRules) -> tuple[FloatArray, dict[int, str]]:
    """Parse each distinct cell once: columns repeat values, and a look-up is faster than parsing."""
    table, wrong = _table(set(cells), reading)
    values = np.fromiter(map(table.__getitem__, cells), np.float64, len(cells))
    bad = {i: wrong[cell] for i, cell in enumerate(cells) if cell in wrong} if wrong else {}
    return values, bad


def _table(cells: set[object], reading: CellRules) -> tuple[dict[object, float], dict[object, str]]:
    kinds = set(map(type, cells))
    plain = reading.decimal != "," and not reading.unit and not reading.missing.numbers
    if plain and (kinds <= {int, float, bool} or (kinds == {str} and "_" not in "".join(cast(set[str], cells)))):
        try:  # the common case: nothing is missing or bad
            return dict(zip(cells, map(float, cast(set[float], cells)), strict=True)), {}
        except (ValueError, OverflowError):
            pass
    table: dict[object, float] = {}
    wrong: dict[object, str] = {}
    for cell in cells:
        try:
            table[cell] = number(cell, reading)
        except ValueError as error:
            table[cell], wrong[cell] = math.nan, str(error)
    return table, wrong


def _hashable(cells: Sequence[object]) -> Sequence[object]:
    """Return the cells with lists and the like, which JSON and data frames may contain, as text."""
    if set(map(type, cells)) & {list, dict, set, np.ndarray}:
        return [str(cell) if isinstance(cell, list | dict | set | np.ndarray) else cell for cell in cells]
    return cells


def texts(cells: Cells, reading: CellRules = USUAL) -> npt.NDArray[np.str_]:
    """Return each cell of a column as text."""
    return np.array(words(cells, reading), np.str_)


def numbered(cells: Cells, reading: CellRules = USUAL) -> tuple[IntArray, list[str]]:
    """Return the number of each cell's text, and the texts by number in order of first appearance; some may repeat.

    >>> numbered(["b", "a", "b", None])
    (array([0, 1, 0, 2]), ['b', 'a', ''])
    """
    if isinstance(cells, LazyTexts):
        codes, distinct = cells.coded()
        return codes, [text(cell, reading) for cell in distinct]
    found = words(cells, reading)
    place = {word: i for i, word in enumerate(dict.fromkeys(found))}
    return np.fromiter(map(place.__getitem__, found), np.int64, len(found)), list(place)


def words(cells: Cells, reading: CellRules = USUAL) -> list[str]:
    """Return each cell of a column as text; each distinct one is read once.

    >>> words([1, True, "1.0", "true", None])
    ['1', 'True', '1', 'True', '']
    """
    if isinstance(cells, LazyTexts):
        codes, distinct = cells.coded()
        read = [text(cell, reading) for cell in distinct]
        return [read[code] for code in codes.tolist()]
    plain = _hashable(plain_cells(cells))
    kinds = set(map(type, plain))
    if len(kinds) > 1 and kinds != {str, type(None)}:  # 1 and True are one key of a dict
        return [text(cell, reading) for cell in plain]
    known = {cell: text(cell, reading) for cell in set(plain)}
    return list(map(known.__getitem__, plain))


def plain_cells(cells: Cells) -> Sequence[object]:
    """Return the cells of a column as Python objects."""
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
