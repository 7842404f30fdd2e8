"""CBCE: coin betting for changing environments, a strongly adaptive learner."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records
from streamfl_benchmarks.peers.local_work import weighted


@dataclass
class Bettor:
    """Gradient descent on one interval, with the wealth of a bettor on its coin.

    Parameters
    ----------
    start, end
        First and last round of its interval.
    W
        Its model, shape (d, K).
    gains
        Sum of g over its rounds so far, g the loss of what was played less its own, in [-1, 1].
    wealth
        1 + the sum of bet * g: the wealth of a bettor with initial wealth 1.
    """

    start: int
    end: int
    W: FloatArray
    gains: float = 0.0
    wealth: float = 1.0

    @property
    def prior(self) -> float:
        """Return pi_J, up to a factor that all share.

        >>> Bettor(4, 7, np.zeros((1, 2))).prior  # 1 / (4^2 (1 + log2 4))
        0.020833333333333332
        """
        return 1.0 / (self.start**2 * (1 + int(math.log2(self.start))))

    def bet(self, t: int) -> float:
        """Return the Krichevsky-Trofimov bet for round t: wealth times gains over (rounds so far + 1)."""
        return self.wealth * self.gains / (t - self.start + 1)

    def settle(self, t: int, gain: float) -> None:
        """Take round t's gain; one that bets nothing, or against itself, cannot lose: its losses do not count."""
        bet = self.bet(t)
        g = gain if bet > 0.0 else max(0.0, gain)
        self.wealth += bet * g
        self.gains += g


@dataclass
class CBCE(LinearPeer):
    """One gradient descent for every interval of the geometric cover; the model is their mean, weighted by bets.

    Intervals are [i 2^k, (i + 1) 2^k - 1], i >= 1, k >= 0: log2(t) + 1 of them hold round t. Weights are
    p_J ~ pi_J max(0, bet_J) over those, or pi_J if no bet is positive. The instance of an interval of 2^k rounds
    steps with step / sqrt(2^k). Rounds without records do not count.

    The source's regret, about sqrt(|I|) on every interval I, is for convex losses in [0, 1]; the loss that is bet
    on here is the clipped score min(CE, 2 ln K) / (2 ln K), which is convex only below its bound.

    Parameters
    ----------
    W
        The model that instances start from, and the mean of the live ones' models, shape (d, K).
    step
        Step size of an interval of one round.
    warm
        Start instances from the mean at that time instead of the first model. At t = 2^k every interval is new, so
        from scratch, as in the source, these rounds are predicted by an untrained model.
    l2
        Weight of the penalty.

    References
    ----------
    Jun, Orabona, Wright and Willett, "Improved strongly adaptive online learning using coin betting", AISTATS 2017,
    Section 3; Daniely, Gonen and Shalev-Shwartz 2015 for the cover.

    Examples
    --------
    >>> peer = CBCE(np.zeros((1, 2)), step=1.0)
    >>> for t in range(1, 6):
    ...     _ = peer.learn(t, [ClientRecords(np.ones((1, 1)), np.zeros(1))], 0.5)
    >>> [(live.start, live.end) for live in peer.live]  # for round 6
    [(4, 7), (6, 6), (6, 7)]
    """

    W: FloatArray
    step: float
    warm: bool = False
    l2: float = 2e-4
    clock: int = 1
    live: list[Bettor] = field(init=False)
    first: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start the only interval that holds round 1: itself."""
        self.first = self.W
        self.live = [Bettor(1, 1, self.W)]

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t: bet, step, and replace the instances whose intervals end."""
        if records(clients):
            self._settle_and_step(pooled(clients))
            self.clock += 1
            self._renew()
            self.W = self._mean()
        return None

    def weights(self) -> FloatArray:
        """Return the weight of each live instance in the coming round; they sum to 1."""
        prior = np.array([live.prior for live in self.live])
        bets = prior * np.maximum(0.0, [live.bet(self.clock) for live in self.live])
        p = bets if bets.any() else prior
        weights: FloatArray = p / p.sum()
        return weights

    def _settle_and_step(self, round_: ClientRecords) -> None:
        labels = self.W.shape[1]
        models = [self.W, *(live.W for live in self.live)]
        # One pass over the records for all models.
        outputs = np.split(round_.Z @ np.concatenate(models, axis=1), len(models), axis=1)
        played = _score(SOFTMAX.losses(outputs[0], round_.y), labels)
        for live, own in zip(self.live, outputs[1:], strict=True):
            losses, slopes = SOFTMAX.losses_and_derivative(own, round_.y)
            live.settle(self.clock, played - _score(losses, labels))
            slope = round_.Z.T @ slopes / len(round_.y) + self.l2 * live.W
            live.W = live.W - self.step / math.sqrt(live.end - live.start + 1) * slope

    def _renew(self) -> None:
        start = self._mean() if self.warm else self.first
        self.live = [live for live in self.live if live.end >= self.clock]
        self.live += [Bettor(self.clock, end, start) for end in ends(self.clock)]

    def _mean(self) -> FloatArray:
        return weighted(self.weights(), np.stack([live.W for live in self.live]))


def ends(start: int) -> list[int]:
    """Return the last rounds of the intervals of the geometric cover that start at a round.

    >>> ends(1), ends(12)
    ([1], [12, 13, 15])
    """
    lengths = [2**k for k in range(start.bit_length()) if start % 2**k == 0]
    return [start + length - 1 for length in lengths]


def _score(losses: FloatArray, labels: int) -> float:
    return float(SOFTMAX.scores(losses, labels).mean())
