"""FedAvg of a small network: one hidden layer, stepped in small batches at each client, averaged by records."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numba
import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import ClientRecords, records, shares
from streamfl_benchmarks.peers.local_work import LocalWork

F = TypeVar("F", bound=Callable[..., object])


def njit(function: F) -> F:
    """Return a function that is compiled when it is first called."""
    return cast(F, numba.njit(function))


@njit
def _product(h: FloatArray, z: FloatArray, W: FloatArray) -> None:
    """Put z W into the first elements of h, for W of shape (d, hidden)."""
    for u in range(W.shape[1]):
        h[u] = 0.0
    for j in range(len(z)):
        for u in range(W.shape[1]):
            h[u] += z[j] * W[j, u]


@njit
def _errors(p: FloatArray, y: int) -> None:
    """Turn outputs into probabilities, less 1 at the label."""
    top, total = np.max(p), 0.0
    for k in range(len(p)):
        p[k] = math.exp(p[k] - top)
        total += p[k]
    for k in range(len(p)):
        p[k] /= total
    p[y] -= 1.0


@njit
def _move(W: FloatArray, left: FloatArray, right: FloatArray, kept: float, by: float) -> None:
    """W <- kept W - by left^T right, for W of shape (a, b), left of (n, a) and right of (n, b)."""
    for a in range(W.shape[0]):
        for b in range(W.shape[1]):
            W[a, b] *= kept
        for i in range(len(left)):
            factor = by * left[i, a]
            for b in range(W.shape[1]):
                W[a, b] -= factor * right[i, b]


@njit
def descend(
    hidden: FloatArray,
    out: FloatArray,
    Z: FloatArray,
    y: FloatArray,
    order: IntArray,
    batch: int,
    eta: float,
    l2: float,
) -> None:
    """Step the layers of a client, in place, on the mean loss of each batch of a pass plus l2/2 |weights|^2.

    Parameters
    ----------
    hidden, out
        Shapes (d, hidden) and (K, hidden + 1); the last column of `out` are intercepts.
    Z, y
        The client's records.
    order
        Their indices, in the order of the pass.
    batch
        Records in a step; the last one of a pass may have fewer.
    eta, l2
        Step size, and the weight of the penalty.
    """
    units, kept = hidden.shape[1], 1.0 - eta * l2
    h, behind = np.ones((batch, units + 1)), np.empty((batch, units))
    z, p = np.empty((batch, len(hidden))), np.empty((batch, len(out)))
    for at in range(0, len(order), batch):
        n = min(batch, len(order) - at)
        for i in range(n):
            z[i] = Z[order[at + i]]
            _product(h[i], z[i], hidden)
            for u in range(units):
                h[i, u] = max(h[i, u], 0.0)
            for k in range(len(out)):
                p[i, k] = np.dot(out[k], h[i])
            _errors(p[i], int(y[order[at + i]]))
            _product(behind[i], p[i], out[:, :-1])
            for u in range(units):
                behind[i, u] *= h[i, u] > 0.0
        _move(hidden, z[:n], behind[:n], kept, eta / n)
        _move(out, p[:n], h[:n], kept, eta / n)


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
    >>> peer.outputs(own.Z).argmax(axis=1)
    array([0, 0, 0, 0])
    """

    d: int
    labels: int
    units: int
    eta: float
    work: LocalWork = field(default_factory=lambda: LocalWork(batch=20))
    seed: int = 0
    l2: float = 2e-4
    hidden: FloatArray = field(init=False)
    out: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Draw the first hidden weights."""
        self.hidden = generator(self.seed, "network").normal(size=(self.d, self.units)) * np.sqrt(2.0 / self.d)
        self.out = np.zeros((self.labels, self.units + 1))

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the outputs of the averaged network."""
        active = np.maximum(0.0, Z @ self.hidden)
        outputs: FloatArray = active @ self.out[:, :-1].T + self.out[:, -1]
        return outputs

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        hidden, out = np.zeros_like(self.hidden), np.zeros_like(self.out)
        for i, (client, p) in enumerate(zip(clients, shares(clients), strict=True)):
            own = self.hidden.copy(), self.out.copy()
            batch = self.work.batch or max(1, len(client.y))
            for order in self.work.orders(t, i, client):
                descend(*own, client.Z, client.y, order, batch, self.eta, self.l2)
            hidden += p * own[0]
            out += p * own[1]
        self.hidden, self.out = hidden, out
        return None
