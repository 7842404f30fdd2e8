"""When a record was measured, as seconds since 1970."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.streams.cells import quoted

MILLISECONDS_FROM = 1e11  # as seconds this is the year 5138, as milliseconds 1973: only the second is meant
FIRST = -62135596800.0  # the years 1 and 9999, beyond which ISO 8601 has no dates either
LAST = 253402300800.0
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_REMEDY = "give seconds or milliseconds since 1970, or ISO 8601 text"


def in_seconds(told: FloatArray) -> tuple[FloatArray, dict[int, str]]:
    """Return times in seconds, and what is wrong by index of those that cannot be times.

    Parameters
    ----------
    told
        Shape (n,): seconds since 1970, those above 1e11 milliseconds; NaN is a time that is not known.

    >>> in_seconds(np.array([1.7e9, 1.7e12, 1.7e15]))
    (array([1.7e+09, 1.7e+09,     nan]), {2: 'the time 1700000000000000.0 is no date; give seconds or...'})
    """
    times = np.where(told > MILLISECONDS_FROM, told / 1000.0, told)
    wrong = np.flatnonzero((times < FIRST) | (times > LAST))
    if not len(wrong):
        return times, {}
    times[wrong] = np.nan
    return times, {int(i): f"the time {told[i]} is no date; {_REMEDY}" for i in wrong}


def seconds(cells: Sequence[object]) -> tuple[FloatArray, dict[int, str]]:
    """Read times from numbers and texts; a text without an offset from UTC is in UTC.

    Returns
    -------
    Seconds since 1970, shape (n,), NaN where missing or wrong; what is wrong by index.

    >>> seconds(["1970-01-02T00:00:00Z", 1.5, None, "noon"])
    (array([8.64e+04, 1.50e+00, nan, nan]), {3: 'the time "noon" is no date; give seconds or milliseconds since...'})
    """
    if set(map(type, cells)) <= {float, type(None)}:
        return in_seconds(np.array(cells, np.float64))
    told, wrong = np.full(len(cells), np.nan), {}
    for i, cell in enumerate(cells):
        try:
            told[i] = _told(cell)
        except ValueError:
            wrong[i] = f"the time {quoted(cell)} is no date; {_REMEDY}"
    times, impossible = in_seconds(told)
    return times, impossible | wrong


def _told(cell: object) -> float:
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


def _iso(said: str) -> float:
    date = datetime.fromisoformat(said)
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _1970).total_seconds()
