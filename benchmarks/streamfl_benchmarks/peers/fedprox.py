"""FedProx: local steps that are pulled back to the round's model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork, copies, weighted


@dataclass
class FedProx(LinearPeer):
    """w <- w - eta (grad F_n(w) + mu (w - x)) on every client, from w = x; then x <- sum p_n w_n.

    A client that takes fewer steps, for lack of records, is averaged like the rest: the source's partial work.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta
        Step size.
    mu
        Strength of the pull; 0 is FedAvg.
    work
        Local steps and their batches. With one full step the pull is zero, and FedProx is FedAvg.
    l2
        Weight of the penalty.

    References
    ----------
    Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, Algorithm 2; there mu is
    one of 0.001, 0.01, 0.1, 0.5 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> peer = FedProx(np.zeros((1, 2)), eta=1.0, mu=0.5, l2=0.0)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> round(float(peer.W[0, 0]), 4)  # 0.25, then 0.25 + (0.75 - 0.6225) - 0.5 * 0.25 = 0.2525, then ..
    0.2526
    """

    W: FloatArray
    eta: float
    mu: float
    work: LocalWork = field(default_factory=lambda: LocalWork(steps=3))
    l2: float = 2e-4

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        models = copies(self.W, clients)
        for step in self.work.plan(t, clients):
            w = models[step.clients]
            models[step.clients] -= self.eta * (step.gradients(w, self.l2) + self.mu * (w - self.W))
        self.W = weighted(shares(clients), models)
        return None
