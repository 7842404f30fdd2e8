"""Finds the column of times of day that belongs to a column of days."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.columns import HALF, LeftOutColumn
from streamfl.records.values.cells import listed
from streamfl.records.values.day_and_clock import joined, pair


def times_of(opened: Blocks) -> Blocks:
    """Return an open file whose times have their time of day, or whose two columns of times are left out and named.

    Nothing changes unless there is exactly one column of days, and one of times of day. With `--time` for the column
    of days, times are read from both.
    """
    request = opened.request
    first = next(opened.each, None)
    if first is None:
        return opened
    opened = replace(opened, each=chain([first], opened.each))
    days = {} if request.time is None or first.times is None else {request.time: first.times}
    found = pair({**first.features, **days})
    if found is None or (request.time is not None and request.time != found[0]):
        return opened
    each = _without(opened.each, found)
    if request.time is None:
        halves = [LeftOutColumn(name, HALF) for name in found]
        return replace(opened, each=each, left_out=(*opened.left_out, *halves))
    both = ",".join(found)
    note = f"its times are those of the columns {listed(found)} together, as --time {shlex.quote(both)} says"
    return replace(opened, request=replace(request, time=both), each=each, notes=(*opened.notes, note))


def _without(blocks: Iterator[RowBlock], found: tuple[str, str]) -> Iterator[RowBlock]:
    for block in blocks:
        features = {name: cells for name, cells in block.features.items() if name not in found}
        days, clocks = block.times, block.features.get(found[1])
        times = days if days is None or clocks is None else joined([days, clocks])
        yield replace(block, features=features, times=times)
