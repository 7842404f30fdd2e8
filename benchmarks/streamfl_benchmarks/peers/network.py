"""FedAvg of a small network: one hidden layer, stepped in small batches at each client, averaged by records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """The weights of the hidden layer, shape (d, hidden), and those of the outputs, shape (hidden + 1, K).

    Parameters
    ----------
    hidden, out
        The last row of `out` are intercepts; those of `hidden` belong to the constant among the features.
    """

    hidden: FloatArray
    out: FloatArray

    def activations(self, Z: FloatArray) -> FloatArray:
        """Return max(0, Z hidden) and a last column of ones, shape (n, hidden + 1)."""
        return np.column_stack([np.maximum(0.0, Z @ self.hidden), np.ones(len(Z))])

    def stepped(self, batch: ClientRecords, eta: float, l2: float) -> "Layers":
        """Return the layers after one step on the mean loss of some records, plus l2/2 |weights|^2."""
        active = self.activations(batch.Z)
        errors = SOFTMAX.derivative(active @ self.out, batch.y) / len(batch.y)
        behind = (errors @ self.out[:-1].T) * (active[:, :-1] > 0.0)
        kept = 1.0 - eta * l2
        return Layers(kept * self.hidden - eta * batch.Z.T @ behind, kept * self.out - eta * active.T @ errors)


@dataclass
class Network:
    """w <- w - eta grad F_n(w) over the layers of every client, batch by batch, then their mean weighted by records.

    Parameters
    ----------
    d, labels, units
        Features with the constant 1, labels, and hidden units.
    eta
        Step size.
    work
        Passes over a round's records, and their batches.
    seed
        Seed of the first hidden weights, which are normal with variance 2 / d; those of the outputs are 0.
    l2
        Weight of the penalty.

    References
    ----------
    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017; He et al.,
    "Delving deep into rectifiers", 2015, for the first weights.

    Examples
    --------
    >>> peer = Network(1, 2, units=8, eta=1.0, work=LocalWork(batch=1))
    >>> own = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> for t in range(9):
    ...     _ = peer.learn(t, [own], 0.5)
    >>> SOFTMAX.predict(peer.outputs(own.Z))
    array([0., 0., 0., 0.])
    """

    d: int
    labels: int
    units: int
    eta: float
    work: LocalWork = field(default_factory=lambda: LocalWork(batch=20))
    seed: int = 0
    l2: float = 2e-4
    layers: Layers = field(init=False)

    def __post_init__(self) -> None:
        """Draw the first hidden weights."""
        hidden = generator(self.seed, "network").normal(size=(self.d, self.units)) * np.sqrt(2.0 / self.d)
        self.layers = Layers(hidden, np.zeros((self.units + 1, self.labels)))

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the outputs of the averaged network."""
        outputs: FloatArray = self.layers.activations(Z) @ self.layers.out
        return outputs

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        own = [self.layers] * len(clients)
        for step in self.work.plan(t, clients):
            for client, batch in zip(step.clients.tolist(), step.batches, strict=True):
                own[client] = own[client].stepped(batch, self.eta, self.l2)
        p = shares(clients)
        self.layers = Layers(
            np.tensordot(p, np.stack([layers.hidden for layers in own]), axes=1),
            np.tensordot(p, np.stack([layers.out for layers in own]), axes=1),
        )
        return None
