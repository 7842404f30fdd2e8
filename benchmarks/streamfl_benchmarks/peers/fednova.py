"""FedNova: clients' differences are divided by the work behind them before they are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork, copies, weighted


@dataclass
class FedNova(LinearPeer):
    """Client i takes tau_i local steps to x_i; d_i = (x - x_i) / (eta a_i); x <- x - tau_eff eta sum p_i d_i.

    a_i sums the weights with which the tau_i gradients enter x_i: it starts at 0, with c = 0, and each step does
    c <- momentum c + 1, a <- (1 - eta mu) a + c. So plain SGD has a_i = tau_i, and a client that took many steps does
    not pull the average towards its own optimum. tau_eff = sum p_i a_i, with a pull (mu > 0) sum p_i tau_i.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta
        Step size.
    momentum, mu
        Local momentum, and the pull to the round's model; at most one of them is not 0.
    work
        Local steps; with batches of a fixed size clients with more records take more steps.
    l2
        Weight of the penalty.

    References
    ----------
    Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization", 2020,
    Section 4 and equation (7).

    Examples
    --------
    >>> heavy = FedNova(np.zeros((1, 2)), eta=0.1, momentum=0.5)
    >>> heavy.work_of(3)  # c = 1, 1.5, 1.75
    4.25
    """

    W: FloatArray
    eta: float
    momentum: float = 0.0
    mu: float = 0.0
    work: LocalWork = field(default_factory=lambda: LocalWork(batch=20))
    l2: float = 2e-4

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        p, tau = shares(clients), self.work.taken(clients)
        a = np.array([self.work_of(int(steps)) for steps in tau])
        tau_eff = float(p @ (tau if self.mu else a))
        # A client without records has a_i = 0, took no step, and weighs nothing.
        self.W = self.W - tau_eff * weighted(p / np.maximum(a, 1.0), self.W - self._stepped(t, clients))
        return None

    def work_of(self, tau: int) -> float:
        """Return a_i of tau local steps."""
        a = c = 0.0
        for _ in range(tau):
            c = self.momentum * c + 1.0
            a = (1.0 - self.eta * self.mu) * a + c
        return a

    def _stepped(self, t: int, clients: Sequence[ClientRecords]) -> FloatArray:
        models = copies(self.W, clients)
        velocity = np.zeros_like(models)
        for step in self.work.plan(t, clients):
            w = models[step.clients]
            pull = self.mu * (w - self.W)
            velocity[step.clients] = self.momentum * velocity[step.clients] + step.gradients(w, self.l2) + pull
            models[step.clients] -= self.eta * velocity[step.clients]
        return models
