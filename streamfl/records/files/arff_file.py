"""Reads ARFF, the format of Weka and OpenML, by turning its lines into CSV; also sparse ones."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from streamfl.records.assembly import Blocks
from streamfl.records.files.csv_file import csv_stream
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.lines import LONGEST, Lines, decoded, recoded
from streamfl.records.request import Request

_ATTRIBUTE = re.compile(r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"([^"]*)"|([^\s{]+))\s*(.*)""", re.IGNORECASE)
_DATA = re.compile(r"@data\b", re.IGNORECASE)


class Arff(FileFormat):
    """ARFF: attributes with names and types, then lines of values."""

    @classmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block."""
        return arff_file(request, path)


class _Attribute(NamedTuple):
    name: str
    values: tuple[str, ...]  # all that it may have; () if it is no category

    @property
    def usual(self) -> str:
        """The value that a sparse line leaves out."""
        return self.values[0] if self.values else "0"


@contextmanager
def arff_file(request: Request, path: Path) -> Iterator[Blocks]:
    """Open an ARFF file. Without a label that is named, or has a usual name, the last attribute is the label.

    Raises
    ------
    UsageError
        The file has no attributes, or no data, or a record holds a table.
    """
    with path.open("rb") as stream:
        lines = _AsCsv(request, recoded(request, stream))
        opened = csv_stream(request, path.name, lines)
        yield replace(opened, request=replace(opened.request, declared=lines.declared))


class _AsCsv:
    """The lines of an ARFF file as lines of CSV, with the same numbers; those that hold no data are empty."""

    def __init__(self, request: Request, stream: Lines) -> None:
        self._request, self._stream = request, stream
        self._attributes: list[_Attribute] = []
        self._number, self._in_data = 0, False

    @property
    def declared(self) -> dict[str, tuple[str, ...]]:
        """The values that attributes list, by name; ? is missing even then."""
        return {name: tuple(value for value in values if value != "?") for name, values in self._attributes}

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line."""
        raw = self._stream.readline(LONGEST)
        if not raw and not self._in_data:
            what = f"it has {len(self._attributes)} attributes and no line @data"
            raise self._request.refusal(what, "give a whole ARFF file")
        self._number += 1
        if self._in_data and raw.lstrip()[:1] != b"%" and b"{" not in raw and b"'" not in raw:
            return raw
        line = decoded(self._request, self._number, raw).strip()
        if self._in_data:
            return b"\n" if not line or line.startswith("%") else self._row(line)
        if found := _ATTRIBUTE.match(line):
            if found[4].strip().lower() == "relational":
                what = f"line {self._number}: a relational attribute holds a table in each record"
                raise self._request.refusal(what, "give a file with an attribute for each number")
            self._attributes.append(_attribute(found))
        elif _DATA.match(line):
            self._in_data = True
            if not self._attributes:
                raise self._request.refusal("it has no line @attribute", "give a whole ARFF file")
            return _written([attribute.name for attribute in self._attributes])
        return b"\n"

    def _row(self, line: str) -> bytes:
        if not line.startswith("{"):
            return _written(_cells(line))
        cells = [attribute.usual for attribute in self._attributes]
        for part in _cells(line.strip("{} \t")):
            index, _, value = part.strip().partition(" ")
            if not index.isdecimal() or int(index) >= len(cells):
                return _written([line])  # rejected: too few fields
            cells[int(index)] = _unquoted(value.strip())
        return _written(cells)


def _attribute(found: re.Match[str]) -> _Attribute:
    name = next(part for part in found.groups()[:3] if part is not None).replace("\\", "")
    kind = found[4].strip()
    values = _cells(kind.strip("{}")) if kind.startswith("{") else []
    return _Attribute(name, tuple(value.strip() for value in values))


def _cells(line: str) -> list[str]:
    """Return the cells of a line, in which a quote may be single or double.

    >>> _cells("1, 'a, b', x")
    ['1', 'a, b', 'x']
    """
    quote = '"' if line.find('"') >= 0 and "'" not in line else "'"
    try:
        return next(csv.reader([line], quotechar=quote, skipinitialspace=True, escapechar="\\"), [])
    except csv.Error:
        return [line]


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _written(cells: list[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue().encode()
