"""Reads a date with its time of day from text, in every order that the text allows."""

import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache, partial
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo

Order = Literal["dmy", "mdy", "ymd"]
ORDERS: tuple[Order, ...] = get_args(Order)

LONGEST = 80  # characters of a date

# Months in English, German, French, Spanish and Italian; abbreviations have three letters or more.
_MONTHS = (
    "january januar jänner janvier enero gennaio",
    "february februar février fevrier febrero febbraio",
    "march märz maerz mars marzo",
    "april avril abril aprile",
    "may mai mayo maggio",
    "june juni juin junio giugno",
    "july juli juillet julio luglio",
    "august août aout agosto",
    "september septembre septiembre settembre",
    "october oktober octobre octubre ottobre",
    "november novembre noviembre",
    "december dezember décembre decembre diciembre dicembre",
)
_MONTH = {
    name[:length]: month
    for month, names in enumerate(_MONTHS, 1)
    for name in names.split()
    for length in range(3, len(name) + 1)
}
_WORD = rf"(?P<month>{'|'.join(sorted(_MONTH, key=len, reverse=True))})(?![a-zäöüéû])\.?"
_DAY_NAME = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*|mo|di|mi|do|fr|sa|so)\.?,?\s+"

CLOCK = (
    r"(?P<hour>\d{1,2})(?P<colon>[:.h])(?P<minute>\d{2})(?:(?P=colon)(?P<second>\d{2})(?:[.,:](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\.?(?![a-z]))?|(?P<hour12>\d{1,2})\s*(?P<half12>[ap])\.?m\.?(?![a-z])"
)
_OFFSET = re.compile(r"(?:utc|gmt)?(?P<sign>[-+−])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?")

# Each has either a year, a month and a day, or three numbers whose order the column decides.
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>\d{4})(?P<sep>[-/.])(?P<number>\d{1,2})(?P=sep)(?P<day>\d{1,2})(?!\d)",
        r"(?P<day>\d{1,2})\.\s?(?P<number>\d{1,2})\.\s?(?P<year>\d{4}|\d{2})(?![\d.])",
        r"(?P<first>\d{1,2})(?P<sep>[-/])(?P<between>\d{1,2})(?P=sep)(?P<last>\d{4}|\d{2})(?!\d)",
        r"(?P<year>\d{4})(?P<number>\d{2})(?P<day>\d{2})(?=t|$|[ _-])",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?[-/\s]*{_WORD}[-/\s,]*(?P<year>\d{{4}}|\d{{2}})(?!\d)",
        rf"{_WORD}[-/\s]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s*,?[-/\s]\s*(?P<year>\d{{4}})(?!\d)",
        rf"(?P<year>\d{{4}})[-/\s]*{_WORD}[-/\s]*(?P<day>\d{{1,2}})(?!\d)",
        r"(?P<year>\d{4})-?w(?P<week>\d{2})(?:-?(?P<weekday>[1-7]))?(?!\d)",
        r"(?P<year>\d{4})-(?P<of_year>\d{3})(?!\d)",
        r"(?P<year>\d{4})(?:[-/]|-?m)(?P<number>\d{2})$",
        r"(?P<year>\d{4})[-/ ]?q(?P<quarter>[1-4])$",
    )
)
# As Unix writes it: "Sat Mar 21 13:45:06 2026", with a zone before the year or without.
_UNIX = re.compile(rf"{_WORD}\s+(?P<day>\d{{1,2}})\s+(?P<rest>\S+)\s+(?P<zone>[a-z]+\s+)?(?P<year>\d{{4}})")
_COMPACT = re.compile(r"(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?(?:[.,](?P<fraction>\d{1,9}))?")
_AFTER = re.compile(rf"(?:\s*t\s*|[\s,:_-]+(?:at\s+|um\s+)?)(?:{CLOCK})(?:\s*uhr)?")
_BEFORE = re.compile(rf"(?P<clock>(?:{CLOCK}))[\s,]+(?P<date>.+)")

# Abbreviations that mean one offset in hours wherever they are used. CST, IST and BST do not.
_ZONES = {
    "z": 0,
    "utc": 0,
    "gmt": 0,
    "wet": 0,
    "west": 1,
    "cet": 1,
    "cest": 2,
    "mez": 1,
    "mesz": 2,
    "eet": 2,
    "eest": 3,
}
_ZONES |= {"msk": 3, "jst": 9, "kst": 9, "est": -5, "edt": -4, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}
_ZONES |= {"akst": -9, "akdt": -8, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13, "sast": 2}


class Stamp(NamedTuple):
    """What a text says: a date and time of day in each order that it allows, and the zone that it names."""

    # Without a zone, by order. All orders have the same value if the text shows its order.
    at: Mapping[Order, datetime]
    zone: tzinfo | None  # None: a local time

    @property
    def is_clear(self) -> bool:
        """Return whether the order does not matter."""
        return len(self.at) == len(ORDERS) and len(set(self.at.values())) == 1


def stamp(text: str, local: tzinfo = UTC) -> Stamp | None:
    """Return what a text says; None if it is not a date.

    Parameters
    ----------
    text
        A date, in most cases with a time of day. Numbers alone are not text.
    local
        The zone of local times, whose abbreviations a text may use.

    >>> stamp("21.03.2026 24:00").at["dmy"], stamp("03/04/26 1:05 PM").at["mdy"]
    (datetime.datetime(2026, 3, 22, 0, 0), datetime.datetime(2026, 3, 4, 13, 5))
    >>> said = stamp("Sat, 21 Mar 2026 13:45:06 +0100")
    >>> said.at["ymd"], said.zone, said.is_clear, stamp("noon")
    (datetime.datetime(2026, 3, 21, 13, 45, 6), datetime.timezone(datetime.timedelta(seconds=3600)), True, None)
    >>> sorted(stamp("25/03/2026").at), stamp("2026-W12-6").at["dmy"], stamp("2026-03-21 08:15 CST")
    (['dmy'], datetime.datetime(2026, 3, 21, 0, 0), None)
    """
    if len(text) > LONGEST:
        return None
    text = re.sub(rf"^{_DAY_NAME}", "", " ".join(text.split()).lower())
    if found := _UNIX.fullmatch(text):
        text = f"{found['day']} {found['month']} {found['year']} {found['rest']} {found['zone'] or ''}".strip()
    if found := _BEFORE.fullmatch(text):
        text = f"{found['date']} {found['clock']}"
    for pattern in _DATES:
        if (date := pattern.match(text)) and (read := _with_clock(date, text[date.end() :], local)):
            return read
    return None


def _with_clock(date: re.Match[str], rest: str, local: tzinfo) -> Stamp | None:
    clock = _AFTER.match(rest)
    if clock is None and rest.startswith("t"):
        clock = _COMPACT.match(rest, 1)
    zone = _zone(rest[clock.end() if clock else 0 :].strip(), local)
    after = _time_of_day(clock.groupdict()) if clock else timedelta()
    if zone is False or after is None:
        return None
    days = _days(date.groupdict())
    at = {order: moved for order, day in days.items() if (moved := _tried(partial(operator.add, day, after)))}
    return Stamp(at, zone) if at else None


def _days(found: Mapping[str, str | None]) -> dict[Order, datetime]:
    if found.get("first"):
        a, b, c = (found[name] or "" for name in ("first", "between", "last"))
        each: dict[Order, tuple[str, str, str]] = {"dmy": (c, b, a), "mdy": (c, a, b)}
        if len(c) == 2 and len(a) == 2:
            each["ymd"] = (a, b, c)
        days = {order: _day(*parts) for order, parts in each.items()}
        known = {order: day for order, day in days.items() if day is not None}
        alike = len(set(known.values())) == 1 and len(known) == len(each)
        return dict.fromkeys(ORDERS, next(iter(known.values()))) if alike else known
    day = _of_parts({name: part for name, part in found.items() if part})
    return {} if day is None else dict.fromkeys(ORDERS, day)


def _of_parts(found: Mapping[str, str]) -> datetime | None:
    year = found["year"]
    if "week" in found:
        return _tried(lambda: datetime.fromisocalendar(int(year), int(found["week"]), int(found.get("weekday", 1))))
    if "of_year" in found:
        return _tried(lambda: datetime.strptime(f"{year} {found['of_year']}", "%Y %j"))
    if "quarter" in found:
        return _day(year, str(3 * int(found["quarter"]) - 2), "1")
    month = found["number"] if "number" in found else str(_MONTH[found["month"]])
    return _day(year, month, found.get("day", "1"))


def _day(year: str, month: str, day: str) -> datetime | None:
    """Return a day; of two digits of a year, 69 is 1969 and 68 is 2068, as POSIX has it."""
    full = int(year) if len(year) == 4 else int(year) + (1900 if int(year) >= 69 else 2000)
    return _tried(lambda: datetime(full, int(month), int(day)))


def _tried(make: Callable[[], datetime]) -> datetime | None:
    try:
        return make()
    except (ValueError, OverflowError):
        return None


def _time_of_day(found: Mapping[str, str | None]) -> timedelta | None:
    half = found.get("half") or found.get("half12")
    hour = int(found.get("hour") or found.get("hour12") or 0)
    minute, second = int(found.get("minute") or 0), int(found.get("second") or 0)
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "p")
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and minute + second):
        return None
    fraction = float(f"0.{found.get('fraction') or 0}")
    return timedelta(hours=hour, minutes=minute, seconds=second + fraction)


@lru_cache(1024)  # texts of others
def _zone(text: str, local: tzinfo) -> tzinfo | Literal[False] | None:
    """Return the zone that a text names, None for no text, False for anything else."""
    if not text:
        return None
    text = re.sub(r"^(\S+)\s*\[[^]]*\]$", r"\1", text)  # Java adds the name to the offset
    if found := _OFFSET.fullmatch(text):
        hours, minutes = int(found["hours"]), int(found["minutes"] or 0)
        if len(found["hours"]) + (2 if found["minutes"] else 0) == 3 or hours > 18 or minutes > 59:
            return False
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(offset if found["sign"] == "+" else -offset)
    name = text.strip("()[]")
    if name in (own := abbreviations(local)):
        return timezone(own[name])
    if name in _ZONES:
        return timezone(timedelta(hours=_ZONES[name])) if _ZONES[name] else UTC
    return named_zone("/".join(part.title() for part in name.split("/"))) if "/" in name else False


@lru_cache(1024)
def named_zone(name: str) -> tzinfo | Literal[False]:
    """Return the zone of a name in the IANA database, such as Europe/Berlin; False if there is none.

    >>> named_zone("Europe/Berlin"), named_zone("Europe/Nowhere")
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), False)
    """
    for spelt in dict.fromkeys((name, re.sub(r"_(\w)", lambda found: f"_{found[1].upper()}", name))):
        try:
            return UTC if spelt.upper() in {"UTC", "Z", "GMT"} else ZoneInfo(spelt)
        except (OSError, ValueError, KeyError):  # no such name, or no name of a file
            continue
    return False


@lru_cache(64)
def abbreviations(zone: tzinfo) -> dict[str, timedelta]:
    """Return the abbreviations that a zone itself uses, in lower case, with their offsets.

    >>> abbreviations(ZoneInfo("America/Chicago"))["cst"]
    datetime.timedelta(days=-1, seconds=64800)
    """
    found = {}
    for month in (1, 7):
        at = datetime(2026, month, 1, tzinfo=zone)
        name, offset = at.tzname(), at.utcoffset()
        if name and name[0].isalpha() and offset is not None:
            found[name.lower()] = offset
    return found
