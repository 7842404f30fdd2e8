"""Reads Apache Parquet, in a process of its own: see `parquet_rows`."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, takewhile
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import polars as pl

from streamfl.errors import BrokenInvariantError
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.columns import TIMES, LeftOutColumn
from streamfl.records.files import parquet_rows
from streamfl.records.files.file_format import FileFormat
from streamfl.records.objects import counted
from streamfl.records.request import Request, label_column
from streamfl.records.values.cells import Cells
from streamfl.records.values.day_and_clock import joined

# What is said of a file at which polars ends without a word of its own.
TOO_MUCH = "a page of the file needs more memory than there is"


class Parquet(FileFormat):
    """Apache Parquet."""

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return parquet_file(request, path)


@contextmanager
def parquet_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open a Parquet file.

    Raises
    ------
    UsageError
        If the file is damaged, the request names a column that is not there,
        or a record is bad and the request is to stop.
    """
    path.open("rb").close()  # what the system refuses is reported as of any other file
    # -P: a polars.py in the working folder is none of ours.
    command = [sys.executable, "-P", "-m", parquet_rows.__name__, str(path)]
    with TemporaryFile() as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as reader:  # noqa: S603  our own module
        try:
            yield opened(request, path.name, _read(request, reader, said))
        finally:
            reader.kill()


def _read(request: Request, reader: "subprocess.Popen[bytes]", said: IO[bytes]) -> Iterator[pl.DataFrame]:
    """Yield blocks of rows; the last has none.

    Raises
    ------
    UsageError
        The file is damaged.
    BrokenInvariantError
        The reader has failed for a reason of its own.
    """
    if reader.stdout is None:
        raise TypeError("a reader without a pipe")
    try:
        yield from parquet_rows.read(reader.stdout)
    except EOFError:
        code = reader.wait()
        said.seek(0)
        text = said.read().decode(errors="replace")
        _, found, why = text.rpartition(parquet_rows.MARK)
        if not found and code >= 0:  # below 0: a signal, as when polars aborts
            raise BrokenInvariantError(
                f"the process that reads Parquet ended with code {code}: {text[-500:]}"
            ) from None
        reason = why.strip() if found else TOO_MUCH
        raise request.refusal(f"this is not a complete Parquet file ({reason})", "write the file again") from None


def opened(request: Request, name: str, blocks: Iterator[pl.DataFrame]) -> Blocks:
    """Return blocks of rows as a file of records with a name; the last block has no rows."""
    first = next(blocks)
    label = label_column(request, first.columns, last=True)
    features, left_out = [], []
    for column, kind in first.schema.items():
        if column == label or column in request.excluded:
            continue
        if (why := _no_feature(kind)) and column not in request.wanted:
            left_out.append(LeftOutColumn(column, why))
        else:
            features.append(column)
    rows = _blocks(request, chain([first], blocks), label, features)
    return Blocks(request, name, label, "record", rows, left_out)


def _blocks(
    request: Request, blocks: Iterable[pl.DataFrame], label: str, features: Sequence[str]
) -> Iterator[RowBlock]:
    start = 0
    for rows in takewhile(len, blocks):
        places, numbers = counted(start, len(rows))
        yield RowBlock(
            places=places,
            lines=numbers,
            features={name: _feature(rows[name]) for name in features},
            label=_plain(rows[label]).to_list() if label else (),
            kept=_plain(rows[request.keep]).to_list() if request.keep is not None else None,
            times=joined([_times(rows[name]) for name in request.times]) if request.times else None,
        )
        start += len(rows)


def _no_feature(kind: pl.DataType) -> str:
    """Return why a column of a type is not a feature, or "" if it can be one."""
    if kind in {pl.Datetime, pl.Date}:
        return TIMES
    numbers, texts = kind.is_numeric() or kind == pl.Boolean, kind in {pl.String, pl.Null}
    if numbers or texts or isinstance(kind, pl.Categorical | pl.Enum):
        return ""
    return f"is {kind}, neither numbers nor text"


def _feature(column: pl.Series) -> Cells:
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return column.cast(pl.Float64).to_numpy()
    return _times(column) if column.dtype.is_temporal() else column.cast(pl.String).to_list()


def _times(column: pl.Series) -> Cells:
    if isinstance(column.dtype, pl.Datetime):
        aware = column.dtype.time_zone is not None
        column = column.dt.convert_time_zone("UTC") if aware else column
        return column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ" if aware else "%Y-%m-%dT%H:%M:%S%.6f").to_list()
    if column.dtype in {pl.Date, pl.Time}:
        return column.dt.strftime("%Y-%m-%d" if column.dtype == pl.Date else "%H:%M:%S%.6f").to_list()
    return _plain(column).to_list()


def _plain(column: pl.Series) -> pl.Series:
    """Return a column with decimals as floats, so that its values are plain Python numbers or texts."""
    return column.cast(pl.Float64) if isinstance(column.dtype, pl.Decimal) else column
