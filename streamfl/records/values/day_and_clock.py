"""Times that two columns hold: one has the days, the other the times of day."""

import re
from collections.abc import Iterator, Mapping, Sequence

from streamfl.records.csv_block import LazyTexts
from streamfl.records.values.cells import Cells, plain_cells, text
from streamfl.records.values.dates import CLOCK
from streamfl.records.values.missing import WORDS
from streamfl.records.values.times import is_missing, looks_like_times

LOOKED_AT = 1000  # cells by which columns are found
# What databases and spreadsheets add to a day, and to a time of day; polars reads the same patterns.
MIDNIGHT = r"[ T]00:00(?::00(?:\.0+)?)?$"
NO_DAY = r"^(?:1899-12-3[01]|1900-01-0[01]|1970-01-01|0 days)[ T]"
SHORT = r"^(\d{3}|\d{5})$"  # 930 and 93000: a number has lost its zero
_IS_CLOCK = re.compile(rf"(?:{CLOCK})(?:\s*uhr)?(?:z|\s*utc|[-+]\d\d:?\d\d)?", re.IGNORECASE)


def joined(columns: Sequence[Cells]) -> Cells:
    """Return a column of times: the only column, or the days of the first with the times of day of the second.

    A time without its day or its time of day is missing.

    >>> joined([["2026-03-21", "21.3.2026", 20260321, ""], ["13:45", "1:45 PM", 93000, "13:45"]])
    ['2026-03-21T13:45', '21.3.2026T1:45 PM', '20260321T093000', '']
    """
    if len(columns) == 1:
        return columns[0]
    days, clocks = columns
    if isinstance(days, LazyTexts) and isinstance(clocks, LazyTexts):
        return _all_joined(days, clocks)
    return [_joined(day, clock) for day, clock in zip(plain_cells(days), plain_cells(clocks), strict=True)]


def _all_joined(days: LazyTexts, clocks: LazyTexts) -> LazyTexts:
    import polars as pl  # noqa: PLC0415  slow to load; loaded by now

    halves = [
        days.series.str.strip_chars().str.replace(MIDNIGHT, ""),
        clocks.series.str.strip_chars().str.replace(NO_DAY, "").str.replace(SHORT, "0$1"),
    ]
    lacks = [half.str.to_lowercase().is_in(list(WORDS)) for half in halves]
    whole = pl.when(~(lacks[0] | lacks[1])).then(halves[0] + "T" + halves[1])
    return LazyTexts(pl.select(whole.alias("")).to_series())


def _joined(day: object, clock: object) -> str:
    if is_missing(day) or is_missing(clock):
        return ""
    return _day(text(day)) + "T" + re.sub(SHORT, r"0\1", _clock(text(clock)))


def _day(word: str) -> str:
    return re.sub(MIDNIGHT, "", word)


def _clock(word: str) -> str:
    return re.sub(NO_DAY, "", word)


def pair(fields: Mapping[str, Cells]) -> tuple[str, str] | None:
    """Return the column of days and the column of times of day, if there is exactly one of each.

    >>> pair({"Date": ["21.3.2026", ""], "Time": ["18.00.00", "7:30"], "x": ["1", "2"]})
    ('Date', 'Time')
    >>> pair({"Date": ["21.3.2026 18:00"], "Time": ["18.00"], "x": ["17.30"]})
    """
    days = [name for name, cells in fields.items() if _are_days(name, cells)]
    clocks = [name for name, cells in fields.items() if _are_clocks(cells)] if len(days) == 1 else []
    return (days[0], clocks[0]) if len(clocks) == 1 else None


def _are_days(name: str, cells: Cells) -> bool:
    first = next(_shown(cells), "")
    if not looks_like_times(name, [_day(first)]):  # the common case
        return False
    found = [_day(word) for word in _shown(cells)]
    if any(":" in word or (word.isdecimal() and len(word) != 8) for word in found):
        return False
    return looks_like_times(name, found)


def _are_clocks(cells: Cells) -> bool:
    return next(_shown(cells), "") != "" and all(map(_is_clock, _shown(cells)))


def _shown(cells: Cells) -> Iterator[str]:
    return filter(None, map(text, plain_cells(cells[:LOOKED_AT])))


def _is_clock(word: str) -> bool:
    """Return whether a text is a time of day, and not a number such as 17.30."""
    word = _clock(word)
    return _IS_CLOCK.fullmatch(word) is not None and (word.count(".") == 2 or any(c in word.lower() for c in ":hpa"))
