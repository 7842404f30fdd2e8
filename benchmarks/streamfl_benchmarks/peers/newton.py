"""Newton's method with forgetting: the plain learner to hold against drift handling."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.model import gradient
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records


@dataclass
class Newton(LinearPeer):
    """H <- forget H + Hessian of F(W); W <- W - H^-1 grad F(W). No detector, no restart, one model.

    Near the minimiser that is least squares with exponential forgetting on the expansions of the rounds, 1 - forget
    being the share of the newest. It shows the gain of second moments alone, without any drift handling.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    forget
        What is left of the curvature after a round, in [0, 1).
    l2
        Weight of the penalty.
    ridge
        Added to the curvature of every round, so that directions without records do not move.

    References
    ----------
    Jazwinski, "Stochastic processes and filtering theory", 1970, Section 8: the extended filter with fading memory.

    Examples
    --------
    >>> peer = Newton(np.zeros((1, 2)), forget=0.0, l2=0.0, ridge=1e-9)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W.round(6)  # the slope is -1/4, the curvature along (1, -1) 1/2
    array([[ 0.5, -0.5]])
    """

    W: FloatArray
    forget: float
    l2: float = 2e-4
    ridge: float = 1e-3
    curvature: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no curvature."""
        self.curvature = np.zeros((self.W.size, self.W.size))

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if records(clients):
            own = pooled(clients)
            new = hessian(self.W, own.Z) + (self.l2 + self.ridge) * np.eye(self.W.size)
            self.curvature = self.forget * self.curvature + new
            slope = gradient(SOFTMAX, self.W, own.Z, own.y, l2=self.l2)
            self.W = self.W - np.linalg.solve(self.curvature, slope.T.ravel()).reshape(self.W.T.shape).T
        return None


def hessian(W: FloatArray, Z: FloatArray) -> FloatArray:
    """Return the mean Hessian of the cross-entropy at W, its rows label by label, shape (K d, K d).

    >>> hessian(np.zeros((1, 2)), np.ones((3, 1)))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    (d, K), p = W.shape, SOFTMAX.probabilities(Z @ W)
    found = np.empty((K, d, K, d))
    for a in range(K):
        for b in range(a + 1):
            weight = p[:, a] * ((a == b) - p[:, b])
            block = Z.T @ (weight[:, None] * Z) / len(Z)
            found[a, :, b, :] = found[b, :, a, :] = block  # each block is its own transpose
    return found.reshape(K * d, K * d)
