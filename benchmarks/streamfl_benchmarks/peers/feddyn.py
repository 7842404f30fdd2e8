"""FedDyn: each client's objective has a term of its own, so that clients that differ agree on one model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, records
from streamfl_benchmarks.peers.corrected import CorrectedPeer
from streamfl_benchmarks.peers.local_work import LocalWork


@dataclass
class FedDyn(CorrectedPeer):
    """Client i takes local steps w <- w - eta (grad F_i(w) - g_i + alpha (w - x)) from w = x, to w_i.

    Then g_i <- g_i - alpha (w_i - x); at the server h <- h - alpha / C sum (w_i - x) over the clients that took part,
    C being the number of all, and x <- mean w_i - h / alpha. `own` has the g_i.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta, alpha
        Step size, and the strength of the pull.
    work
        Local steps.
    l2
        Weight of the penalty.

    References
    ----------
    Acar et al., "Federated learning based on dynamic regularization", ICLR 2021, Algorithm 1. There a client solves
    its local problem; here it takes the steps of `work` towards that.

    Examples
    --------
    >>> coin = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> peer = FedDyn(np.zeros((1, 2)), eta=1.0, alpha=0.5, l2=0.0)
    >>> peer.learn(1, [coin], 0.5)
    >>> peer.W  # the client steps to 0.25; h = -0.125, and x = 0.25 + 0.125 / 0.5
    array([[ 0.5, -0.5]])
    """

    W: FloatArray
    eta: float
    alpha: float
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    h: FloatArray = field(init=False)  # shape (d, K)

    def __post_init__(self) -> None:
        """Begin without corrections."""
        super().__post_init__()
        self.h = np.zeros_like(self.W)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        took_part = self.took_part(clients)
        moved = self.moved(t, clients, lambda w: self.alpha * (w - self.W)) * took_part[:, None, None]
        self.own -= self.alpha * moved
        self.h -= self.alpha * moved.mean(axis=0)
        self.W = self.W + moved.sum(axis=0) / took_part.sum() - self.h / self.alpha
        return None
