"""Learners of single records on the records of all clients in one place: what need not be federated could do."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.runtime.clock import stopwatch
from streamfl_benchmarks.meter import Meter
from streamfl_benchmarks.peers.registry import Constants, grid
from streamfl_benchmarks.records import PLACE, Drawn
from streamfl_benchmarks.run import PENALTY, Finished, finished

TREES = 10  # River's default


class OneByOne(Protocol):
    """Predicts each record of a round, and learns it before it predicts the next."""

    def learnt(self, X: FloatArray, y: IntArray) -> Mapping[str, IntArray]:
        """Return what each variant predicted, by the name of its constants; -1 where it predicted nothing."""
        ...


@dataclass
class Forest:
    """River's adaptive random forest.

    >>> X = np.array([[0.0], [1.0]] * 20)
    >>> Forest(seed=1).learnt(X, X[:, 0].astype(int))[""][[0, -2, -1]]
    array([-1,  0,  1])
    """

    seed: int
    model: Any = field(init=False)

    def __post_init__(self) -> None:
        """Start with no trees."""
        from river import forest  # noqa: PLC0415

        self.model = forest.ARFClassifier(n_models=TREES, seed=self.seed)

    def learnt(self, X: FloatArray, y: IntArray) -> Mapping[str, IntArray]:
        """Return the predictions."""
        told = np.full(len(y), -1)
        for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
            record = dict(enumerate(row))
            guess = self.model.predict_one(record)
            told[i] = -1 if guess is None else guess
            self.model.learn_one(record, label)
        return {"": told}


@dataclass
class Nearest:
    """The k nearest of the last records by Euclidean distance; the nearest decides a tie.

    Parameters
    ----------
    windows
        Of how many records before the round the nearest are sought; those of the round so far are added.
    ks
        How many of the nearest vote.

    >>> X, y = np.array([[0.0], [3.0], [1.0], [2.5]]), np.array([0, 1, 1, 1])
    >>> Nearest(windows=(10,), ks=(1, 3)).learnt(X, y)
    {'k=1,window=10': array([-1,  0,  0,  1]), 'k=3,window=10': array([-1,  0,  0,  1])}
    """

    windows: tuple[int, ...] = (5_000, 20_000, 80_000)
    ks: tuple[int, ...] = (1, 3, 5)
    X: Any = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    y: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def variants(self) -> Mapping[str, Constants]:
        """Return the constants of each variant."""
        return grid(k=self.ks, window=self.windows)

    def learnt(self, X: FloatArray, y: IntArray) -> Mapping[str, IntArray]:
        """Return the predictions."""
        new = X.astype(np.float32)
        kept = self.X if len(self.X) else new[:0]
        all_X, all_y = np.concatenate([kept, new]), np.concatenate([self.y, y])
        told: dict[str, list[IntArray]] = {name: [] for name in self.variants}
        for at in range(0, len(y), TOGETHER):
            here = np.arange(at, min(at + TOGETHER, len(y)))
            far = _distances(new[here], all_X)
            far[:, len(kept) :][np.arange(len(y)) >= here[:, None]] = np.inf
            for window in self.windows:
                first = max(0, len(kept) - window)
                labels = _labels_of_nearest(far[:, first:], all_y[first:], max(self.ks))
                for name, constants in self.variants.items():
                    if constants["window"] == window:
                        told[name].append(np.array([_vote(row[: int(constants["k"])]) for row in labels]))
        self.X, self.y = all_X[-max(self.windows) :], all_y[-max(self.windows) :]
        return {name: np.concatenate(parts) for name, parts in told.items()}


TOGETHER = 500  # records whose distances are in memory at a time


def _distances(a: Any, b: Any) -> Any:
    """Return squared distances less |a|^2, which changes no order, shape (len(a), len(b))."""
    far = a @ (-2.0 * b.T)
    far += np.einsum("ij,ij->i", b, b)
    return far


def _labels_of_nearest(far: Any, y: IntArray, most: int) -> list[list[int]]:
    """Return the labels of the nearest records, the nearest first; fewer where there are fewer."""
    rows, found = np.arange(len(far)), []
    for _ in range(min(most, far.shape[1])):
        at = far.argmin(axis=1)
        found.append((at, far[rows, at]))
        far[rows, at] = np.inf
    for at, distance in reversed(found):
        far[rows, at] = distance
    near = np.stack([np.where(np.isfinite(distance), y[at], -1) for at, distance in found], axis=1)
    return [[label for label in row if label >= 0] for row in near.tolist()]


def _vote(labels: list[int]) -> int:
    """Return the most frequent label, of several that of the nearest record; -1 without any.

    >>> _vote([2, 1, 1]), _vote([2, 1]), _vote([])
    (1, 2, -1)
    """
    return Counter(labels).most_common(1)[0][0] if labels else -1


# By name, how to build one from a seed.
ONE_BY_ONE: Mapping[str, Callable[[int], OneByOne]] = MappingProxyType(
    {"forest-pooled": Forest, "nearest-pooled": lambda seed: Nearest()}
)


def run_one_by_one(learner: OneByOne, drawn: Drawn, method: str, l2: float = PENALTY) -> Finished:
    """Run a learner over a drawn stream, and return its best variant.

    A prediction says one label, as if it were sure: its loss is 0 or 1. There is no model of a round, so the other
    accuracies are the prequential one.
    """
    (place,) = drawn.in_one_place()
    meters: dict[str, Meter] = {}
    began = stopwatch()
    for t in range(1, drawn.stream.rounds + 1):
        batch = place.batch(PLACE, t)
        for name, told in learner.learnt(batch.X, batch.y.astype(np.int64)).items():
            right = told == batch.y
            counts = dict.fromkeys(("served", "at_start", "post_update"), int(right.sum()))
            meter = meters.setdefault(name, Meter.of(place))
            meter.add(PLACE, t, records=len(batch.y), **counts)
            meter.add_losses(t, 1.0 - right)
    best = max(meters, key=lambda name: meters[name].served.sum())
    return finished(drawn, method, meters[best], (), stopwatch() - began, l2=l2, variant=best)
