"""The options that say how to read a file, for every command that reads one."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import click

from streamfl.bounds import REACH

# Separators of CSV files that have names.
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}

# Options of the same names in the settings, which hold where a command line does not say otherwise.
OF_SETTINGS = ("missing_values", "decimal", "timezone", "date_order")


def _listed(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _numbers(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, _listed(context, option, text)))
    except ValueError:
        raise click.BadParameter(f"{text!r}: give whole numbers, such as 1,24") from None


def _character(context: click.Context, option: click.Parameter, name: str) -> str:
    return SEPARATORS.get(name, name)


_TABLE = (
    click.option("--drop", metavar="COL,...", default="", callback=_listed, help="Columns to leave out."),
    click.option(
        "--separator",
        metavar="CHAR",
        default=",",
        show_default=True,
        callback=_character,
        help="Separator of a CSV file: one character, tab, or space for any number of blanks.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="The encoding of a text file, such as cp1252. Default: UTF-8, or UTF-16 with a byte order mark.",
    ),
    click.option(
        "--missing-values",
        metavar="VALUE,...",
        default="",
        callback=_listed,
        help="More values that count as missing, in any column and in the label, such as -999; not:NA means that NA "
        "is a value. Missing without it: an empty cell, NA, null, None, ?, -, #DIV/0! and the like.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="The decimal mark of numbers. Default: the one with which all numbers of a column can be read.",
    ),
)
_time = click.option(
    "--time",
    metavar="COL[,COL]",
    help="The column with the time of each record, or two, DAY,CLOCK: the day and the time of day. They are not "
    "features. Records keep the order of the file.",
)
_WRITTEN = (
    click.option(
        "--timezone",
        metavar="ZONE",
        help="The zone of times that name none, such as Europe/Berlin. Default: UTC; in predict as in training.",
    ),
    click.option(
        "--date-order",
        type=click.Choice(["dmy", "mdy", "ymd"]),
        help="The order of day, month and year in dates such as 03/04/2026. Default: as the column shows; in "
        "predict as in training.",
    ),
)
_time_features = click.option(
    "--time-features",
    metavar="NAME,...",
    default="",
    callback=_listed,
    help="What the times of --time become: hour, weekday, season. Each is an angle, by the clocks of --timezone, and "
    "becomes two features, its sine and its cosine.",
)
_PAST = (
    click.option(
        "--lags",
        metavar="N,...",
        default="",
        callback=_numbers,
        help="Add what each number x was so many records of the same client before: 1,24 adds x[-1] and x[-24]. The "
        "clients are those of --split column:NAME; without it, all records are one series.",
    ),
    click.option(
        "--window",
        metavar="N",
        type=click.IntRange(0, REACH),
        default=0,
        help="10 adds, for each number x, mean10(x), its mean over the last 10 records of the client, this one "
        "included, and rate10(x), its change per record since 10 records before. Default: none.",
    ),
)
_on_bad_record = click.option(
    "--on-bad-record",
    type=click.Choice(["reject", "stop"]),
    default="reject",
    show_default=True,
    help="reject: leave out bad records, count them and list the first ones. stop: end with an error at the first "
    "one.",
)


def _added(*options: Any) -> Callable[[Any], Any]:
    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# Each adds options to a command: what the columns of a file are, and how cells are written; how times are written;
# where they are as well; what is made of times, and of the records before; what to do with bad records.
reads_a_table = _added(*_TABLE)
knows_how_times_are_written = _added(*_WRITTEN)
reads_times = _added(_time, *_WRITTEN)
takes_time_features = _added(_time_features)
takes_past = _added(*_PAST)
rejects_records = _added(_on_bad_record)


def reading(options: Mapping[str, Any], usual: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return these options as `read` and `Request` take them.

    Parameters
    ----------
    usual
        What holds for options that are not given: see `OF_SETTINGS`.

    >>> reading({"decimal": None, "drop": ("id",)}, {"decimal": ",", "timezone": "Europe/Berlin"})
    {'drop': ('id',), 'decimal': ',', 'notation': Notation(zone='Europe/Berlin', order=None)}
    """
    from streamfl.records.values.times import PLAIN, Notation  # noqa: PLC0415

    given = {**usual, **{name: value for name, value in options.items() if value}}
    written = ("separator", "missing_values", "decimal", "encoding")
    direct = ("label", "drop", "time", "time_features", "lags", "window", "task", "on_bad_record", *written)
    return {
        **{name: given[name] for name in direct if name in given},
        "notation": Notation(given.get("timezone", PLAIN.zone), given.get("date_order")),
    }
