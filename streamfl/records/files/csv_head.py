"""Finds the header of a CSV file, and what is around its table: notes before it, row names, empty last columns."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from streamfl.errors import UsageError
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
    lines: int = 1  # those of the header: more than one if a quoted name has a line break


def head(request: Request, lines: Sequence[str]) -> Head | None:
    r"""Return how a file begins; None if nothing is unusual, or nothing can be known.

    Parameters
    ----------
    lines
        The first `LOOKED_AT` lines, and those behind them in which a quote may close.

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
    parts = divided(lines[start:LOOKED_AT], separator, lines[LOOKED_AT:])
    try:
        below = _of_records(request, parts, lines[start:])
    except UsageError:
        if parts.is_open_at is None:
            raise
        raise open_quote(request, start + parts.is_open_at + 1) from None
    if below is None:
        return Head(request, start, []) if start else None
    return replace(below, skip=start + below.skip)


def _of_records(request: Request, parts: "Divided", lines: Sequence[str]) -> Head | None:
    rows = parts.rows
    table = [row for row in rows if row and not is_comment(row)]
    width = _width(table)
    if (by_orange := _of_orange(request, parts, table)) is not None:
        return by_orange
    if mark := _suspected(lines, parts, request.separator):
        raise separator_refusal(request, mark)
    if not width:
        _refuse_no_table(request, table)
        skip = parts.starts[_before(rows, 0)] if table else 0
        return Head(request, skip, []) if skip else None
    first = next(i for i, row in enumerate(table) if len(row) == width)
    comment = _header_in_comment(rows, table[0], width, request.separator)
    if comment is not None:
        return _at(_shaped(request, _uncommented(rows[comment]), table, width, 0), parts, comment)
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
        shaped = _shaped(request, table[at], table[at + 1 + below :], width, at)
        return _with_below(_at(shaped, parts, found_at, below), table[at + 1])
    if at == 0 and found_at == 0 and len(table[0]) == width and table[0][-1].strip():
        return None
    return _at(_shaped(request, table[at], table[at + 1 :], width, at), parts, found_at)


def _at(found: Head, parts: "Divided", nth: int, below: int = 0) -> Head:
    """Return a head whose header is the nth record, with some below it that are none, counted in lines."""
    start, end, last = parts.starts[nth], parts.starts[nth + 1], parts.starts[nth + 1 + below]
    return replace(found, skip=start, lines=end - start, below=last - end)


@dataclass(frozen=True, slots=True)
class Divided:
    """Lines as records: one of several lines if a quoted field has line breaks."""

    rows: list[list[str]]  # the fields of each record; none of a blank line
    starts: list[int]  # the index of the first line of each, and of the line behind the last one
    is_open_at: int | None  # the index of a line in which a quote opens that never closes


def divided(lines: Sequence[str], separator: str, beyond: Sequence[str] = ()) -> Divided:
    r"""Divide lines into the records that begin there; the last one may end in the lines beyond.

    Where a quote is not closed as CSV demands, which a note above the table need not do, the line is a record.

    >>> divided(["x,note\n", '1,"one\n', 'two"\n', "5,a\n"], ",")
    Divided(rows=[['x', 'note'], ['1', 'one\ntwo'], ['5', 'a']], starts=[0, 1, 3, 4], is_open_at=None)
    >>> divided(['1,"one\n', "2,b\n"], ",")
    Divided(rows=[['1', 'one'], ['2', 'b']], starts=[0, 1, 2], is_open_at=0)
    """
    every = [*lines, *beyond]
    every = [spaced(line) for line in every] if separator == " " else every
    rows, starts, is_open_at = list[list[str]](), [0], None
    while (at := starts[-1]) < len(lines):
        fields, end = _fields(every[at], separator), at + 1
        if is_open_at is None and '"' in every[at]:
            try:
                fields, end = _first_record(every, at, separator)
            except csv.Error as error:
                is_open_at = at if "end of data" in str(error) or "field limit" in str(error) else None
        rows.append(fields)
        starts.append(end)
    return Divided(rows, starts, is_open_at)


def _first_record(lines: Sequence[str], start: int, separator: str) -> tuple[list[str], int]:
    """Return the record that begins in a line, and the index of the line behind it.

    Raises
    ------
    csv.Error
        A quote is not closed, or not in front of a separator.
    """
    taken = 0

    def source() -> Iterator[str]:
        nonlocal taken
        for i in range(start, len(lines)):
            taken += 1
            yield lines[i] if lines[i].endswith("\n") else f"{lines[i]}\n"

    fields = next(csv.reader(source(), delimiter=separator, strict=True), [])
    return fields, start + taken


def open_quote(request: Request, line: int) -> Exception:
    """Return the error for a quote that opens in a line and never closes."""
    return request.refusal(f"line {line}: a quote opens here and never closes", "close the quote, or remove it")


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


def _of_orange(request: Request, parts: Divided, rows: list[list[str]]) -> Head | None:
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
    return _at(Head(request, 0, names, left_out), parts, _before(parts.rows, 0), LINES)


def _with_below(found: Head, first: list[str]) -> Head:
    shown = ", ".join(quoted(cell) for cell in [cell for cell in first if cell.strip()][:3])
    lines = (
        f"{found.below} lines below the header hold no record, and are"
        if found.below > 1
        else "the line below the header holds no record, and is"
    )
    return replace(found, notes=(*found.notes, f"{lines} left out: {shown}, ..."))


def is_comment(fields: Sequence[str]) -> bool:
    """Return whether a line is a comment.

    >>> is_comment(["# a", "b"]), is_comment(["#1", "b"]), is_comment(["a", "# b"])
    (True, True, False)
    """
    return bool(fields) and fields[0].lstrip().startswith(_MARKS)


def _suspected(lines: Sequence[str], parts: Divided, separator: str) -> str:
    """Return the character that seems to separate the columns of lines, "" if it is the one that is given.

    A decimal comma also splits lines, but not their header.

    >>> lines = ["station 12", "a;b,c;y", "1;2;on", "3;4;off", "5;6;on"]
    >>> _suspected(lines, divided(lines, ","), ",")
    ';'
    >>> files = [[head, "1,5;on", "3,5;off", "5,0;on"] for head in ("a;y", "a,y")]
    >>> [_suspected(lines, divided(lines, ","), ",") for lines in files]
    [';', '']
    """
    own = _without_comments(parts)
    tables, begins = dict[str, dict[int, list[str]]](), {*parts.starts}
    for mark in _SEPARATORS:
        rows = _without_comments(divided(lines[:LOOKED_AT], mark, lines[LOOKED_AT:]))
        tables[mark] = {at: row for at, row in rows.items() if at in begins}  # others are in quotes
    widths = {mark: _width(list(table.values())) for mark, table in tables.items()}
    best = max(widths, key=lambda mark: widths[mark])
    whole = [own[at] for at, row in tables[best].items() if len(row) == widths[best] and at in own]
    is_one = _width(list(own.values())) <= 1 or (bool(whole) and len(whole[0]) == 1)
    return best if widths[best] > 1 and is_one else ""


def _without_comments(parts: Divided) -> dict[int, list[str]]:
    """Return the fields of records by the index of their first line."""
    return {at: row for at, row in zip(parts.starts, parts.rows, strict=False) if not is_comment(row)}


def _shaped(request: Request, names: list[str], rows: list[list[str]], width: int, before: int) -> Head:
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
    return Head(request, 0, names, tuple(left_out), tuple(notes if before else ()))


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
