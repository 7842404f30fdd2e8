"""Networks that clients train together: one for all, one for each concept, or as many as a method finds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Protocol

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl_benchmarks.matrices.feddrift import FedDrift
from streamfl_benchmarks.matrices.streams import CLIENTS, MNIST, ROUND, STEP, Federation
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Network

ONE, FITS_BEST, FINDS, TOLD = "FedAvg", "IFCA", "FedDrift", "told"


class Federated(Protocol):
    """Networks that are averaged over clients; `told` has the concept of each client, for those that are told it."""

    def serving(self, told: IntArray) -> Sequence[Network]:
        """Return the model that predicts the records of each client in the round that begins."""
        ...

    def learn(self, t: int, clients: Sequence[ClientRecords], told: IntArray) -> None:
        """Learn the records of round t."""
        ...


@dataclass
class Networks:
    """A fixed number of networks, each averaged over the clients that train it."""

    models: Sequence[Network]
    # Returns the number of each client's model, by its last records and the round that begins; see `choices`.
    chosen: Callable[[Sequence[Network], Sequence[ClientRecords], IntArray], IntArray]
    last: Sequence[ClientRecords] = field(default_factory=tuple)

    def serving(self, told: IntArray) -> list[Network]:
        """Return the model that predicts the records of each client in the round that begins."""
        serves = self.chosen(self.models, self.last, told) if self.last else np.zeros(CLIENTS, np.int64)
        return [self.models[k] for k in serves]

    def learn(self, t: int, clients: Sequence[ClientRecords], told: IntArray) -> None:
        """Learn the records of round t."""
        trains, self.last = self.chosen(self.models, clients, told), clients
        for k, model in enumerate(self.models):
            own = [client for client, chosen in zip(clients, trains, strict=True) if chosen == k]
            if own:
                model.learn(t, own, 0.0)


def choices(how: str) -> Callable[[Sequence[Network], Sequence[ClientRecords], IntArray], IntArray]:
    """Return which model each client trains, and is predicted by: the first, that of its concept, or the best one."""

    def best(models: Sequence[Network], clients: Sequence[ClientRecords], told: IntArray) -> IntArray:
        losses = [[float(SOFTMAX.losses(m.outputs(own.Z), own.y).mean()) for m in models] for own in clients]
        chosen: IntArray = np.array(losses).argmin(axis=1)
        return chosen

    known = {ONE: lambda models, clients, told: np.zeros_like(told), TOLD: lambda models, clients, told: told}
    return known.get(how, best)


@dataclass(frozen=True)
class Grid:
    """The constants that are tried: steps and batches, passes over a round, numbers of models; and those of FedDrift.

    FedDrift passes once over all records that a cluster has, in batches of 20. Its thresholds go from half to twice
    the one that its authors' program has for the stream. All its networks begin alike, and of those with few units
    some draws of these first weights learn little, so it tries several draws: among the networks of IFCA, which begin
    differently, clients choose.
    """

    deltas: tuple[float, ...]
    etas_of_feddrift: tuple[float, ...]
    draws: tuple[int, ...] = (0, 1, 2)
    etas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    batches: tuple[int, ...] = (5, 20)
    passes: tuple[int, ...] = (1, 3, 10)
    counts: tuple[int, ...] = (2, 4, 8)


GRIDS = {
    "sine": Grid((0.05, 0.1, 0.2, 0.4), (0.1, 0.3, 1.0, 3.0)),
    "circle": Grid((0.05, 0.1, 0.2), (0.3, 1.0, 3.0, 10.0)),
    "sea": Grid((0.02, 0.04, 0.06, 0.08, 0.12), (0.03, 0.1, 0.3, 1.0), (0, 1)),
    MNIST: Grid((0.05, 0.1, 0.2), (0.1, 0.3, 1.0), (0,), (0.1, 0.3, 1.0), (20,), (1, 3), (2, 4)),
}
UNITS_OF_MNIST = 32


def variants(how: str, stream: str, federation: Federation, seed: int) -> Iterator[tuple[str, Federated]]:
    """Yield each point of the grid of a method, of networks twice as wide as the input; of images, less wide."""
    grid = GRIDS[stream]
    d, labels = federation.X.shape[-1] + 1, int(federation.y.max()) + 1
    units = UNITS_OF_MNIST if stream == MNIST else 2 * (d - 1)

    def network(k: int, eta: float, work: LocalWork) -> Network:
        return Network(d, labels, units, eta, work, seed + 100 * k, l2=0.0)

    if how == FINDS:
        for delta, eta, draw in product(grid.deltas, grid.etas_of_feddrift, grid.draws):
            first = partial(network, draw, eta, LocalWork(1, 20, seed))
            yield f"delta={delta:g},eta={eta:g},draw={draw}", FedDrift(first, CLIENTS, delta)
        return
    counts = {ONE: (1,), TOLD: (int(federation.concepts.max()) + 1,)}.get(how, grid.counts)
    for k, eta, batch, passes in product(counts, grid.etas, grid.batches, grid.passes):
        models = [network(i, eta, LocalWork(passes, batch, seed)) for i in range(k)]
        yield f"models={k},eta={eta:g},batch={batch},passes={passes}", Networks(models, choices(how))


def right(method: Federated, federation: Federation) -> FloatArray:
    """Return how many records of each round were predicted right, shape (rounds,)."""
    counts = np.zeros(len(federation.y))
    for t, told in enumerate(federation.concepts):
        clients = federation.round(t)
        outputs = [model.outputs(own.Z) for model, own in zip(method.serving(told), clients, strict=True)]
        counts[t] = sum(int((SOFTMAX.predict(z) == own.y).sum()) for z, own in zip(outputs, clients, strict=True))
        method.learn(t, clients, told)
    return counts


def best_in_hindsight(how: str, stream: str, federation: Federation, seed: int) -> tuple[str, FloatArray]:
    """Return the best point of the grid, and how many records of each round it predicted right."""
    runs = {name: right(method, federation) for name, method in variants(how, stream, federation, seed)}
    best = max(runs, key=lambda name: runs[name][STEP // ROUND :].sum())
    return best, runs[best]
