"""The nearest of a client's own last records: local experts that never leave it."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray, IntArray

NEAREST = 5

# How many of the last records each expert asks.
MEMORIES = (100, 1000)

# What a prediction counts of no neighbour at all, in votes.
SMOOTHING = 0.1


@dataclass
class Neighbours:
    """The last records, and what the nearest of them say: two experts, with a short and a long memory.

    A neighbour at distance r weighs R / (r + R / 10), R the distance of the fifth nearest. The memory has an order of
    features and labels of its own, in which they were first met: a round that ends may bring another one, and take
    names away.

    Examples
    --------
    >>> near = Neighbours()
    >>> near.over(("x",), ("a", "b"))
    >>> near.learn(np.array([0.0]), 0.0)
    >>> near.learn(np.array([1.0]), 1.0)
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.192, 0.808],
           [0.192, 0.808]])
    >>> near.over(("x",), ("b", "a"))
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.808, 0.192],
           [0.808, 0.192]])
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    Z: FloatArray = field(default_factory=lambda: np.zeros((MEMORIES[-1], 0)))
    squares: FloatArray = field(default_factory=lambda: np.full(MEMORIES[-1], np.inf))
    y: FloatArray = field(default_factory=lambda: np.zeros(MEMORIES[-1]))
    seen: int = 0
    _features: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _columns: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    _codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def over(self, features: tuple[str, ...], labels: tuple[str, ...]) -> None:
        """Take it that from now on features and label indices count in these names; no labels: targets."""
        self._columns = np.array(
            [self._features.setdefault(name, len(self._features)) for name in features], np.int64
        )
        self._codes = np.array([self._labels.setdefault(name, len(self._labels)) for name in labels], np.int64)
        more = len(self._features) - self.Z.shape[1]
        if more:  # what had no such feature was at its mean, 0
            self.Z = np.pad(self.Z, ((0, 0), (0, more)))

    def learn(self, z: FloatArray, y: float) -> None:
        """Keep a record in place of the oldest: features, shape (d,), and its label index or target."""
        at = self.seen % MEMORIES[-1]
        self.Z[at] = self._placed(z)
        self.squares[at], self.y[at] = z @ z, self._codes[int(y)] if len(self._codes) else y
        self.seen += 1

    def probabilities(self, z: FloatArray) -> FloatArray:
        """Return what each expert says of a record, shape (experts, labels)."""
        votes = np.full((len(MEMORIES), len(self._labels)), SMOOTHING / len(self._codes))
        for expert, (weights, y) in enumerate(self._nearest(z)):
            np.add.at(votes[expert], y.astype(np.intp), weights / weights.sum())
        votes = votes[:, self._codes]
        votes /= votes.sum(axis=1, keepdims=True)
        return votes

    def targets(self, z: FloatArray) -> FloatArray:
        """Return the target that each expert says, shape (experts,); 0 before any record."""
        found = [float(weights @ y / weights.sum()) for weights, y in self._nearest(z)]
        return np.array(found) if found else np.zeros(len(MEMORIES))

    def _placed(self, z: FloatArray) -> FloatArray:
        placed = np.zeros(self.Z.shape[1])
        placed[self._columns] = z
        return placed

    def _nearest(self, z: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return for each memory the weights and the truths of the nearest records; nothing before any."""
        kept = min(self.seen, MEMORIES[-1])
        if not kept:
            return []
        distances = self.squares[:kept] - 2.0 * (self.Z[:kept] @ self._placed(z)) + z @ z
        last = (self.seen - 1 - np.arange(min(kept, MEMORIES[0]))) % MEMORIES[-1]
        return [self._weighted(distances[rows], self.y[:kept][rows]) for rows in (last, slice(None))]

    @staticmethod
    def _weighted(squares: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = min(NEAREST, len(squares))
        nearest = np.argpartition(squares, k - 1)[:k]
        r = np.sqrt(np.maximum(squares[nearest], 0.0))
        reach = float(r.max())
        weights = reach / (r + reach / 10.0) if reach > 0.0 else np.ones(k)
        return weights, y[nearest]
