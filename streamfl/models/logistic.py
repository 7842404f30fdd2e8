"""Binary logistic regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.model import Link, Model, ModelScores, judged_one_by_one, score_bound
from streamfl.models.softmax import bounded, proper


@dataclass(frozen=True, slots=True)
class Logistic(Model):
    """Logistic regression of two labels: a single column, the log-odds of label 1 against label 0.

    It has half the weights of a two-column softmax for the same predictions, but no room for a third label.

    >>> model, outputs = Logistic(), np.array([[0.0], [2.0]])
    >>> model.losses(outputs, np.array([1.0, 0.0])).round(4)
    array([0.6931, 2.1269])
    >>> model.derivative(outputs, np.array([1.0, 0.0])).round(4)
    array([[-0.5   ],
           [ 0.8808]])
    """

    link: ClassVar[Link] = "logistic"

    def columns(self, labels: int) -> int:
        """Return 1; raise UsageError for a third label."""
        if labels > 2:
            raise UsageError(f"a logistic model has 2 labels, the stream has {labels}: use softmax")
        return 1

    def losses(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return ln(1 + exp(-margin))."""
        margin = outputs[:, 0] * (2.0 * y - 1.0)
        return np.logaddexp(0.0, -margin)

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return p(1) - y."""
        return np.exp(-np.logaddexp(0.0, -outputs)) - y[:, None]

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both."""
        return self.losses(outputs, y), self.derivative(outputs, y)

    def score_all(self, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]) -> ModelScores:
        """Return scores and derivatives of several models."""
        return judged_one_by_one(self, outputs, y, labels, trained)

    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return min(CE, 2 ln 2) / (2 ln 2)."""
        return bounded(losses, score_bound(2))

    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return (error + 2 min(CE, 4 ln 2) / (4 ln 2)) / 3; the error is 0 or 1."""
        return proper(self.predict(outputs) != y, losses, 2)

    def log_likelihoods(self, outputs: FloatArray) -> FloatArray:
        """Return no columns: the single column is not the output of one label."""
        return np.zeros((len(outputs), 0))

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return the probabilities of both labels; the second is 1 / (1 + exp(-log-odds)).

        >>> Logistic().probabilities(np.array([[0.0], [2.0]])).round(3)
        array([[0.5  , 0.5  ],
               [0.119, 0.881]])
        """
        second = np.exp(-np.logaddexp(0.0, -outputs))
        return np.hstack([1.0 - second, second])

    def predict(self, outputs: FloatArray) -> FloatArray:
        """Return 1 where the log-odds are positive, else 0."""
        return (outputs[:, 0] > 0.0).astype(np.float64)
