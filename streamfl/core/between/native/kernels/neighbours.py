"""What the nearest of the last records say."""

import math
from typing import NamedTuple

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.between.native.kernels.compiled import compiled, inner
from streamfl.core.protocol.native.settings import MEMORIES

# Neighbours asked, and what no neighbour at all counts, in votes.
NEAREST, SMOOTHING = 5, 0.1


class Memory(NamedTuple):
    """The last records in names of their own: see `Neighbours`.

    `Z` has a row for each feature, so that distances are worked out along it. `column` tells where a feature is
    kept, `code` as what a label is kept, and `place` the column of a label that is kept, or -1. `at`, `distance`
    and `nearest` are scratch.
    """

    Z: FloatArray
    y: FloatArray
    column: IntArray
    code: IntArray
    place: IntArray
    at: FloatArray
    distance: FloatArray
    nearest: FloatArray


@compiled
def ask_neighbours(
    memory: Memory, remembered: int, z: FloatArray, said: FloatArray, expert: int, targets: bool
) -> None:
    """Work out what the nearest of the last records say, into the rows of `said` from `expert` on.

    Those are the five nearest, and all that are as near as the fifth. A neighbour at distance r weighs
    R / (r + R / 10), R the distance of the farthest of them.
    """
    measure(memory, z, min(remembered, len(memory.y)))
    for k in range(len(MEMORIES)):
        kept = min(remembered, MEMORIES[k])
        vote(memory, remembered, kept, farthest(memory, remembered, kept), said, expert + k, targets)


@inner
def measure(memory: Memory, z: FloatArray, kept: int) -> None:
    """Work out the squared distances of the last records; a feature that is gone is at its mean, 0."""
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
    found, i = 0, (remembered - kept) % len(memory.y)
    for _ in range(kept):
        distance = memory.distance[i]
        i = i + 1 if i + 1 < len(memory.y) else 0
        if found < NEAREST or distance < memory.nearest[NEAREST - 1]:
            found = min(found + 1, NEAREST)
            k = found - 1
            while k > 0 and memory.nearest[k - 1] > distance:
                memory.nearest[k] = memory.nearest[k - 1]
                k -= 1
            memory.nearest[k] = distance
    return memory.nearest[found - 1] if found else 0.0


@inner
def vote(
    memory: Memory, remembered: int, kept: int, squared_reach: float, said: FloatArray, expert: int, targets: bool
) -> None:
    """Set the mean target of the nearest, or their votes, which are smoothed; labels that are gone have no column."""
    columns, total, reach = said.shape[1], 0.0, math.sqrt(squared_reach)
    for c in range(columns):
        said[expert, c] = 0.0
    i = (remembered - kept) % len(memory.y)
    for _ in range(kept):
        if memory.distance[i] <= squared_reach:
            weight = reach / (math.sqrt(memory.distance[i]) + reach / 10.0) if reach > 0.0 else 1.0
            if targets:
                said[expert, 0] += weight * memory.y[i]
            elif memory.place[int(memory.y[i])] >= 0:
                said[expert, memory.place[int(memory.y[i])]] += weight
            total += weight
        i = i + 1 if i + 1 < len(memory.y) else 0
    smooth(said, expert, total, targets)


@inner
def smooth(said: FloatArray, expert: int, total: float, targets: bool) -> None:
    """Divide by the sum of weights; let no label be without a chance."""
    columns, sum_of_all = said.shape[1], 0.0
    for c in range(columns):
        if total > 0.0:
            said[expert, c] /= total
        if not targets:
            said[expert, c] += SMOOTHING / columns
        sum_of_all += said[expert, c]
    if not targets:
        for c in range(columns):
            said[expert, c] /= sum_of_all


@compiled
def remember(memory: Memory, remembered: int, z: FloatArray, truth: float, targets: bool) -> None:
    """Keep a record in place of the oldest."""
    at = remembered % len(memory.y)
    for k in range(len(memory.Z)):
        memory.Z[k, at] = 0.0
    for j in range(len(memory.column)):
        memory.Z[memory.column[j], at] = z[1 + j]
    memory.y[at] = truth if targets else memory.code[int(truth)]
