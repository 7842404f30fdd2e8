"""The label column: texts while it is read, classes or targets once all of it has been seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.bounds import NAME_BYTES, NAMED, is_name
from streamfl.core.protocol.registry import ordered
from streamfl.streams.cells import Cells, number, text
from streamfl.streams.request import Request

MAX_LABELS = NAMED.labels

# Whether labels look like an identifier is judged by the first 1000 records, of which three quarters must differ, or
# by as few as 200, of which nearly all must. Of 1024 labels drawn at random 640 of 1000 would differ, 182 of 200.
LOOKED_AT, LEAST, DIFFER, DIFFER_OF_FEWER = 1000, 200, 0.75, 0.98


@dataclass(slots=True)
class LabelTexts:
    """Every text that the label column holds, numbered by first appearance.

    >>> labels = LabelTexts()
    >>> labels.add(["a", "b", "", "a", "inf"])
    (array([ 0,  1, -1,  0, -1]), {2: 'the label is missing', 4: 'the label is infinite'})
    """

    codes: dict[str, int] = field(default_factory=dict)

    def add(self, cells: Cells) -> tuple[IntArray, dict[int, str]]:
        """Number a block of labels; return the numbers, -1 for bad ones, and what is wrong with those."""
        said = [text(cell) for cell in cells]
        for new in dict.fromkeys(said):
            if new not in self.codes and not _wrong(new):
                self.codes[new] = len(self.codes)
        codes = np.fromiter((self.codes.get(s, -1) for s in said), np.int64, len(said))
        return codes, {int(i): _wrong(said[i]) for i in np.flatnonzero(codes < 0)}


def _wrong(label: str) -> str:
    if not label:
        return "the label is missing"
    if np.isinf(_value(label)):
        return "the label is infinite"
    return "" if is_name(label) else f"the label has more than {NAME_BYTES} bytes, or is not UTF-8"


def _value(label: str) -> float:
    """Return the number a label says, NaN if it says none."""
    try:
        return number(label)
    except ValueError:
        return np.nan


def resolve(request: Request, texts: Sequence[str], codes: IntArray) -> tuple[FloatArray, tuple[str, ...]]:
    """Turn numbered label texts into class indices, or into targets.

    Parameters
    ----------
    request
        Says which task; `auto` is regression if any label is a number that is not an integer.
    texts
        The label texts by number.
    codes
        The number of each record's label.

    Returns
    -------
    y (in regression NaN where the label is no number), and the labels (empty in regression).

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
        what = f"{len(used)} different labels, more than the {MAX_LABELS} classes there may be"
        remark = identifier(request.label or "label", codes)
        if remark:
            what = f"{what}; {remark}"
        raise request.refusal(what, "say --task regression, or name another column with --label")
    labels = ordered(texts[code] for code in used)
    index = np.zeros(len(texts))
    index[used] = [labels.index(texts[code]) for code in used]
    return index[codes], labels


def looks_like_identifier(column: str, distinct: int, records: int) -> str:
    """Return the remark that a label column looks like an identifier, "" where it does not.

    Parameters
    ----------
    column
        Its name.
    distinct, records
        How many of the first records differ.

    >>> looks_like_identifier("id", 950, 1000)
    "label column 'id' looks like an identifier: 950 distinct values in 1000 records"
    >>> looks_like_identifier("letter", 26, 1000), looks_like_identifier("class", 640, 1000)
    ('', '')
    """
    share = DIFFER if records >= LOOKED_AT else DIFFER_OF_FEWER
    if records < LEAST or distinct <= share * records:
        return ""
    return f"label column {column!r} looks like an identifier: {distinct} distinct values in {records} records"


def identifier(column: str, codes: FloatArray | IntArray) -> str:
    """Return the remark that labels, by their numbers, look like an identifier, "" where they do not.

    >>> identifier("id", np.arange(1200))
    "label column 'id' looks like an identifier: 1000 distinct values in 1000 records"
    """
    first = codes[:LOOKED_AT]
    return looks_like_identifier(column, len(np.unique(first)), len(first))


def _fractional(values: FloatArray) -> bool:
    """Tell whether some number is no class: it has a fraction, or is so large that none could show."""
    numbers: BoolArray = ~np.isnan(values)
    told = values[numbers]
    return bool(np.any((told != np.round(told)) | (np.abs(told) >= 2.0**53)))
