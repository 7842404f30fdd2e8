"""The labels that one reader takes, and what it says of what it leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import IntArray
from streamfl.core.bounds import NAME_BYTES, Limits
from streamfl.streams.cells import quoted
from streamfl.streams.labels import LOOKED_AT, looks_like_identifier


@dataclass(slots=True)
class Remarks:
    """What a reader has to say to people, each thing once.

    >>> remarks = Remarks()
    >>> remarks.add("late", "records are late")
    >>> remarks.add("late", "records are late again")
    >>> remarks.new(), remarks.new()
    (('records are late',), ())
    """

    _said: set[str] = field(default_factory=set)
    _new: list[str] = field(default_factory=list)

    def add(self, of: str, remark: str) -> None:
        """Say something, unless something was said of the same before."""
        if of not in self._said:
            self._said.add(of)
            self._new.append(remark)

    def new(self) -> tuple[str, ...]:
        """Return what was said since it was asked last."""
        new, self._new = tuple(self._new), []
        return new


@dataclass(slots=True)
class KnownLabels:
    """The labels of the records that a reader has taken: as many as a federation registers.

    Parameters
    ----------
    limits
        How many.
    remarks
        Where it says that the column looks like an identifier, or that it takes no more.
    column
        What the column of labels is called.
    declared
        All labels there are; empty if they are not known beforehand.

    Examples
    --------
    >>> known = KnownLabels(Limits(labels=2), Remarks(), "kind")
    >>> known.refused(np.array([0, 1, 2, 0, -1]), ("b", "a", "c"))
    {2: '"c" is beyond the 2 labels that a reader takes'}
    >>> known.refused(np.array([0, 1]), ("c", "a"))
    {0: '"c" is beyond the 2 labels that a reader takes'}
    """

    limits: Limits
    remarks: Remarks
    column: str
    declared: tuple[str, ...] = ()
    _taken: set[str] = field(init=False)
    _first: set[str] | None = field(default_factory=set)  # of the first records; None once they were looked at
    _records: int = 0

    def __post_init__(self) -> None:
        self._taken = set(self.declared)

    def refused(self, codes: IntArray, texts: Sequence[str]) -> dict[int, str]:
        """Take the labels of some records, those that come first, and return what is wrong with the others.

        Parameters
        ----------
        codes
            Shape (n,): the number of each record's label, negative if it is bad anyway.
        texts
            The labels by number.
        """
        if not self.declared:
            self._look(codes, texts)
        numbers, first = np.unique(codes[codes >= 0], return_index=True)
        unknown = [
            code for _, code in sorted(zip(first, numbers.tolist(), strict=True)) if texts[code] not in self._taken
        ]
        wrong = {code: reason for code in unknown if (reason := self._take(texts[code]))}
        if not wrong:
            return {}
        return {int(i): wrong[int(codes[i])] for i in np.flatnonzero(np.isin(codes, list(wrong)))}

    def _take(self, label: str) -> str:
        """Take a new label, or return why not."""
        if self.declared:
            return f"{quoted(label)} is not declared under labels"
        if len(self._taken) < self.limits.labels:
            self._taken.add(label)
            return ""
        remedy = "raise most_labels in [federation], or name another field"
        self.remarks.add(
            "labels",
            f"more labels than the {self.limits.labels} that a reader takes: records of others are bad; {remedy}",
        )
        return f"{quoted(label)} is beyond the {self.limits.labels} labels that a reader takes"

    def _look(self, codes: IntArray, texts: Sequence[str]) -> None:
        """Look whether the labels of the first records are so many that they look like an identifier."""
        if self._first is None:
            return
        told = codes[codes >= 0][: LOOKED_AT - self._records]
        self._records += len(told)
        self._first |= {texts[code][:NAME_BYTES] for code in np.unique(told).tolist()}
        remark = looks_like_identifier(self.column, len(self._first), self._records)
        if remark:
            self.remarks.add("identifier", remark)
        if remark or self._records >= LOOKED_AT:
            self._first = None


def left_out(limits: Limits) -> str:
    """Return the remark that features are left out.

    >>> left_out(Limits())
    'more features than the 4096 that a reader takes, or of more than 256 bytes: others are left out; list those ...'
    """
    return (
        f"more features than the {limits.features} that a reader takes, or of more than {NAME_BYTES} bytes: others "
        "are left out; list those that are wanted under features, or drop the others"
    )
