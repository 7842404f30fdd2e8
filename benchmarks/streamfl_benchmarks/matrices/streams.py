"""The records of ten clients, each of which has the concept that a published matrix gives it in each step."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.sampling import generator
from streamfl_benchmarks.features import prepared
from streamfl_benchmarks.peers.base import ClientRecords

CLIENTS, STEP, ROUND = 10, 500, 100
MNIST = "mnist"

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


def swapped(y: IntArray, concept: int) -> IntArray:
    """Return digits, of which a concept exchanges two: none, 1 and 2, 3 and 4, or 5 and 6.

    >>> swapped(np.array([1, 2, 3, 4]), 2)
    array([1, 2, 4, 3])
    """
    names = np.arange(10)
    if concept:
        a, b = 2 * concept - 1, 2 * concept
        names[[a, b]] = b, a
    return names[y]


@dataclass(frozen=True, eq=False)
class Federation:
    """The records of all clients: shapes (rounds, clients, ROUND, d) and (rounds, clients, ROUND)."""

    X: FloatArray
    y: IntArray
    concepts: IntArray  # of each client in each round, shape (rounds, clients)
    least: float  # of a feature, as networks get it

    @classmethod
    def of(cls, stream: str, matrix: str, seed: int, data: Path | None = None) -> "Federation":
        """Return the records of a stream by a matrix; `data` is the directory that has mnist.npz.

        Images are of 14x14 pixels, and each of them is used once.

        Raises
        ------
        UsageError
            If mnist.npz is wanted and not there.
        """
        by_round = concepts(matrix).repeat(STEP // ROUND, axis=0)
        rng = generator(seed, "matrix", stream, matrix)
        shape = (*by_round.shape, ROUND)
        if stream == MNIST:
            images = prepared("mnist14", data)
            order = rng.permutation(len(images.y))[: by_round.size * ROUND]
            y = images.y[order].astype(np.int64).reshape(shape)
            labels = [swapped(y[at], int(k)) for at, k in np.ndenumerate(by_round)]
            X = images.X[order].astype(np.float64).reshape(*shape, -1)
            return cls(X, np.array(labels).reshape(shape), by_round, 0.0)
        parts = [drawn(stream, int(k), ROUND, rng) for k in by_round.ravel()]
        X = np.array([part for part, _ in parts]).reshape(*shape, -1)
        return cls(X, np.array([labels for _, labels in parts]).reshape(shape), by_round, -1.0)

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
        """Return the records of a round with features from `least` to 1, and the constant 1."""
        X = self.least + (1.0 - self.least) * self.X[t] / max(1.0, float(self.X.max()))
        return [ClientRecords(np.c_[X[i], np.ones(ROUND)], self.y[t, i].astype(np.float64)) for i in range(CLIENTS)]
