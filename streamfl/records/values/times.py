"""Reads times as seconds since 1970: from numbers by their magnitude, from texts by `dates` next to it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.records.csv_block import LazyTexts
from streamfl.records.values.cells import Cells, quoted
from streamfl.records.values.dates import ORDERS, Order, Stamp, named_zone, stamp
from streamfl.records.values.missing import WORDS

MILLISECONDS_FROM = 1e11  # in seconds the year 5138, in milliseconds 1973: larger numbers are milliseconds
_MICROSECONDS_FROM, _NANOSECONDS_FROM = 1e14, 1e17
FIRST = -62135596800.0  # the years 1 and 9999, the range of `datetime`
LAST = 253402300800.0
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
# Usual names of columns of times.
NAMES = frozenset({"time", "timestamp", "ts", "at", "datetime", "date", "epoch", "unixtime", "month", "period"})
ENDINGS = ("timestamp", "_at", "_time", "_ts", "_date", "datum")
_REMEDY = "give a date, or seconds since 1970"
# Digits of whole numbers that are dates, as in 20260321, 202603211345 and 20260321134506, and their years.
_DIGITS = (8, 12, 14)
_YEARS = (1900, 2100)
_A_YEAR = (1000.0, 2999.0)  # as seconds, less than an hour after midnight in 1970
_A_DAY = 86_400.0
DIGITS_OF_DATES = 19000101, 21001231  # numbers that are days; as seconds they would be in August 1970
# Dates that are more probably codes, unless their column has the name of one.
_CODE = re.compile(r"\d{1,2}-\d{1,2}-\d{2}|\d{4}[-/]\d{2,3}")
_LOOKED_AT = 1000  # cells, for the form of most of them
# What polars reads in one step. Texts of another form are read one by one.
_FORM = re.compile(r"\d{4}-\d\d-\d\d(?:(?P<gap>[ T])\d\d:\d\d(?P<seconds>:\d\d(?:\.\d+)?)?(?P<utc>Z?))?")


@dataclass(frozen=True, slots=True)
class Notation:
    """How times are written that do not say it themselves.

    Raises
    ------
    UsageError
        There is no such zone.

    >>> Notation("Europe/Atlantis")
    Traceback (most recent call last):
    streamfl.errors.UsageError: there is no time zone 'Europe/Atlantis'; name one such as Europe/Berlin, or UTC
    """

    zone: str = "UTC"  # the zone of times without one, by its name in the IANA database
    # The order of day, month and year in dates such as 03/04/2026; None: as the column shows.
    order: Order | None = None

    def __post_init__(self) -> None:
        if named_zone(self.zone) is False:
            raise UsageError(f"there is no time zone {self.zone!r}; name one such as Europe/Berlin, or UTC")

    @property
    def local(self) -> tzinfo:
        """The zone of times without one."""
        return named_zone(self.zone) or UTC


PLAIN = Notation()


def in_seconds(times: FloatArray) -> tuple[FloatArray, dict[int, str]]:
    """Return times in seconds, NaN for numbers that cannot be times, and the errors by index.

    Parameters
    ----------
    times
        Shape (n,): seconds since 1970, milliseconds if above 1e11, microseconds above 1e14, nanoseconds above 1e17;
        NaN is an unknown time.

    >>> in_seconds(np.array([1.7e9, 1.7e12, 1.7e15, 1.7e18, 1.7e22]))
    (array([1.7e+09, 1.7e+09, 1.7e+09, 1.7e+09,     nan]), {4: 'the time 1.7e+22 is not a date; give a date, or...'})
    """
    size = np.abs(times)
    seconds = times / np.select(
        [size > _NANOSECONDS_FROM, size > _MICROSECONDS_FROM, size > MILLISECONDS_FROM], [1e9, 1e6, 1e3], 1.0
    )
    wrong = np.flatnonzero((seconds < FIRST) | (seconds >= LAST))
    if not len(wrong):
        return seconds, {}
    seconds[wrong] = np.nan
    return seconds, {int(i): f"the time {times[i]} is not a date; {_REMEDY}" for i in wrong}


def seconds(cells: Cells, notation: Notation = PLAIN) -> tuple[FloatArray, dict[int, str]]:
    """Read times from numbers and texts, each by itself, as in messages.

    Returns
    -------
    Seconds since 1970, shape (n,), NaN where missing or wrong; and the errors by index.

    >>> seconds(["1970-01-02T00:00:00Z", 1.5, None, "2.1.1970", "19700102", "noon"])
    (array([8.64e+04, 1.50e+00, nan, 8.64e+04, 8.64e+04, nan]), {5: 'the time "noon" is not a date; give a date...'})
    >>> seconds(["03/04/2026", "25/04/2026"])[1]
    {0: 'the time "03/04/2026" may be the day 2026-04-03 (dmy) or 2026-03-04 (mdy); name the order'}
    """
    read = _Partly.of(cells, notation)
    return read.resolved(notation.order, digits=True)


@dataclass(slots=True)
class Times:
    """A column of times of a file, read block by block: the whole column decides what a single time leaves open.

    Examples
    --------
    >>> column = Times("t")
    >>> column.add(["03/04/2026", ""])
    >>> column.add(["03/25/2026", "noon"])
    >>> [found.tolist() for found in column.finish()]
    [[1772582400.0, nan], [1774396800.0, nan]]
    >>> column.order, column.wrong
    ('mdy', [{}, {1: 'the time "noon" is not a date; give a date, or seconds since 1970'}])
    >>> column.note()
    'the times of column t have no zone and are read as UTC; if they are local, name it with --timezone'
    """

    name: str  # the name of the column
    notation: Notation = PLAIN  # what the user said of it
    order: Order | None = None  # the order of day, month and year in it, once it is known
    wrong: list[dict[int, str]] = field(default_factory=list)  # the errors of each block by index, in the end
    _blocks: list["_Partly"] = field(default_factory=list)
    _orders: set[Order] = field(default_factory=lambda: set(ORDERS))
    _digits: bool = True
    _known: bool = False
    _local: bool = False
    _span: tuple[float, float] = (np.nan, np.nan)  # the first and the last time

    def add(self, cells: Cells) -> None:
        """Add the next cells."""
        read = _Partly.of(cells, self.notation)
        for order in read.excluded:
            self._orders.discard(order)
        self._digits = self._digits and read.all_digits
        self._local = self._local or read.is_local
        self._blocks.append(read)

    def finish(self) -> list[FloatArray]:
        """Return the seconds of each block.

        Raises
        ------
        UsageError
            Dates can be read in more than one order, and nothing decides.
        """
        self.order, found = self._order(), []
        for read in self._blocks:
            times, wrong = read.resolved(self.order, digits=self._digits)
            found.append(times)
            self.wrong.append(wrong)
            self._known = self._known or bool(np.isfinite(times).any())
        self._blocks.clear()
        known = [at for times in found if len(at := times[np.isfinite(times)])]
        if known:
            self._span = float(min(at.min() for at in known)), float(max(at.max() for at in known))
        return found

    def note(self) -> str:
        """Return in which zone local times were read, or that they may be no times; "" if nothing is to be said.

        >>> of_cells("t", [1000, 1001])[1].note()
        'the times of column t are all on the first day of 1970, from 1970-01-01T00:16:40Z to ...'
        """
        first, last = self._span
        if not self._local and 0.0 <= first <= last < _A_DAY:
            what = (
                f"the times of column {self.name} are all on the first day of 1970, from {iso(first)} to {iso(last)}"
            )
            are = "years" if _A_YEAR[0] <= first <= last <= _A_YEAR[1] else "no seconds"
            return f"{what}: numbers are seconds since 1970; if they are {are}, write dates, such as 1998-01-01"
        if not (self._local and self._known):
            return ""
        if self.notation.zone == PLAIN.zone:
            what = f"the times of column {self.name} have no zone and are read as UTC"
            return f"{what}; if they are local, name it with --timezone"
        return f"the times of column {self.name} are read in {self.notation.zone} and shown in UTC"

    def _order(self) -> Order | None:
        if self.notation.order is not None:
            return self.notation.order
        open_ = [(cell, said) for read in self._blocks for cell, said in read.unclear.values()]
        possible = [order for order in ORDERS if order in self._orders]
        if not open_ or not possible:
            return None
        if len(possible) > 1:
            cell, said = next((one for one in open_ if len(_days(one[1], possible)) > 1), (None, None))
            if said is not None:
                what = f'column "{self.name}": {_either(cell, said, possible)}, and no date of the column decides'
                raise UsageError(f"{what}; add --date-order {' or '.join(_days(said, possible))}")
        return possible[0]


@dataclass(slots=True)
class _Partly:
    """Some cells, as far as each can be read alone."""

    times: FloatArray  # in seconds, NaN where missing, wrong or unclear
    local: tzinfo
    wrong: dict[int, str] = field(default_factory=dict)  # the errors by index
    # Texts that allow several orders, or not all, by index.
    unclear: dict[int, tuple[object, Stamp]] = field(default_factory=dict)

    # The indices of whole numbers that have the digits of dates, and these dates in seconds, NaN if there is no such
    # day.
    maybe: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    days: FloatArray = field(default_factory=lambda: np.empty(0))
    is_local: bool = False  # whether there are times without a zone

    @classmethod
    def of(cls, cells: Cells, notation: Notation) -> "_Partly":
        if isinstance(cells, np.ndarray):
            return _of_numbers(cells.astype(np.float64, copy=False), notation)
        if isinstance(cells, LazyTexts):
            return _of_lazy(cells, notation)
        if cells and set(map(type, cells)) <= {float, int, type(None)}:
            return _of_numbers(np.array([_float(cell) for cell in cells], np.float64), notation)
        read = cls(np.full(len(cells), np.nan), notation.local)
        read.add(range(len(cells)), cells)
        return read

    def add(self, at: Sequence[int], cells: Sequence[object]) -> None:
        """Add cells of any kind at some indices."""
        numbers, stamps = dict[int, float](), dict[str, Stamp | None]()
        for i, cell in zip(at, cells, strict=True):
            if (number := _as_number(cell)) is not None:
                numbers[i] = number
            elif isinstance(cell, str):
                if cell not in stamps:
                    stamps[cell] = _said(cell, self.local)
                self._add(i, cell, stamps[cell])
            else:
                self._add(i, cell, _said(cell, self.local))
        if numbers:
            self.take(np.array([*numbers], np.int64), np.array([*numbers.values()]))

    def _add(self, i: int, cell: object, said: Stamp | None) -> None:
        """Add a cell that is not a number."""
        if said is None:
            if not is_missing(cell):
                self.wrong[i] = f"the time {quoted(cell)} is not a date; {_REMEDY}"
            return
        self.is_local = self.is_local or said.zone is None
        if said.is_clear:
            self.times[i] = _seconds(said.at["dmy"], said.zone or self.local)
        else:
            self.unclear[i] = (cell, said)

    def take(self, at: IntArray, numbers: FloatArray) -> None:
        """Add numbers at some indices."""
        self.times[at], wrong = in_seconds(numbers)
        self.wrong |= {int(at[i]): why for i, why in wrong.items()}
        which = np.flatnonzero(_has_digits_of_date(numbers))
        if len(which):
            self.maybe = np.append(self.maybe, at[which])
            self.days = np.append(self.days, _of_digits(numbers[which], self.local))
            self.is_local = True

    @property
    def all_digits(self) -> bool:
        """Whether every number that has the digits of a date is one."""
        return bool(np.isfinite(self.days).all())

    @property
    def excluded(self) -> list[Order]:
        """The orders that some text does not allow."""
        return [order for order in ORDERS if any(order not in said.at for _, said in self.unclear.values())]

    def resolved(self, order: Order | None, *, digits: bool) -> tuple[FloatArray, dict[int, str]]:
        """Return the seconds, and the errors by index.

        Parameters
        ----------
        digits
            Whether whole numbers that may be dates are dates.
        """
        times, wrong = self.times, dict(self.wrong)
        for i, (cell, said) in self.unclear.items():
            possible: Sequence[Order] = ORDERS if order is None else (order,)
            found = _days(said, possible)
            if len(found) == 1:
                times[i] = _seconds(said.at[found[0]], said.zone or self.local)
            elif found:
                wrong[i] = f"{_either(cell, said, possible)}; name the order"
            else:
                wrong[i] = f"the time {quoted(cell)} is not a date in the order {order}; {_REMEDY}"
        if digits and len(self.maybe):
            times[self.maybe] = self.days
            none = self.maybe[np.isnan(self.days)].tolist()
            wrong |= dict.fromkeys(none, f"a time has the digits of a date, but there is no such day; {_REMEDY}")
        return times, wrong


def _days(said: Stamp, orders: Sequence[Order]) -> list[Order]:
    """Return the different days that a text may mean, as the first order that says so."""
    found: dict[datetime, Order] = {}
    for order in orders:
        if order in said.at:
            found.setdefault(said.at[order], order)
    return list(found.values())


def _either(cell: object, said: Stamp, orders: Sequence[Order]) -> str:
    days = [f"{said.at[order].date()} ({order})" for order in _days(said, orders)]
    return f"the time {quoted(cell)} may be the day {' or '.join(days)}"


def _of_numbers(numbers: FloatArray, notation: Notation) -> _Partly:
    read = _Partly(np.empty(len(numbers)), notation.local)
    read.take(np.arange(len(numbers)), numbers)
    return read


def _of_lazy(cells: LazyTexts, notation: Notation) -> _Partly:
    """Read texts in one step where all of them have the form of the first; the others one by one."""
    first = next((cell for cell in cells[:_LOOKED_AT] if not is_missing(cell)), "")
    form = _FORM.fullmatch(first)
    if form is not None:
        local, unread = cells.dates(_format(form))
        read = _Partly(local if form["utc"] else in_zone(local, notation.local), notation.local)
        read.is_local = not form["utc"]
    elif _as_number(first) is not None:
        numbers, others = cells.numbers()
        read, unread = _of_numbers(numbers, notation), list(others)
    else:
        read, unread = _Partly(np.full(len(cells), np.nan), notation.local), list(range(len(cells)))
    read.add(unread, cells[:] if len(unread) == len(cells) else [cells[i] for i in unread])
    return read


def _format(form: re.Match[str]) -> str:
    if form["gap"] is None:
        return "%Y-%m-%d"
    return f"%Y-%m-%d{form['gap']}%H:%M{':%S%.f' if form['seconds'] else ''}{form['utc']}"


def _said(cell: object, local: tzinfo) -> Stamp | None:
    if isinstance(cell, str):
        try:
            at = datetime.fromisoformat(cell.strip())
        except ValueError:
            return stamp(cell, local)
    elif isinstance(cell, datetime):
        at = cell
    elif isinstance(cell, date):
        at = datetime(cell.year, cell.month, cell.day)
    else:
        return None
    return Stamp(dict.fromkeys(ORDERS, at.replace(tzinfo=None)), at.tzinfo)


def _seconds(at: datetime, zone: tzinfo) -> float:
    return (at.replace(tzinfo=zone) - _1970).total_seconds()


def in_zone(local: FloatArray, zone: tzinfo) -> FloatArray:
    """Return local times, in seconds since 1970 on the clocks of a zone, in seconds since 1970.

    An hour that comes twice, when clocks go back, is the first.

    >>> in_zone(np.array([3600.0, np.nan]), named_zone("Europe/Berlin"))
    array([ 0., nan])
    """
    if zone is UTC:
        return local
    distinct, which = np.unique(local, return_inverse=True)
    moved = [at if math.isnan(at) else _seconds(datetime.fromtimestamp(at, UTC), zone) for at in distinct.tolist()]
    found: FloatArray = np.array(moved)[which]
    return found


def _as_number(cell: object) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    if isinstance(cell, str) and ("_" in cell or cell.strip().lower() in WORDS):
        return None
    try:
        number = _float(cell)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _float(cell: object) -> float:
    if cell is None:
        return math.nan
    try:
        return float(cell)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def is_missing(cell: object) -> bool:
    """Return whether a cell is no time at all, and not one that cannot be read."""
    if isinstance(cell, str):
        return cell.strip().lower() in WORDS | {"nan", "nat"}
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _has_digits_of_date(numbers: FloatArray) -> BoolArray:
    """Return which numbers have as many digits as a date, and begin with a year.

    >>> _has_digits_of_date(np.array([20260399.0, 20260321.5, 17000000.0, 1.7e9, 20260321134506.0]))
    array([ True, False, False, False,  True])
    """
    found = np.zeros(len(numbers), np.bool_)
    for digits in _DIGITS:
        unit = 10.0 ** (digits - 4)
        found |= (numbers >= _YEARS[0] * unit) & (numbers < (_YEARS[1] + 1) * unit)
    which: BoolArray = found & (numbers == np.floor(numbers))
    return which


def _of_digits(numbers: FloatArray, zone: tzinfo) -> FloatArray:
    """Return the times that the digits of numbers are, NaN where there is no such day or hour.

    >>> _of_digits(np.array([19700102.0, 197001020001.0, 19700102000010.0, 19701302.0, 20250229.0]), UTC)
    array([86400., 86460., 86410.,    nan,    nan])
    """
    whole = numbers.astype(np.int64)
    whole *= np.select([whole < 10**8, whole < 10**12], [10**6, 10**2], 1)
    year, month, day, hour, minute, second = (whole // 10**at % 100 for at in (10, 8, 6, 4, 2, 0))
    year = whole // 10**10
    months = (year - 1970).astype("M8[Y]").astype("M8[M]") + (np.clip(month, 1, 12) - 1).astype("m8[M]")
    days = months.astype("M8[D]")
    last = ((months + 1).astype("M8[D]") - days).astype(np.int64)
    fits = (month >= 1) & (month <= 12) & (day >= 1) & (day <= last) & (hour < 24) & (minute < 60) & (second < 60)
    at = (days.astype(np.int64) + day - 1) * 86400.0 + hour * 3600 + minute * 60 + second
    return in_zone(np.where(fits, at, np.nan), zone)


def of_cells(name: str, cells: Cells, notation: Notation = PLAIN) -> tuple[FloatArray, Times]:
    """Read a whole column of times; return the seconds, shape (n,), and what is known of the column.

    >>> of_cells("t", ["1970-01-02", "2.1.1970 00:00", "1970/1/2 00:00:00 UTC", "19700102", "", "Jan 2, 1970"])[0]
    array([86400., 86400., 86400., 86400.,    nan, 86400.])
    """
    column = Times(name, notation)
    column.add(cells)
    return column.finish()[0], column


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
    >>> looks_like_times("a", ["20261123", "20261124"]), looks_like_times("a", ["03/25/26", "04/01/26"])
    (True, True)
    >>> looks_like_times("a", ["1700000000"]), looks_like_times("time", ["12.5"]), looks_like_times("a", ["1-2-03"])
    (False, False, False)
    """
    known = [word for word in words if word]
    if not known:
        return False
    if all(map(_is_epoch, known)) and named_as_times(name):
        return True
    return all(_is_date(word, named_as_times(name)) for word in known)


def _is_date(word: str, is_named: bool) -> bool:
    number = _as_number(word)
    if number is not None:
        at = np.array([number])
        return bool(_has_digits_of_date(at)[0]) and bool(np.isfinite(_of_digits(at, UTC)[0]))
    return (is_named or not _CODE.fullmatch(word)) and stamp(word) is not None


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
