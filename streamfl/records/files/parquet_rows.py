"""Reads a Parquet file for another process: `python -m streamfl.records.files.parquet_rows FILE`.

A page that claims more memory than there is makes polars end its process, so that is a process of its own. It writes
rows to standard output as blocks of Arrow's stream format, each behind its length; the last has no rows. What is
wrong with the file is said behind `MARK`, at the end of standard error.
"""

import io
import sys
from collections.abc import Iterator
from typing import IO

import polars as pl

ROWS = 65_536  # of a block

# Bytes of a length.
LENGTH = 8

# Begins the line that says what is wrong.
MARK = "parquet: "


def write(path: str, out: IO[bytes]) -> None:
    """Write all rows of a file.

    Raises
    ------
    polars.exceptions.PolarsError, polars.exceptions.PanicException
        The file is damaged.
    """
    scan, start = pl.scan_parquet(path, glob=False), 0
    while True:
        rows = scan.slice(start, ROWS).collect()
        out.write(framed(rows))
        if not len(rows):
            return
        start += len(rows)


def framed(rows: pl.DataFrame) -> bytes:
    """Return rows as a block behind its length."""
    stream = io.BytesIO()
    rows.write_ipc_stream(stream)
    block = stream.getvalue()
    return len(block).to_bytes(LENGTH) + block


def read(source: IO[bytes]) -> Iterator[pl.DataFrame]:
    """Yield what `write` has written, the last block included.

    >>> written = b"".join(framed(pl.DataFrame({"a": values})) for values in ([1, 2], []))
    >>> [block["a"].to_list() for block in read(io.BytesIO(written))]
    [[1, 2], []]

    Raises
    ------
    EOFError
        The writer has ended before its last block.
    """
    while True:
        length = int.from_bytes(source.read(LENGTH))
        block = source.read(length)
        if not length or len(block) < length:
            raise EOFError
        rows = pl.read_ipc_stream(io.BytesIO(block))
        yield rows
        if not len(rows):
            return


def main() -> None:
    """Write the rows of the file that the command line names."""
    try:
        write(sys.argv[1], sys.stdout.buffer)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # Before it, Rust has written of a panic.
        sys.exit(f"\n{MARK}{str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
