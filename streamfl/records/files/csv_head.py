"""Finds the header of a CSV file, and what is around its table: notes before it, row names, empty last columns."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamfl.records.columns import LeftOutColumn
from streamfl.records.files.lines import Lines, decoded
from streamfl.records.files.orange_head import LINES, described
from streamfl.records.request import Request
from streamfl.records.values.cells import is_number, quoted, text

LOOKED_AT = 100  # lines
_SURE = 0.8  # the share of the last lines that must have as many fields as each other
_MARKS = ("#", "%", "//")  # of comments
_DIRECTIVE = re.compile(r'"?sep=(?P<separator>[^"])"?', re.IGNORECASE)
_SEPARATORS = ";\t|, "
MOST_BELOW, FEWEST_LATER = 3, 5  # lines below the header without a record; lines that show what columns hold
ROW_NAMES = "holds the names of rows"
EMPTY = "is empty: each line ends with a separator"


@dataclass(frozen=True, slots=True)
class Head:
    """How a file begins."""

    request: Request  # the request, with the separator that the file itself names
    skip: int  # the lines before the header
    names: list[str]  # the names of all columns, of which some stand in no header
    left_out: tuple[LeftOutColumn, ...] = ()  # columns that cannot be features, although lines have them
    notes: tuple[str, ...] = ()  # what the user should know
    below: int = 0  # the lines right below the header that hold no record, such as units


def head(request: Request, lines: Sequence[str]) -> Head | None:
    r"""Return how a file begins; None if nothing is unusual, or nothing can be known.

    Raises
    ------
    UsageError
        The lines have more fields than the header.

    >>> found = head(Request("a.csv"), ["sep=;", "# station 12", "a;b;y", "1;2;on", "3;4;off", "5;6;on"])
    >>> found.request.separator, found.skip, found.names
    (';', 2, ['a', 'b', 'y'])
    >>> head(Request("a.csv"), ["a,b", "r1,1,2", "r2,3,4", "r3,5,6"]).names
    ['row', 'a', 'b']
    """
    start, separator = 0, request.separator
    if lines and (found := _DIRECTIVE.fullmatch(lines[0].strip())):
        start, separator = 1, found["separator"] if separator == "," else separator
    request = replace(request, separator=separator)
    rows = [_fields(line, separator) for line in lines[start:]]
    table = [row for row in rows if row and not is_comment(row)]
    width = _width(table)
    if (by_orange := _of_orange(request, start, table)) is not None:
        return by_orange
    if mark := _suspected([line for line in lines[start:] if not line.lstrip().startswith(_MARKS)], separator):
        raise separator_refusal(request, mark)
    if not width:
        _refuse_no_table(request, table)
        skip = start + _before(rows, 0) if table else start
        return Head(request, skip, []) if skip else None
    first = next(i for i, row in enumerate(table) if len(row) == width)
    comment = _header_in_comment(rows, table[0], width, separator)
    if comment is not None:
        return _shaped(request, start + comment, _uncommented(rows[comment]), table, width, 0)
    if first and _is_header(table[first], table):
        at = first
    elif first and len(table[first - 1]) in {width - 1, width + 1}:
        at = first - 1
    elif _is_title(table):
        at = 1
    else:
        at = 0
    found_at = _before(rows, at)
    below = _below(table[at + 1 :], width)
    if below and rows[found_at + 1 : found_at + 1 + below] == table[at + 1 : at + 1 + below]:
        return _with_below(
            _shaped(request, start + found_at, table[at], table[at + 1 + below :], width, at), table[at + 1], below
        )
    if at == 0 and start + found_at == 0 and len(table[0]) == width and table[0][-1].strip():
        return None
    return _shaped(request, start + found_at, table[at], table[at + 1 :], width, at)


def _refuse_no_table(request: Request, rows: list[list[str]]) -> None:
    """Refuse lines of many widths below a first one without separators, such as a report with several tables."""
    most = max(map(len, rows), default=0)
    if len(rows) < FEWEST_LATER or len(rows[0]) > 1 or most < 2:
        return
    lines = f"its first {LOOKED_AT} lines" if len(rows) > LOOKED_AT // 2 else "its lines"
    what = (
        f"{lines} do not look like one table: the first has no {quoted(request.separator)}, and others have up to "
        f"{most} columns"
    )
    raise request.refusal(what, "delete everything except one table with its header, or correct --separator")


def _of_orange(request: Request, skip: int, rows: list[list[str]]) -> Head | None:
    """Return how a file of Orange begins, which says itself what its columns are."""
    if len(rows) <= 1 + LINES:
        return None
    names = [name.strip() for name in rows[0]]
    if (what := described(names, *rows[1 : 1 + LINES])) is None:
        return None
    if request.label in (None, what.label) and request.task == "auto" and what.task is not None:
        request = replace(request, label=what.label, task=what.task)
    request = replace(request, declared=what.values)
    left_out = tuple(
        LeftOutColumn(name, f"is marked as {role} by the file") for name, role in what.no_feature.items()
    )
    return Head(request, skip, names, left_out, below=LINES)


def _with_below(found: Head, first: list[str], below: int) -> Head:
    shown = ", ".join(quoted(cell) for cell in [cell for cell in first if cell.strip()][:3])
    lines = (
        f"{below} lines below the header hold no record, and are"
        if below > 1
        else "the line below the header holds no record, and is"
    )
    return replace(found, below=below, notes=(*found.notes, f"{lines} left out: {shown}, ..."))


def is_comment(fields: Sequence[str]) -> bool:
    """Return whether a line is a comment.

    >>> is_comment(["# a", "b"]), is_comment(["#1", "b"]), is_comment(["a", "# b"])
    (True, True, False)
    """
    return bool(fields) and fields[0].lstrip().startswith(_MARKS)


def _suspected(lines: Sequence[str], separator: str) -> str:
    """Return the character that seems to separate the columns of lines, "" if it is the one that is given.

    A decimal comma also splits lines, but not their header.

    >>> _suspected(["station 12", "a;b,c;y", "1;2;on", "3;4;off", "5;6;on"], ",")
    ';'
    >>> [_suspected([head, "1,5;on", "3,5;off", "5,0;on"], ",") for head in ("a;y", "a,y")]
    [';', '']
    """
    widths = {mark: _width([_fields(line, mark) for line in lines]) for mark in _SEPARATORS}
    best = max(widths, key=lambda mark: widths[mark])
    own = [_fields(line, separator) for line in lines]
    whole = [row for line, row in zip(lines, own, strict=True) if len(_fields(line, best)) == widths[best]]
    return best if widths[best] > 1 and (_width(own) <= 1 or len(whole[0]) == 1) else ""


def _shaped(request: Request, skip: int, names: list[str], rows: list[list[str]], width: int, before: int) -> Head:
    """Return the head with a name for each field of the lines."""
    names = [name.strip() or f"column{i}" if name.strip() else "" for i, name in enumerate(names, start=1)]
    whole = [row for row in rows if len(row) == width]
    notes = [f"the {before} line{'s' * (before > 1)} before the header {'are' if before > 1 else 'is'} left out"]
    left_out = []
    if len(names) == width - 1:
        if all(not row[-1].strip() for row in whole):
            names.append("")
        else:
            names.insert(0, _unused("row", names))
            left_out.append(LeftOutColumn(names[0], ROW_NAMES))
    elif len(names) == width + 1 and not names[-1]:
        names.pop()
    elif len(names) != width:
        what = f"its header has {len(names)} names, but its lines have {width} fields"
        remedy = "give each column a name" if len(names) < width else "give each line all fields"
        raise request.refusal(what, f"{remedy}, or correct --separator")
    if not names[-1] and all(not row[-1].strip() for row in whole):
        names[-1] = f"column{len(names)}"
        left_out.append(LeftOutColumn(names[-1], EMPTY))
    return Head(request, skip, names, tuple(left_out), tuple(notes if before else ()))


def _unused(name: str, names: Sequence[str]) -> str:
    while name in names:
        name = f"{name}_"
    return name


def _before(rows: Sequence[list[str]], nth: int) -> int:
    """Return how many lines are before the nth one that is no comment."""
    at = [i for i, row in enumerate(rows) if row and not is_comment(row)]
    return at[nth]


def _header_in_comment(rows: list[list[str]], first: list[str], width: int, separator: str) -> int | None:
    """Return the last comment at the top if it is the header, as some programs write it."""
    top = next((i for i, row in enumerate(rows) if row and not is_comment(row)), 0)
    if not top or not any(map(is_number, first)):
        return None
    names = _uncommented(rows[top - 1]) if rows[top - 1] else []
    fits = len(names) == width > 1 and not any(map(is_number, names)) and separator != " "
    return top - 1 if fits else None


def _uncommented(fields: list[str]) -> list[str]:
    return [fields[0].lstrip().lstrip("#%/ "), *fields[1:]]


def _is_header(row: list[str], table: list[list[str]]) -> bool:
    """Return whether a line has no number, where later ones of as many fields have one."""
    later = [one for one in table if len(one) == len(row) and one is not row]
    return not any(map(is_number, row)) and any(is_number(cell) for one in later for cell in one)


def _is_title(table: list[list[str]]) -> bool:
    """Return whether the first line has one text and else empty cells, and the second one is a header."""
    if len(table) < 3 or sum(bool(cell.strip()) for cell in table[0]) != 1 or len(table[0]) < 2:
        return False
    return all(cell.strip() for cell in table[1]) and _is_header(table[1], table[1:])


def _below(rows: Sequence[list[str]], width: int) -> int:
    """Return how many first lines have texts, and no number, where nearly all later ones have numbers.

    >>> _below([["V", "s", ""], ["", "", "Avg"], *[["1.5", "2", "on"]] * 9], 3), _below([["1", "x"]] * 9, 2)
    (2, 0)
    """
    first, later = rows[:MOST_BELOW], [row for row in rows[MOST_BELOW:] if len(row) == width]
    if len(later) < FEWEST_LATER or any(len(row) != width for row in first) or any(map(is_number, first[0])):
        return 0
    numbers = [j for j in range(width) if _are_numbers([row[j] for row in later])]
    n = 0
    for row in first if len(numbers) > 1 else ():
        has_text = any(text(row[j]) for j in numbers) or (n > 0 and sum(map(bool, map(text, row))) <= width // 2)
        if not has_text or any(is_number(row[j]) for j in numbers):
            break
        n += 1
    return n


def _are_numbers(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if text(cell)]
    return bool(known) and sum(map(is_number, known)) >= _SURE * len(known)


def _width(rows: Sequence[list[str]]) -> int:
    """Return the number of fields of most lines behind the first ones; 0 if there is no such number."""
    tail = [len(row) for row in rows if row][len(rows) // 4 :]
    if len(tail) < 2:
        return 0
    width, count = Counter(tail).most_common(1)[0]
    return width if count >= _SURE * len(tail) else 0


def _fields(line: str, separator: str) -> list[str]:
    line = spaced(line) if separator == " " else line
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    except csv.Error:
        return []


def spaced(line: str) -> str:
    r"""Return a line whose columns are separated by any number of blanks with one blank between them.

    >>> spaced("  1.5   2\t x\r\n")
    '1.5 2 x\n'
    """
    return re.sub(r"[ \t]+", " ", line.strip()) + "\n"


class Spaced:
    """A file whose columns are separated by any number of blanks."""

    def __init__(self, request: Request, stream: Lines) -> None:
        self._request, self._stream, self._number = request, stream, 0

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line."""
        raw = self._stream.readline(size)
        self._number += 1
        return spaced(decoded(self._request, self._number, raw)).encode() if raw else raw


def separator_refusal(request: Request, mark: str) -> Exception:
    """Return the error for a file whose columns something else separates."""
    name = {"\t": "tab", " ": "space"}.get(mark, quoted(mark))
    return request.refusal(f"its columns are separated by {quoted(mark)}", f"add --separator {name}")
