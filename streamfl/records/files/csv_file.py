"""Reads comma-separated values with a header line, plain or gzipped."""

import csv
import gzip
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.records import Rejection
from streamfl.records.assembly import BLOCK, Blocks, RowBlock
from streamfl.records.cells import Cells, quoted
from streamfl.records.csv_block import columns
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.lines import LONGEST, MOST_HELD, Lines, decoded, whole_lines
from streamfl.records.objects import counted
from streamfl.records.request import Request, label_column


class _Row(NamedTuple):
    line: int  # the first of its lines
    fields: list[str]
    error: str = ""
    lines: int = 1


class Csv(FileFormat):
    """CSV, gzipped or not."""

    separated = True

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return csv_file(request, path)


@contextmanager
def csv_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open a CSV file. Its first line names the columns; blank lines are skipped.

    Raises
    ------
    UsageError
        If the header or the request cannot be used, or a record cannot and the request is to stop.
    """
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as stream:
        yield csv_stream(request, path.name, stream)


def csv_stream(request: Request, name: str, stream: Lines) -> Blocks:
    """Return the records in the lines of a CSV file: see `csv_file`."""
    source = _Lines(request, stream)
    header = _header(request, next(_rows(request, source), None), source.taken)
    label = label_column(request, header, last=True)
    return Blocks(request, name, label, "line", _blocks(request, source, header, label))


def _blocks(request: Request, source: "_Lines", header: list[str], label: str) -> Iterator[RowBlock]:
    start = 0
    while (block := _next_block(request, source, header, label, start)) is not None:
        yield block
        start += block.records


class _Lines:
    """The lines of a file, with look-ahead.

    Parameters
    ----------
    request
        For error messages.
    stream
        The file. Of a line that is too long no more than LONGEST bytes are held.
    """

    def __init__(self, request: Request, stream: Lines) -> None:
        self._request = request
        self._stream = whole_lines(stream)
        self._ahead: deque[bytes | None] = deque()
        self._held = 0
        self.taken = 0
        self.read = 0  # bytes of the lines consumed one by one

    def ahead(self, n: int) -> Sequence[bytes]:
        """Return the next lines, at most n or MOST_HELD, without consuming them; none if one of them is too long."""
        for line in islice(self._stream, n - len(self._ahead)) if self._held <= MOST_HELD else ():
            self._ahead.append(line)
            self._held += len(line or b"")
            if self._held > MOST_HELD:
                break
        lines = [line for line in self._ahead if line is not None]
        return lines if len(lines) == len(self._ahead) else ()

    def skip(self) -> None:
        """Consume all lines of the look-ahead."""
        self.taken += len(self._ahead)
        self._ahead.clear()
        self._held = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = self._ahead.popleft() if self._ahead else next(self._stream)
        size = len(raw or b"")
        self._held = max(0, self._held - size)
        self.taken, self.read = self.taken + 1, self.read + size
        if raw is None:
            raise csv.Error(f"a line of {LONGEST} bytes or more")
        return decoded(self._request, self.taken, raw)


def _next_block(request: Request, source: _Lines, header: list[str], label: str, start: int) -> RowBlock | None:
    """Return the next 8192 records, parsed by polars if their lines are plain."""
    first = source.taken + 1
    found = columns(source.ahead(BLOCK), header, request.separator) if source.taken else None
    if found is None:
        rows, most = list[_Row](), source.read + MOST_HELD
        for row in islice(_rows(request, source), BLOCK):
            rows.append(row)
            if source.read > most:
                break
        return _block(request, header, label, start, rows) if rows else None
    source.skip()
    places, lines = counted(start, len(found[header[0]]))
    return _of_columns(request, label, found, places, lines + (first - 1 - start))


def _rows(request: Request, source: _Lines) -> Iterator[_Row]:
    raw: list[str] = []
    reader = csv.reader(_Kept(source, raw), delimiter=request.separator)
    while True:
        raw.clear()
        before = source.taken
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield _Row(before + 1, [], str(error), source.taken - before)
            if source.taken - before > 1:
                return  # nobody knows where the next record begins: the file is refused
        else:
            if fields:
                count = source.taken - before
                torn = count > 1 and _is_open(raw, request.separator)
                yield _Row(before + 1, [] if torn else fields, lines=count)


@dataclass
class _Kept:
    """Lines, of which those of one record are kept: a quote that never closes must not take a whole file into one."""

    source: Iterator[str]
    raw: list[str]
    _size: int = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._size = self._size if self.raw else 0
        line = next(self.source)
        self.raw.append(line)
        self._size += len(line)
        if self._size > LONGEST:
            raise csv.Error(f"a quote opens here, and the record has more than {LONGEST} characters")
        return line


def _is_open(raw: list[str], separator: str = ",") -> bool:
    r"""Return whether the file ended inside a quote; csv then puts all records up to the end into one field.

    >>> _is_open(['a,"b\n', "c,d\n"]), _is_open(['a,"b\n', 'c"\n'])
    (True, False)
    """
    try:
        next(csv.reader(raw, delimiter=separator, strict=True))
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _header(request: Request, row: _Row | None, taken: int) -> list[str]:
    if row is None:
        what = "it has only blank lines" if taken else "it is empty"
        raise request.refusal(what, "give a file with a header and records")
    if row.error:
        raise request.refusal(f"line {row.line} is not CSV: {row.error}", "save the file with LF line ends")
    if not row.fields:
        raise request.refusal(
            f"line {row.line}: a quote opens here and never closes", "close the quote, or remove it"
        )
    if row.fields[0].lstrip().startswith("{"):
        what = "its lines are JSON objects, but its name says CSV"
        raise request.refusal(what, "give it a name that ends in .jsonl")
    names = [name.strip() or f"column{i}" for i, name in enumerate(row.fields, start=1)]
    if len(names) == 1 and (found := [m for m in ";\t|," if m in names[0] and m != request.separator]):
        what = f"its columns are separated by {quoted(found[0])}"
        raise request.refusal(what, f"add --separator {'tab' if found[0].isspace() else quoted(found[0])}")
    if any(_is_fraction(name) for name in names):
        what = f"line {row.line} has numbers instead of column names"
        raise request.refusal(what, "put a header line first")
    return names


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer() and float(name) == float(name)
    except ValueError:
        return False


def _block(request: Request, header: list[str], label: str, start: int, rows: list[_Row]) -> RowBlock:
    whole = [i for i, row in enumerate(rows) if len(row.fields) == len(header)]
    torn = [(i, row) for i, row in enumerate(rows) if len(row.fields) != len(header)]
    cells = zip(*(rows[i].fields for i in whole), strict=True) if whole else [()] * len(header)
    places = np.array(whole, np.int64) + start
    lines = np.fromiter((rows[i].line for i in whole), np.int64, len(whole))
    rejected = tuple(Rejection(start + i, _tear(request, row, len(header))) for i, row in torn)
    return _of_columns(request, label, dict(zip(header, cells, strict=True)), places, lines, rejected)


def _of_columns(
    request: Request,
    label: str,
    found: Mapping[str, Cells],
    places: IntArray,
    lines: IntArray,
    rejected: tuple[Rejection, ...] = (),
) -> RowBlock:
    return RowBlock(
        places=places,
        lines=lines,
        features={name: cells for name, cells in found.items() if name != label and name not in request.excluded},
        label=found.get(label, ()),
        kept=found[request.keep] if request.keep is not None else None,
        times=found[request.time] if request.time is not None else None,
        rejected=rejected,
    )


def _tear(request: Request, row: _Row, expected: int) -> str:
    if row.lines > 1:  # these lines may include good records, which must not be lost as one bad record
        what = f"line {row.line}: a quote opens here and makes one record of {row.lines} lines"
        raise request.refusal(what, "close the quote, or remove it")
    if row.error:
        return f"line {row.line}: {row.error}"
    has = len(row.fields)
    return f"line {row.line}: it has {has} field{'s' * (has != 1)}, but the header has {expected}"
