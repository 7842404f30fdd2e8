"""Reads Apache Parquet with polars."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import polars as pl

from streamfl.streams.assembly import Blocks, RowBlock
from streamfl.streams.cells import Cells
from streamfl.streams.columns import TIMES, LeftOutColumn
from streamfl.streams.objects import counted
from streamfl.streams.request import Request, label_column

ROWS = 65_536  # read at a time


@contextmanager
def parquet_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open a Parquet file.

    Raises
    ------
    UsageError
        If the file is damaged, the request names a column that is not there,
        or a record is bad and the request is to stop.
    """
    try:
        yield _opened(request, path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # a damaged page can make polars panic
        what = f"not a whole Parquet file ({str(error).splitlines()[0]})"
        raise request.refusal(what, "write the file again") from None


def _opened(request: Request, path: Path) -> Blocks:
    scan = pl.scan_parquet(path, glob=False)
    with _panics_unprinted():
        schema = scan.collect_schema()
    label = label_column(request, list(schema), last=True)
    features, left_out = [], []
    for name, kind in schema.items():
        if name == label or name in request.excluded:
            continue
        if why := _no_feature(kind):
            left_out.append(LeftOutColumn(name, why))
        else:
            features.append(name)
    return Blocks(request, path.name, label, "record", _blocks(request, scan, label, features), left_out)


def _blocks(request: Request, scan: pl.LazyFrame, label: str, features: Sequence[str]) -> Iterator[RowBlock]:
    start = 0
    while len(rows := _rows(scan, start)):
        places, numbers = counted(start, len(rows))
        yield RowBlock(
            places=places,
            lines=numbers,
            features={name: _feature(rows[name]) for name in features},
            label=_plain(rows[label]).to_list() if label else (),
            kept=_plain(rows[request.keep]).to_list() if request.keep is not None else None,
            times=_times(rows[request.time]) if request.time is not None else None,
        )
        start += len(rows)


def _rows(scan: pl.LazyFrame, start: int) -> pl.DataFrame:
    with _panics_unprinted():
        return scan.slice(start, ROWS).collect()


@contextmanager
def _panics_unprinted() -> Iterator[None]:
    """Keep Rust from printing the backtrace of a panic of polars, which is also raised and reported in one line.

    Rust writes to file descriptor 2 directly. Other output to it is delayed until the end of the block.
    """
    try:
        standard_error = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        panicked = False
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            captured.seek(0)
            if not panicked:
                os.write(2, captured.read())


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
    return column.cast(pl.String).to_list()


def _times(column: pl.Series) -> Cells:
    if column.dtype in {pl.Datetime, pl.Date}:
        return (column.dt.epoch("ms") / 1000).to_list()
    return _plain(column).to_list()


def _plain(column: pl.Series) -> pl.Series:
    """Return a column with decimals as floats, so that its values are plain Python numbers or texts."""
    return column.cast(pl.Float64) if isinstance(column.dtype, pl.Decimal) else column
