"""Mixtures of the models' predictions: what a client serves. They are its own, and are not sent."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, BoolArray, FloatArray
from streamfl.core.between.native.kernels.mixing import (
    MIXTURES,
    RUNNING,
    STACKING,
    Mixing,
    Said,
    learn_to_mix_labels,
    learn_to_mix_targets,
    mix_labels,
    mix_targets,
)
from streamfl.core.between.native.kernels.scaling import FIRST
from streamfl.core.between.native.running_scaler import known


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
    near: float = 0.0
    total: float = 0.0
    square: float = 0.0
    known: int = 0  # files of before have none: then it is `seen`
    first: FloatArray = field(default_factory=lambda: np.full(FIRST, np.nan))


@dataclass
class Mixture:
    """What mixtures share: the weights of the experts, by fixed share and stacked, and of the three together.

    Parameters
    ----------
    experts
        How many there are.
    """

    experts: int
    mixing: Mixing = field(init=False)
    _said: Said = field(init=False)

    def __post_init__(self) -> None:
        """Begin with equal weights."""
        n = self.experts
        best, stacked = np.full(n, 1.0 / n), np.full((len(STACKING), n), 1.0 / n)
        outer, awake = np.full(MIXTURES, 1.0 / MIXTURES), np.ones(n, np.bool_)
        self.mixing = Mixing(
            best, stacked, outer, np.zeros(1, RUNNING), awake, known(np.full(1, np.nan), np.zeros(1), np.zeros(1))
        )

    def state(self) -> MixtureState:
        """Return what has been learnt."""
        best, stacked, outer = (part.copy() for part in self.mixing[:3])
        norm, variance, seen = self.mixing.running[0].item()
        targets, counted = self.mixing.targets, int(self.mixing.targets.seen[0])
        near, total, square = (float(part[0]) for part in (targets.near, targets.total, targets.square))
        of_targets = (near if counted else 0.0, total, square, counted, targets.first[:, 0].copy())
        return MixtureState(best, stacked, outer, norm, variance, int(seen), *of_targets)

    def restore(self, state: MixtureState) -> None:
        """Go on from what had been learnt."""
        self.mixing.best[:], self.mixing.stacked[:], self.mixing.outer[:] = state.best, state.stacked, state.outer
        self.mixing.running[0] = (state.norm, state.variance, state.seen)
        targets, seen = self.mixing.targets, state.known or state.seen
        targets.near[:], targets.seen[:] = state.near if seen else np.nan, seen
        targets.total[:], targets.square[:], targets.first[:, 0] = state.total, state.square, state.first

    def wake(self, awake: BoolArray) -> None:
        """Wake some experts, and let all others sleep: these have no weight until they wake and earn one again.

        Parameters
        ----------
        awake
            Which are awake, shape (experts,).

        Examples
        --------
        >>> mixture = LabelMixture(3)
        >>> mixture.wake(np.array([True, False, True]))
        >>> mixture.shares
        array([0.5, 0. , 0.5])
        """
        mixing, gone = self.mixing, self.mixing.awake & ~awake
        mixing.awake[:] = awake
        if mixing.best[gone].any() or mixing.stacked[:, gone].any():
            mixing.best[gone], mixing.stacked[:, gone] = 0.0, 0.0
            mixing.best[:] = mixing.best / mixing.best.sum() if mixing.best.any() else awake / awake.sum()

    @property
    def shares(self) -> FloatArray:
        """Return what part each expert has in what is served, about; shape (experts,), summing to 1.

        What a negative weight argues against is no part; where there are only such weights, all have the same.
        """
        return self._parts(np.maximum(self.mixing.stacked, 0.0))

    @property
    def influence(self) -> FloatArray:
        """Return the same, but what argues against others has a part as well: without it another is served."""
        return self._parts(np.abs(self.mixing.stacked))

    def _parts(self, weights: FloatArray) -> FloatArray:
        weights[~weights.any(axis=1)] = self.mixing.awake
        stacked = weights / weights.sum(axis=1, keepdims=True)
        parts: FloatArray = self.mixing.outer @ np.vstack([self.mixing.best, stacked])
        return parts


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

    def mixed(self, P: FloatArray) -> FloatArray:
        """Return the probability of each label.

        Parameters
        ----------
        P
            What each expert says, shape (experts, labels).
        """
        self._said = room(*P.shape)
        self._said.by_expert[:] = P
        mix_labels(self.mixing, self._said)
        return self._said.mixed

    def learn(self, truth: float) -> None:
        """Learn from the index of the label that came, of the record that was mixed last."""
        learn_to_mix_labels(self.mixing, self._said, int(truth))


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

    def mixed(self, predicted: FloatArray) -> float:
        """Return the prediction, of those of the experts, shape (experts,)."""
        self._said = room(len(predicted), 1)
        self._said.by_expert[:, 0] = predicted
        mix_targets(self.mixing, self._said)
        return float(self._said.mixed[0])

    def learn(self, truth: float) -> None:
        """Learn from the target that came, of the record that was mixed last."""
        learn_to_mix_targets(self.mixing, self._said, truth)


def room(experts: int, columns: int) -> Said:
    """Return room for what is said of a record."""
    return Said(
        by_expert=np.zeros((experts, columns)),
        given=np.zeros((experts, columns)),
        centred=np.zeros((experts, columns)),
        offered=np.zeros((MIXTURES, columns)),
        mixed=np.zeros(columns),
    )
