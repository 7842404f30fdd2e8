"""Reads comma-separated values with a header line, plain or gzipped."""

import csv
import gzip
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.records import Rejection
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.columns import decimals
from streamfl.records.csv_block import LazyTexts, columns, count
from streamfl.records.files.csv_head import LOOKED_AT, Head, Spaced, head, is_comment, open_quote, separator_refusal
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.lines import LONGEST, MOST_HELD, Begun, Lines, decoded, recoded, whole_lines
from streamfl.records.objects import counted
from streamfl.records.request import Request, label_column
from streamfl.records.values.cells import Cells, listed
from streamfl.records.values.day_and_clock import joined

BLOCK = 32_768  # lines read at a time
FIRST = 4096  # lines of the first block, which shows what holds numbers: later ones are parsed as such
_LARGEST = 2**23  # bytes of a block that polars parses


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


class Tab(Csv):
    """CSV whose columns are separated by tabs, unless another separator is named."""

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return csv_file(replace(request, separator="\t") if request.separator == "," else request, path)


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
    text = recoded(request, stream)
    source = _Lines(request, Begun(b"", Spaced(request, text)) if request.separator == " " else text)
    begin = _begin(request, source)
    request, header = begin.request, begin.names
    named = {request.keep, request.label, *request.times}
    left_out = [column for column in begin.left_out if column.name not in named]
    ignored = {column.name for column in left_out}
    label = label_column(request, header, last=True, without=ignored)
    table = _Shape(request, header, label, frozenset(ignored))
    return Blocks(request, name, label, "line", _blocks(table, source), left_out, begin.notes)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns of a file, one of which may be the label; some are ignored, some hold numbers alone so far."""

    request: Request
    header: list[str]
    label: str
    ignored: frozenset[str]
    numbers: set[str] = field(default_factory=set)
    _first: list[bool] = field(default_factory=lambda: [True])

    @property
    def is_new(self) -> bool:
        """Whether no block was looked at."""
        return self._first[0]

    def learn(self, found: Mapping[str, Cells]) -> None:
        """Note which columns hold numbers alone."""
        looked = {name: cells for name, cells in found.items() if isinstance(cells, LazyTexts)}
        if self._first[0]:
            texts = {self.label, self.request.keep, *self.request.times}
            marks = decimals(looked, self.request.usual_decimal) if self.request.decimal is None else {}
            texts |= {name for name in looked if marks.get(name, self.request.decimal) == ","}  # 1.394 is 1394 there
            self.numbers.update(n for n, cells in looked.items() if n not in texts and cells.are_numbers())
            self._first[0] = False
        elif self.numbers & looked.keys():
            self.numbers.difference_update(n for n, cells in looked.items() if not cells.are_numbers())


def _begin(request: Request, source: "_Lines") -> Head:
    """Read up to the first line of the table."""
    raw = [*source.ahead(LOOKED_AT)]
    if any(b'"' in line for line in raw):
        raw += source.beyond(len(raw), LONGEST)
    lines = [decoded(request, i, line) for i, line in enumerate(raw, start=1)]
    found = head(request, lines)
    if found is None or not found.names:
        found = found or Head(request, 0, [])
        for _ in range(found.skip):
            next(source)
        row = next(_rows(found.request, source), None)
        header = _header(found.request, row, source.taken)
        return replace(found, names=header)
    for _ in range(found.skip + found.lines):
        next(source)
    header = _header(found.request, _Row(found.skip + 1, found.names), source.taken)
    for _ in range(found.below):
        next(source)
    return replace(found, names=header)


def _blocks(table: _Shape, source: "_Lines") -> Iterator[RowBlock]:
    start = 0
    while (block := _next_block(table, source, start)) is not None:
        yield block
        start += block.records


class _Lines:
    """The lines of a file, with look-ahead.

    Parameters
    ----------
    stream
        The file. Of a line that is too long no more than LONGEST bytes are held.
    """

    def __init__(self, request: Request, stream: Begun) -> None:
        self._request = request
        self._whole = stream
        self._stream = whole_lines(stream)
        self._line = 0.0  # bytes of a line, once a block was read
        self._ahead: deque[bytes | None] = deque()
        self._held = 0
        self.taken = 0
        self.read = 0  # bytes of the lines consumed one by one

    def ahead(self, n: int) -> Sequence[bytes]:
        """Return the next lines, at most n or MOST_HELD, without consuming them; none if one of them is too long."""
        more = max(0, n - len(self._ahead)) if self._held <= MOST_HELD else 0
        for line in islice(self._stream, more):
            self._ahead.append(line)
            self._held += len(line or b"")
            if self._held > MOST_HELD:
                break
        found = list(islice(self._ahead, n))
        lines = [line for line in found if line is not None]
        return lines if len(lines) == len(found) else ()

    def beyond(self, n: int, size: int) -> Sequence[bytes]:
        """Return lines behind the next n, of this many bytes or a little more, without consuming them.

        They end before one that is too long.
        """
        lines = list(islice(self._ahead, n, None))
        held = sum(len(line or b"") for line in lines)
        while held < size and None not in lines[-1:] and (line := next(self._stream, b"")) != b"":
            lines.append(line)
            self._ahead.append(line)
            held += len(line or b"")
            self._held += len(line or b"")
        return [line for line in lines if line is not None]

    def block(self, n: int) -> tuple[bytes, int]:
        """Return the next n lines in one piece, fewer if they are long, and how many they are.

        They count as taken, and can be given back with `untake`. There are none if a line is too long.
        """
        if None in self._ahead:
            return b"", 0
        self._whole.unread(b"".join(filter(None, self._ahead)))
        self._ahead.clear()
        self._held = 0
        usual = max(2**16, min(_LARGEST, int(n * self._line * 9 / 8))) if self._line else 2**20
        data = self._whole.read(usual)
        while (lines := count(data, "\n")) < n and len(data) < _LARGEST and (more := self._whole.read(usual)):
            data += more
        if lines < n and len(data) < _LARGEST:
            end, n = len(data), lines + (bool(data) and not data.endswith(b"\n"))
        else:
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))[:n]
            end, n = (int(ends[-1]) + 1, len(ends)) if len(ends) else (0, 0)
        self._whole.unread(data[end:])
        self._line = end / n if n else 0.0
        self.taken += n
        return data[:end], n

    def untake(self, data: bytes, n: int) -> None:
        """Give a block back."""
        self._whole.unread(data)
        self._stream = whole_lines(self._whole)  # the end may have been reached before
        self.taken -= n

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


def _next_block(table: _Shape, source: _Lines, start: int) -> RowBlock | None:
    """Return the next records, parsed by polars if their lines are plain."""
    request, header = table.request, table.header
    first = source.taken + 1
    data, n = source.block(FIRST if table.is_new else BLOCK)
    found = columns(data, n, header, request.separator, table.numbers)
    if found is None:
        source.untake(data, n)
        rows, most = list[_Row](), source.read + MOST_HELD
        for row in islice(_rows(request, source), BLOCK):
            rows.append(row)
            if source.read > most:
                break
        return _block(table, start, rows) if rows else None
    table.learn(found)
    places, numbers = counted(start, n)
    return _of_columns(table, found, places, numbers + (first - 1 - start))


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
        raise open_quote(request, row.line)
    if row.fields[0].lstrip().startswith("{"):
        what = "its lines are JSON objects, but its name says CSV"
        raise request.refusal(what, "give it a name that ends in .jsonl")
    names = [name.strip(" \t\ufeff") or f"column{i}" for i, name in enumerate(row.fields, start=1)]
    marks = [mark for mark in ";\t|," if mark in names[0] and mark != request.separator and len(names) == 1]
    if marks:
        raise separator_refusal(request, marks[0])
    if numbers := [name for name in names if _is_fraction(name)]:
        what = f"line {row.line} has the number {numbers[0]} where a column name is expected"
        raise request.refusal(
            what, f"add a header line above it, or if line {row.line} is the header, rename this column"
        )
    if row.line > 1 and (twice := [name for name, count in Counter(names).items() if count > 1]):
        what = f"line {row.line} is taken for the header, but names {listed(twice)} more than once"
        raise request.refusal(what, "delete the lines before the names of the columns, or give each its own name")
    return names


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer() and float(name) == float(name)
    except ValueError:
        return False


def _block(table: _Shape, start: int, rows: list[_Row]) -> RowBlock:
    request, header = table.request, table.header
    rows = [_whole(row, len(header)) for row in rows if len(row.fields) == len(header) or not is_comment(row.fields)]
    whole = [i for i, row in enumerate(rows) if len(row.fields) == len(header)]
    torn = [(i, row) for i, row in enumerate(rows) if len(row.fields) != len(header)]
    cells = zip(*(rows[i].fields for i in whole), strict=True) if whole else [()] * len(header)
    places = np.array(whole, np.int64) + start
    lines = np.fromiter((rows[i].line for i in whole), np.int64, len(whole))
    rejected = tuple(Rejection(start + i, _tear(request, row, len(header))) for i, row in torn)
    return _of_columns(table, dict(zip(header, cells, strict=True)), places, lines, rejected)


def _whole(row: _Row, width: int) -> _Row:
    """Return a line without the separator that only it has at its end."""
    is_ended = len(row.fields) == width + 1 and not row.fields[-1].strip()
    return row._replace(fields=row.fields[:-1]) if is_ended else row


def _of_columns(
    table: _Shape,
    found: Mapping[str, Cells],
    places: IntArray,
    lines: IntArray,
    rejected: tuple[Rejection, ...] = (),
) -> RowBlock:
    request, without = table.request, table.request.excluded | table.ignored | {table.label}
    return RowBlock(
        places=places,
        lines=lines,
        features={name: cells for name, cells in found.items() if name not in without},
        label=found.get(table.label, ()),
        kept=found[request.keep] if request.keep is not None else None,
        times=joined([found[name] for name in request.times]) if request.times else None,
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
