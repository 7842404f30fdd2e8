"""The last answer where labels come late: it is judged by what it said when it was asked."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.private.last_answer import LastAnswer

# The most numbers that are kept for records without labels: 8 MB a client.
MOST_NUMBERS = 2**20


class Said(NamedTuple):
    """What was known when a record was asked, the labels, and all that was said: see `LastAnswer.said`."""

    known: str | float | None
    error: float
    labels: tuple[str, ...]
    all: FloatArray


@dataclass
class LateLabelExperts:
    """Experts on the last answer for records whose labels come late.

    When a record is learnt, other experts have seen the labels before it, which they had not when it was asked:
    beside them the last answer would never look better. So what all of them said is kept until the label comes. After
    a restart that is lost, and such records only tell the last answer.

    Examples
    --------
    >>> asked = LateLabelExperts(LastAnswer())
    >>> positions, even = np.arange(3), np.full((3, 2), 0.5)
    >>> for _ in range(30):
    ...     said = asked.mixed(positions, even, even, ("a", "b"))
    ...     asked.learn(positions, np.array([0.0, 1.0, 1.0]), ("a", "b"))
    >>> asked.last.expected(even[0]).round(2)
    array([[0.34, 0.66]])
    """

    last: LastAnswer  # the experts
    _said: dict[int, Said] = field(default_factory=dict)
    _numbers: int = 0

    def mixed(
        self,
        positions: IntArray,
        others: FloatArray,
        own: FloatArray,
        labels: tuple[str, ...],
        centre: float = 0.0,
    ) -> FloatArray:
        """Return predictions with those of the own model and from the last answer; shape (n, columns).

        Parameters
        ----------
        positions
            Where the records are, shape (n,).
        others
            What all other experts predict, shape (n, columns).
        own
            What the client's own model predicts, shape (n, columns).
        labels
            The labels of the columns; empty for targets.
        centre
            The value from which targets are measured.
        """
        last = self.last
        last.over(labels)
        served = others.copy()
        for i, position in enumerate(positions.tolist()):
            served[i] = last.mixed(others[i] - centre, own[i] - centre, centre) + centre
            self._keep(position, Said(*last.known, labels, last.said))
        return served

    def _keep(self, position: int, said: Said) -> None:
        self._forget(position)
        self._said[position] = said
        self._numbers += said.all.size
        while self._numbers > MOST_NUMBERS:
            self._forget(next(iter(self._said)))

    def _forget(self, position: int) -> Said | None:
        said = self._said.pop(position, None)
        self._numbers -= 0 if said is None else said.all.size
        return said

    def learn(self, positions: IntArray, truths: FloatArray, labels: tuple[str, ...], centre: float = 0.0) -> None:
        """Learn the labels of records, as indices into `labels`, or their targets; shape (n,)."""
        last = self.last
        last.over(labels)
        for position, truth in zip(positions.tolist(), truths.tolist(), strict=True):
            said = self._forget(position)
            if said is None:
                last.tell(labels[int(truth)] if labels else truth)
            else:
                last.go_back(said.known, said.error, _over(said, labels))
                last.learn(truth, centre)


def _over(said: Said, labels: tuple[str, ...]) -> FloatArray:
    """Return what was predicted, with a column for each label of today; the last answer had spread over its own."""
    if said.labels == labels:
        return said.all
    places = {label: column for column, label in enumerate(said.labels)}
    columns = [places.get(label, -1) for label in labels]
    padded = np.column_stack([said.all, np.zeros(len(said.all))])
    return padded[:, columns]
