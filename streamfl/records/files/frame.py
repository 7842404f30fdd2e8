"""Reads a data frame of polars, as a Parquet file of it is read."""

from collections.abc import Iterator

import polars as pl

from streamfl.records.assembly import BLOCK, Blocks
from streamfl.records.files.parquet_file import opened
from streamfl.records.request import Request

NAME = "data frame"


def frame_blocks(request: Request, frame: pl.DataFrame) -> Blocks:
    """Return the records of a data frame, to be read block by block.

    Raises
    ------
    UsageError
        It has no row, or a column cannot be used.
    """
    if not len(frame):
        raise request.refusal("it is empty", "give a data frame with at least one record")
    return opened(request, NAME, _slices(frame))


def _slices(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    yield from frame.iter_slices(BLOCK)
    yield frame.clear()
