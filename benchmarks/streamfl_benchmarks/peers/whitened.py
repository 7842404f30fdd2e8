"""FedAvg in whitened features with a falling step; restarts are added by `restarting`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.model import gradient
from streamfl.learning.second_moments import SecondMoments
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records


@dataclass
class Whitened(LinearPeer):
    """W <- W - s / sqrt(n) A^-1 grad F(W) in the n-th round, A the second moments that `adaptive` whitens by.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    step
        s.
    l2
        Weight of the penalty.

    Examples
    --------
    >>> peer = Whitened(np.zeros((1, 2)), step=1.05, l2=0.0)
    >>> peer.learn(1, [ClientRecords(2 * np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W  # the slope -1/2, the second moment 4 and a twentieth more
    array([[ 0.125, -0.125]])
    """

    W: FloatArray
    step: float
    l2: float = 2e-4
    rounds: int = 0
    second: SecondMoments = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no moments."""
        self.second = SecondMoments(np.zeros((len(self.W), len(self.W))), 0.0)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if records(clients):
            own = pooled(clients)
            parts, n = [own.Z.T @ own.Z], len(own.y)
            slope = gradient(SOFTMAX, self.W, own.Z, own.y, l2=self.l2)
            self.rounds += 1
            eta = self.step / math.sqrt(self.rounds)
            self.W = self.W - eta * self.second.beside(parts, n, of=n).whitened(slope)
            self.second = self.second.after(parts, n)
        return None
