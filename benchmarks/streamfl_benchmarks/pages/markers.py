"""Where a page shows what is made from runs, and its tables that nothing makes."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streamfl.errors import UsageError

BEGIN = re.compile(r"<!-- results: (\S+) -->")
END = "<!-- end -->"
NOT_KEPT = "*(runs not kept)*"
RULER = re.compile(r"\|(\s*:?-+:?\s*\|)+")


@dataclass(frozen=True, slots=True)
class Section:
    """What stands between two markers: its name, the lines of the page from `first` up to `after`, counted from 0."""

    name: str
    first: int
    after: int


def sections(lines: list[str]) -> list[Section]:
    """Return the marked sections of a page.

    Raises
    ------
    UsageError
        If a marker has no partner.

    >>> sections(["# Page", "<!-- results: drift -->", "", "| a |", "", "<!-- end -->"])
    [Section(name='drift', first=2, after=5)]
    """
    found, name, first = [], None, 0
    for i, line in _outside_code(lines):
        begins = BEGIN.fullmatch(line.strip())
        if begins and name is not None:
            raise UsageError(f"line {i + 1}: results {begins[1]} begin before those of {name} have ended; add {END}")
        if begins:
            name, first = begins[1], i + 1
        elif line.strip() == END:
            if name is None:
                raise UsageError(f"line {i + 1}: {END} ends nothing; add <!-- results: NAME --> above it")
            found.append(Section(name, first, i))
            name = None
    if name is not None:
        raise UsageError(f"line {first}: results {name} do not end; add {END} under them")
    return found


def filled(text: str, made: Callable[[str], str]) -> str:
    """Return a page with its sections made again, an empty line before and after each: a page's table needs them.

    >>> filled("<!-- results: x -->\\nold\\n<!-- end -->\\n", lambda name: f"new {name}")
    '<!-- results: x -->\\n\\nnew x\\n\\n<!-- end -->\\n'
    """
    lines = text.split("\n")
    for section in reversed(sections(lines)):
        lines[section.first : section.after] = ["", *made(section.name).split("\n"), ""]
    return "\n".join(lines)


def without_runs(lines: list[str]) -> list[int]:
    """Return the lines of the headings of tables that neither are marked nor say that their runs are not kept.

    >>> without_runs(["| a |", "| --- |", "", "*(runs not kept)*", "", "| b |", "| --- |"])
    [0]
    """
    marked = {i for section in sections(lines) for i in range(section.first, section.after)}
    heads = [i - 1 for i, line in _outside_code(lines) if i and RULER.fullmatch(line.strip())]
    return [i for i in heads if i not in marked and _above(lines, i) != NOT_KEPT]


def _above(lines: list[str], i: int) -> str:
    return next((line.strip() for line in reversed(lines[:i]) if line.strip()), "")


def _outside_code(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines, with their numbers, that are not in a block of code."""
    code = False
    for i, line in enumerate(lines):
        if line.startswith("```"):
            code = not code
        elif not code:
            yield i, line
