"""FedDrift: clients that notice a change train a model alone, and models that fit each other's records are merged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, pooled, records
from streamfl_benchmarks.peers.network import Network


def wrong(model: Network, own: ClientRecords) -> float:
    """Return the share of records that a model predicts wrong: the loss that clients and clusters compare."""
    return float((SOFTMAX.predict(model.outputs(own.Z)) != own.y).mean())


def distances(losses: FloatArray) -> FloatArray:
    """Return how much worse models are on each other's records than on their own: of two models, the worse one.

    Parameters
    ----------
    losses
        That of model i on the records of cluster j, shape (clusters, clusters).

    >>> distances(np.array([[0.125, 0.5], [0.25, 0.0]])).tolist()
    [[0.0, 0.375], [0.375, 0.0]]
    """
    worse = losses - np.diag(losses)[:, None]
    farther: FloatArray = np.maximum(worse, worse.T)
    return farther


def groups(apart: FloatArray, delta: float) -> list[list[int]]:
    """Return which clusters are merged: the nearest two again and again, while they are nearer than delta.

    Two groups are as far apart as the farthest of their clusters (complete linkage).

    >>> groups(np.array([[0.0, 0.1, 0.3], [0.1, 0.0, 0.15], [0.3, 0.15, 0.0]]), 0.2)
    [[0, 1], [2]]
    """
    kept = [[i] for i in range(len(apart))]
    while len(kept) > 1:
        pairs = [(float(apart[np.ix_(a, b)].max()), i, j) for j, b in enumerate(kept) for i, a in enumerate(kept[:j])]
        nearest, i, j = min(pairs)
        if nearest >= delta:
            break
        kept[i] += kept.pop(j)
    return kept


@dataclass
class Cluster:
    """A model, and the records of each client that trained it."""

    model: Network
    own: list[ClientRecords]

    def add(self, i: int, new: ClientRecords) -> None:
        """Take the records of a round of client i."""
        self.own[i] = pooled([self.own[i], new])

    def learn(self, t: int) -> None:
        """Train the model on all of its records so far."""
        self.model.learn(t, [own for own in self.own if len(own.y)], 0.0)


def merged(clusters: Sequence[Cluster]) -> Cluster:
    """Return one cluster: the mean of the models, weighted by their records, and all these records."""
    if len(clusters) == 1:
        return clusters[0]
    model, sizes = clusters[0].model, [records(cluster.own) for cluster in clusters]
    model.hidden = np.average([cluster.model.hidden for cluster in clusters], axis=0, weights=sizes)
    model.out = np.average([cluster.model.out for cluster in clusters], axis=0, weights=sizes)
    return Cluster(model, [pooled(own) for own in zip(*(cluster.own for cluster in clusters), strict=True)])


@dataclass
class FedDrift:
    """A client takes the model that is best on its new records, or a new one if that is worse than its last by delta.

    A new model is trained for one round before it can be merged. Every client that has records of a cluster trains
    its model, on all of them. A model that no client takes stays, so an old concept that returns finds it.

    Parameters
    ----------
    first
        Returns a network with its first weights. They are the same for all: means of networks make sense then.
    clients
        The number of clients.
    delta
        By how much the share of wrong predictions may grow from a client's last records to its new ones, each
        predicted before they were learnt; and below which distance clusters are merged.

    References
    ----------
    Jothimurugesan et al., "Federated learning under distributed concept drift", AISTATS 2023. A step of the algorithm
    is a round.
    """

    first: Callable[[], Network]
    clients: int
    delta: float
    clusters: list[Cluster] = field(default_factory=list)
    # Of each client its cluster, and how its model did on its last records.
    members: IntArray = field(init=False)
    last: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Begin with one model for all."""
        self.members, self.last = np.zeros(self.clients, np.int64), np.full(self.clients, np.inf)

    def serving(self, told: IntArray) -> list[Network]:
        """Return the model that predicts the next records of each client."""
        return [self.clusters[k].model if self.clusters else self.first() for k in self.members]

    def learn(self, t: int, clients: Sequence[ClientRecords], told: IntArray) -> None:
        """Assign the clients to clusters by their new records, merge clusters, and train each on what it has."""
        old = len(self.clusters)
        self.assign(clients)
        self.merge(old)
        for i, (own, k) in enumerate(zip(clients, self.members, strict=True)):
            self.clusters[k].add(i, own)
        for cluster in self.clusters:
            cluster.learn(t)

    def assign(self, clients: Sequence[ClientRecords]) -> None:
        """Choose the cluster of each client by its new records; one that does worse by delta begins its own."""
        if not self.clusters:
            self.clusters.append(self.empty(clients[0]))
        models = [cluster.model for cluster in self.clusters]
        for i, own in enumerate(clients):
            losses = [wrong(model, own) for model in models]
            self.members[i], best = int(np.argmin(losses)), min(losses)
            if best > self.last[i] + self.delta:
                self.members[i] = len(self.clusters)
                self.clusters.append(self.empty(own))
            self.last[i] = best

    def empty(self, like: ClientRecords) -> Cluster:
        """Return a cluster without records."""
        return Cluster(self.first(), [ClientRecords(like.Z[:0], like.y[:0])] * self.clients)

    def merge(self, old: int) -> None:
        """Merge those of the first `old` clusters that fit each other's records."""
        if old < 2:
            return
        data = [pooled(cluster.own) for cluster in self.clusters[:old]]
        losses = np.array([[wrong(cluster.model, own) for own in data] for cluster in self.clusters[:old]])
        new = [[k] for k in range(old, len(self.clusters))]
        parts = groups(distances(losses), self.delta) + new
        group = {k: g for g, part in enumerate(parts) for k in part}
        self.members = np.array([group[int(k)] for k in self.members])
        self.clusters = [merged([self.clusters[k] for k in part]) for part in parts]
