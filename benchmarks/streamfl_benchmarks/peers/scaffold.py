"""SCAFFOLD: control variates take out of each client's steps what its gradient differs from the mean one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, records
from streamfl_benchmarks.peers.corrected import CorrectedPeer
from streamfl_benchmarks.peers.local_work import LocalWork


@dataclass
class Scaffold(CorrectedPeer):
    """Client i takes K local steps w <- w - eta (grad F_i(w) - c_i + c) from w = x, to w_i.

    Then c_i' = c_i - c + (x - w_i) / (K eta), the mean gradient of these steps; at the server
    x <- x + server_step mean (w_i - x) over the clients that took part, and c <- c + sum (c_i' - c_i) / C, C being
    the number of all. `own` has the c_i, and c is their mean.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta, server_step
        Step sizes of the clients and of the server.
    work
        Local steps, each on all records of the round.
    l2
        Weight of the penalty.

    References
    ----------
    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020, Algorithm 1,
    option II.

    Examples
    --------
    >>> import numpy as np
    >>> coin = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> peer = Scaffold(np.zeros((1, 2)), eta=1.0, l2=0.0)
    >>> peer.learn(1, [coin, ClientRecords(np.ones((4, 1)), np.ones(4))], 0.5)
    >>> peer.W.tolist(), peer.own[:, 0, 0].tolist()  # the clients step to 0.25 and -0.5
    ([[-0.125, 0.125]], [-0.25, 0.5])
    """

    W: FloatArray
    eta: float
    server_step: float = 1.0
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        took_part = self.took_part(clients)
        c = self.own.mean(axis=0)
        moved = self.moved(t, clients, lambda w: c)[took_part]
        self.own[took_part] -= c + moved / (self.work.steps * self.eta)
        self.W = self.W + self.server_step * moved.mean(axis=0)
        return None
