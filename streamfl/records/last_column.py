"""Takes the last column of a file as its label only if it can be one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from streamfl.records.assembly import RowBlock
from streamfl.records.columns import MAX_VALUES, TIMES, LeftOutColumn, infer
from streamfl.records.request import LABEL_NAMES, Request
from streamfl.records.values.cells import USUAL, Cells, is_number, listed, numbers, words

FEWEST = 20  # records by which a column is judged


def label_of(request: Request, last: str, blocks: Iterator[RowBlock]) -> tuple[str, str, Iterator[RowBlock]]:
    """Return the label of a file, a note if it is not the last column, and the blocks with that label."""
    first = next(blocks, None)
    if first is None or request.label is not None or last.lower() in (*LABEL_NAMES, ""):
        return last, "", blocks if first is None else chain([first], blocks)
    all_ = chain([first], blocks)
    why = _why_no_label(first.label) or ("holds times" if _holds_times(last, first.label) else "")
    others = [name for name, cells in reversed(list(first.features.items())) if _may_be_label(name, cells)]
    if not why or not others:
        return last, "", all_
    instead = f"{listed([others[0]])} is taken as the label"
    note = f"the last column, {listed([last])}, {why}, so it is not the label; {instead}"
    return others[0], f"{note}; name another one with --label", (_with_label(block, others[0]) for block in all_)


def _with_label(block: RowBlock, label: str) -> RowBlock:
    features = {name: cells for name, cells in block.features.items() if name != label}
    return replace(block, features=features, label=block.features[label])


def _may_be_label(name: str, cells: Cells) -> bool:
    return not _why_no_label(cells) and not isinstance(infer(name, cells), LeftOutColumn)


def _holds_times(name: str, cells: Cells) -> bool:
    found = infer(name, cells)
    return isinstance(found, LeftOutColumn) and found.why == TIMES


def _why_no_label(cells: Cells) -> str:
    """Return why a column can be no label, or an empty text.

    >>> _why_no_label(["eor"] * 20), _why_no_label([*range(1, 30)]), _why_no_label(["a", "b"] * 20)
    ('has one value in all records', 'numbers the records', '')
    """
    if len(cells) < FEWEST:
        return ""
    values, unusable = numbers(cells)
    if not unusable and (np.diff(values) == 1.0).all():
        return "numbers the records"
    found = set(words(cells, USUAL)) - {""}
    if len(found) == len(cells) > MAX_VALUES and not any(map(is_number, found)):
        return "has another text in each record"
    return "has one value in all records" if len(found) == 1 else "" if found else "has no value"
