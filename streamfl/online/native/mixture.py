"""Mixtures of the experts' predictions, which a client serves. Their weights stay at the client."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl.learning.grid import SHARE, on_grid, shares_on_grid
from streamfl.online.native.kernels.mixing import (
    MIXTURES,
    RUNNING,
    Mixing,
    Predictions,
)
from streamfl.online.native.mixture_state import MixtureState
from streamfl.online.native.running_scaler import known
from streamfl.protocol.native.mixed import LARGEST_SQUARE, LARGEST_WEIGHT, AgreedMixture
from streamfl.protocol.native.settings import STACKING


@dataclass
class Mixture:
    """Mixes what experts predict by fixed share and by two stacked mixtures; then these three.

    Of labels the stacked ones are softmaxes over the experts' log-probabilities, of targets linear combinations.
    These are the weights, with which compiled loops mix and which they learn.
    """

    experts: int
    mixing: Mixing = field(init=False)

    def __post_init__(self) -> None:
        """Begin with equal weights."""
        n = self.experts
        best, stacked = np.full(n, 1.0 / n), np.full((len(STACKING), n), 1.0 / n)
        outer, awake = np.full(MIXTURES, 1.0 / MIXTURES), np.ones(n, np.bool_)
        self.mixing = Mixing(
            best, stacked, outer, np.zeros(1, RUNNING), awake, known(np.full(1, np.nan), np.zeros(1), np.zeros(1))
        )

    def state(self) -> MixtureState:
        """Return the state to be saved."""
        best, stacked, outer = (part.copy() for part in self.mixing[:3])
        norm, variance, seen = self.mixing.running[0].item()
        targets, counted = self.mixing.targets, int(self.mixing.targets.seen[0])
        near, total, square = (float(part[0]) for part in (targets.near, targets.total, targets.square))
        of_targets = (near if counted else 0.0, total, square, counted, targets.first[:, 0].copy())
        return MixtureState(best, stacked, outer, norm, variance, int(seen), *of_targets)

    def restore(self, state: MixtureState) -> None:
        """Continue from a saved state."""
        self.mixing.best[:], self.mixing.stacked[:], self.mixing.outer[:] = state.best, state.stacked, state.outer
        self.mixing.running[0] = (state.norm, state.variance, state.seen)
        targets, seen = self.mixing.targets, state.seen if state.known is None else state.known
        targets.near[:], targets.seen[:] = state.near if seen else np.nan, seen
        targets.total[:], targets.square[:], targets.first[:, 0] = state.total, state.square, state.first

    @property
    def has_learnt(self) -> bool:
        """Tell whether its weights come from records."""
        return bool(self.mixing.running[0]["records"])

    def begin(self, agreed: AgreedMixture, awake: BoolArray, shared: BoolArray | None = None) -> None:
        """Continue from the agreed weights.

        Parameters
        ----------
        agreed
            The weights; equal ones if none are known.
        awake
            The experts that are awake, shape (experts,): see `wake`.
        shared
            The experts that `agreed` weighs, shape (experts,); None: all. The others are the client's own. In the
            mixture by fixed share they get equal shares, in the stacked ones, which could be wrong by any factor,
            none.

        Examples
        --------
        >>> agreed = AgreedMixture(np.array([0.9, 0.1]), np.array([[2.0, 0.5], [1.0, 0.0]]), np.ones(3) / 3.0)
        >>> mixture = Mixture(3)
        >>> mixture.begin(agreed, np.ones(3, np.bool_), np.array([True, False, True]))
        >>> mixture.mixing.best.round(3), mixture.mixing.stacked[0]
        (array([0.6  , 0.333, 0.067]), array([2. , 0. , 0.5]))
        """
        shared = np.ones(self.experts, np.bool_) if shared is None or not agreed.is_known else shared
        start, mixing = agreed if agreed.is_known else AgreedMixture.equal(self.experts), self.mixing
        mixing.best[:], mixing.stacked[:] = 1.0 / self.experts, 0.0
        mixing.best[shared], mixing.stacked[:, shared] = shared.mean() * start.best, start.stacked
        mixing.outer[:] = start.outer
        mixing.running[0] = (start.norm, start.variance, start.records)
        mixing.awake[:] = True
        self.wake(awake)

    def report(self) -> AgreedMixture:
        """Return the weights as they are sent."""
        best, stacked, outer = self.mixing[:3]
        norm, variance, records = self.mixing.running[0].item()
        return AgreedMixture(
            shares_on_grid(best),
            on_grid(stacked, np.full(stacked.shape, 2.0**SHARE)).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT),
            shares_on_grid(outer),
            min(norm, LARGEST_SQUARE),
            min(variance, LARGEST_SQUARE),
            int(records),
        )

    def wake(self, awake: BoolArray) -> None:
        """Wake some experts and put all others to sleep; these lose their weight until they wake and earn one again.

        Parameters
        ----------
        awake
            The experts that are awake, shape (experts,).

        Examples
        --------
        >>> mixture = Mixture(3)
        >>> mixture.wake(np.array([True, False, True]))
        >>> mixture.shares
        array([0.5, 0. , 0.5])
        """
        mixing, put_to_sleep = self.mixing, self.mixing.awake & ~awake
        mixing.awake[:] = awake
        if mixing.best[put_to_sleep].any() or mixing.stacked[:, put_to_sleep].any():
            mixing.best[put_to_sleep], mixing.stacked[:, put_to_sleep] = 0.0, 0.0
            mixing.best[:] = mixing.best / mixing.best.sum() if mixing.best.any() else awake / awake.sum()

    @property
    def shares(self) -> FloatArray:
        """Return the approximate share of each expert in the predictions, shape (experts,), summing to 1.

        A negative weight is no share; if a stacked mixture has no positive weight, all experts that are awake share
        it equally.
        """
        return self._parts(np.maximum(self.mixing.stacked, 0.0))

    @property
    def influence(self) -> FloatArray:
        """Return the shares with negative weights counted by magnitude: these experts also change the predictions."""
        return self._parts(np.abs(self.mixing.stacked))

    def _parts(self, weights: FloatArray) -> FloatArray:
        weights[~weights.any(axis=1)] = self.mixing.awake
        stacked = weights / weights.sum(axis=1, keepdims=True)
        parts: FloatArray = self.mixing.outer @ np.vstack([self.mixing.best, stacked])
        return parts


def room(experts: int, columns: int) -> Predictions:
    """Return arrays for the predictions of one record."""
    return Predictions(
        by_expert=np.zeros((experts, columns)),
        bounded=np.zeros((experts, columns)),
        centred=np.zeros((experts, columns)),
        by_mixture=np.zeros((MIXTURES, columns)),
        mixed=np.zeros(columns),
    )
