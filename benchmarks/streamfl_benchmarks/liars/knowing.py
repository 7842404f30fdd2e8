"""Liars who know all but the coordinator's secret: the metric in which it compares, and what of theirs it let count.

Whoever reads every topic can compute both. A member of `streamfl_benchmarks.liars.hostile` lies in one message; these
pursue an aim over rounds. They steer away from what they have learnt honestly, by numbers that no round finds too
large.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.influence import KEEPS, sketches
from streamfl.machines.coordinator.round_kinds.bounded_influence import STEPS
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.protocol.messages import Scores, Update
from streamfl.sampling import generator

# The size of a push, in sizes of the liar's honest numbers: beyond three times the middle size it would count less.
LARGE = 2.8

# A liar that watches its share pushes by so much less after a round that did not count, and more after one that did.
LESS, MORE = 0.7, 1.05


@dataclass
class Knowing:
    """A liar that pushes against its honest numbers of the last rounds."""

    # Returns what is agreed on, with the second moments by which numbers are compared.
    agreement: Callable[[], Agreement]
    # The seed of signs that it believes in: it pushes where such histories see nothing. None: it does not try.
    seed: int | None = None
    # Returns how much of its last update counted, from which it learns how far it may go; None: it does not look.
    share: Callable[[], float] | None = None
    # How much of its honest numbers is left after a round; with 0 it flips the sign of each round's own.
    keeps: float = KEEPS
    _size: float = LARGE
    _turn: int = 0
    _honest: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __call__(self, message: Update | Scores, seed: int) -> Update | Scores:
        """Return what is sent in place of an honest message."""
        if not isinstance(message, Update) or not message.trained or not message.numbers.differences:
            return message
        names, agreed = list(message.numbers.differences), self.agreement()
        own = np.stack([message.numbers.differences[name] for name in names], axis=1)
        if len(own) != agreed.registry.rows:
            return message
        metric = agreed.half_whitened(np.eye(len(own)))
        pushed = self._pushed((metric @ own.reshape(len(own), -1)).reshape(own.shape), seed)
        moved = np.linalg.solve(metric, pushed).reshape(own.shape).astype(np.float64)
        differences = {name: moved[:, i] for i, name in enumerate(names)}
        return replace(message, numbers=replace(message.numbers, differences=differences))

    def _pushed(self, honest: FloatArray, seed: int) -> FloatArray:
        """Return numbers, as the coordinator compares them, shape (rows, models * columns), given honest ones."""
        before = self._honest if self._honest.shape == honest.shape else np.zeros_like(honest)
        self._honest = mean = self.keeps * before + (1.0 - self.keeps) * honest
        self._learn()
        push: FloatArray = -mean / max(float(np.linalg.norm(mean)), 1e-12)
        if self.share is not None and self._turn:
            drawn = generator(seed, "turn", self._turn).standard_normal(push.shape)
            drawn -= drawn.mean(axis=2, keepdims=True)
            push = push + drawn / np.linalg.norm(drawn)
        if self.seed is not None:
            push = unseen(push, self.seed)
        norm = float(np.linalg.norm(push))
        pushed: FloatArray = push * (self._size * float(np.linalg.norm(honest)) / norm if norm > 0.0 else 0.0)
        return pushed.reshape(len(pushed), -1)

    def _learn(self) -> None:
        """Push less, in another direction, after an update that did not count whole."""
        share = 1.0 if self.share is None else self.share()
        self._size = min(LARGE, self._size * (MORE if share == 1.0 else LESS))
        self._turn += share < 1.0


def unseen(push: FloatArray, seed: int) -> FloatArray:
    """Return the part of a push, shape (rows, models, columns), that sketches of a seed map to 0.

    >>> push = np.random.default_rng(0).standard_normal((60, 1, 3))
    >>> hidden = unseen(push - push.mean(axis=2, keepdims=True), 7)
    >>> sizes = [float(np.linalg.norm(sketches("steps", hidden[None], seed))) for seed in (7, 8)]
    >>> sizes[0] < 1e-9, sizes[1] > 0.5 * float(np.linalg.norm(hidden))
    (True, True)
    """
    seen, flat = _seen(seed, *push.shape), push.ravel()
    hidden: FloatArray = (flat - seen @ (seen.T @ flat)).reshape(push.shape)
    return hidden


@lru_cache(maxsize=8)
def _seen(seed: int, rows: int, models: int, columns: int) -> FloatArray:
    """Return an orthonormal basis of what sketches see of numbers whose columns add up to 0."""
    each = np.eye(rows * models * columns).reshape(-1, rows, models, columns)
    signs = sketches(STEPS, each - each.mean(axis=3, keepdims=True), seed)
    basis, sizes, _ = np.linalg.svd(signs, full_matrices=False)
    seen: FloatArray = basis[:, sizes > 1e-9 * sizes[0]]
    return seen
