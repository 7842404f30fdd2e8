"""Reads the arrays of an npz archive some rows at a time, so that it need not fit into memory."""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from streamfl.records.request import Request

# The most bytes of one row, and of an array that is read as a whole next to them: the names of columns.
MOST_ROW, MOST_WHOLE = 2**22, 2**26

Array = npt.NDArray[np.generic]

# What is raised by bytes that are no archive of plain arrays, or not all of one.
SPOILT = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, MemoryError)


@dataclass
class ArrayRows:
    """An array whose rows are read in order."""

    request: Request  # what the caller asked for: errors name it
    name: str  # the name of the array
    # As its header tells them.
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    stream: IO[bytes] | None = None  # its bytes behind the header; None if `whole` has them
    whole: Array | None = None  # the array, if it is stored column by column and had to be loaded
    _at: int = 0

    def take(self, rows: int) -> Array:
        """Return the next rows, as many as are left at most.

        Raises
        ------
        UsageError
            The file ends before them, or is spoilt there.
        """
        rows = min(rows, self.shape[0] - self._at)
        start, self._at = self._at, self._at + rows
        if self.whole is not None:
            return self.whole[start : self._at]
        data = self._read(rows * self.row_bytes, start)
        return np.frombuffer(data, self.dtype).reshape((rows, *self.shape[1:]))

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def _read(self, size: int, start: int) -> bytes:
        with readable(self.request):
            data = b"" if self.stream is None else self.stream.read(size)
        if len(data) < size:
            last = start + len(data) // self.row_bytes
            raise self.request.refusal(
                f"its array {self.name!r} ends after record {last} of {self.shape[0]}",
                "get a complete copy of the file",
            )
        return data


@contextmanager
def readable(request: Request) -> Iterator[None]:
    """Raise a UsageError in place of what libraries raise for bytes that are not an npz archive.

    Raises
    ------
    UsageError
        It names the file.
    """
    try:
        yield
    except SPOILT as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        what = f"this is not a complete npz file without pickled objects ({reason})"
        raise request.refusal(what, "save plain arrays with numpy.savez(file, X=X, y=y)") from None


@contextmanager
def opened(request: Request, path: Path, names: tuple[str, ...]) -> Iterator[dict[str, ArrayRows]]:
    """Open those of some arrays that an archive has.

    Raises
    ------
    UsageError
        It is not an archive, an array is pickled, or its rows are too large.
    """
    with readable(request):
        archive = zipfile.ZipFile(path)
    with archive, ExitStack() as streams:
        members = set(archive.namelist())
        yield {name: _rows(request, archive, name, streams) for name in names if f"{name}.npy" in members}


def _rows(request: Request, archive: zipfile.ZipFile, name: str, streams: ExitStack) -> ArrayRows:
    """Return an array behind its header, in a stream that is closed with the others.

    Raises
    ------
    UsageError
        It cannot be read.
    """
    with readable(request):
        stream = streams.enter_context(archive.open(f"{name}.npy"))
        version = npy.read_magic(stream)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"its array {name!r} is of npy format {version}")
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read_header(stream)
        if dtype.hasobject:
            raise ValueError(f"its array {name!r} holds pickled objects")
        if by_columns and len(shape) > 1:
            with archive.open(f"{name}.npy") as again:
                return ArrayRows(request, name, shape, dtype, whole=npy.read_array(again, allow_pickle=False))
    rows = ArrayRows(request, name, shape, dtype, stream)
    if rows.row_bytes > MOST_ROW:
        what = f"a record of its array {name!r} takes {rows.row_bytes} bytes; at most {MOST_ROW}"
        raise request.refusal(what, "save fewer columns")
    return rows
