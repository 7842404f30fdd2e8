"""What batches carry if labels come later and under a key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray

Keys = npt.NDArray[np.object_]
Rows = IntArray | slice

# The most records whose features an update describes before their labels are known.
MOST_ARRIVED = 1000

# The code of a label that is not known, and of no answer at all.
NO_LABEL = -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """Which half of its records a batch holds, and the keys by which the halves are joined."""

    # `features`: records without labels; the `y` of the batch means nothing. `labels`: labels or targets without
    # features.
    kind: Literal["features", "labels"]
    keys: Keys  # the key of each good record, shape (n,), of strings

    # When each was written, as the log says: milliseconds since 1970, below 0 if it does not say, shape (n,). None if
    # it says nothing of any.
    written: IntArray | None = None

    def of(self, rows: Rows) -> "Half":
        """Return the part of some rows."""
        return replace(self, keys=self.keys[rows], written=None if self.written is None else self.written[rows])

    def time(self, row: int) -> int | None:
        """Return when one was written; None if the log does not say."""
        return None if self.written is None or self.written[row] < 0 else int(self.written[row])


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What was answered to records when they came, before their labels were known.

    Examples
    --------
    >>> answers = Answers(np.array([1.0, -1.0]), np.array([0.0, 1.0]), ("a", "b"))
    >>> answers.of(slice(0, 1)).served, answers.coded(("b", "c", "a"))
    (array([1.]), (array([ 0., -1.]), array([2., 0.])))
    """

    served: FloatArray  # the predictions, shape (n,): indices into `labels`, -1 for none; or targets, 0 for none
    no_change: FloatArray  # the last label or target known by then, coded likewise
    labels: tuple[str, ...] = ()  # the labels' names; empty in regression

    def of(self, rows: Rows) -> "Answers":
        """Return the part of some rows."""
        return replace(self, served=self.served[rows], no_change=self.no_change[rows])

    def coded(self, labels: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
        """Return `served` and `no_change` as indices into other labels, -1 for those not among them.

        Targets are returned as they are.
        """
        if not self.labels and not labels:
            return self.served, self.no_change
        places = {label: float(code) for code, label in enumerate(labels)}
        codes = np.array([*(places.get(label, NO_LABEL) for label in self.labels), NO_LABEL])
        return codes[self.served.astype(np.intp)], codes[self.no_change.astype(np.intp)]


def answers_together(parts: Sequence[Answers]) -> Answers:
    """Return answers in one, over the union of their labels.

    >>> a, b = Answers(np.zeros(1), np.zeros(1), ("a",)), Answers(np.zeros(1), np.zeros(1), ("b",))
    >>> both = answers_together([a, b])
    >>> both.served, both.labels
    (array([0., 1.]), ('a', 'b'))
    """
    labels = tuple(dict.fromkeys(label for part in parts for label in part.labels))
    coded = [part.coded(labels) for part in parts]
    empty = np.zeros(0)
    served = np.concatenate([empty, *(one for one, _ in coded)])
    return Answers(served, np.concatenate([empty, *(other for _, other in coded)]), labels)
