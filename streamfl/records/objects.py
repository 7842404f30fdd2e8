"""Converts records that are objects, with missing, new or nested fields, to columns."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.records import Rejection
from streamfl.records.assembly import MAX_COLUMNS, RowBlock, too_many
from streamfl.records.request import Request
from streamfl.records.values.day_and_clock import joined

Object = Mapping[str, object]

# A record is a dict; or a message, which a program's function or a JSON reader reads.
Record = Mapping[str, Any] | bytes

# The prefix of outer names is cut at this many characters, twice the limit of a name.
LONGEST_PATH = 512

# The most numbers of a list that become features.
LONGEST_VECTOR = 256

_NESTED = frozenset({dict, list})
_NUMBERS = frozenset({int, float, bool, type(None)})


def flat(record: Object, whole: Container[str] = frozenset()) -> Object:
    """Flatten a record: a value of an inner object, or of a short list of numbers, is named with a dot.

    Parameters
    ----------
    whole
        Fields whose lists stay lists.

    >>> flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}, "f": [4, 5], "g": ["x"]})
    {'a': 1, 'b.c': 2, 'b.d.e': 3, 'f.0': 4, 'f.1': 5, 'g': ['x']}
    """
    if not _NESTED.intersection(map(type, record.values())):  # the common case, and a record is read a million times
        return record
    return dict(_leaves(record, whole))


def _leaves(record: Object, whole: Container[str]) -> Iterator[tuple[str, object]]:
    """Yield dotted names and values; prefixes are bounded, so a long outer name is not repeated in full."""
    open_ = [("", iter(record.items()))]
    while open_:
        before, items = open_[-1]
        for name, value in items:
            if isinstance(value, dict):
                open_.append((f"{before}{name}."[:LONGEST_PATH], iter(value.items())))
                break
            if isinstance(value, list) and _is_vector(value) and f"{before}{name}" not in whole:
                yield from ((f"{before}{name}.{i}", one) for i, one in enumerate(value))
                continue
            yield f"{before}{name}", value
        else:
            open_.pop()


def _is_vector(values: Sequence[object]) -> bool:
    """Return whether a list is of numbers, and not so long that each would hardly be a feature of its own."""
    return 0 < len(values) <= LONGEST_VECTOR and _NUMBERS.issuperset(map(type, values))


@dataclass(slots=True, eq=False)
class Columns:
    """Converts records to columns, in order of first appearance of their names."""

    request: Request  # what the caller asked for
    label: str  # the name of the label column
    _names: dict[str, None] = field(default_factory=dict)

    def block(
        self, places: IntArray, lines: IntArray, records: Sequence[Object], rejected: tuple[Rejection, ...] = ()
    ) -> RowBlock:
        """Return flat records as a block.

        Raises
        ------
        UsageError
            If there are too many names: every record has a cell for each.
        """
        without = self.request.excluded | {self.label}
        for record in records:
            self._names.update(dict.fromkeys(record))
            if len(self._names) > MAX_COLUMNS and len(self._names.keys() - without) > MAX_COLUMNS:
                raise too_many(self.request)
        keep = self.request.keep
        return RowBlock(
            places=places,
            lines=lines,
            features={name: _column(records, name) for name in self._names if name not in without},
            label=_column(records, self.label) if self.label else (),
            kept=_column(records, keep) if keep is not None else None,
            times=joined([_column(records, name) for name in times]) if (times := self.request.times) else None,
            rejected=rejected,
        )


def _column(records: Sequence[Object], name: str) -> list[object]:
    return [record.get(name) for record in records]


def names(records: Sequence[Object]) -> list[str]:
    """Return all names of the records, in order of first appearance."""
    return list(dict.fromkeys(name for record in records for name in record))


def counted(start: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the places of n records from `start` on, and the same counted from 1.

    >>> counted(5, 2)
    (array([5, 6]), array([6, 7]))
    """
    places = np.arange(start, start + n, dtype=np.int64)
    return places, places + 1


def is_one(records: Any) -> bool:
    """Tell whether a caller gives one record, not several."""
    return isinstance(records, Mapping | bytes)


def several(records: Any) -> Iterator[Record]:
    """Yield the records of what a caller gives.

    >>> list(several({"a": 1})), list(several([{"a": 1}, b"x"]))
    ([{'a': 1}], [{'a': 1}, b'x'])
    """
    if is_one(records):
        yield records
    elif hasattr(records, "iter_rows"):  # polars
        yield from records.iter_rows(named=True)
    elif hasattr(records, "to_dict"):  # pandas
        yield from records.to_dict("records")
    else:
        yield from records
