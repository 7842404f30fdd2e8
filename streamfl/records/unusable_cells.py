"""Counts the cells that are not what their column holds. They are missing values, and their records count."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.columns import MAX_VALUES, Column, TextColumn
from streamfl.records.values.cells import Cells, quoted
from streamfl.records.values.missing import NOT

EXAMPLES = 3


@dataclass(slots=True)
class _Unusable:
    column: Column
    first: int  # the line of the first one
    cells: int = 0
    ambiguous: bool = False
    no_time: str = ""  # why the first one is no time, if the column has times
    examples: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class UnusableCells:
    """The unusable cells of each column: how many there are, where they begin, and three examples.

    >>> from streamfl.records.columns import NumberColumn
    >>> unusable = UnusableCells("line")
    >>> unusable.add(NumberColumn("a"), ["1", "x", "y"], {1: "not a number", 2: "not a number"}, np.array([2, 3, 4]))
    >>> list(unusable.notes())
    ['column a: 2 cells from line 3 on are not numbers and count as missing, such as "x", "y"']
    """

    unit: str  # the unit of lines in messages: `line` or `record`
    _columns: dict[str, _Unusable] = field(default_factory=dict)
    _missing: dict[str, Counter[str]] = field(default_factory=dict)

    def add(
        self, column: Column, cells: Cells, unusable: Mapping[int, str], lines: IntArray, *, times: bool = False
    ) -> None:
        """Count the unusable cells of a block, given by index with the reasons, of a column of `times` or another."""
        if not unusable:
            return
        first = min(unusable)
        reason = unusable[first] if times else ""
        found = self._columns.setdefault(column.name, _Unusable(column, int(lines[first]), no_time=reason))
        found.cells += len(unusable)
        found.ambiguous |= any("decimal mark" in why for why in unusable.values())
        for i in unusable:
            if len(found.examples) == EXAMPLES:
                break
            found.examples[quoted(cells[i])] = None

    def add_missing(self, column: TextColumn, cells: Cells, X: FloatArray) -> None:
        """Count the words that a column of texts has for a missing value."""
        for i in _missing(X):
            if isinstance(cell := cells[i], str) and cell.strip():
                self._missing.setdefault(column.name, Counter())[cell.strip()] += 1

    def notes(self) -> Iterator[str]:
        """Yield a note on each column with unusable cells, and on each with a word for a missing value."""
        for name, unusable in self._columns.items():
            such = f"such as {', '.join(unusable.examples)}"
            cells = f"column {quoted(name)[1:-1]}: {unusable.cells:,} cell{'s' * (unusable.cells != 1)} "
            if isinstance(unusable.column, TextColumn):
                yield f"{cells}with values beyond the first {MAX_VALUES}, {such}, set none of its features"
            elif unusable.no_time:
                where = f"from {self.unit} {unusable.first} on cannot be read as a time and count as missing"
                yield f"{cells}{where}; the reason for the first one: {unusable.no_time}"
            else:
                remedy = "; if they are numbers, name their decimal mark with --decimal" if unusable.ambiguous else ""
                where = (
                    f"from {self.unit} {unusable.first} on are"
                    if unusable.cells > 1
                    else f"({self.unit} {unusable.first}) is"
                )
                kind = "not numbers and count" if unusable.cells > 1 else "not a number and counts"
                yield f"{cells}{where} {kind} as missing, {such}{remedy}"
        for name, words in self._missing.items():
            yield missing_words(f"column {quoted(name)[1:-1]}", words)


def missing_words(where: str, words: Mapping[str, int], what: str = "value") -> str:
    """Return the note that words are read as missing, which they may not be.

    >>> missing_words("column code", {"none": 2})
    'column code: "none" (2 cells) counts as missing; if it is a value, add --missing-values not:none'
    """
    shown = [f"{quoted(word)} ({n:,} cell{'s' * (n != 1)})" for word, n in list(words.items())[:EXAMPLES]]
    first = next(iter(words))
    it = "it is a" if len(shown) == 1 else "one is a"
    counts = "counts" if len(shown) == 1 else "count"
    return f"{where}: {', '.join(shown)} {counts} as missing; if {it} {what}, add --missing-values {NOT}{first}"


def _missing(X: FloatArray) -> list[int]:
    missing: list[int] = np.flatnonzero(np.all(np.isnan(X), axis=1)).tolist()
    return missing
