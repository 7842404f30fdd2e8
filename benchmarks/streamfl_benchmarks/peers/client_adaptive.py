"""Client-side AdaGrad and Adam: clients take adaptive local steps, the server averages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork, copies, weighted


@dataclass
class ClientAdaptive(LinearPeer):
    """w <- w - eta u on every client, from w = x, u the local rule's direction; then x <- sum p_n w_n.

    With g = grad F_n(w), elementwise, in local step j of the round:
    adagrad: v <- v + g^2, u = g / (sqrt(v) + epsilon);
    adam: m <- 0.9 m + 0.1 g, v <- 0.99 v + 0.01 g^2, u = (m / (1 - 0.9^j)) / (sqrt(v / (1 - 0.99^j)) + epsilon).

    Moments start afresh every round, so clients keep nothing between rounds and may come and go; hence several steps.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    rule
        Which direction.
    eta
        Step size: about how far a weight moves in a local step.
    epsilon
        Keeps rarely used weights from moving as far as the others.
    work
        Local steps and their batches.
    l2
        Weight of the penalty.

    References
    ----------
    Wang et al., "Local adaptivity in federated learning: convergence and consistency", 2021, with restarted moments;
    Duchi et al. 2011 (AdaGrad); Kingma and Ba 2015 (Adam).

    Examples
    --------
    >>> peer = ClientAdaptive(np.zeros((1, 2)), "adagrad", eta=0.1, epsilon=0.0, work=LocalWork(), l2=0.0)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W  # the first step of AdaGrad, and of Adam, is eta times the gradient's sign
    array([[ 0.1, -0.1]])
    """

    W: FloatArray
    rule: Literal["adagrad", "adam"]
    eta: float
    epsilon: float = 0.01
    work: LocalWork = field(default_factory=lambda: LocalWork(steps=10))
    l2: float = 2e-4

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        models = copies(self.W, clients)
        m, v = np.zeros_like(models), np.zeros_like(models)
        # A client that takes step j has taken all steps before it, so j is the age of its moments.
        for j, step in enumerate(self.work.plan(t, clients), start=1):
            taking = step.clients
            g = step.gradients(models[taking], self.l2)
            b1, b2 = (0.9, 0.99) if self.rule == "adam" else (0.0, 0.0)
            m[taking] = b1 * m[taking] + (1.0 - b1) * g
            v[taking] = b2 * v[taking] + (1.0 - b2) * g**2 if b2 else v[taking] + g**2
            first, second = m[taking] / (1.0 - b1**j), v[taking] / (1.0 - b2**j)
            models[taking] -= self.eta * first / (np.sqrt(second) + self.epsilon)
        self.W = weighted(shares(clients), models)
        return None
