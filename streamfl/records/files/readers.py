"""Reads a file or data set, by its name, as a table of records."""

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.doubts.of_tables import looked_over
from streamfl.records.files.csv_file import csv_stream
from streamfl.records.files.file_format import FileFormat, table_of
from streamfl.records.files.known import FILE_FORMATS, ending, endings
from streamfl.records.past_features import PastFeatures
from streamfl.records.past_of_tables import with_past
from streamfl.records.request import OnBadRecord, Request, Task
from streamfl.records.table import Table
from streamfl.records.values.cells import quoted
from streamfl.records.values.numerals import Decimal
from streamfl.records.values.time_features import TimeFeatures
from streamfl.records.values.times import PLAIN, Notation

if TYPE_CHECKING:
    import polars as pl

STDIN = "-"
RIVER_DATA = "river:"

# The name of a data frame in messages.
FRAME = "the data frame"


def read(
    path_or_name: "str | pl.DataFrame",
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    time: str | None = None,
    task: Task = "auto",
    on_bad_record: OnBadRecord = "reject",
    keep: str | None = None,
    separator: str = ",",
    missing_values: Sequence[str] = (),
    decimal: Decimal | None = None,
    notation: Notation = PLAIN,
    encoding: str | None = None,
    time_features: Sequence[str] = (),
    lags: Sequence[int] = (),
    window: int = 0,
    watch: Callable[[int], None] | None = None,
    stdin: BinaryIO | None = None,
) -> Table:
    """Read a file of labelled records, or a data set of River.

    Parameters
    ----------
    path_or_name
        A file of one of `FILE_FORMATS`, or `river:NAME`; or `-`: CSV from standard input; or a data frame of polars.
    label
        The label column. None: one named label, y, target or class in any case, else in CSV and Parquet the last.
    drop
        Columns to leave out.
    time
        The column of times, which becomes the table's `times` and is not a feature.
    task
        `auto` is regression if at least half of the labels are numbers, and some are not integers, or many are
        integers that are written with a fraction.
    on_bad_record
        Whether a bad record (a wrong number of fields, no label) is rejected and listed, or is an error. Then text in
        a column of numbers is an error as well; otherwise it is a missing value.
    keep
        A column that the table keeps as text, feature or not, so that records can be dealt by it.
    separator
        The separator of a CSV file, one ASCII character.
    missing_values
        More values that count as missing; `not:NA` means that NA is a value.
    decimal
        The decimal mark. None: the one with which all numbers of a column can be read.
    notation
        The zone of times without one, and the order of day, month and year.
    encoding
        The encoding of a text file; None: UTF-8, or UTF-16 with a byte order mark.
    time_features
        What the times become: see `TimeFeatures`.
    lags, window
        What is made of the records before: see `PastFeatures`. Those of a record are of the same value of `keep`.
    watch
        Called with the number of records read so far.
    stdin
        The stream to read for `-`; by default standard input.

    Returns
    -------
    The table of the good records, with the bad ones in its `rejected`.

    Raises
    ------
    UsageError
        If the file, a column or a record cannot be used; the message names the place and the remedy.

    >>> read("river:Phishing").X.shape
    (1250, 9)
    >>> read("winter.xls")
    Traceback (most recent call last):
    streamfl.errors.UsageError: winter.xls: no such file; correct the path
    """
    request = Request(
        path_or_name if isinstance(path_or_name, str) else FRAME,
        label,
        tuple(drop),
        time,
        task,
        on_bad_record,
        keep,
        separator,
        missing_values=tuple(missing_values),
        decimal=decimal,
        notation=notation,
        encoding=encoding,
        time_features=tuple(time_features),
        watch=watch,
    )
    _check_separator(request)
    table = _with_time_features(request, _read(request, path_or_name, stdin))
    return _with_past(request, table, lags, window) if lags or window else table


def _read(request: Request, path_or_name: "str | pl.DataFrame", stdin: BinaryIO | None) -> Table:
    if not isinstance(path_or_name, str):
        return looked_over(request, table_of(_frame(request, path_or_name)))
    if path_or_name.startswith(RIVER_DATA):
        return _river(request)  # others know these columns well, and compare
    if path_or_name == STDIN:
        with blocks(request, stdin) as opened:
            return looked_over(request, table_of(opened))
    with _explained(request):
        table = _format(request, path := Path(path_or_name)).table(request, path)
    return looked_over(request, table)


def _with_time_features(request: Request, table: Table) -> Table:
    """Return a table with the features of its times that were asked for."""
    if not request.time_features:
        return table
    made = TimeFeatures(request.time_features, table.time or request.time or "", table.notation)
    if not len(table.times):
        raise request.refusal("its records have no times", "leave --time-features out")
    features, X = made.added_to(table.features, table.X, table.times)
    return replace(table, features=features, X=X, time_features=made, notes=(*table.notes, *made.notes(table.times)))


def _with_past(request: Request, table: Table, lags: Sequence[int], window: int) -> Table:
    if table.features and all(name.startswith(f"{table.label}[-") for name in table.features):
        raise request.refusal(
            "the last values of a series alone are features already", "leave --lags and --window out"
        )
    made_of_times = () if table.time_features is None else table.time_features.names
    past = PastFeatures(tuple(lags), window, made_of_times)
    if taken := {*table.features} & {*past.names(table.features)}:
        what = f"its column {quoted(min(taken))} has the name of what --lags or --window makes"
        raise request.refusal(what, "leave that option out, or the column with --drop")
    return with_past(table, past, request.keep)


@contextmanager
def blocks(request: Request, stdin: BinaryIO | None = None) -> Iterator[Blocks]:
    """Open a file to be read block by block: any of `read` but a data set of River.

    Parameters
    ----------
    stdin
        The stream to read for `-`; by default standard input.

    Raises
    ------
    UsageError
        If the file or a column cannot be used. While blocks are read as well.

    >>> with blocks(Request("winter.xls", labelled=False)) as opened:
    ...     pass
    Traceback (most recent call last):
    streamfl.errors.UsageError: winter.xls: no such file; correct the path
    """
    _check_separator(request)
    if request.source == STDIN:
        yield _standard_input(request, sys.stdin.buffer if stdin is None else stdin)
        return
    path = Path(request.source)
    with ExitStack() as stack:
        with _explained(request):
            opened = stack.enter_context(_format(request, path).blocks(request, path))
        yield replace(opened, each=_each(request, opened.each))


def _each(request: Request, blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """Explain the errors of reading alone, not those of the caller between two blocks."""
    with _explained(request):
        yield from blocks


def _check_separator(request: Request) -> None:
    separator, source = request.separator, request.source.lower()
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise request.refusal(f"columns cannot be separated by {separator!r}", "give one character, such as ;")
    if separator != "," and not source.startswith(RIVER_DATA) and source != STDIN:
        known = ending(source)
        if known is None or not FILE_FORMATS[known].separated:
            raise request.refusal("only CSV files have separators", "leave --separator out")


@contextmanager
def _explained(request: Request) -> Iterator[None]:
    """Turn errors of the file system into one line."""
    try:
        yield
    except PermissionError:
        raise request.refusal("no permission to read it", "change its permissions, or read a copy") from None
    except FileNotFoundError:
        raise request.refusal("no such file", "correct the path") from None
    except (EOFError, zlib.error) as error:
        raise request.refusal(f"the compressed file is damaged ({error})", "compress it again") from None
    except OSError as error:  # gzip's own error is one of these
        raise request.refusal(f"it cannot be read ({error.strerror or error})", "write the file again") from None


def _standard_input(request: Request, stream: BinaryIO) -> Blocks:
    source = replace(request, source="standard input")
    return csv_stream(source, "standard input", stream)


def _format(request: Request, path: Path) -> type[FileFormat]:
    """Return the format for the ending of a file's name, after checking that the file is not a directory or empty."""
    if path.is_dir():
        raise request.refusal("it is a directory", "name one file in it")
    if path.stat().st_size == 0:
        raise request.refusal("it is empty", "give a file with at least one record")
    if (known := ending(path.name)) is not None:
        return FILE_FORMATS[known]
    remedy = f"give a file {endings()}, or {RIVER_DATA}NAME; if it is a text table, rename it to end in .csv"
    raise request.refusal("unknown format", remedy)


def _frame(request: Request, frame: "pl.DataFrame") -> Blocks:
    from streamfl.records.files.frame import frame_blocks  # noqa: PLC0415  polars is slow to load

    return frame_blocks(request, frame)


def _river(request: Request) -> Table:
    from streamfl.records.files.river_data import read_river  # noqa: PLC0415  River is slow to load and rarely used

    return read_river(request)
