"""Softmax regression."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.model import Link, proper_bound, score_bound


def bounded(cross_entropy: FloatArray, bound: float) -> FloatArray:
    """Return min(CE, bound) / bound: the score of a cross-entropy, both in nats.

    >>> bounded(np.array([0.0, np.log(7), 99.0]), score_bound(7))
    array([0. , 0.5, 1. ])
    """
    score: FloatArray = np.minimum(cross_entropy, bound) / bound
    return score


def proper(errors: BoolArray, cross_entropy: FloatArray, labels: int) -> FloatArray:
    """Return (error + 2 min(CE, 4 ln K) / (4 ln K)) / 3, K = max(2, labels): the proper score.

    >>> proper(np.array([False, True, True]), np.log(7) * np.array([0.2, 1.0, 4.0]), 7).round(4)
    array([0.0333, 0.5   , 1.    ])
    """
    score: FloatArray = (errors + 2.0 * bounded(cross_entropy, proper_bound(labels))) / 3.0
    return score


@dataclass(frozen=True, slots=True)
class Softmax:
    """Multinomial logistic regression: one column a label, cross-entropy in nats.

    A label index at or beyond the number of columns is one that no model knows yet: its record has an infinite loss,
    scores 1, and pulls no column up: all known ones are pushed down.

    >>> model, outputs = Softmax(), np.log(np.array([[0.7, 0.2, 0.1]]))
    >>> model.losses(outputs, np.array([0.0])).round(4), model.scores(np.array([0.3567]), 3).round(4)
    (array([0.3567]), array([0.1623]))
    >>> model.derivative(outputs, np.array([0.0])).round(4)
    array([[-0.3,  0.2,  0.1]])
    >>> model.predict(outputs)
    array([0.])
    """

    link: ClassVar[Link] = "softmax"

    def columns(self, labels: int) -> int:
        """Return one column a label."""
        return labels

    def losses(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return -ln p(label): log-sum-exp of the outputs less the label's own."""
        if not outputs.shape[1]:
            return np.full(len(y), np.inf)
        shifted, exponentials = _exponentials(outputs)
        return _cross_entropies(shifted, _row_sums(exponentials), *_places(y, len(shifted)))

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return p - e_y."""
        return self.losses_and_derivative(outputs, y)[1]

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -ln p(label) and p - e_y, from one exponential."""
        if not outputs.shape[1]:
            return np.full(len(y), np.inf), np.array(outputs)
        shifted, p = _exponentials(outputs)
        total = _row_sums(p)
        p /= total
        records, places = _places(y, len(p))
        flat = p.reshape(-1)
        flat[places] -= 1.0
        return _cross_entropies(shifted, total, records, places), np.ascontiguousarray(p.T)

    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return min(CE, 2 ln K) / (2 ln K) with K = max(2, labels)."""
        return bounded(losses, score_bound(labels))

    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return (error + 2 min(CE, 4 ln K) / (4 ln K)) / 3 with K = max(2, labels); the error is 0 or 1."""
        return proper(self._errors(outputs, y), losses, labels)

    def _errors(self, outputs: FloatArray, y: FloatArray) -> BoolArray:
        """Tell which records are predicted to have another label."""
        if not outputs.shape[1]:
            return self.predict(outputs) != y
        columns = outputs.T
        largest = columns == columns.max(axis=0)
        # Of equals the first counts, which argmax tells; it costs as much as the losses, and equals are rare.
        if np.count_nonzero(largest) != len(y) or not 0.0 <= y.min(initial=0.0) <= y.max(initial=0.0) < len(columns):
            return self.predict(outputs) != y
        right: BoolArray = largest[y.astype(np.intp), np.arange(len(y))]
        return ~right

    def log_likelihoods(self, outputs: FloatArray) -> FloatArray:
        """Return ln p of each label."""
        if not outputs.shape[1]:
            return np.array(outputs)
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        logs: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return logs

    def predict(self, outputs: FloatArray) -> FloatArray:
        """Return the index of the largest output, the first of equals; -1 while no label is known."""
        if not outputs.shape[1]:
            return np.full(len(outputs), -1.0)
        best: FloatArray = outputs.argmax(axis=1).astype(np.float64)
        return best

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return the probability of each label, rows summing to 1."""
        if not outputs.shape[1]:
            return np.array(outputs)
        p: FloatArray = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        np.divide(p, p.sum(axis=1, keepdims=True), out=p)
        return p


def _exponentials(outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs less their largest, and the exponentials of that, shape (labels, n) each.

    One row a label: NumPy goes through rows of a thousand records ten times as fast as through those of a few labels.
    """
    columns = np.ascontiguousarray(outputs.T)
    shifted = columns - columns.max(axis=0)
    return shifted, np.exp(shifted)


def _row_sums(p: FloatArray) -> FloatArray:
    """Return the sum over labels of p, shape (labels, n), to the last bit as NumPy adds up a record's labels.

    Fewer than eight numbers it adds one after another, more in pairs where they lie side by side.
    """
    total: FloatArray = p.sum(axis=0) if len(p) < 8 else np.ascontiguousarray(p.T).sum(axis=1)
    return total


def _places(y: FloatArray, labels: int) -> tuple[IntArray, IntArray]:
    """Return the records whose label has a row, and where that is in a flattened array of shape (labels, n)."""
    codes, records = y.astype(np.intp), np.arange(len(y))
    if codes.max(initial=-1) >= labels:
        records = np.flatnonzero(codes < labels)
        codes = codes[records]
    return records, codes * len(y) + records


def _cross_entropies(shifted: FloatArray, total: FloatArray, records: IntArray, places: IntArray) -> FloatArray:
    """Return ln of the sums of exponentials less each record's own output; infinite where no row is its label's."""
    if len(records) == len(total):
        return np.log(total) - shifted.take(places)
    losses = np.full(len(total), np.inf)
    losses[records] = np.log(total)[records] - shifted.take(places)
    return losses
