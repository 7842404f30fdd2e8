"""FedAvg: local gradient steps, averaged by the number of records; and FedProx, which pulls them back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.learning.model import gradient
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork, copies, weighted


@dataclass
class FedAvgPeer(LinearPeer):
    """w <- w - eta (grad F_n(w) + mu (w - x)) on every client, from w = x; then x <- sum p_n w_n.

    A client that takes fewer steps, for lack of records, is averaged like the rest: the partial work of FedProx.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta
        Step size; constant, 1/sqrt(T) for the bound of Ganguly and Aggarwal's Theorem 1.
    work
        Local steps and their batches.
    l2
        Weight of the penalty.
    mu
        FedProx: the strength of the pull to the round's model, in its source 0.001, 0.01, 0.1, 0.5 or 1.

    References
    ----------
    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017, Algorithm 1;
    Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> peer = FedAvgPeer(np.zeros((1, 2)), eta=1.0, l2=0.0)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W
    array([[ 0.25, -0.25]])
    >>> peer = FedAvgPeer(np.zeros((1, 2)), eta=1.0, work=LocalWork(3), l2=0.0, mu=0.5)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> round(float(peer.W[0, 0]), 4)  # 0.25, then 0.25 + (0.75 - 0.6225) - 0.5 * 0.25 = 0.2525, then ..
    0.2526
    """

    W: FloatArray
    eta: float
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    mu: float = 0.0

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if records(clients):
            self.W = averaged(self.W, t, clients, eta=self.eta, work=self.work, l2=self.l2, mu=self.mu)
        return None


def averaged(
    W: FloatArray,
    t: int,
    clients: Sequence[ClientRecords],
    *,
    eta: float,
    work: LocalWork,
    l2: float,
    mu: float = 0.0,
) -> FloatArray:
    """Return the mean of the clients' models after the local steps of round t from W, weighted by records."""
    if work.one_full_step:
        round_ = pooled(clients)
        return W - eta * gradient(SOFTMAX, W, round_.Z, round_.y, l2=l2)
    models = copies(W, clients)
    for step in work.plan(t, clients):
        w = models[step.clients]
        models[step.clients] -= eta * (step.gradients(w, l2) + mu * (w - W))
    return weighted(shares(clients), models)
