"""Linear regression with squared or Huber loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.model import Link, Model, ModelScores, judged_one_by_one


@dataclass(frozen=True, slots=True)
class Linear(Model):
    """Linear regression on targets in units of the epoch's robust scale.

    Examples
    --------
    >>> outputs, y = np.array([[1.0], [1.0]]), np.array([2.0, 5.0])
    >>> Linear().losses(outputs, y), Linear(loss="huber", delta=1.0).losses(outputs, y)
    (array([0.5, 8. ]), array([0.5, 3.5]))
    >>> Linear(cap=3.0).scores(np.array([0.5, 8.0]), 0).round(4)
    array([0.1111, 1.    ])
    """

    # `squared`: r^2 / 2. `huber`: r^2 / 2 up to |r| = delta, then delta (|r| - delta / 2).
    loss: Literal["squared", "huber"] = "squared"
    delta: float = 1.345  # where Huber's loss turns linear, in robust standard deviations
    cap: float = 3.0  # the residual, in robust standard deviations, whose loss scores 1; larger ones are clipped

    link: ClassVar[Link] = "identity"

    def columns(self, labels: int) -> int:
        """Return 1: a single target."""
        return 1

    def losses(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return r^2 / 2, or Huber's loss of r, r the residual."""
        return self._of(outputs[:, 0] - y)

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return r, clipped at delta for Huber's loss."""
        residual = outputs - y[:, None]
        return np.clip(residual, -self.delta, self.delta) if self.loss == "huber" else residual

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both."""
        return self.losses(outputs, y), self.derivative(outputs, y)

    def score_all(self, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]) -> ModelScores:
        """Return scores and derivatives of several models."""
        return judged_one_by_one(self, outputs, y, labels, trained)

    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return the loss over that of a residual of `cap`, at most 1."""
        return np.minimum(losses / self._of(np.array([self.cap])), 1.0)

    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return the scores: their minimum is a mean without the outliers, which is what should be predicted."""
        return self.scores(losses, labels)

    def log_likelihoods(self, outputs: FloatArray) -> FloatArray:
        """Return no columns: a target is not a label."""
        return np.zeros((len(outputs), 0))

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return no columns: a target is not a label."""
        return np.zeros((len(outputs), 0))

    def predict(self, outputs: FloatArray) -> FloatArray:
        """Return the outputs."""
        return outputs[:, 0]

    def _of(self, residual: FloatArray) -> FloatArray:
        square = 0.5 * residual * residual
        if self.loss == "squared":
            return square
        size = np.abs(residual)
        return np.where(size <= self.delta, square, self.delta * (size - 0.5 * self.delta))


@dataclass(frozen=True, slots=True)
class Huber(Linear):
    """Linear regression with Huber's loss."""

    loss: Literal["squared", "huber"] = "huber"
