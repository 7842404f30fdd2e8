"""Reads the heads of a block of records: label, client, time, key and categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import NAME_BYTES, is_name
from streamfl.protocol.reasons import Reason, ReasonCode, coded, within
from streamfl.records.formats.any_json import Cell, client_text
from streamfl.records.formats.classes import classes
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.labels import INFINITE_LABEL, NO_LABEL, LabelTexts
from streamfl.records.values.cells import USUAL, CellRules, number, plain_cells, quoted, text
from streamfl.records.values.day_and_clock import joined
from streamfl.records.values.times import seconds

Errors = dict[int, str]
"""Why records are bad, by their indices."""


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """The heads of n records, good and bad: the fields other than numbers.

    Examples
    --------
    >>> heads = Heads.of(FieldMap(client="device"), [("b", "d1"), ("", "d1"), ("a", 2)])
    >>> heads.clients, heads.wrong
    (['d1', 'd1', '2'], {1: 'field "label": the label is missing'})
    >>> heads.targets(np.array([0, 2]))
    (array([1., 0.]), ('a', 'b'))
    """

    clients: list[str]  # length n, "" if a record names no client
    keys: list[str]  # length n, "" if a record has none
    times: FloatArray  # seconds since 1970, shape (n,), NaN if unknown
    no_times: Errors  # why times cannot be read; such a record has none
    answers: FloatArray | IntArray  # shape (n,): the number of each label in `texts`, or the target; 0 without labels
    texts: tuple[str, ...]  # the labels by number; empty in regression
    hot: FloatArray  # the features of all categories, shape (n, c)
    wrong: Errors  # why records cannot be used

    @classmethod
    def of(cls, fields: FieldMap, heads: Sequence[tuple[Cell, ...]]) -> "Heads":
        """Read the cells of the fields `FieldMap.head`, with which each record begins."""
        column = {name: [cells[at] for cells in heads] for at, name in enumerate(fields.head)}
        answers, texts, wrong = _answers(fields, column.get(fields.label, [None] * len(heads)))
        named, times, bad_times, no_client = [""] * len(heads), np.full(len(heads), np.nan), Errors(), Errors()
        keys, no_key = [""] * len(heads), Errors()
        if fields.time is not None:
            cells = plain_cells(joined([column[name] for name in fields.times]))
            times, bad_times = seconds(cells, fields.notation)
        if fields.client is not None:
            named, no_client = clients(fields.client, column[fields.client])
        if fields.key is not None:
            keys, no_key = clients(fields.key, column[fields.key], "key")
        hot = [one_hot(column[name], values, fields.reading_of(values)) for name, values in fields.categories.items()]
        return cls(
            clients=named,
            keys=keys,
            times=times,
            no_times=bad_times,
            answers=answers,
            texts=texts,
            hot=np.column_stack(hot) if hot else np.empty((len(heads), 0)),
            wrong=_in_field(fields.label, wrong) | no_key | no_client,
        )

    def targets(self, good: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
        """Return y and the labels of the good records."""
        answers = self.answers[good]
        if answers.dtype == np.float64:
            return answers.astype(np.float64, copy=False), ()
        return classes(answers.astype(np.int64, copy=False), self.texts)


def _answers(fields: FieldMap, cells: Sequence[Cell]) -> tuple[FloatArray | IntArray, tuple[str, ...], Errors]:
    if fields.task == "classification":
        return labels(cells, fields.reading_of(fields.labels))
    if fields.task == "unlabelled":
        return np.zeros(len(cells)), (), {}
    values, wrong = targets(cells, fields.reading)
    return values, (), wrong


def _in_field(name: str | None, wrong: Mapping[int, str]) -> Errors:
    return {i: coded(within(reason, f"field {quoted(name)}: "), ReasonCode.BAD_LABEL) for i, reason in wrong.items()}


def labels(cells: Sequence[Cell], reading: CellRules = USUAL) -> tuple[IntArray, tuple[str, ...], Errors]:
    """Number the labels of some records; each distinct one is read once.

    Returns
    -------
    The number of each label, -1 for bad ones; the labels by number; the errors.

    >>> labels([1, "1", True, "", 2.0])
    (array([ 0,  0,  1, -1,  2]), ('1', 'True', '2'), {3: 'the label is missing'})
    """
    cells = _distinguished(cells)
    numbered = LabelTexts(reading=reading)
    distinct = list(dict.fromkeys(cells))
    codes, why = numbered.add(distinct)
    code = dict(zip(distinct, codes.tolist(), strict=True))
    found = np.fromiter(map(code.__getitem__, cells), np.int64, len(cells))
    reasons = {distinct[i]: reason for i, reason in why.items()}
    return found, tuple(numbered.codes), {i: reasons[cells[i]] for i in np.flatnonzero(found < 0).tolist()}


def targets(cells: Sequence[Cell], reading: CellRules = USUAL) -> tuple[FloatArray, Errors]:
    """Read the targets of some records, NaN where bad.

    >>> values, wrong = targets([1, "2.5", None, True])
    >>> values, wrong[2], wrong[3]
    (array([1. , 2.5, nan, nan]), 'the label is missing', '"True" is not a number, and the task is regression')
    """
    quick = set(map(type, cells)) <= {float} and not reading.missing.numbers
    values = np.array(cells if quick else [_target(cell, reading) for cell in cells], np.float64)
    bad = np.flatnonzero(~np.isfinite(values)).tolist()
    values[bad] = np.nan
    return values, {i: _not_a_target(cells[i], reading) for i in bad}


def _target(cell: Cell, reading: CellRules) -> float:
    try:
        return np.nan if isinstance(cell, bool) else number(cell, reading)
    except ValueError:
        return np.nan


def _not_a_target(cell: Cell, reading: CellRules) -> str:
    if not text(cell, reading):
        return NO_LABEL
    if np.isinf(_target(cell, reading)):
        return INFINITE_LABEL
    return Reason(f"{quoted(cell)} is not a number, and the task is regression", ReasonCode.NO_NUMBER)


def clients(name: str, cells: Sequence[Cell], what: str = "client") -> tuple[list[str], Errors]:
    """Return the client, or the key, of each cell, "" if it names none, and the errors.

    >>> clients("device", ["a", 7, None, "x" * 257])[0]
    ['a', '7', '', '']
    >>> clients("device", ["a", 7, None])[1]
    {2: 'field "device": the client is missing'}
    >>> clients("id", [" "], "key")[1]
    {0: 'field "id": the key is missing'}
    """
    texts = {cell: client_text(cell) for cell in dict.fromkeys(cells)}
    named = {cell: client if is_name(client) else "" for cell, client in texts.items()}
    found = [named[cell] for cell in cells]
    if "" not in named.values():
        return found, {}
    bad = [i for i, client in enumerate(found) if not client]
    return found, {i: within(_no_name(texts[cells[i]], what), f"field {quoted(name)}: ") for i in bad}


def _no_name(name: str, what: str) -> Reason:
    code = ReasonCode.NO_CLIENT if what == "client" else ReasonCode.NO_KEY
    if not name:
        return Reason(f"the {what} is missing", code)
    said = what if what == "key" else f"name of the {what}"
    return Reason(f"the {said} has more than {NAME_BYTES} bytes: {quoted(name)}", code)


def one_hot(cells: Sequence[Cell], values: tuple[str, ...], reading: CellRules = USUAL) -> FloatArray:
    """Return 0/1 columns for the declared values, shape (n, number of values), NaN where missing.

    >>> one_hot(["red", "green", None], ("blue", "red"))
    array([[ 0.,  1.], [ 0.,  0.], [nan, nan]])
    """
    cells = _distinguished(cells)
    place = {value: i for i, value in enumerate(values)} | {"": -1}
    places = {cell: place.get(text(cell, reading), len(values)) for cell in dict.fromkeys(cells)}
    which = np.fromiter(map(places.__getitem__, cells), np.int64, len(cells))
    hot: FloatArray = np.where(which[:, None] == np.arange(len(values)), 1.0, 0.0)
    hot[which == -1] = np.nan
    return hot


def _distinguished(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells with booleans as text: as dict keys, True and 1 would be the same."""
    if bool in set(map(type, cells)):
        return [str(cell) if isinstance(cell, bool) else cell for cell in cells]
    return cells
