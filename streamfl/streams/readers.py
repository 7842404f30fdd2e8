"""Reads a file or data set, by its name, as a table of records."""

import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from streamfl.streams.csv_file import read_csv, read_csv_stream
from streamfl.streams.jsonl_file import read_jsonl
from streamfl.streams.npz_file import read_npz
from streamfl.streams.request import OnBadRecord, Request, Task
from streamfl.streams.table import Table

STDIN = "-"

Reader = Callable[[Request, Path], Table]


def read(
    path_or_name: str,
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    time: str | None = None,
    task: Task = "auto",
    on_bad_record: OnBadRecord = "reject",
    keep: str | None = None,
    separator: str = ",",
    stdin: BinaryIO | None = None,
) -> Table:
    """Read a file of labelled records, or a data set of River.

    Parameters
    ----------
    path_or_name
        A file .csv, .csv.gz, .jsonl, .parquet or .npz, or `river:NAME`; or `-`: CSV from standard input.
    label
        The label column. None: one named label, y, target or class in any case, else in CSV and Parquet the last.
    drop
        Columns to leave out.
    time
        The column of times, which becomes the table's `times` and is not a feature.
    task
        `auto` is regression if any label is a number that is not an integer.
    on_bad_record
        Whether a bad record (text in a column of numbers, a wrong number of fields, no label) is rejected and
        listed, or is an error.
    keep
        A column that the table keeps as text, feature or not, so that records can be dealt by it.
    separator
        The separator of a CSV file, one ASCII character.
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
    streamfl.core.errors.UsageError: winter.xls: no such file; correct the path
    """
    request = Request(path_or_name, label, tuple(drop), time, task, on_bad_record, keep, separator)
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise request.refusal(f"columns cannot be separated by {separator!r}", "give one character, such as ;")
    if path_or_name.startswith("river:"):
        return _river(request)
    if separator != "," and not path_or_name.lower().endswith((STDIN, ".csv", ".csv.gz")):
        raise request.refusal("only CSV has separators", "leave --separator out")
    if path_or_name == STDIN:
        return _standard_input(request, sys.stdin.buffer if stdin is None else stdin)
    path = Path(path_or_name)
    try:
        return _reader(request, path)(request, path)
    except PermissionError:
        raise request.refusal("no permission to read it", "change its permissions, or read a copy") from None
    except FileNotFoundError:
        raise request.refusal("no such file", "correct the path") from None
    except (EOFError, zlib.error) as error:
        raise request.refusal(f"the compressed file is damaged ({error})", "compress it again") from None
    except OSError as error:  # gzip's own error is one of these
        raise request.refusal(f"it cannot be read ({error.strerror or error})", "write the file again") from None


def _standard_input(request: Request, stream: BinaryIO) -> Table:
    source = replace(request, source="standard input")
    return read_csv_stream(source, "standard input", stream)


def _reader(request: Request, path: Path) -> Reader:
    """Return the reader for the ending of a file's name, after checking that the file is not a directory or empty."""
    if path.is_dir():
        raise request.refusal("it is a directory", "name one file in it")
    if path.stat().st_size == 0:
        raise request.refusal("it is empty", "give a file with at least one record")
    for ending, reader in FORMATS.items():
        if path.name.lower().endswith(ending):
            return reader
    raise request.refusal("unknown format", f"known are {', '.join(FORMATS)} and river:NAME")


def _parquet(request: Request, path: Path) -> Table:
    from streamfl.streams.parquet_file import read_parquet  # noqa: PLC0415  polars is slow to load and rarely used

    return read_parquet(request, path)


def _river(request: Request) -> Table:
    from streamfl.streams.river_data import read_river  # noqa: PLC0415  River is slow to load and rarely used

    return read_river(request)


FORMATS: dict[str, Reader] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".jsonl": read_jsonl,
    ".parquet": _parquet,
    ".npz": read_npz,
}
