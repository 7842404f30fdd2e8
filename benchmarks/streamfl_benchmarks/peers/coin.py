"""Coin betting: a server without a step size, which bets on each weight as on a coin."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.model import gradient
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records


@dataclass
class CoinBetting(LinearPeer):
    """Each weight is a bet: the sum of its gradients, scaled, times the wealth that its bets have gained.

    For the gradient g of the pooled loss, elementwise: L <- max(L, |g|); G <- G + |g|;
    reward <- max(reward - w g, 0);
    theta <- theta - g; w <- theta / (L max(G + L, 100 L)) (L + reward). There is nothing to tune.

    Parameters
    ----------
    W
        The first model, shape (d, K); bets are added to 0.
    l2
        Weight of the penalty.

    References
    ----------
    Orabona and Tommasi, "Training deep networks without learning rates through coin betting", 2017, Algorithm 2,
    whose alpha is 100.

    Examples
    --------
    >>> peer = CoinBetting(np.zeros((1, 2)), l2=0.0)
    >>> coin = [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))]
    >>> peer.learn(1, coin, 0.5)
    >>> peer.W  # 0.25 / (0.25 * 25) * 0.25
    array([[ 0.01, -0.01]])
    """

    W: FloatArray
    l2: float = 2e-4
    alpha: float = 100.0
    largest: FloatArray = field(init=False)
    total: FloatArray = field(init=False)
    reward: FloatArray = field(init=False)
    theta: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start without wealth."""
        self.largest, self.total, self.reward, self.theta = (np.zeros_like(self.W) for _ in range(4))

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        round_ = pooled(clients)
        g = gradient(SOFTMAX, self.W, round_.Z, round_.y, l2=self.l2)
        self.largest = np.maximum(self.largest, np.abs(g))
        self.total = self.total + np.abs(g)
        self.reward = np.maximum(self.reward - self.W * g, 0.0)
        self.theta = self.theta - g
        scale = self.largest * np.maximum(self.total + self.largest, self.alpha * self.largest)
        bets = np.divide(self.theta, scale, out=np.zeros_like(scale), where=scale > 0.0)
        self.W = bets * (self.largest + self.reward)
        return None
