"""What the method asks of a model: a loss of linear outputs.

A model here is a weight matrix W of shape (d, columns); its outputs for records Z of shape (n, d) are Z W. The
last column of Z is the constant 1, so the last row of W is the intercept. Everything that tells one model from
another is a function of the outputs, so k live models share one pass over the records: Z [W_1 | ... | W_k].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from streamfl.core.arrays import FloatArray

Link = Literal["softmax", "logistic", "identity"]


def score_bound(labels: int) -> float:
    """Return 2 ln K, K = max(2, labels): the cross-entropy in nats that scores 1, twice that of a guess.

    >>> round(score_bound(7), 4)
    3.8918
    """
    return 2.0 * math.log(max(2, labels))


def proper_bound(labels: int) -> float:
    """Return 4 ln K, K = max(2, labels): the cross-entropy in nats from which on a proper score grows no more.

    That of a label to which a probability of K^-4 was given. Of two labels, honest probabilities then have the least
    mean where more than an eighth of the records cannot be foretold; by the score, a model that is always sure has.

    >>> round(proper_bound(7), 4)
    7.7836
    """
    return 2.0 * score_bound(labels)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What several models are worth on the same records, from one pass over their outputs.

    Parameters
    ----------
    scores
        What tests look at, shape (models, n).
    proper
        What models compete by, shape (models, n).
    derivatives
        d loss / d outputs of those models of which it was asked, shape (those, columns, n).
    """

    scores: FloatArray
    proper: FloatArray
    derivatives: FloatArray


class Model(Protocol):
    """A loss that is convex in the outputs, the score that tests look at, and the one by which models compete.

    Tests want scores that a single record cannot dominate, so they are clipped early; but that forgives a model for
    being sure and wrong, and where hardly anything can be told apart the best such score belongs to a model that is
    always sure. Models compete by a score that is (nearly) proper: honest probabilities have the least. A third of it
    is the error, which is what is asked for; the rest tells more of each record.
    """

    @property
    def link(self) -> Link:
        """Return how outputs become what is predicted."""
        ...

    def columns(self, labels: int) -> int:
        """Return the number of columns of W when `labels` labels are registered."""
        ...

    def losses(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return the training loss of each record, unclipped, shape (n,)."""
        ...

    def derivative(self, outputs: FloatArray, y: FloatArray) -> FloatArray:
        """Return d loss / d outputs, the shape of the outputs."""
        ...

    def losses_and_derivative(self, outputs: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return both at once, for the price of one where they share their work."""
        ...

    def judged(self, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]) -> Judged:
        """Return the scores of several models, and the derivatives of some.

        The same numbers, to the last bit, as from the methods for a single one.

        Parameters
        ----------
        outputs
            Of all models, shape (models, columns, n), in one piece.
        y
            Label indices or targets, shape (n,).
        labels
            How many were registered when the epoch began.
        trained
            The models whose derivatives are wanted, by number.
        """
        ...

    def scores(self, losses: FloatArray, labels: int) -> FloatArray:
        """Return losses clipped to [0, 1], shape (n,): what tests look at.

        `labels` is the number of labels registered when the epoch began. In classification the loss of a record
        whose label index lies outside the outputs' columns is infinite, so it scores 1.
        """
        ...

    def proper_scores(self, outputs: FloatArray, y: FloatArray, losses: FloatArray, labels: int) -> FloatArray:
        """Return what models compete by, in [0, 1], shape (n,), of outputs with these losses."""
        ...

    def log_likelihoods(self, outputs: FloatArray) -> FloatArray:
        """Return ln p of each label, shape (n, labels); of shape (n, 0) where outputs do not stand for labels."""
        ...

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return the probability of each label, shape (n, labels), rows summing to 1; (n, 0) for targets."""
        ...

    def predict(self, outputs: FloatArray) -> FloatArray:
        """Return the predicted label index (or target) of each record, shape (n,)."""
        ...


def judged_one_by_one(
    model: Model, outputs: FloatArray, y: FloatArray, labels: int, trained: Sequence[int]
) -> Judged:
    """Return what several models are worth from the methods for a single one; see `Model.judged`."""
    losses = [model.losses(columns.T, y) for columns in outputs]
    proper = [model.proper_scores(columns.T, y, lost, labels) for columns, lost in zip(outputs, losses, strict=True)]
    derivatives = [model.derivative(outputs[i].T, y).T for i in trained]
    return Judged(
        scores=np.array([model.scores(lost, labels) for lost in losses]),
        proper=np.array(proper),
        derivatives=np.array(derivatives) if derivatives else outputs[:0],
    )


def gradient(model: Model, W: FloatArray, Z: FloatArray, y: FloatArray, *, l2: float = 0.0) -> FloatArray:
    """Return the gradient of the mean loss on (Z, y) plus l2/2 |W|^2, at W.

    Parameters
    ----------
    model
        The loss.
    W
        Weights, shape (d, columns).
    Z, y
        Records, shapes (n, d) with n >= 1, and (n,).
    l2
        Weight of the penalty; the intercept is penalised like the rest.

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
    """Return the mean loss on (Z, y) plus l2/2 |W|^2: what `gradient` is the gradient of."""
    return float(np.mean(model.losses(Z @ W, y)) + 0.5 * l2 * np.sum(W * W))
