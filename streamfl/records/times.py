"""Reads times as seconds since 1970."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.cells import Cells, quoted
from streamfl.records.missing import WORDS

MILLISECONDS_FROM = 1e11  # in seconds the year 5138, in milliseconds 1973: larger numbers are milliseconds
FIRST = -62135596800.0  # the years 1 and 9999, the range of `datetime`
LAST = 253402300800.0
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
# Usual names of columns of times.
NAMES = frozenset({"time", "timestamp", "ts", "at", "datetime", "date", "epoch", "unixtime"})
ENDINGS = ("timestamp", "_at", "_time", "_ts")
_DAY = r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
_HOUR = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?(\s*(am|pm))?(\s*(z|utc|gmt|[-+]\d{2}(:?\d{2})?))?"
_DATE = re.compile(rf"\s*{_DAY}((\s+|t|,\s*){_HOUR})?\s*", re.IGNORECASE)
_GERMAN = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})")
_NUMBER = re.compile(r"\d{5,}\.?\d*|\d+\.\d*")  # 20261123 too: only dates with separators are days
_REMEDY = "give seconds or milliseconds since 1970, or ISO 8601 text"


def in_seconds(times: FloatArray) -> tuple[FloatArray, dict[int, str]]:
    """Return times in seconds, NaN for numbers that cannot be times, and the errors by index.

    Parameters
    ----------
    times
        Shape (n,): seconds since 1970, or milliseconds if above 1e11; NaN is an unknown time.

    >>> in_seconds(np.array([1.7e9, 1.7e12, 1.7e15]))
    (array([1.7e+09, 1.7e+09,     nan]), {2: 'the time 1700000000000000.0 is not a date; give seconds or...'})
    """
    seconds = np.where(times > MILLISECONDS_FROM, times / 1000.0, times)
    wrong = np.flatnonzero((seconds < FIRST) | (seconds > LAST))
    if not len(wrong):
        return seconds, {}
    seconds[wrong] = np.nan
    return seconds, {int(i): f"the time {times[i]} is not a date; {_REMEDY}" for i in wrong}


def seconds(cells: Sequence[object]) -> tuple[FloatArray, dict[int, str]]:
    """Read times from numbers and texts; a text without an offset from UTC is in UTC.

    Returns
    -------
    Seconds since 1970, shape (n,), NaN where missing or wrong; and the errors by index.

    >>> seconds(["1970-01-02T00:00:00Z", 1.5, None, "noon"])
    (array([8.64e+04, 1.50e+00, nan, nan]), {3: 'the time "noon" is not a date; give seconds or milliseconds
    since...'})
    """
    if set(map(type, cells)) <= {float, type(None)}:
        return in_seconds(np.array(cells, np.float64))
    numbers, wrong = np.full(len(cells), np.nan), {}
    for i, cell in enumerate(cells):
        try:
            numbers[i] = _number(cell)
        except ValueError:
            wrong[i] = f"the time {quoted(cell)} is not a date; {_REMEDY}"
    times, impossible = in_seconds(numbers)
    return times, impossible | wrong


def of_cells(cells: Cells) -> tuple[FloatArray, dict[int, str]]:
    """Read a column of times of a file: as `seconds` does, and in the formats of spreadsheets and databases.

    >>> times, wrong = of_cells(["1970-01-02", "2.1.1970 00:00", "1970/1/2 00:00:00 UTC", "86400", "", "1/2/1970"])
    >>> times.tolist(), wrong
    ([86400.0, 86400.0, 86400.0, 86400.0, nan, nan], {5: 'the time "1/2/1970" is not a date; give seconds or...'})
    """
    return seconds([_usual(cell) for cell in (cells.tolist() if isinstance(cells, np.ndarray) else cells)])


def unknown(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return the note on times that could not be read, if there are any."""
    return (f"{len(reasons):,} times cannot be read; the reason for the first one: {reasons[0]}",) if reasons else ()


def iso(time: float) -> str:
    """Return a time as ISO 8601 in UTC; one that is not a date, which others may write, as a number.

    >>> iso(1.7e9), iso(LAST - 1), iso(LAST)
    ('2023-11-14T22:13:20Z', '9999-12-31T23:59:59Z', '253402300800 seconds since 1970')
    """
    if not FIRST <= time < LAST:
        return f"{time:.0f} seconds since 1970"
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def looks_like_times(name: str, words: Sequence[str]) -> bool:
    """Return whether texts are dates, or epoch times in a column with the name of a time.

    >>> looks_like_times("a", ["2026-11-23 08:15", ""]), looks_like_times("ts", ["1700000000"])
    (True, True)
    >>> looks_like_times("a", ["1700000000"]), looks_like_times("time", ["12.5"])
    (False, False)
    """
    known = [word for word in words if word]
    if all(_DATE.fullmatch(word) for word in known):
        return bool(known)
    return named_as_times(name) and bool(known) and all(map(_is_epoch, known))


def named_as_times(name: str) -> bool:
    """Return whether a column has a usual name of columns of times.

    >>> [named_as_times(name) for name in ("Time", "at", "measured_at", "eventTime", "heat", "sometime")]
    [True, True, True, True, False, False]
    """
    low = name.lower()
    return low in NAMES or low.endswith(ENDINGS) or name.endswith("Time")


def _is_epoch(word: str) -> bool:
    try:
        number = float(word)
    except ValueError:
        return False
    return any(1.0 <= number / unit < 10.0 for unit in (1e9, 1e12, 1e15, 1e18))  # from 2001 on


def _usual(cell: object) -> object:
    """Convert a time to a form that `seconds` reads; anything else stays as it is."""
    if isinstance(cell, datetime):
        return cell.isoformat()
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return _in_milliseconds(float(cell))
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if text.lower() in WORDS:
        return None
    if _NUMBER.fullmatch(text):
        return _in_milliseconds(float(text))
    text = _GERMAN.sub(r"\3-\2-\1", text)
    text = re.sub(r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})", r"\1-\2-\3", text)
    text = re.sub(r"-(\d)(?=\D|$)", r"-0\1", text) if text[:4].isdecimal() else text
    return re.sub(r"\s*(UTC|GMT)$", "Z", text)


def _in_milliseconds(number: float) -> float:
    """Return micro- and nanoseconds as milliseconds, which `seconds` reads.

    >>> _in_milliseconds(1.7e18), _in_milliseconds(1.7e15), _in_milliseconds(1.7e9)
    (1700000000000.0, 1700000000000.0, 1700000000.0)
    """
    return number / 1e6 if abs(number) > 1e17 else number / 1e3 if abs(number) > 1e14 else number


def _number(cell: object) -> float:
    if cell is None:
        return math.nan
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    if isinstance(cell, str):
        return _iso(cell.strip()) if cell.strip() else math.nan
    raise ValueError("neither a number nor a text")


def _iso(text: str) -> float:
    date = datetime.fromisoformat(text)
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _1970).total_seconds()
