"""The label column: collected as texts, then resolved to classes or targets."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import NAME_BYTES, NAMED, is_name
from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.protocol.registry import ordered
from streamfl.records.request import Request
from streamfl.records.values.cells import (
    USUAL,
    CellRules,
    Cells,
    listed,
    number,
    numbered,
    plain_cells,
    quoted,
    whole,
)
from streamfl.records.values.numerals import in_other_notation

# Why a record has no label.
NO_LABEL = Reason("the label is missing", ReasonCode.NO_LABEL)
INFINITE_LABEL = Reason("the label is infinite", ReasonCode.INFINITE)

MAX_LABELS = NAMED.labels

# Labels look like an identifier if more than three quarters of the first 1000 records have distinct ones, or nearly
# all of fewer records (200 or more). Drawn at random, 1024 labels give 640 distinct ones in 1000 records, 182 in 200.
LOOKED_AT, LEAST, DIFFER, DIFFER_OF_FEWER = 1000, 200, 0.75, 0.98


# More whole numbers than this are targets if they are written with a fraction; if not, somebody has to say so.
WITH_FRACTIONS, AMOUNTS = 20, 50
# The share of numbers from which on labels may be targets, and a share of labels that is nearly all of them.
MOSTLY, NEARLY_ALL = 0.5, 0.9


@dataclass(slots=True)
class LabelTexts:
    """The distinct texts of the label column, numbered by first appearance.

    >>> labels = LabelTexts()
    >>> labels.add(["a", "b", "", "a", "inf"])
    (array([ 0,  1, -1,  0, -1]), {2: 'the label is missing', 4: 'the label is infinite'})
    """

    codes: dict[str, int] = field(default_factory=dict)
    reading: CellRules = USUAL  # how cells are read
    written: Counter[str] = field(default_factory=Counter)  # the words that were missing labels, with their number
    # Whether a number was written as amounts are, with a fraction or separators: 17.0 or 1,234.
    as_amounts: bool = False

    def add(self, cells: Cells) -> tuple[IntArray, dict[int, str]]:
        """Number a block of labels; return the numbers, -1 for bad ones, and the errors by index."""
        cells = plain_cells(cells)
        places, names = numbered(cells, self.reading)
        for new in names:
            if new not in self.codes and not self._wrong(new):
                self.codes[new] = len(self.codes)
        if not self.as_amounts:
            texts = {cell.strip() for cell in cells[:LOOKED_AT] if isinstance(cell, str)}
            self.as_amounts = any(whole(word) != word or self._has_separators(word) for word in texts)
        codes = np.array([self.codes.get(name, -1) for name in names], np.int64)[places]
        bad = np.flatnonzero(codes < 0).tolist()
        self.written.update(
            word for i in bad if not names[places[i]] and isinstance(cell := cells[i], str) and (word := cell.strip())
        )
        return codes, {i: self._wrong(names[places[i]]) for i in bad}

    def _has_separators(self, word: str) -> bool:
        return not word.lstrip("+-").isalnum() and "." not in word and not np.isnan(_value(word, self.reading))

    def _wrong(self, label: str) -> str:
        if not label:
            return NO_LABEL
        if np.isinf(_value(label, self.reading)):
            return INFINITE_LABEL
        return "" if is_name(label) else f"the label has more than {NAME_BYTES} bytes, or is not UTF-8"

    def values(self) -> FloatArray:
        """Return the labels as numbers, NaN where they are none."""
        return np.array([_value(label, self.reading) for label in self.codes])


def _value(label: str, reading: CellRules) -> float:
    """Return a label as a number, NaN if it is not one."""
    try:
        return number(label, reading)
    except ValueError:
        return np.nan


def resolve(request: Request, labels: LabelTexts, codes: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    """Convert numbered label texts to class indices or targets.

    Parameters
    ----------
    request
        The request with the task; `auto` is regression if half of the labels are numbers, and some are no integers,
        or more than 20 are integers that are written with a fraction.
    codes
        The number of each record's label.

    Returns
    -------
    y (in regression NaN if the label is not a number), and the labels (empty in regression).

    Raises
    ------
    UsageError
        If a classification would have more than 1024 labels, or the labels look like numbers in another notation.

    >>> labels = LabelTexts()
    >>> codes, _ = labels.add(["10", "9", "9"])
    >>> resolve(Request("a.csv"), labels, codes)
    (array([1., 0., 0.]), ('9', '10'))
    >>> codes, _ = labels.add(["10", "9.5", "9.5"])
    >>> resolve(Request("a.csv"), labels, codes)
    (array([10. ,  9.5,  9.5]), ())
    """
    used = np.unique(codes)
    texts, values = list(labels.codes), labels.values()
    if request.task == "regression" or (request.task == "auto" and _are_targets(labels, values[codes])):
        return values[codes], ()
    if len(used) > AMOUNTS:
        _refuse_notation(request, [texts[code] for code in used])
    if len(used) > MAX_LABELS:
        whose = f" in column {listed([request.label])}" if request.label else ""
        what = f"there are {len(used)} different labels{whose}, but at most {MAX_LABELS} classes are possible"
        remark = identifier(request.label or "label", codes)
        if remark:
            what = f"{what}; {remark}"
        raise request.refusal(what, "add --task regression, or name another column with --label")
    names = ordered(texts[code] for code in used)
    index = np.zeros(len(texts))
    index[used] = [names.index(texts[code]) for code in used]
    return index[codes], names


def _are_targets(labels: LabelTexts, values: FloatArray) -> bool:
    """Return whether the labels of records are amounts: numbers, some with a fraction."""
    known = values[~np.isnan(values)]
    if not len(known) or len(known) < MOSTLY * len(values):
        return False
    return _fractional(known) or (labels.as_amounts and len(np.unique(known)) > WITH_FRACTIONS)


def _refuse_notation(request: Request, names: Sequence[str]) -> None:
    others = [name for name in names if in_other_notation(name)]
    if len(others) > NEARLY_ALL * len(names):
        what = f"the labels look like numbers in another notation, such as {quoted(min(others))}"
        raise request.refusal(what, "write them as 1234.5, or name another column with --label")


def doubt(column: str, labels: Sequence[str], codes: FloatArray | IntArray) -> str:
    """Return a remark with its remedy if the labels of records look like amounts or identifiers, else "".

    >>> print(doubt("y", [str(i) for i in range(60)], np.arange(600) % 60))
    label column 'y' has 60 different numbers, and each counts as a class: if they are amounts, add --task regression
    >>> doubt("id", [str(i) for i in range(900)], np.arange(900))[-88:]
    'in 900 records; name another with --label, or if they are amounts, add --task regression'
    >>> doubt("y", [str(i) for i in range(10)], np.arange(600) % 10)
    ''
    """
    remedy = "if they are amounts, add --task regression"
    if remark := identifier(column, codes):
        return f"{remark}; name another with --label{f', or {remedy}' if are_amounts(labels) else ''}"
    if not are_amounts(labels):
        return ""
    return f"label column {column!r} has {len(labels)} different numbers, and each counts as a class: {remedy}"


def are_amounts(labels: Collection[str]) -> bool:
    """Return whether the labels of a classification are so many numbers that they are probably amounts.

    >>> are_amounts([str(i) for i in range(60)] + ["off"]), are_amounts([str(i) for i in range(10)])
    (True, False)
    """
    numbers = sum(not np.isnan(_value(label, USUAL)) for label in labels)
    return len(labels) > AMOUNTS and numbers >= NEARLY_ALL * len(labels)


def looks_like_identifier(column: str, distinct: int, records: int) -> str:
    """Return a remark if a label column looks like an identifier, else "".

    Parameters
    ----------
    distinct, records
        The number of distinct labels among the first records, and the number of these records.

    >>> looks_like_identifier("id", 950, 1000)
    "label column 'id' may be an identifier and not a label: it has 950 distinct values in 1000 records"
    >>> looks_like_identifier("letter", 26, 1000), looks_like_identifier("class", 640, 1000)
    ('', '')
    """
    share = DIFFER if records >= LOOKED_AT else DIFFER_OF_FEWER
    if records < LEAST or distinct <= share * records:
        return ""
    return (
        f"label column {column!r} may be an identifier and not a label: it has {distinct} distinct values in "
        f"{records} records"
    )


def identifier(column: str, codes: FloatArray | IntArray) -> str:
    """Return a remark if numbered labels look like an identifier, else "".

    >>> identifier("id", np.arange(1200))
    "label column 'id' may be an identifier and not a label: it has 1000 distinct values in 1000 records"
    """
    first = codes[:LOOKED_AT]
    return looks_like_identifier(column, len(np.unique(first)), len(first))


def _fractional(known: FloatArray) -> bool:
    """Return whether some number has a fraction, or is too large for a float to have one."""
    return bool(np.any((known != np.round(known)) | (np.abs(known) >= 2.0**53)))
