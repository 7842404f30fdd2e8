"""Softmax regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.learning.model import Link, Model, ModelScores, proper_bound, score_bound


def bounded(cross_entropy: FloatArray, bound: float) -> FloatArray:
    """Return min(CE, bound) / bound: the score of a cross-entropy, both in nats.

    >>> bounded(np.array([0.0, np.log(7), 99.0]), score_bound(7))
    array([0. , 0.5, 1. ])
    """
    score: FloatArray = np.minimum(cross_entropy, bound)
    score /= bound
    return score


def proper(errors: BoolArray, cross_entropy: FloatArray, labels: int) -> FloatArray:
    """Return (error + 2 min(CE, 4 ln K) / (4 ln K)) / 3, K = max(2, labels): the proper score.

    >>> proper(np.array([False, True, True]), np.log(7) * np.array([0.2, 1.0, 4.0]), 7).round(4)
    array([0.0333, 0.5   , 1.    ])
    """
    most = proper_bound(labels)
    score: FloatArray = np.minimum(cross_entropy, most)
    score /= 0.5 * most
    score += errors
    score /= 3.0
    return score


@dataclass(frozen=True, slots=True)
class Softmax(Model):
    """Multinomial logistic regression: one column a label, cross-entropy in nats.

    A label index at or beyond the number of columns is a label that no model knows yet. Its record has an infinite
    loss and scores 1; its step pushes all known columns down.

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
        return np.asarray(_Pass.over(np.ascontiguousarray(outputs.T)[None], y).losses[0])

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return p - e_y."""
        return self.losses_and_derivative(outputs, y)[1]

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -ln p(label) and p - e_y, from one exponential."""
        if not outputs.shape[1]:
            return np.full(len(y), np.inf), np.array(outputs)
        passed = _Pass.over(np.ascontiguousarray(outputs.T)[None], y)
        return passed.losses[0], np.ascontiguousarray(passed.derivatives([0])[0].T)

    def score_all(self, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]) -> ModelScores:
        """Return scores and derivatives of several models from one exponential."""
        if not outputs.shape[1]:
            losses = np.full((len(outputs), len(y)), np.inf)
            return ModelScores(
                prediction=lambda model: np.full(len(y), -1.0),
                scores=self.scores(losses, labels),
                proper=proper(losses > 0.0, losses, labels),
                derivatives=outputs[list(trained)],
            )
        passed = _Pass.over(outputs, y)
        return ModelScores(
            prediction=passed.prediction,
            scores=self.scores(passed.losses, labels),
            proper=proper(passed.errors, passed.losses, labels),
            derivatives=passed.derivatives(trained),
        )

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
        """Return the index of the largest output, the first among equals; -1 while no label is known."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """Exponentials of several models' outputs and what follows from them; arrays of shape (models, labels, n).

    Records are the last axis: NumPy is ten times as fast along a thousand records as along a few labels.
    """

    is_largest: BoolArray  # which outputs are the largest of their record
    # Exponentials of the outputs less the largest of each record, and their sums, shape (models, 1, n).
    exponentials: FloatArray
    totals: FloatArray
    # The records whose labels have a column, and the places of these in the flattened outputs of a model.
    records: IntArray
    places: IntArray
    losses: FloatArray  # -ln p(label), shape (models, n); infinite where no column knows the label
    errors: BoolArray  # whether the prediction is wrong, shape (models, n)

    @classmethod
    def over(cls, outputs: FloatArray, y: FloatArray) -> "_Pass":
        """Compute the exponentials and losses of outputs for at least one label."""
        models, labels, n = outputs.shape
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        codes, records = y.astype(np.intp), np.arange(n)
        if codes.max(initial=-1) >= labels:
            records = np.flatnonzero(codes < labels)
            codes = codes[records]
        places = codes * n + records
        own = shifted.reshape(models, labels * n).take(places, axis=1)
        is_largest = shifted == 0.0
        exponentials = np.exp(shifted, out=shifted)  # in place: a new array of so many numbers leaves the cache
        totals = _sums_over_labels(exponentials)
        losses, errors = np.log(totals[:, 0]), own != 0.0
        if len(records) == n:
            losses -= own
        else:
            known, wrong = losses[:, records] - own, errors
            losses, errors = np.full((models, n), np.inf), np.ones((models, n), np.bool_)
            losses[:, records], errors[:, records] = known, wrong
        passed = cls(is_largest, exponentials, totals, records, places, losses, errors)
        if np.count_nonzero(is_largest) != models * n:  # of equals, only the first is the prediction
            np.not_equal([passed.prediction(model) for model in range(models)], y, out=errors)
        return passed

    def derivatives(self, models: Sequence[int]) -> FloatArray:
        """Return p - e_y of some models; of all of them in place of the exponentials."""
        p, totals = self.exponentials, self.totals
        if len(models) < len(totals):
            p, totals = p[list(models)], totals[list(models)]
        p /= totals
        for of_one in p.reshape(len(p), p.shape[1] * p.shape[2]):
            of_one[self.places] -= 1.0
        return p

    def prediction(self, model: int) -> FloatArray:
        """Return the index of the largest output of each record, the first among equals; shape (n,).

        >>> _Pass.over(np.array([[[1.0, 2.0, 2.0], [3.0, 2.0, 0.0]]]), np.zeros(3)).prediction(0)
        array([1., 0., 0.])
        """
        is_largest = self.is_largest[model]
        labels, n = is_largest.shape
        if np.count_nonzero(is_largest) == n:  # no equals: a product is four times as fast as argmax
            return np.asarray(np.arange(float(labels)) @ is_largest.astype(np.float64))
        found: FloatArray = np.zeros(n)
        for label in reversed(range(labels)):
            np.putmask(found, is_largest[label], float(label))
        return found


def _sums_over_labels(p: FloatArray) -> FloatArray:
    """Return the sums of p, shape (models, labels, n), over labels, with the same bits as if records were rows.

    NumPy adds fewer than eight numbers in sequence, and more pairwise if they are contiguous.
    """
    if p.shape[1] < 8:
        return np.asarray(p.sum(axis=1, keepdims=True))
    return np.asarray(np.ascontiguousarray(p.transpose(0, 2, 1)).sum(axis=2)[:, None])
