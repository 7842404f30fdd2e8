"""Standardising record by record, by the moments of the values before; what is far out counts as less."""

import math
from typing import NamedTuple

import numpy as np

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.between.native.kernels.compiled import compiled, inner
from streamfl.core.protocol.moments import FAR, FEWEST, LARGEST
from streamfl.core.protocol.native.settings import FARTHEST

# A spread below this part of the mean is rounding; of targets, which may all lie far from 0, below this one.
LEAST_SPREAD, LEAST_TARGET_SPREAD = 1e-9, 1e-14

# A value farther than so many deviations from the mean of those before it counts as FARTHEST, a target as so many,
# from the ninth on; while fewer are known than KNOWN, their deviation is rough, and it must be farther. A sentinel is
# not to be remembered for ever; what really moves, moves its own bounds.
OUTLYING, KNOWN = 20.0, 30

# So many values far out one after another, not all the same as sentinels are, are where a feature is now. And of the
# first so many none counts as farther from their median than FAR times what all but one of them are: when they came,
# nothing was known by which to judge them.
FIRST = FEWEST


class Scales(NamedTuple):
    """Sums over values, of their differences to a fixed point near them: see `RunningScaler`. Shape (d,) each.

    `first` keeps the first values, shape (FIRST, d), NaN where they were counted in elsewhere; later those that are
    far out one after another, `streak` of them. `again` tells which features began again: what had been is forgotten.
    """

    near: FloatArray
    seen: FloatArray
    total: FloatArray
    square: FloatArray
    first: FloatArray
    streak: IntArray
    again: BoolArray


@inner
def spread(seen: float, total: float, square: float, near: float, least: float) -> float:
    """Return the standard deviation of what the sums are of; 0 where it is only rounding, a part of the mean."""
    mean = total / seen
    deviation = math.sqrt(max(square / seen - mean * mean, 0.0))
    return deviation if deviation > least * abs(near + mean) else 0.0


@compiled
def scale(scales: Scales, X: FloatArray, i: int, z: FloatArray) -> None:
    """Standardise row i by the moments of the values before: within 5 deviations; what is not known is 0.

    The first of z stays: it is the constant 1.
    """
    for j in range(X.shape[1]):
        x, z[1 + j] = X[i, j], 0.0
        n = scales.seen[j]
        if n > 0.0 and not math.isnan(x):
            deviation = spread(n, scales.total[j], scales.square[j], scales.near[j], LEAST_SPREAD)
            if deviation > 0.0:
                moved = min(max(x, -LARGEST), LARGEST) - scales.near[j]
                z[1 + j] = min(max((moved - scales.total[j] / n) / deviation, -FARTHEST), FARTHEST)


@compiled
def count_in(scales: Scales, X: FloatArray, i: int) -> None:
    """Count the values of row i in."""
    for j in range(X.shape[1]):
        if not math.isnan(X[i, j]):
            count(scales, j, X[i, j])
            judge_first(scales, j)


@inner
def count(scales: Scales, j: int, x: float) -> None:
    """Count a value of a feature in."""
    value = squarable(scales, j, x)
    moved = value - scales.near[j]
    counted = within(scales, j, moved, FARTHEST, LEAST_SPREAD)
    if counted == moved:
        scales.streak[j] = 0
    elif scales.first[max(scales.streak[j] - 1, 0), j] == value:
        return  # a sentinel says nothing of the scale, however often it comes
    else:
        scales.first[scales.streak[j], j] = value
        scales.streak[j] += 1
        if scales.streak[j] == FIRST:
            begin_again(scales, j)
            return
    add(scales, j, counted)


@inner
def count_target(scales: Scales, y: float) -> float:
    """Count a target in; return it as it is learnt: what moves, is followed step by step."""
    counted = within(scales, 0, squarable(scales, 0, y) - scales.near[0], OUTLYING, LEAST_TARGET_SPREAD)
    add(scales, 0, counted)
    learnt: float = scales.near[0] + counted
    return learnt


@inner
def mean_target(scales: Scales) -> float:
    """Return the mean of the targets, as they counted."""
    mean: float = scales.near[0] + scales.total[0] / scales.seen[0]
    return mean


@inner
def squarable(scales: Scales, j: int, x: float) -> float:
    """Return a value that can be squared; the first one is what differences are to."""
    value = min(max(x, -LARGEST), LARGEST)
    if math.isnan(scales.near[j]):
        scales.near[j] = value
    if scales.seen[j] < FIRST:
        scales.first[int(scales.seen[j]), j] = value
    return value


@inner
def within(scales: Scales, j: int, moved: float, counts_as: float, least: float) -> float:
    """Return a difference as it counts: as it is, or so many deviations from the mean of those before it."""
    seen = scales.seen[j]
    if seen < FIRST:
        return moved
    deviation: float = spread(seen, scales.total[j], scales.square[j], scales.near[j], least)
    mean: float = scales.total[j] / seen
    if abs(moved - mean) <= OUTLYING * max(1.0, KNOWN / seen) * deviation or deviation == 0.0:
        return moved
    return mean + math.copysign(counts_as * deviation, moved - mean)


@inner
def add(scales: Scales, j: int, moved: float) -> None:
    """Add a difference to the sums."""
    scales.seen[j] += 1.0
    scales.total[j] += moved
    scales.square[j] += moved * moved


@inner
def begin_again(scales: Scales, j: int) -> None:
    """Go on from the last values alone: the feature has moved for good."""
    count_again(scales, j, np.median(scales.first[:, j]), math.inf)
    scales.streak[j], scales.again[j] = 0, True


@inner
def judge_first(scales: Scales, j: int) -> bool:
    """Judge the first values once all are known: count them again, nearer, if one is far out; tell whether it is."""
    if scales.seen[j] != FIRST:
        return False
    median = np.median(scales.first[:, j])
    distances = np.sort(np.abs(scales.first[:, j] - median))
    bound = FAR * distances[FIRST - 2]
    if not 0.0 < bound < distances[FIRST - 1]:  # not, if some of them are not known here
        return False
    count_again(scales, j, median, bound)
    return True


@inner
def count_again(scales: Scales, j: int, median: float, bound: float) -> None:
    """Count the values that are kept, and no others, none of them farther from their median than a bound."""
    scales.near[j], scales.seen[j], scales.total[j], scales.square[j] = median, 0.0, 0.0, 0.0
    for i in range(FIRST):
        moved = min(max(scales.first[i, j] - median, -bound), bound)
        if abs(moved) == bound:
            scales.first[i, j] = median + moved
        add(scales, j, moved)
