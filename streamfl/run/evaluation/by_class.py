"""How well each class was predicted, from the same counts as the headline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.run.evaluation.part import ResultPart

# The result lists this many classes, and sums up the others. The confusion matrix grows with their square.
MOST_CLASSES, IN_MATRIX = 50, 20


class ClassLine(ResultPart):
    """The prequential figures of one class.

    `records`: those of this label. `predicted`: those for which this label was predicted. `recall`: the share of
    `records` predicted right. `precision`: the share of `predicted` that was right. None: a share of nothing.
    """

    label: str
    records: int
    predicted: int
    recall: float | None
    precision: float | None


class OtherClasses(ResultPart):
    """The prequential figures of all classes that have no line, over all their records together."""

    classes: int
    records: int
    predicted: int
    recall: float | None
    precision: float | None


class Confusion(ResultPart):
    """How many records of each label were predicted as each.

    `matrix` has a row for each of the n `labels`, then one for all other labels; and a column for each of the labels,
    then one for all others, then one for records that were predicted before any label was known. A record in the
    row and the column of the others may be right or wrong.
    """

    labels: tuple[str, ...]
    matrix: tuple[tuple[int, ...], ...]


class ByClass(ResultPart):
    """The figures by class; the records of all lines and of the others are those of the headline.

    `classes`: those with the most records. `others`: the rest; None if there are no more.
    """

    classes: tuple[ClassLine, ...]
    others: OtherClasses | None
    confusion: Confusion


def largest(counts: Mapping[str, int], most: int = IN_MATRIX) -> tuple[str, ...]:
    """Return the labels with the most records, in the order in which they were counted.

    >>> largest({"a": 5, "b": 1, "c": 9}, most=2)
    ('a', 'c')
    """
    kept = set(sorted(counts, key=lambda label: -counts[label])[:most])
    return tuple(label for label in counts if label in kept)


@dataclass
class ClassCounts:
    """The predictions of a run counted by label, and of few labels by pairs of labels.

    >>> counts = ClassCounts(("a", "b"))
    >>> counts.add(np.array([0.0, 1.0, 1.0, 2.0]), np.array([-1.0, 1.0, 0.0, 1.0]), ("a", "b", "c"))
    >>> table = counts.table()
    >>> [(line.label, line.records, line.predicted, line.recall, line.precision) for line in table.classes]
    [('b', 2, 2, 0.5, 0.5), ('a', 1, 1, 0.0, 0.0), ('c', 1, 0, 0.0, None)]
    >>> table.confusion.matrix
    ((0, 0, 0, 1), (1, 1, 0, 0), (0, 1, 0, 0))
    """

    labels: tuple[str, ...] = ()  # the labels with a row and a column of their own in the confusion matrix
    truths: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    _matrix: IntArray = field(init=False)
    _known: tuple[str, ...] = ()
    _places: IntArray = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.labels)
        self._matrix = np.zeros((n + 1, n + 2), np.int64)
        self._places = np.array([n + 1])

    def add(self, truth: FloatArray, predicted: FloatArray, labels: tuple[str, ...]) -> None:
        """Add predictions.

        Parameters
        ----------
        truth, predicted
            Shape (n,): indices into `labels`; -1 is a prediction made before any label was known.
        """
        self.truths.update(_named(truth, labels))
        self.predicted.update(_named(predicted, labels))
        self.right.update(_named(truth[truth == predicted], labels))
        places = self._placed(labels)
        np.add.at(self._matrix, (places[truth.astype(np.intp)], places[predicted.astype(np.intp)]), 1)

    def table(self, most: int = MOST_CLASSES) -> ByClass:
        """Return the figures of the `most` largest classes, of the rest together, and the confusion matrix."""
        names = {**self.truths, **self.predicted}
        ordered = sorted(names, key=lambda label: (-self.truths[label], label))
        rest = ordered[most:]
        return ByClass(
            classes=tuple(ClassLine(label=label, **self._figures([label])) for label in ordered[:most]),
            others=OtherClasses(classes=len(rest), **self._figures(rest)) if rest else None,
            confusion=Confusion(labels=self.labels, matrix=tuple(map(tuple, self._matrix.tolist()))),
        )

    def _placed(self, labels: tuple[str, ...]) -> IntArray:
        """Return the row of each label in the matrix; the last entry, which -1 finds, is the column of no label."""
        if labels != self._known:  # clients that know the same labels follow one another
            n, own = len(self.labels), {label: place for place, label in enumerate(self.labels)}
            self._known, self._places = labels, np.array([*(own.get(label, n) for label in labels), n + 1])
        return self._places

    def _figures(self, labels: Sequence[str]) -> dict[str, int | float | None]:
        counted = (self.truths, self.predicted, self.right)
        records, predicted, right = (sum(counts[label] for label in labels) for counts in counted)
        return {
            "records": records,
            "predicted": predicted,
            "recall": right / records if records else None,
            "precision": right / predicted if predicted else None,
        }


def _named(codes: FloatArray, labels: tuple[str, ...]) -> dict[str, int]:
    """Count labels by name; -1, a prediction made before any label was known, is not counted."""
    counts = np.bincount(codes[codes >= 0].astype(np.intp), minlength=len(labels))
    return {labels[code]: int(counts[code]) for code in np.flatnonzero(counts)}
