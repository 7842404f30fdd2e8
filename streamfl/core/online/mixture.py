"""Mixtures of the models' predictions: what a client serves. They are its own, and never leave it."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray

# What part of its weight an expert gives back to all at every record.
SHARE = 0.001

# No probability counts as less than this part of a uniform one.
FLOOR = 0.01

# Rates of the steps by which weights of log-probabilities are learnt, and the records their norm reaches back.
STACKING = np.array([0.03, 0.3])
WINDOW = 10_000


@dataclass
class FixedShare:
    """A weight for each expert, by how likely it found the truth; the best one may change.

    Parameters
    ----------
    weights
        Shape (experts,), summing to 1.

    References
    ----------
    Herbster and Warmuth 1998.

    Examples
    --------
    >>> two = FixedShare.of(2)
    >>> two.learn(np.array([0.9, 0.1]))
    >>> two.weights
    array([0.8996, 0.1004])
    """

    weights: FloatArray

    @classmethod
    def of(cls, experts: int) -> "FixedShare":
        """Return equal weights."""
        return cls(np.full(experts, 1.0 / experts))

    def learn(self, likelihoods: FloatArray) -> None:
        """Weigh the experts by the probability that each gave to what came, shape (experts,)."""
        w = self.weights * likelihoods
        self.weights = (1.0 - SHARE) / w.sum() * w + SHARE / len(w)


@dataclass(frozen=True, eq=False)
class MixtureState:
    """All that a mixture has learnt: weights of the experts, by fixed share, stacked, and of the three together."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    norm: float
    variance: float
    seen: int


@dataclass
class Mixture:
    """What mixtures share: the weights of the experts, by fixed share and stacked, and of the three together.

    Parameters
    ----------
    experts
        How many there are.
    """

    experts: int
    best: FixedShare = field(init=False)
    stacked: FloatArray = field(init=False)
    outer: FixedShare = field(init=False)
    norm: float = 0.0
    variance: float = 0.0
    seen: int = 0

    def __post_init__(self) -> None:
        """Begin with equal weights."""
        self.best = FixedShare.of(self.experts)
        self.stacked = np.full((len(STACKING), self.experts), 1.0 / self.experts)
        self.outer = FixedShare.of(1 + len(STACKING))

    def state(self) -> MixtureState:
        """Return what has been learnt."""
        return MixtureState(
            self.best.weights, self.stacked.copy(), self.outer.weights, self.norm, self.variance, self.seen
        )

    def restore(self, state: MixtureState) -> None:
        """Go on from what had been learnt."""
        self.best, self.outer = FixedShare(state.best), FixedShare(state.outer)
        self.stacked = state.stacked.copy()
        self.norm, self.variance, self.seen = state.norm, state.variance, state.seen

    @property
    def shares(self) -> FloatArray:
        """Return what part each expert has in what is served, about; shape (experts,), summing to 1.

        What a negative weight argues against is no part; where there are only such weights, all have the same.
        """
        positive = np.maximum(self.stacked, 0.0)
        positive[~positive.any(axis=1)] = 1.0
        stacked = positive / positive.sum(axis=1, keepdims=True)
        shares: FloatArray = self.outer.weights @ np.vstack([self.best.weights, stacked])
        return shares


@dataclass
class LabelMixture(Mixture):
    """Mixes probabilities: by fixed share, and as two softmaxes over the experts' log-probabilities; then all three.

    Examples
    --------
    >>> mixture = LabelMixture(2)
    >>> P = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> mixture.mixed(P).round(3)
    array([0.69, 0.31])
    >>> for _ in range(100):
    ...     mixture.learn(1)
    ...     mixed = mixture.mixed(P)
    >>> mixed.round(2), mixture.shares.round(2)
    (array([0.02, 0.98]), array([0., 1.]))
    """

    _given: FloatArray = field(init=False)
    _centred: FloatArray = field(init=False)
    _offered: FloatArray = field(init=False)

    def mixed(self, P: FloatArray) -> FloatArray:
        """Return the probability of each label.

        Parameters
        ----------
        P
            What each expert says, shape (experts, labels).
        """
        given = np.maximum(P, FLOOR / P.shape[1])
        logs = np.log(given)
        centred = logs - logs.mean(axis=1, keepdims=True)
        offered = np.empty((1 + len(STACKING), P.shape[1]))
        offered[0] = self.best.weights @ given
        offered[1:] = _softmax(self.stacked @ centred)
        self._given, self._centred, self._offered = given, centred, offered
        p: FloatArray = self.outer.weights @ np.maximum(offered, FLOOR / P.shape[1])
        p /= p.sum()
        return p

    def learn(self, truth: float) -> None:
        """Learn from the index of the label that came, of the record that was mixed last."""
        code = int(truth)
        offered, centred = self._offered, self._centred
        self.outer.learn(np.maximum(offered[:, code], FLOOR / offered.shape[1]))
        self.best.learn(self._given[:, code])
        errors = offered[1:]
        errors[:, code] -= 1.0
        square = float(np.vdot(centred, centred))
        self.seen += 1
        self.norm += (square - self.norm) / min(self.seen, WINDOW)
        if self.norm > 0.0:
            self.stacked -= _normalised(STACKING, self.norm, square)[:, None] * (errors @ centred.T)


@dataclass
class TargetMixture(Mixture):
    """Mixes predicted targets: by fixed share under the best one's error, and as two linear combinations; then all.

    Examples
    --------
    >>> mixture = TargetMixture(2)
    >>> mixture.mixed(np.array([1.0, 3.0]))
    2.0
    >>> for _ in range(200):
    ...     mixture.learn(3.0)
    ...     mixed = mixture.mixed(np.array([1.0, 3.0]))
    >>> round(mixed, 2)
    3.0
    """

    _given: FloatArray = field(init=False)
    _offered: FloatArray = field(init=False)

    def mixed(self, predicted: FloatArray) -> float:
        """Return the prediction, of those of the experts, shape (experts,)."""
        self._given = predicted
        self._offered = np.concatenate([[self.best.weights @ predicted], self.stacked @ predicted])
        return float(self.outer.weights @ self._offered)

    def learn(self, truth: float) -> None:
        """Learn from the target that came, of the record that was mixed last."""
        given, offered = self._given, self._offered
        self.seen += 1
        rate = 1.0 / min(self.seen, WINDOW)
        self.variance += rate * (float(np.min((given - truth) ** 2)) - self.variance)
        self.outer.learn(self._likelihoods(offered - truth))
        self.best.learn(self._likelihoods(given - truth))
        square = float(given @ given)
        self.norm += rate * (square - self.norm)
        if self.norm > 0.0:
            steps = _normalised(STACKING, self.norm, square) * (offered[1:] - truth)
            self.stacked -= steps[:, None] * given

    def _likelihoods(self, errors: FloatArray) -> FloatArray:
        """Return normal likelihoods, none below a thousandth of the best: one outlier must not decide."""
        squares = errors * errors
        relative: FloatArray = np.exp(-0.5 * (squares - squares.min()) / max(self.variance, 1e-300))
        return np.maximum(relative, 1e-3)


def _softmax(outputs: FloatArray) -> FloatArray:
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    p: FloatArray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return p


def _normalised(rates: FloatArray, norm: float, square: float) -> FloatArray:
    """Return steps that no record can make overshoot, however large: rate / norm, less for large squares."""
    steps: FloatArray = rates / (norm + 0.5 * rates * square)
    return steps
