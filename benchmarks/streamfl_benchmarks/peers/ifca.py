"""IFCA: several models, of which each client trains the one that fits its records best."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork, weighted


@dataclass
class IFCA(LinearPeer):
    """Each client takes the model with its least mean loss, and steps it; a model's clients are averaged by records.

    The records of the next round are predicted by the model that most records chose: where all clients drift
    together, they choose the same one. A model that no client chose stays as it is, so an old concept that returns
    finds its model.

    Parameters
    ----------
    W
        The shape (d, K) of a model; its values are not used.
    models
        The number of models.
    eta
        Step size.
    work
        Local steps.
    seed
        Seed of the first models, which are normal with variance 1 / d: equal ones would be chosen alike for ever.
    l2
        Weight of the penalty.

    References
    ----------
    Ghosh et al., "An efficient framework for clustered federated learning", NeurIPS 2020, Algorithm 1 with model
    averaging.

    Examples
    --------
    >>> peer = IFCA(np.zeros((1, 2)), models=2, eta=1.0, l2=0.0)
    >>> peer.stack = np.array([[[0.0, 0.0]], [[-1.0, 1.0]]])
    >>> heads = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> peer.learn(1, [heads], 0.5)
    >>> peer.stack[:, 0].tolist(), peer.W.tolist()  # the first model fits better, and steps by 0.75 - 0.5
    ([[0.25, -0.25], [-1.0, 1.0]], [[0.25, -0.25]])
    """

    W: FloatArray
    models: int
    eta: float
    work: LocalWork = field(default_factory=LocalWork)
    seed: int = 0
    l2: float = 2e-4
    stack: FloatArray = field(init=False)  # shape (models, d, K)

    def __post_init__(self) -> None:
        """Draw the first models."""
        drawn = generator(self.seed, "ifca").normal(size=(self.models, *self.W.shape))
        self.stack = drawn / np.sqrt(len(self.W))
        self.W = self.stack[0]

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        chosen, p = self._chosen(clients), shares(clients)
        stepped = self.stack[chosen]
        for step in self.work.plan(t, clients):
            w = stepped[step.clients]
            stepped[step.clients] = w - self.eta * step.gradients(w, self.l2)
        weights = np.bincount(chosen, weights=p, minlength=self.models)
        for k in np.flatnonzero(weights > 0.0):
            own = chosen == k
            self.stack[k] = weighted(p[own] / weights[k], stepped[own])
        self.W = self.stack[int(weights.argmax())]
        return None

    def _chosen(self, clients: Sequence[ClientRecords]) -> IntArray:
        """Return the index of each client's model; the first for a client without records, which weighs nothing."""
        losses = np.zeros((len(clients), self.models))
        for i, own in enumerate(clients):
            if len(own.y):
                losses[i] = [SOFTMAX.losses(own.Z @ W, own.y).mean() for W in self.stack]
        chosen: IntArray = losses.argmin(axis=1)
        return chosen
