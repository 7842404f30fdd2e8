"""Apache Parquet, read by polars."""

from pathlib import Path

import polars as pl

from streamfl.core.errors import UsageError
from streamfl.streams.assembly import Assembly, Block
from streamfl.streams.cells import Cells
from streamfl.streams.objects import counted
from streamfl.streams.request import Request, label_column
from streamfl.streams.table import Table

ROWS = 65_536  # read at a time


def read_parquet(request: Request, path: Path) -> Table:
    """Read a Parquet file.

    Raises
    ------
    UsageError
        If the file is damaged, a feature is neither number nor text, the request names a column that is not there,
        or a record is bad and the request is to stop.
    """
    try:
        return _read(request, path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:  # a spoilt page can make it panic
        what = f"not a whole Parquet file ({str(error).splitlines()[0]})"
        raise request.refusal(what, "write the file again") from None


def _read(request: Request, path: Path) -> Table:
    scan = pl.scan_parquet(path, glob=False)
    columns = list(scan.collect_schema())
    label = label_column(request, columns, last=True)
    features = [name for name in columns if name != label and name not in request.aside]
    assembly = Assembly(request, path.name, label, "record")
    start = 0
    while len(rows := scan.slice(start, ROWS).collect()):
        places, numbers = counted(start, len(rows))
        assembly.add(
            Block(
                places=places,
                lines=numbers,
                features={name: _feature(request, rows[name]) for name in features},
                label=_plain(rows[label]).to_list(),
                kept=_plain(rows[request.keep]).to_list() if request.keep is not None else None,
            )
        )
        start += len(rows)
    return assembly.finish()


def _feature(request: Request, column: pl.Series) -> Cells:
    kind = column.dtype
    if kind.is_numeric() or kind == pl.Boolean:
        return column.cast(pl.Float64).to_numpy()
    if kind in {pl.String, pl.Null} or isinstance(kind, pl.Categorical | pl.Enum):
        return column.cast(pl.String).to_list()
    raise _no_feature(request, column)


def _no_feature(request: Request, column: pl.Series) -> UsageError:
    what = f'column "{column.name}" is {column.dtype}, neither numbers nor text'
    return request.refusal(what, f"leave it out with --drop {column.name}")


def _plain(column: pl.Series) -> pl.Series:
    """Return a column whose values are plain Python numbers or texts."""
    return column.cast(pl.Float64) if isinstance(column.dtype, pl.Decimal) else column
