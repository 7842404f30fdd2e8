"""Comma-separated values with a header line, plain or gzipped."""

import csv
import gzip
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamfl.core.records import Rejection
from streamfl.streams.assembly import BLOCK, Assembly, Block
from streamfl.streams.cells import quoted
from streamfl.streams.lines import lines
from streamfl.streams.request import Request, label_column
from streamfl.streams.table import Table


class _Row(NamedTuple):
    line: int  # the first of its lines
    fields: list[str]
    error: str = ""
    lines: int = 1


def read_csv(request: Request, path: Path) -> Table:
    """Read a CSV file; its first line names the columns, blank lines are no records.

    Raises
    ------
    UsageError
        If the header or the request cannot be used, or a record cannot and the request is to stop.
    """
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as stream:
        rows = _rows(lines(request, stream))
        header = _header(request, next(rows, None))
        label = label_column(request, header, last=True)
        assembly = Assembly(request, path.name, label, "line")
        start = 0
        while taken := list(islice(rows, BLOCK)):
            assembly.add(_block(request, header, label, start, taken))
            start += len(taken)
    return assembly.finish()


def _rows(source: Iterable[str]) -> Iterator[_Row]:
    raw: list[str] = []
    reader = csv.reader(_kept(source, raw))
    while True:
        raw.clear()
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield _Row(line, [], str(error), reader.line_num - line + 1)
        else:
            if fields:
                count = reader.line_num - line + 1
                yield _Row(line, [] if count > 1 and _is_open(raw) else fields, lines=count)


def _kept(source: Iterable[str], raw: list[str]) -> Iterator[str]:
    for line in source:
        raw.append(line)
        yield line


def _is_open(raw: list[str]) -> bool:
    r"""Tell whether the file ended within a quote: csv closes it, with all records up to there in one field.

    >>> _is_open(['a,"b\n', "c,d\n"]), _is_open(['a,"b\n', 'c"\n'])
    (True, False)
    """
    try:
        next(csv.reader(raw, strict=True))
    except csv.Error as error:
        return "end of data" in str(error)
    return False


def _header(request: Request, row: _Row | None) -> list[str]:
    if row is None:
        raise request.refusal("it holds only blank lines", "give a file with a header and records")
    if row.error:
        raise request.refusal(f"line {row.line} is not CSV: {row.error}", "save the file with lines ended by LF")
    names = [name.strip() or f"column{i}" for i, name in enumerate(row.fields, start=1)]
    if len(names) == 1 and (found := [mark for mark in (";", "\t", "|") if mark in names[0]]):
        what = f"its columns are separated by {quoted(found[0])}"
        raise request.refusal(what, "save the file with commas between the columns")
    if any(_has_a_fraction(name) for name in names):
        what = f"line {row.line} has numbers where the names of the columns belong"
        raise request.refusal(what, "put a header line first")
    return names


def _has_a_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer() and float(name) == float(name)
    except ValueError:
        return False


def _block(request: Request, header: list[str], label: str, start: int, rows: list[_Row]) -> Block:
    whole = [i for i, row in enumerate(rows) if len(row.fields) == len(header)]
    torn = [(i, row) for i, row in enumerate(rows) if len(row.fields) != len(header)]
    columns = dict(zip(header, zip(*(rows[i].fields for i in whole), strict=True), strict=True)) if whole else {}
    return Block(
        places=np.array(whole, np.int64) + start,
        lines=np.fromiter((rows[i].line for i in whole), np.int64, len(whole)),
        features={name: cells for name, cells in columns.items() if name != label and name not in request.aside},
        label=columns.get(label, ()),
        kept=columns.get(request.keep, ()) if request.keep is not None else None,
        rejected=tuple(Rejection(start + i, _tear(request, row, len(header))) for i, row in torn),
    )


def _tear(request: Request, row: _Row, expected: int) -> str:
    if row.lines > 1:  # good records may be among these lines: they must not vanish as one bad record
        what = f"line {row.line}: a quote opens here and makes one record of {row.lines} lines"
        raise request.refusal(what, "close the quote, or leave it out")
    if row.error:
        return f"line {row.line}: {row.error}"
    return f"line {row.line}: {len(row.fields)} fields where the header has {expected}"
