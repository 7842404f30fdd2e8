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
        return self.losses_and_derivative(outputs, y)[0]

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return p - e_y."""
        return self.losses_and_derivative(outputs, y)[1]

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -ln p(label) and p - e_y, from one exponential."""
        labels = outputs.shape[1]
        if not labels:
            return np.full(len(y), np.inf), np.array(outputs)
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        p = np.exp(shifted)
        total = p.sum(axis=1)
        p /= total[:, None]
        rows, codes = np.arange(len(y)), y.astype(np.intp)
        if len(y) and codes.max() >= labels:
            return _with_unknown(np.log(total), shifted, p, codes)
        losses = np.log(total) - shifted[rows, codes]
        p[rows, codes] -= 1.0
        return losses, p

    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return min(CE, 2 ln K) / (2 ln K) with K = max(2, labels)."""
        return bounded(losses, score_bound(labels))

    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return (error + 2 min(CE, 4 ln K) / (4 ln K)) / 3 with K = max(2, labels); the error is 0 or 1."""
        return proper(self.predict(outputs) != y, losses, labels)

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


def _with_unknown(
    log_total: FloatArray, shifted: FloatArray, p: FloatArray, codes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return losses and derivative where some records have labels that no column knows."""
    rows = np.flatnonzero(codes < shifted.shape[1])
    losses = np.full(len(codes), np.inf)
    losses[rows] = log_total[rows] - shifted[rows, codes[rows]]
    p[rows, codes[rows]] -= 1.0
    return losses, p
