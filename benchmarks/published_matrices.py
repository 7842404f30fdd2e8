"""Clients whose concepts change at times of their own, by published matrices: streamfl and three ways to federate.

    python benchmarks/published_matrices.py --json benchmarks/runs/published_matrices.json.gz

The matrices and the streams are those of Jothimurugesan, Hsieh, Wang, Joshi and Gibbons, "Federated learning under
distributed concept drift", AISTATS 2023: ten clients, eleven steps, 500 records of each client in a step. A row of a
matrix is a step, a digit of it the concept of a client. Its accuracies were published in figures only: they are not
here. A round has 100 records of each client. The others are FedAvg of a network with one hidden layer, twice as wide
as the input: one for all clients; several, of which each client trains the one that fits its last round best (IFCA,
Ghosh and others 2020); and one for each concept, when clients are told theirs as it changes. Their steps, batches,
passes and numbers of models are the best of a grid in hindsight. `accuracy` is that from the second step on, each
record predicted before it is learnt; `first` that in the first round of each of these steps, in which networks have
learnt nothing of new concepts.

A file that exists is continued.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Network
from streamfl_benchmarks.run_file import Row, continued

CLIENTS, STEP, ROUND = 10, 500, 100

# By the name of a matrix, its steps.
MATRICES = {
    "A": (
        "0000000000 0100000000 0100000100 0111010100 0111010110 1011011010"
        " 1001001010 1000101011 1000101001 1000101001 1000101001"
    ),
    "Y": (
        "0000000000 0000000000 0000000000 0100000100 0111010100 0111010110"
        " 1111011110 1111011110 1111111111 1111111111 1111111111"
    ),
    "C": (
        "0000000000 1112220000 1112220030 2211222130 2221232130 2321133130"
        " 3323133210 3033313213 0033313223 0003311322 0003311322"
    ),
    "R0": (
        "0000000000 0000000000 0111320212 0111320212 2103222120 2103222120"
        " 2210113323 2210113323 1030032310 1030032310 1030032310"
    ),
}

STREAMS = ("sine", "circle", "sea")
WANTED = [("sine", "A"), ("sine", "Y"), ("circle", "A"), ("circle", "Y"), ("sea", "A"), ("sea", "C"), ("sea", "R0")]
SEEDS = (1, 2, 3)
ONE, FITS_BEST, TOLD = "FedAvg", "IFCA", "told"
OURS = {"auto": LearningSettings(features="auto"), "rounds": LearningSettings(features="rounds")}


def concepts(matrix: str) -> IntArray:
    """Return the concept of each client in each step, shape (steps, clients)."""
    return np.array([[int(digit) for digit in row] for row in MATRICES[matrix].split()])


def drawn(stream: str, concept: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return n records of a concept; of circles and sines there are two, 0 and all others."""
    if stream == "sea":
        X = rng.uniform(0.0, 10.0, (n, 3))
        y = X[:, 1] + X[:, 2] > (8.0, 9.0, 7.0, 9.0)[concept]
        return X, (y ^ (rng.random(n) < 0.1)).astype(np.int64)
    X = rng.random((n, 2))
    if stream == "sine":
        return X, ((X[:, 1] <= np.sin(X[:, 0])) ^ bool(concept)).astype(np.int64)
    centre, radius = ((0.6, 0.5), 0.25) if concept else ((0.2, 0.5), 0.15)
    return X, (np.hypot(*(X - centre).T) > radius).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Federation:
    """The records of all clients: shapes (rounds, clients, ROUND, d) and (rounds, clients, ROUND)."""

    X: FloatArray
    y: IntArray
    concepts: IntArray  # of each client in each round, shape (rounds, clients)

    @classmethod
    def of(cls, stream: str, matrix: str, seed: int) -> "Federation":
        """Return the records of a stream by a matrix."""
        by_round = concepts(matrix).repeat(STEP // ROUND, axis=0)
        rng = generator(seed, "matrix", stream, matrix)
        parts = [drawn(stream, int(k), ROUND, rng) for k in by_round.ravel()]
        X = np.array([part for part, _ in parts]).reshape(*by_round.shape, ROUND, -1)
        return cls(X, np.array([labels for _, labels in parts]).reshape(*by_round.shape, ROUND), by_round)

    @property
    def logs(self) -> dict[str, Log]:
        """Return the records of each client, by their rows in `table`."""
        rows = np.arange(self.y.size).reshape(self.y.shape)
        return {f"c{i}": Log(rows[:, i].ravel(), self.y[:, i].ravel().astype(np.float64)) for i in range(CLIENTS)}

    @property
    def table(self) -> Table:
        """Return all records."""
        X, y = self.X.reshape(self.y.size, -1), self.y.ravel()
        names, labels = tuple(f"x{j}" for j in range(X.shape[1])), tuple(map(str, np.unique(y)))
        return Table("matrix", names, X, y.astype(np.float64), labels, np.arange(len(y)))

    def round(self, t: int) -> list[ClientRecords]:
        """Return the records of a round with features from -1 to 1, and the constant 1."""
        X = 2.0 * self.X[t] / max(1.0, float(self.X.max())) - 1.0
        return [ClientRecords(np.c_[X[i], np.ones(ROUND)], self.y[t, i].astype(np.float64)) for i in range(CLIENTS)]


def right_of_replay(federation: Federation, learning: LearningSettings, logs: Mapping[str, Log]) -> FloatArray:
    """Return how many records of each round were predicted right, shape (rounds,)."""
    settings = ReplaySettings(round_size=ROUND, learning=learning, count_bytes=False)
    result = Replay(federation.table, logs, settings).run().result
    right = np.zeros(len(federation.y))
    for line in result.per_round:
        right[line.round - 1] = line.records * (line.accuracy or 0.0)
    return right


@dataclass
class Networks:
    """Several networks, each averaged over the clients that train it."""

    models: Sequence[Network]
    # Returns the number of each client's model, by its last records and the round that begins; see `choices`.
    chosen: Callable[[Sequence[Network], Sequence[ClientRecords], IntArray], IntArray]
    last: Sequence[ClientRecords] = field(default_factory=tuple)

    def right(self, t: int, clients: Sequence[ClientRecords], told: IntArray) -> int:
        """Predict the records of a round, count those that were right, and learn them."""
        serves = self.chosen(self.models, self.last, told) if self.last else np.zeros(CLIENTS, np.int64)
        outputs = [self.models[k].outputs(own.Z) for k, own in zip(serves, clients, strict=True)]
        right = sum(int((SOFTMAX.predict(z) == own.y).sum()) for z, own in zip(outputs, clients, strict=True))
        trains, self.last = self.chosen(self.models, clients, told), clients
        for k, model in enumerate(self.models):
            own = [client for client, chosen in zip(clients, trains, strict=True) if chosen == k]
            if own:
                model.learn(t, own, 0.0)
        return right


def choices(how: str) -> Callable[[Sequence[Network], Sequence[ClientRecords], IntArray], IntArray]:
    """Return which model each client trains, and is predicted by: the first, that of its concept, or the best one."""

    def best(models: Sequence[Network], clients: Sequence[ClientRecords], told: IntArray) -> IntArray:
        losses = [[float(SOFTMAX.losses(m.outputs(own.Z), own.y).mean()) for m in models] for own in clients]
        chosen: IntArray = np.array(losses).argmin(axis=1)
        return chosen

    known = {ONE: lambda models, clients, told: np.zeros_like(told), TOLD: lambda models, clients, told: told}
    return known.get(how, best)


def variants(how: str, federation: Federation, seed: int) -> Iterator[tuple[str, Networks]]:
    """Yield each point of the grid of a method."""
    d, labels = federation.X.shape[-1] + 1, int(federation.y.max()) + 1
    counts = {ONE: (1,), TOLD: (int(federation.concepts.max()) + 1,)}.get(how, (2, 4, 8))
    for k, eta, batch, passes in product(counts, (0.1, 0.3, 1.0, 3.0), (5, 20), (1, 3, 10)):
        work = LocalWork(passes, batch, seed)
        models = [Network(d, labels, 2 * (d - 1), eta, work, seed + 100 * i, l2=0.0) for i in range(k)]
        yield f"models={k},eta={eta:g},batch={batch},passes={passes}", Networks(models, choices(how))


def right_of_networks(how: str, federation: Federation, seed: int) -> tuple[str, FloatArray]:
    """Return the best point of the grid in hindsight, and how many records of each round it predicted right."""
    runs = {}
    for name, networks in variants(how, federation, seed):
        right = [networks.right(t, federation.round(t), federation.concepts[t]) for t in range(len(federation.y))]
        runs[name] = np.array(right, dtype=np.float64)
    best = max(runs, key=lambda name: runs[name][STEP // ROUND :].sum())
    return best, runs[best]


def run(wanted: Row) -> Row:
    """Return the accuracy of a method on a stream."""
    method, seed = wanted["method"], wanted["seed"]
    federation, constants = Federation.of(wanted["stream"], wanted["matrix"], seed), ""
    if method == "alone":
        logs = federation.logs.items()
        right = sum(right_of_replay(federation, OURS["auto"], {name: log}) for name, log in logs)
    elif method in OURS:
        right = right_of_replay(federation, OURS[method], federation.logs)
    else:
        constants, right = right_of_networks(method, federation, seed)
    shares = np.asarray(right) / (CLIENTS * ROUND)
    steps = STEP // ROUND
    return {
        "accuracy": float(shares[steps:].mean()),
        "first": float(shares[steps::steps].mean()),
        "constants": constants,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=STREAMS, action="append", help="Streams. Default: all.")
    options = parser.parse_args()
    wanted = [
        {"stream": stream, "matrix": matrix, "method": method, "seed": seed}
        for seed in SEEDS
        for stream, matrix in WANTED
        for method in (*OURS, "alone", ONE, FITS_BEST, TOLD)
        if stream in (options.only or STREAMS)
    ]
    for row in continued(options.json, Origin.now("published_matrices"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
