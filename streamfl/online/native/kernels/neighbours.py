"""Predictions from the nearest of the last records."""

import math
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.protocol.native.settings import MEMORIES

# The number of neighbours, and the votes that are spread over all labels, whatever the neighbours are.
NEAREST, SMOOTHING = 5, 0.1


class Memory(NamedTuple):
    """The last records, with names in an order of their own: see `Neighbours`.

    `Z` has a row for each of its features. `column` is the row of each present feature, `code` the number of each
    present label in the memory, and `place` the present column of each label in the memory, -1 if it has none. `at`,
    `distance` and `nearest` are scratch.
    """

    Z: FloatArray
    y: FloatArray
    column: IntArray
    code: IntArray
    place: IntArray
    at: FloatArray
    distance: FloatArray
    nearest: FloatArray


# The memory of a learner without neighbours.
_NO_NAMES = np.zeros(0, np.int64)
NO_MEMORY = Memory(
    np.zeros((0, 0)), np.zeros(0), _NO_NAMES, _NO_NAMES, _NO_NAMES, np.zeros(0), np.zeros(0), np.zeros(0)
)


@compiled
def predict_by_neighbours(
    memory: Memory, remembered: int, z: FloatArray, outputs: FloatArray, expert: int, targets: bool
) -> None:
    """Predict from the nearest of the last records, into the rows of `outputs` from `expert` on.

    The five nearest count, and all that are as near as the fifth. A neighbour at distance r weighs R / (r + R / 10),
    R the distance of the farthest of them.
    """
    measure(memory, z, min(remembered, len(memory.y)))
    for k in range(len(MEMORIES)):
        kept = min(remembered, MEMORIES[k])
        vote(memory, remembered, kept, farthest(memory, remembered, kept), outputs, expert + k, targets)


@inner
def measure(memory: Memory, z: FloatArray, kept: int) -> None:
    """Compute the squared distances of the last records; a feature that is gone is at its mean, 0."""
    for k in range(len(memory.at)):
        memory.at[k] = 0.0
    for j in range(len(memory.column)):
        memory.at[memory.column[j]] = z[1 + j]
    for i in range(kept):
        memory.distance[i] = 0.0
    for k in range(len(memory.at)):
        for i in range(kept):
            difference = memory.Z[k, i] - memory.at[k]
            memory.distance[i] += difference * difference


@inner
def farthest(memory: Memory, remembered: int, kept: int) -> float:
    """Return the squared distance of the fifth nearest of the last records, or of the farthest of fewer."""
    near, i = 0, (remembered - kept) % len(memory.y)
    for _ in range(kept):
        distance = memory.distance[i]
        i = i + 1 if i + 1 < len(memory.y) else 0
        if near < NEAREST or distance < memory.nearest[NEAREST - 1]:
            near = min(near + 1, NEAREST)
            k = near - 1
            while k > 0 and memory.nearest[k - 1] > distance:
                memory.nearest[k] = memory.nearest[k - 1]
                k -= 1
            memory.nearest[k] = distance
    return memory.nearest[near - 1] if near else 0.0


@inner
def vote(
    memory: Memory, remembered: int, kept: int, squared_reach: float, outputs: FloatArray, expert: int, targets: bool
) -> None:
    """Set the weighted mean target of the nearest, or their smoothed votes; labels that are gone get no vote."""
    columns, total, reach = outputs.shape[1], 0.0, math.sqrt(squared_reach)
    for c in range(columns):
        outputs[expert, c] = 0.0
    i = (remembered - kept) % len(memory.y)
    for _ in range(kept):
        if memory.distance[i] <= squared_reach:
            weight = reach / (math.sqrt(memory.distance[i]) + reach / 10.0) if reach > 0.0 else 1.0
            if targets:
                outputs[expert, 0] += weight * memory.y[i]
            elif memory.place[int(memory.y[i])] >= 0:
                outputs[expert, memory.place[int(memory.y[i])]] += weight
            total += weight
        i = i + 1 if i + 1 < len(memory.y) else 0
    smooth(outputs, expert, total, targets)


@inner
def smooth(outputs: FloatArray, expert: int, total: float, targets: bool) -> None:
    """Divide by the sum of weights; give every label a positive probability."""
    columns, sum_of_all = outputs.shape[1], 0.0
    for c in range(columns):
        if total > 0.0:
            outputs[expert, c] /= total
        if not targets:
            outputs[expert, c] += SMOOTHING / columns
        sum_of_all += outputs[expert, c]
    if not targets:
        for c in range(columns):
            outputs[expert, c] /= sum_of_all


@compiled
def remember(memory: Memory, remembered: int, z: FloatArray, truth: float, targets: bool) -> None:
    """Store a record in place of the oldest."""
    at = remembered % len(memory.y)
    for k in range(len(memory.Z)):
        memory.Z[k, at] = 0.0
    for j in range(len(memory.column)):
        memory.Z[memory.column[j], at] = z[1 + j]
    memory.y[at] = truth if targets else memory.code[int(truth)]
