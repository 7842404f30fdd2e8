"""The labels that a reader accepts, and its remarks on what it leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import IntArray
from streamfl.bounds import NAME_BYTES, Limits
from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.records.labels import LOOKED_AT, looks_like_identifier
from streamfl.records.values.cells import quoted


@dataclass(slots=True)
class Remarks:
    """Remarks for the user; each subject is reported once.

    >>> remarks = Remarks()
    >>> remarks.add("late", "records are late")
    >>> remarks.add("late", "records are late again")
    >>> remarks.new(), remarks.new()
    (('records are late',), ())
    >>> remarks.add("cells", "a cell is text", at=1204)
    >>> remarks.positions
    {'a cell is text': 1204}
    """

    positions: dict[str, int] = field(default_factory=dict)  # of the records that remarks are about, where known
    _subjects: set[str] = field(default_factory=set)
    _new: list[str] = field(default_factory=list)

    def add(self, subject: str, remark: str, at: int | None = None) -> None:
        """Add a remark, unless there was one on the same subject; `at` is the position of the record."""
        if subject not in self._subjects:
            self._subjects.add(subject)
            self._new.append(remark)
            if at is not None:
                self.positions[remark] = at

    def new(self) -> tuple[str, ...]:
        """Return the remarks added since the last call."""
        new, self._new = tuple(self._new), []
        return new


@dataclass(slots=True)
class KnownLabels:
    """The labels that a reader has accepted, up to the limit of a federation.

    Examples
    --------
    >>> known = KnownLabels(Limits(labels=2), Remarks(), "kind")
    >>> known.refused(np.array([0, 1, 2, 0, -1]), ("b", "a", "c"))
    {2: '"c" is beyond the limit of 2 labels'}
    >>> known.refused(np.array([0, 1]), ("c", "a"))
    {0: '"c" is beyond the limit of 2 labels'}
    """

    limits: Limits  # the most labels
    remarks: Remarks  # receives a remark if the column looks like an identifier, or if the limit is reached
    column: str  # the name of the label column
    declared: tuple[str, ...] = ()  # all labels; empty if they are not declared
    _accepted: set[str] = field(init=False)
    _first: set[str] | None = field(default_factory=set)  # of the first records; None once the check is over
    _records: int = 0

    def __post_init__(self) -> None:
        self._accepted = set(self.declared)

    def refused(self, codes: IntArray, texts: Sequence[str]) -> dict[int, str]:
        """Accept the labels of some records, the first ones up to the limit, and return the errors of the others.

        Parameters
        ----------
        codes
            Shape (n,): the number of each record's label, negative if it is bad anyway.
        """
        if not self.declared:
            self._look(codes, texts)
        numbers, first = np.unique(codes[codes >= 0], return_index=True)
        unknown = [
            code for _, code in sorted(zip(first, numbers.tolist(), strict=True)) if texts[code] not in self._accepted
        ]
        wrong = {code: reason for code in unknown if (reason := self._accept(texts[code]))}
        if not wrong:
            return {}
        return {int(i): wrong[int(codes[i])] for i in np.flatnonzero(np.isin(codes, list(wrong)))}

    def _accept(self, label: str) -> str:
        """Accept a new label and return "", or return the reason for refusing it."""
        if self.declared:
            return Reason(f"{quoted(label)} is not declared under labels", ReasonCode.BAD_LABEL)
        if len(self._accepted) < self.limits.labels:
            self._accepted.add(label)
            return ""
        remedy = "raise most_labels in [federation], or name another field"
        self.remarks.add(
            "labels",
            f"there are more than {self.limits.labels} labels, which is the limit: records with further labels "
            f"are rejected; {remedy}",
        )
        what = f"{quoted(label)} is beyond the limit of {self.limits.labels} labels"
        return Reason(what, ReasonCode.TOO_MANY_LABELS)

    def _look(self, codes: IntArray, texts: Sequence[str]) -> None:
        """Check whether the first records have so many labels that they look like an identifier."""
        if self._first is None:
            return
        first = codes[codes >= 0][: LOOKED_AT - self._records]
        self._records += len(first)
        self._first |= {texts[code][:NAME_BYTES] for code in np.unique(first).tolist()}
        remark = looks_like_identifier(self.column, len(self._first), self._records)
        if remark:
            self.remarks.add("identifier", remark)
        if remark or self._records >= LOOKED_AT:
            self._first = None


def left_out(limits: Limits) -> str:
    """Return a remark that features are left out.

    >>> left_out(Limits())
    'features beyond the limit of 4096, or with names of more than 256 bytes, are left out; list the wanted ...'
    """
    return (
        f"features beyond the limit of {limits.features}, or with names of more than {NAME_BYTES} bytes, are left "
        "out; list the wanted ones under features, or drop the others"
    )


def no_time(column: str, reason: str) -> str:
    """Return a remark that records have no time.

    >>> no_time("ts", 'the time "noon" is not a date')
    'times of "ts" that cannot be read are missing, and their records count; the reason for the first one: the ...'
    """
    return (
        f"times of {quoted(column)} that cannot be read are missing, and their records count; the reason for the "
        f"first one: {reason}"
    )
