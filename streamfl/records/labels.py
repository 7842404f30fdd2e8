"""The label column: collected as texts, then resolved to classes or targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.bounds import NAME_BYTES, NAMED, is_name
from streamfl.protocol.registry import ordered
from streamfl.records.cells import Cells, number, text
from streamfl.records.csv_block import LazyTexts
from streamfl.records.request import Request

MAX_LABELS = NAMED.labels

# Labels look like an identifier if more than three quarters of the first 1000 records have distinct ones, or nearly
# all of fewer records (200 or more). Drawn at random, 1024 labels give 640 distinct ones in 1000 records, 182 in 200.
LOOKED_AT, LEAST, DIFFER, DIFFER_OF_FEWER = 1000, 200, 0.75, 0.98


@dataclass(slots=True)
class LabelTexts:
    """The distinct texts of the label column, numbered by first appearance.

    >>> labels = LabelTexts()
    >>> labels.add(["a", "b", "", "a", "inf"])
    (array([ 0,  1, -1,  0, -1]), {2: 'the label is missing', 4: 'the label is infinite'})
    """

    codes: dict[str, int] = field(default_factory=dict)

    def add(self, cells: Cells) -> tuple[IntArray, dict[int, str]]:
        """Number a block of labels; return the numbers, -1 for bad ones, and the errors by index."""
        if isinstance(cells, LazyTexts):
            numbers, distinct = cells.coded()
            own, wrong = self.add(distinct)
            codes = own[numbers]
            return codes, {i: wrong[int(numbers[i])] for i in np.flatnonzero(codes < 0).tolist()}
        names = [text(cell) for cell in cells]
        for new in dict.fromkeys(names):
            if new not in self.codes and not _wrong(new):
                self.codes[new] = len(self.codes)
        codes = np.fromiter((self.codes.get(name, -1) for name in names), np.int64, len(names))
        return codes, {int(i): _wrong(names[i]) for i in np.flatnonzero(codes < 0)}


def _wrong(label: str) -> str:
    if not label:
        return "the label is missing"
    if np.isinf(_value(label)):
        return "the label is infinite"
    return "" if is_name(label) else f"the label has more than {NAME_BYTES} bytes, or is not UTF-8"


def _value(label: str) -> float:
    """Return a label as a number, NaN if it is not one."""
    try:
        return number(label)
    except ValueError:
        return np.nan


def resolve(request: Request, texts: Sequence[str], codes: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    """Convert numbered label texts to class indices or targets.

    Parameters
    ----------
    request
        The request with the task; `auto` is regression if any label is a number that is not an integer.
    texts
        The label texts by number.
    codes
        The number of each record's label.

    Returns
    -------
    y (in regression NaN if the label is not a number), and the labels (empty in regression).

    Raises
    ------
    UsageError
        If a classification would have more than 1024 labels.

    >>> resolve(Request("a.csv"), ["10", "9"], np.array([0, 1, 1]))
    (array([1., 0., 0.]), ('9', '10'))
    >>> resolve(Request("a.csv"), ["10", "9.5"], np.array([0, 1, 1]))
    (array([10. ,  9.5,  9.5]), ())
    """
    used = np.unique(codes)
    values = np.array([_value(label) for label in texts])
    if request.task == "regression" or (request.task == "auto" and _fractional(values[used])):
        return values[codes], ()
    if len(used) > MAX_LABELS:
        what = f"there are {len(used)} different labels, but at most {MAX_LABELS} classes are possible"
        remark = identifier(request.label or "label", codes)
        if remark:
            what = f"{what}; {remark}"
        raise request.refusal(what, "add --task regression, or name another column with --label")
    labels = ordered(texts[code] for code in used)
    index = np.zeros(len(texts))
    index[used] = [labels.index(texts[code]) for code in used]
    return index[codes], labels


def looks_like_identifier(column: str, distinct: int, records: int) -> str:
    """Return a remark if a label column looks like an identifier, else "".

    Parameters
    ----------
    column
        The name of the column.
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


def _fractional(values: FloatArray) -> bool:
    """Return whether some number has a fraction, or is too large for a float to have one."""
    numbers: BoolArray = ~np.isnan(values)
    known = values[numbers]
    return bool(np.any((known != np.round(known)) | (np.abs(known) >= 2.0**53)))
