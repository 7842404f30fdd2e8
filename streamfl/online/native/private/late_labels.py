"""Experts on the last label where labels come late: each is judged by what it predicted when the record came."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.private.last_answer import LastAnswer

# The most numbers that are kept for records without labels: 8 MB a client.
MOST_NUMBERS = 2**20


class PastPrediction(NamedTuple):
    """What was known when a record came, the labels, and what all experts predicted: see `LastAnswer.said`."""

    known: str | float | None
    error: float
    labels: tuple[str, ...]
    all: FloatArray


@dataclass
class LateLabelExperts:
    """Experts on the last answer for records whose labels come late.

    When a record's label comes, the other experts have learnt labels that they did not know when they predicted the
    record. Compared then, they would always look better. So what each expert predicted is kept until the label comes,
    and the experts are compared by that. After a restart of the process it is lost, and such records only tell what
    the last label is.

    Examples
    --------
    >>> late = LateLabelExperts(LastAnswer())
    >>> positions, even = np.arange(3), np.full((3, 2), 0.5)
    >>> for _ in range(30):
    ...     said = late.mixed(positions, even, even, ("a", "b"))
    ...     late.learn(positions, np.array([0.0, 1.0, 1.0]), ("a", "b"))
    >>> late.last.expected(even[0]).round(2)
    array([[0.34, 0.66]])
    """

    last: LastAnswer  # the experts
    _said: dict[int, PastPrediction] = field(default_factory=dict)
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
            self._keep(position, PastPrediction(*last.known, labels, last.said))
        return served

    def _keep(self, position: int, said: PastPrediction) -> None:
        self._forget(position)
        self._said[position] = said
        self._numbers += said.all.size
        while self._numbers > MOST_NUMBERS:
            self._forget(next(iter(self._said)))

    def _forget(self, position: int) -> PastPrediction | None:
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


def _over(said: PastPrediction, labels: tuple[str, ...]) -> FloatArray:
    """Return what was predicted, with a column for each present label; labels that are new since get the padding."""
    if said.labels == labels:
        return said.all
    places = {label: column for column, label in enumerate(said.labels)}
    columns = [places.get(label, -1) for label in labels]
    padded = np.column_stack([said.all, np.zeros(len(said.all))])
    return padded[:, columns]
