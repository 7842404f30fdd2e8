"""Standardises record by record, by the moments of the values before; outliers count as less."""

import math
from typing import NamedTuple

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.protocol.moments import FAR, FEWEST, LARGEST
from streamfl.protocol.native.settings import FARTHEST

# A spread below this part of the mean is rounding; targets may all lie far from 0, so theirs is smaller.
LEAST_SPREAD, LEAST_TARGET_SPREAD = 1e-9, 1e-14

# From the ninth value on, an outlier lies more than OUTLYING deviations from the mean of the values before it. It
# counts as FARTHEST deviations, a target as OUTLYING. With fewer values than KNOWN the deviation is rough, and the
# bound is wider. So a sentinel has no lasting effect, and a feature that really moves, moves its own bounds.
OUTLYING, KNOWN = 20.0, 30

# After so many outliers in a row, not all equal as sentinels are, a feature begins again at their values. The first
# so many values are checked when all are known: none counts as farther from their median than FAR times the distance
# within which all but one of them lie.
FIRST = FEWEST


class Scales(NamedTuple):
    """Sums of the values' differences from a fixed point near them: see `RunningScaler`. Shape (d,) each.

    `first` holds the first values, shape (FIRST, d), NaN if another client counted them; later it holds outliers in a
    row, `streak` of them. `again` marks the features that began again, without their old moments.
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
    """Return the standard deviation of the values; 0 if it is only rounding, below a part of the mean."""
    mean = total / seen
    deviation = math.sqrt(max(square / seen - mean * mean, 0.0))
    return deviation if deviation > least * abs(near + mean) else 0.0


@compiled
def scale(scales: Scales, X: FloatArray, i: int, z: FloatArray) -> None:
    """Standardise row i by the moments of the values before, clipped to 5 deviations; a missing value is 0.

    The first element of z stays: it is the constant 1.
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
    """Add the values of row i to the moments."""
    for j in range(X.shape[1]):
        if not math.isnan(X[i, j]):
            count(scales, j, X[i, j])
            judge_first(scales, j)


@inner
def count(scales: Scales, j: int, x: float) -> None:
    """Add a value of a feature to its moments."""
    value = squarable(scales, j, x)
    moved = value - scales.near[j]
    counted = within(scales, j, moved, FARTHEST, LEAST_SPREAD)
    if counted == moved:
        scales.streak[j] = 0
    elif scales.first[max(scales.streak[j] - 1, 0), j] == value:
        return  # a repeated sentinel has no effect, however often it comes
    else:
        scales.first[scales.streak[j], j] = value
        scales.streak[j] += 1
        if scales.streak[j] == FIRST:
            begin_again(scales, j)
            return
    add(scales, j, counted)


@inner
def count_target(scales: Scales, y: float) -> float:
    """Add a target to the moments; return it as it is learnt, clipped, so that a move is followed step by step."""
    counted = within(scales, 0, squarable(scales, 0, y) - scales.near[0], OUTLYING, LEAST_TARGET_SPREAD)
    add(scales, 0, counted)
    learnt: float = scales.near[0] + counted
    return learnt


@inner
def mean_target(scales: Scales) -> float:
    """Return the mean of the targets, as they were counted."""
    mean: float = scales.near[0] + scales.total[0] / scales.seen[0]
    return mean


@inner
def squarable(scales: Scales, j: int, x: float) -> float:
    """Return a value clipped so that it can be squared; the first one is the point from which others are measured."""
    value = min(max(x, -LARGEST), LARGEST)
    if math.isnan(scales.near[j]):
        scales.near[j] = value
    if scales.seen[j] < FIRST:
        scales.first[int(scales.seen[j]), j] = value
    return value


@inner
def within(scales: Scales, j: int, moved: float, counts_as: float, least: float) -> float:
    """Return a difference as it counts: unchanged or, of an outlier, `counts_as` deviations from the mean."""
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
    """Restart a feature's moments from its last values alone: it has moved for good."""
    count_again(scales, j, median_of_first(scales, j), math.inf)
    scales.streak[j], scales.again[j] = 0, True


@inner
def judge_first(scales: Scales, j: int) -> bool:
    """Check the first values once all are known: if one is an outlier, clip and count them again; tell whether so."""
    if scales.seen[j] != FIRST:
        return False
    median, farthest, second = median_of_first(scales, j), 0.0, 0.0
    for i in range(FIRST):
        distance = abs(scales.first[i, j] - median)
        if math.isnan(distance):  # another client counted this value
            return False
        second = max(second, min(farthest, distance))
        farthest = max(farthest, distance)
    bound = FAR * second
    if not 0.0 < bound < farthest:
        return False
    count_again(scales, j, median, bound)
    return True


@inner
def median_of_first(scales: Scales, j: int) -> float:
    """Return the median of the values in `first`: the mean of the two that have half of the others on each side."""
    below, above = -math.inf, math.inf
    for i in range(FIRST):
        value, smaller, equal = scales.first[i, j], 0, 0
        for k in range(FIRST):
            smaller += scales.first[k, j] < value
            equal += scales.first[k, j] == value
        if smaller <= FIRST // 2 - 1 < smaller + equal:
            below = value
        if smaller <= FIRST // 2 < smaller + equal:
            above = value
    return (below + above) / 2.0


@inner
def count_again(scales: Scales, j: int, median: float, bound: float) -> None:
    """Reset the moments to those of the values in `first`, clipped to a bound from their median."""
    scales.near[j], scales.seen[j], scales.total[j], scales.square[j] = median, 0.0, 0.0, 0.0
    for i in range(FIRST):
        moved = min(max(scales.first[i, j] - median, -bound), bound)
        if abs(moved) == bound:
            scales.first[i, j] = median + moved
        add(scales, j, moved)
