"""The interface of models: a loss of linear outputs.

A model's weights are a matrix W of shape (d, columns); its outputs for records Z of shape (n, d) are Z W. The last
column of Z is the constant 1, so the last row of W is the intercept. Losses are functions of the outputs alone, so k
live models share one pass over the records: Z [W_1 | ... | W_k].
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfl.arrays import FloatArray

Link = Literal["softmax", "logistic", "identity"]

# What models predict: labels or numbers.
Task = Literal["classification", "regression"]


def score_bound(labels: int) -> float:
    """Return 2 ln K, K = max(2, labels): the cross-entropy in nats that scores 1, twice that of a uniform guess.

    >>> round(score_bound(7), 4)
    3.8918
    """
    return 2.0 * math.log(max(2, labels))


def proper_bound(labels: int) -> float:
    """Return 4 ln K, K = max(2, labels): the cross-entropy in nats at which the proper score is clipped.

    A label with predicted probability K^-4 has this loss. With two labels, calibrated probabilities then have the
    least mean if more than an eighth of the records are unpredictable. By the score, a model that is always certain
    would have the least mean.

    >>> round(proper_bound(7), 4)
    7.7836
    """
    return 2.0 * score_bound(labels)


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """Predictions and scores of several models on the same records, from one pass over their outputs."""

    prediction: Callable[[int], FloatArray]  # the label indices or targets that a model predicts, shape (n,)
    scores: FloatArray  # the scores that tests use, shape (models, n)
    proper: FloatArray  # the proper scores by which models compete, shape (models, n)
    derivatives: FloatArray  # d loss / d outputs of the trained models, shape (trained, columns, n)


class Model(abc.ABC):
    """A loss that is convex in the outputs, the score that tests use, and the score by which models compete.

    Tests need scores that no single record can dominate, so these are clipped early. That hardly punishes confident
    mistakes: on records that are hard to predict, the best clipped score belongs to a model that is always certain.
    So models compete by a score that is (nearly) proper: calibrated probabilities have the least. A third of it is
    the error, which is the goal; the rest has more information a record.

    Attributes
    ----------
    link
        The function that turns outputs into predictions.
    """

    link: ClassVar[Link]

    @abc.abstractmethod
    def columns(self, labels: int) -> int:
        """Return the number of columns of W when `labels` labels are registered."""

    @abc.abstractmethod
    def losses(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return the training loss of each record, unclipped, shape (n,)."""

    @abc.abstractmethod
    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return d loss / d outputs, the shape of the outputs."""

    @abc.abstractmethod
    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both at once, which is cheaper where they share work."""

    @abc.abstractmethod
    def score_all(self, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]) -> ModelScores:
        """Return the predictions and scores of several models, and the derivatives of some.

        The numbers equal those of the methods for a single model, to the last bit.

        Parameters
        ----------
        outputs
            Outputs of all models, shape (models, columns, n), C-contiguous.
        y
            Label indices or targets, shape (n,).
        labels
            The number of labels that were registered when the epoch began.
        trained
            The indices of the models whose derivatives are wanted.
        """

    @abc.abstractmethod
    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return the scores that tests use: losses over their bound, clipped to [0, 1], shape (n,).

        `labels` is the number of labels registered when the epoch began. In classification the loss of a record
        whose label index lies outside the outputs' columns is infinite, so it scores 1.
        """

    @abc.abstractmethod
    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return the scores by which models compete, in [0, 1], shape (n,), given outputs and their losses."""

    @abc.abstractmethod
    def log_likelihoods(self, outputs: FloatArray) -> FloatArray:
        """Return ln p of each label, shape (n, labels); shape (n, 0) in regression."""

    @abc.abstractmethod
    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return the probability of each label, shape (n, labels), rows summing to 1; shape (n, 0) in regression."""

    @abc.abstractmethod
    def predict(self, outputs: FloatArray) -> FloatArray:
        """Return the predicted label index (or target) of each record, shape (n,)."""


def judged_one_by_one(
    model: Model, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]
) -> ModelScores:
    """Return `Model.score_all` of several models by the methods for a single one."""
    losses = [model.losses(columns.T, y) for columns in outputs]
    proper = [model.proper_scores(columns.T, y, lost, labels) for columns, lost in zip(outputs, losses, strict=True)]
    derivatives = [model.derivative(outputs[i].T, y).T for i in trained]
    return ModelScores(
        prediction=lambda i: model.predict(outputs[i].T),
        scores=np.array([model.scores(lost, labels) for lost in losses]),
        proper=np.array(proper),
        derivatives=np.array(derivatives) if derivatives else outputs[:0],
    )


def gradient(model: Model, W: FloatArray, Z: FloatArray, y: FloatArray, *, l2: float = 0.0) -> FloatArray:
    """Return the gradient of the mean loss on (Z, y) plus l2/2 |W|^2, at W.

    Parameters
    ----------
    W
        Weights, shape (d, columns).
    Z, y
        Records, shapes (n, d) with n >= 1, and (n,).
    l2
        Weight of the penalty, which includes the intercept.

    Examples
    --------
    >>> from streamfl.models.softmax import Softmax
    >>> gradient(Softmax(), np.zeros((1, 2)), np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    array([[-0.25,  0.25]])
    """
    slope: FloatArray = Z.T @ model.derivative(Z @ W, y)
    slope /= len(y)
    if l2:
        slope += l2 * W
    return slope


def objective(model: Model, W: FloatArray, Z: FloatArray, y: FloatArray, *, l2: float = 0.0) -> float:
    """Return the mean loss on (Z, y) plus l2/2 |W|^2, whose gradient is `gradient`."""
    return float(np.mean(model.losses(Z @ W, y)) + 0.5 * l2 * np.sum(W * W))
