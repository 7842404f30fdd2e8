"""The way of one record: it is scaled, finds its cells, is predicted by every expert, mixed, and learnt.

Shapes: d features, C columns (labels, or 1 for targets), M models, E experts: the models, the neighbours, and one
more.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.between.native.compiled import Held, compiled, inner
from streamfl.core.errors import BrokenInvariantError
from streamfl.core.protocol.moments import FAR, FEWEST, LARGEST
from streamfl.core.protocol.native.settings import DEPTHS, FARTHEST, FERNS, MEMORIES, WHITENED, WINDOW

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

# What numbers with more bits than a fern has cells are hashed by (Knuth 6.4).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Neighbours asked, and what no neighbour at all counts, in votes.
NEAREST, SMOOTHING = 5, 0.1

# What part of its weight an expert gives back to all at every record.
SHARE = 0.001

# No probability counts as less than this part of a uniform one, no likelihood of a target than this part of the best.
FLOOR, LEAST_LIKELY = 0.01, 1e-3

# Rates of the steps by which the weights of stacked experts are learnt; with the fixed share, three mixtures.
STACKING = (0.03, 0.3)
ALL_THREE = np.ones(3, np.bool_)

# The part of their mean that is added to second moments, and for how many records their inverse is kept at least.
RIDGE, REFRESH = 0.1, 32

# Inputs up to which steps are whitened by all second moments, beyond by their diagonal.
MOST_WHITENED = 256

# What is compiled in from other files. Machine code is kept by the date of this one: it must change when they do.
_COMPILED_IN = (FERNS, DEPTHS, MEMORIES, WHITENED, FARTHEST, WINDOW, LARGEST, FEWEST, FAR)
if _COMPILED_IN != (100, ((8, 256), (24, 1024)), (100, 1000), (0.01, 0.1), 5.0, 10_000, 1e100, 8, 10.0):
    raise BrokenInvariantError("a constant of rungs or moments was changed: change it in one_record.py, too")

Table = npt.NDArray[np.float32]


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


class Tests(NamedTuple):
    """The tests of all ferns, one after another: which feature, and above what. See `Ferns`."""

    feature: IntArray
    threshold: FloatArray


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


class Mixing(NamedTuple):
    """Weights of the experts: by fixed share (E,), stacked (2, E), and of the three mixtures (3,).

    `awake` tells who is asked and taught (E,); all others have no weight, see `sleeping`. `running` holds the mean
    squared norm of what is stacked (of targets: the experts' differences to the first mixture), the variance of the
    best expert, and the records learnt; `targets` is of the targets, as if they were one feature.
    """

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    running: FloatArray
    awake: BoolArray
    targets: Scales


class Kinds(NamedTuple):
    """What tells the models apart; they come in the order linear, fern, whitened.

    What part of the features each sees, shape (M,); the rate of each normalised step; the first fern; how many.
    """

    sees: FloatArray
    rate: FloatArray
    first_fern: int
    ferns: int


class Models(NamedTuple):
    """What records change: see `OnlineModels`; and of the round the sums of squared norms, and the cells' visits.

    `bearing` counts the round's records by label (C,), `right` those of which each model said so (M, C). `mean`, of
    z z^T, and `along`, shape (d + 1,), are scratch. `centre` is what targets are measured from, shape (1,); NaN until
    one is known.
    """

    weights: FloatArray
    table: Table
    visits: IntArray
    second: FloatArray
    inverse: FloatArray
    norms: FloatArray
    norm_sums: FloatArray
    bearing: FloatArray
    right: FloatArray
    mean: FloatArray
    along: FloatArray
    centre: FloatArray


class Touched(NamedTuple):
    """Rows of the table that this round has changed, what they held before, how many there are, and records learnt.

    With room for all that a call may touch: (rows,), (rows, rates, C); and (2,).
    """

    cells: IntArray
    before: Table
    filled: IntArray


class Said(NamedTuple):
    """What there is of a record between its prediction and its lesson.

    The constant 1 and the features (d + 1,); its cells; what every expert says (E, C); the same with a floor, and its
    centred logarithms; what the three mixtures say (3, C); what is served (C,). Targets are measured from the centre.
    """

    z: FloatArray
    cells: IntArray
    by_expert: FloatArray
    given: FloatArray
    centred: FloatArray
    offered: FloatArray
    mixed: FloatArray


class Learning(NamedTuple):
    """All that the way of a record leads through, and whether targets are learnt."""

    kinds: Kinds
    scales: Scales
    tests: Tests
    models: Models
    memory: Memory
    mixing: Mixing
    said: Said
    targets: bool


def plain(array: FloatArray) -> FloatArray:
    """Return an array as the loops take it: by rows, and not read-only, which would be compiled for once more."""
    if array.flags.c_contiguous and array.flags.writeable and array.dtype == np.float64:
        return array
    return np.array(array, np.float64, order="C")


# --- scaling -----------------------------------------------------------------------------------------------------


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


# --- ferns -------------------------------------------------------------------------------------------------------


@compiled
def find_cells(tests: Tests, z: FloatArray, cells: IntArray, awake: BoolArray, first_fern: int, rates: int) -> None:
    """Find the row of the table that each fern leads to; without any feature its first.

    Whether the ferns of a depth are awake is told at `first_fern` and every `rates` from there.
    """
    test = fern = first = 0
    for k in range(len(DEPTHS)):
        depth, each = DEPTHS[k]
        if not awake[first_fern + k * rates]:
            test, fern, first = test + FERNS * depth, fern + FERNS, first + FERNS * each
            continue
        bits = int(math.log2(each))
        for _ in range(FERNS):
            number = np.uint64(0)
            for bit in range(depth):
                if len(z) > 1:
                    above = z[1 + tests.feature[test]] > tests.threshold[test]
                    number |= np.uint64(above) << np.uint64(bit)
                test += 1
            if depth > bits:
                number = (number * GOLDEN) >> np.uint64(64 - bits)
            cells[fern] = first + np.int64(number)
            first += each
            fern += 1


# --- models ------------------------------------------------------------------------------------------------------


@inner
def ask_models(
    models: Models, kinds: Kinds, z: FloatArray, cells: IntArray, outputs: FloatArray, awake: BoolArray
) -> None:
    """Work out what each model says, shape (M, C): its weights along the features, and its cells."""
    count, columns = models.weights.shape[1:]
    start, end = 0, count
    while end > 1 and not awake[end - 1]:
        end -= 1
    while start < end and not awake[start]:
        start += 1
    for m in range(count):
        for c in range(columns):
            outputs[m, c] = 0.0
    for j in range(len(z)):
        for m in range(start, end):
            for c in range(columns):
                outputs[m, c] += kinds.sees[m] * z[j] * models.weights[j, m, c]
    rates = models.table.shape[1]
    for fern in range(len(cells)):
        first = kinds.first_fern + fern // FERNS * rates
        if not awake[first]:
            continue
        for r in range(rates):
            for c in range(columns):
                outputs[first + r, c] += models.table[cells[fern], r, c]


@inner
def step(
    models: Models,
    kinds: Kinds,
    z: FloatArray,
    cells: IntArray,
    errors: FloatArray,
    seen: int,
    touched: Touched,
    awake: BoolArray,
) -> None:
    """Take every model's step down its loss, whose derivatives by the outputs are `errors`, shape (M, C).

    `seen` counts this record.
    """
    count, columns = models.weights.shape[1:]
    normalised = len(kinds.rate)
    normalise(models, kinds, z, errors, seen)
    step_cells(models, kinds, cells, errors, touched, awake)
    for j in range(len(z)):
        for m in range(normalised):
            for c in range(columns):
                models.weights[j, m, c] -= kinds.sees[m] * z[j] * errors[m, c]
    if normalised < count:
        count_products(models, z)
        if awake[count - 1]:
            whitened_step(models, z, errors, seen)


@inner
def normalise(models: Models, kinds: Kinds, z: FloatArray, errors: FloatArray, seen: int) -> None:
    """Turn derivatives into steps: by the mean squared norm of what a model sees, less for a larger record.

    No step overshoots. Ferns see their cells, and half the features.
    """
    square = 0.0
    for j in range(len(z)):
        square += z[j] * z[j]
    squares = (square, FERNS + 0.25 * square)
    for k in range(2):
        models.norm_sums[k] += squares[k]
        models.norms[k] += (squares[k] - models.norms[k]) / min(seen, WINDOW)
    for m in range(len(kinds.rate)):
        k = int(kinds.first_fern <= m < kinds.first_fern + kinds.ferns)
        size = kinds.rate[m] / (models.norms[k] + 0.5 * kinds.rate[m] * squares[k])
        for c in range(errors.shape[1]):
            errors[m, c] *= size


@inner
def step_cells(
    models: Models, kinds: Kinds, cells: IntArray, steps: FloatArray, touched: Touched, awake: BoolArray
) -> None:
    """Take the ferns' steps in the cells of a record, and note what these held before the round's first step."""
    rates = models.table.shape[1]
    for fern in range(len(cells)):
        cell, first = cells[fern], kinds.first_fern + fern // FERNS * rates
        if not awake[first]:
            continue
        if not models.visits[cell] and touched.filled[0] < len(touched.cells):
            touched.cells[touched.filled[0]] = cell
            for r in range(rates):
                for c in range(steps.shape[1]):
                    touched.before[touched.filled[0], r, c] = models.table[cell, r, c]
            touched.filled[0] += 1
        models.visits[cell] += 1
        for r in range(rates):
            for c in range(steps.shape[1]):
                models.table[cell, r, c] -= steps[first + r, c]


@inner
def count_products(models: Models, z: FloatArray) -> None:
    """Count z z^T in, or its diagonal where no more is used; also while nobody asks, as all records count."""
    size = len(z)
    for j in range(size):
        if size > MOST_WHITENED:
            models.second[j, j] += z[j] * z[j]
            continue
        for k in range(size):
            models.second[j, k] += z[j] * z[k]


@inner
def whitened_step(models: Models, z: FloatArray, errors: FloatArray, seen: int) -> None:
    """Step along A^-1 z, A the mean of z z^T and a ridge, as it was a few records ago; the last models do."""
    size, count, along = len(z), len(WHITENED), models.along
    first = models.weights.shape[1] - count
    if size <= MOST_WHITENED:
        whiten(models, z, seen)
    else:
        standardise(models, z, seen)
    square = 0.0
    for j in range(size):
        square += z[j] * along[j]
    for m in range(count):
        length = WHITENED[m] / (1.0 + 0.5 * WHITENED[m] * square)
        for j in range(size):
            for c in range(errors.shape[1]):
                models.weights[j, first + m, c] -= along[j] * length * errors[first + m, c]


@inner
def whiten(models: Models, z: FloatArray, seen: int) -> None:
    """Work out A^-1 z, by rows of a symmetric matrix: no sum waits for the one before."""
    size = len(z)
    if is_stale(models, seen):
        invert(models, seen)
    for k in range(size):
        models.along[k] = 0.0
    for j in range(size):
        for k in range(size):
            models.along[k] += z[j] * models.inverse[j, k]


@inner
def standardise(models: Models, z: FloatArray, seen: int) -> None:
    """Work out A^-1 z for the diagonal of A alone, where the whole of it would cost far more than all the rest."""
    size, trace = len(z), 0.0
    for j in range(size):
        trace += models.second[j, j]
    for j in range(size):
        models.along[j] = z[j] * seen / (models.second[j, j] + RIDGE * trace / size)


@inner
def is_stale(models: Models, seen: int) -> bool:
    """Tell whether the inverse is to be worked out again: so seldom that it costs no more than the steps.

    That is, every 32 records, or as many as there are inputs; and whenever there are twice as many records.
    """
    size = len(models.inverse)
    doubled = seen >= REFRESH and seen & (seen - 1) == 0
    return math.isnan(models.inverse[0, 0]) or doubled or seen % max(REFRESH, size) == 0


@inner
def invert(models: Models, seen: int) -> None:
    """Invert the mean of z z^T and a ridge, by elimination: it is positive definite, so no pivot is sought."""
    A, inverse = models.mean, models.inverse
    size = len(A)
    ridge = 0.0
    for j in range(size):
        ridge += RIDGE * models.second[j, j] / seen / size
    for j in range(size):
        for k in range(size):
            A[j, k] = models.second[j, k] / seen
            inverse[j, k] = 0.0
        A[j, j] += ridge
        inverse[j, j] = 1.0
    for i in range(size):
        pivot = A[i, i]
        for k in range(size):
            A[i, k] /= pivot
            inverse[i, k] /= pivot
        for j in range(size):
            factor = A[j, i]
            if j != i and factor != 0.0:
                for k in range(size):
                    A[j, k] -= factor * A[i, k]
                    inverse[j, k] -= factor * inverse[i, k]


# --- neighbours --------------------------------------------------------------------------------------------------


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


# --- the mixture -------------------------------------------------------------------------------------------------


@inner
def softmax(outputs: FloatArray, first: int, end: int) -> None:
    """Turn rows of outputs into probabilities."""
    columns = outputs.shape[1]
    for m in range(first, end):
        largest, total = -math.inf, 0.0
        for c in range(columns):
            largest = max(largest, outputs[m, c])
        for c in range(columns):
            outputs[m, c] = math.exp(outputs[m, c] - largest)
            total += outputs[m, c]
        for c in range(columns):
            outputs[m, c] /= total


@compiled
def mix_labels(mixing: Mixing, said: Said) -> None:
    """Mix probabilities: by fixed share, and as softmaxes over the experts' log-probabilities; then all three."""
    experts, columns = said.by_expert.shape
    least, mixtures = FLOOR / columns, 1 + len(STACKING)
    for k in range(mixtures):
        for c in range(columns):
            said.offered[k, c] = 0.0
    for e in range(experts):
        if not mixing.awake[e]:
            continue
        mean = 0.0
        for c in range(columns):
            said.given[e, c] = max(said.by_expert[e, c], least)
            said.centred[e, c] = math.log(said.given[e, c])
            mean += said.centred[e, c] / columns
        for c in range(columns):
            said.centred[e, c] -= mean
            said.offered[0, c] += mixing.best[e] * said.given[e, c]
            for k in range(1, mixtures):
                said.offered[k, c] += mixing.stacked[k - 1, e] * said.centred[e, c]
    softmax(said.offered, 1, mixtures)
    total = 0.0
    for c in range(columns):
        said.mixed[c] = 0.0
        for k in range(mixtures):
            said.mixed[c] += mixing.outer[k] * max(said.offered[k, c], least)
        total += said.mixed[c]
    for c in range(columns):
        said.mixed[c] /= total


@compiled
def learn_to_mix_labels(mixing: Mixing, said: Said, code: int) -> None:
    """Weigh the experts by the probability each gave to the label that came, and step down the softmaxes' losses."""
    experts, columns = said.given.shape
    square = 0.0
    for e in range(experts):
        if not mixing.awake[e]:
            continue
        mixing.best[e] *= said.given[e, code]
        for c in range(columns):
            square += said.centred[e, c] * said.centred[e, c]
    for k in range(len(mixing.outer)):
        mixing.outer[k] *= max(said.offered[k, code], FLOOR / columns)
    share(mixing.best, mixing.awake)
    share(mixing.outer, ALL_THREE)
    mixing.running[2] += 1.0
    mixing.running[0] += (square - mixing.running[0]) / min(mixing.running[2], WINDOW)
    if mixing.running[0] > 0.0:
        for k in range(len(STACKING)):
            size = STACKING[k] / (mixing.running[0] + 0.5 * STACKING[k] * square)
            for e in range(experts):
                if not mixing.awake[e]:
                    continue
                slope = -said.centred[e, code]
                for c in range(columns):
                    slope += said.offered[1 + k, c] * said.centred[e, c]
                mixing.stacked[k, e] -= size * slope


@compiled
def mix_targets(mixing: Mixing, said: Said) -> None:
    """Mix predicted targets: by fixed share, and as linear combinations of differences to that; then all three."""
    said.offered[0, 0] = 0.0
    for e in range(len(said.given)):
        said.given[e, 0] = said.by_expert[e, 0] if mixing.awake[e] else 0.0
        said.offered[0, 0] += mixing.best[e] * said.given[e, 0]
    said.mixed[0] = mixing.outer[0] * said.offered[0, 0]
    for k in range(len(STACKING)):
        said.offered[1 + k, 0] = said.offered[0, 0]
        for e in range(len(said.given)):
            if mixing.awake[e]:
                said.offered[1 + k, 0] += mixing.stacked[k, e] * (said.given[e, 0] - said.offered[0, 0])
        said.mixed[0] += mixing.outer[1 + k] * said.offered[1 + k, 0]


@compiled
def learn_to_mix_targets(mixing: Mixing, said: Said, truth: float) -> None:
    """Weigh the experts by their errors under the variance of the best one, and step down the squared errors."""
    experts, least, square = len(said.given), math.inf, 0.0
    for e in range(experts):
        if mixing.awake[e]:
            least = min(least, (said.given[e, 0] - truth) ** 2)
            square += (said.given[e, 0] - said.offered[0, 0]) ** 2
    mixing.running[2] += 1.0
    rate = 1.0 / min(mixing.running[2], WINDOW)
    mixing.running[1] += rate * (least - mixing.running[1])
    mixing.running[0] += rate * (square - mixing.running[0])
    weigh(mixing.outer, said.offered, truth, mixing.running[1], ALL_THREE)
    weigh(mixing.best, said.given, truth, mixing.running[1], mixing.awake)
    if mixing.running[0] > 0.0:
        for k in range(len(STACKING)):
            # Where experts differ by less than the best of them errs, their differences tell hardly anything.
            size = STACKING[k] / (mixing.running[0] + mixing.running[1] + 0.5 * STACKING[k] * square)
            for e in range(experts):
                if mixing.awake[e]:
                    apart = said.given[e, 0] - said.offered[0, 0]
                    mixing.stacked[k, e] -= size * (said.offered[1 + k, 0] - truth) * apart


@inner
def weigh(weights: FloatArray, predicted: FloatArray, truth: float, variance: float, awake: BoolArray) -> None:
    """Weigh by normal likelihoods relative to the best one's, none below a part: one outlier must not decide."""
    least = math.inf
    for e in range(len(weights)):
        if awake[e]:
            least = min(least, (predicted[e, 0] - truth) ** 2)
    for e in range(len(weights)):
        if awake[e]:
            worse = (predicted[e, 0] - truth) ** 2 - least
            weights[e] *= max(math.exp(-0.5 * worse / max(variance, 1e-300)), LEAST_LIKELY)
    share(weights, awake)


@compiled
def share(weights: FloatArray, awake: BoolArray) -> None:
    """Make weights sum to 1; each expert gives a part of its own back to all (Herbster and Warmuth 1998)."""
    total, count = 0.0, 0
    for e in range(len(weights)):
        if awake[e]:
            total += weights[e]
            count += 1
    for e in range(len(weights)):
        if awake[e]:
            weights[e] = (1.0 - SHARE) / total * weights[e] + SHARE / count


# --- the model that serves rounds ---------------------------------------------------------------------------------


@compiled
def rounds_say(X: FloatArray, mean: FloatArray, scale: FloatArray, farthest: float, W: FloatArray) -> FloatArray:
    """Return what a softmax model of standardised features says of records, shape (n, C): see `Registry.design`.

    The last row of W, shape (d + 1, C), belongs to the constant 1.
    """
    features, columns = X.shape[1], W.shape[1]
    said = np.zeros((len(X), columns))
    for i in range(len(X)):
        for j in range(features):
            z = (X[i, j] - mean[j]) * (1.0 / scale[j])
            if not math.isnan(z):
                z = min(max(z, -farthest), farthest)
                for c in range(columns):
                    said[i, c] += z * W[j, c]
        for c in range(columns):
            said[i, c] += W[features, c]
    softmax(said, 0, len(X))
    return said


# --- the whole way -----------------------------------------------------------------------------------------------


@inner
def predict(learning: Learning, remembered: int, others: FloatArray, i: int) -> float:
    """Predict the record that is scaled; row i of `others` is what one more expert says, empty if there is none.

    Returns what is to be added to it: what targets are measured from.
    """
    models, memory, said, awake = learning.models, learning.memory, learning.said, learning.mixing.awake
    count, last, centre = models.weights.shape[1], len(said.by_expert) - 1, measured_from(learning, others, i)
    if len(said.cells):
        find_cells(learning.tests, said.z, said.cells, awake, learning.kinds.first_fern, models.table.shape[1])
    ask_models(models, learning.kinds, said.z, said.cells, said.by_expert, awake)
    for c in range(said.by_expert.shape[1]):
        said.by_expert[last, c] = 1.0 / said.by_expert.shape[1]
        if others.shape[1]:  # a label of this round is news to it
            said.by_expert[last, c] = others[i, c] - centre if c < others.shape[1] else 0.0
        elif learning.targets:
            said.by_expert[last, 0] = mean_of_awake(said.by_expert, awake[:count])
    if not learning.targets:
        softmax(said.by_expert, 0, count)
    if len(memory.y) and awake[count]:
        ask_neighbours(memory, remembered, said.z, said.by_expert, count, learning.targets)
        for e in range(count, last):  # before any record they say 0: the centre
            said.by_expert[e] -= centre if remembered else 0.0
    if learning.targets:
        mix_targets(learning.mixing, said)
    else:
        mix_labels(learning.mixing, said)
    return centre


@inner
def measured_from(learning: Learning, others: FloatArray, i: int) -> float:
    """Return what targets are measured from; before any was seen, what one more expert says, or 0; of labels 0."""
    if not learning.targets:
        return 0.0
    centre: float = learning.models.centre[0]
    if math.isnan(centre):
        centre = others[i, 0] if others.shape[1] else 0.0
    return centre


@inner
def mean_of_awake(by_expert: FloatArray, awake: BoolArray) -> float:
    """Return the mean target that models predict."""
    total, count = 0.0, 0
    for m in range(len(awake)):
        if awake[m]:
            total += by_expert[m, 0]
            count += 1
    return total / max(1, count)


@inner
def learn(learning: Learning, remembered: int, truth: float, seen: int, touched: Touched) -> None:
    """Learn the record that was predicted last: its label's column, or its target."""
    models, said = learning.models, learning.said
    errors, target = said.by_expert, 0.0
    if learning.targets:
        truth = count_target(learning.mixing.targets, truth)
        if math.isnan(models.centre[0]):
            models.centre[0] = truth
        target = truth - models.centre[0]
        learn_to_mix_targets(learning.mixing, said, target)
    else:
        learn_to_mix_labels(learning.mixing, said, int(truth))
        count_right(models, said.by_expert, int(truth), learning.mixing.awake)
    for m in range(models.weights.shape[1]):
        errors[m, 0 if learning.targets else int(truth)] -= target if learning.targets else 1.0
        if not learning.mixing.awake[m]:
            errors[m] = 0.0
    step(models, learning.kinds, said.z, said.cells, errors, seen, touched, learning.mixing.awake)
    if len(learning.memory.y):
        remember(learning.memory, remembered, said.z, truth, learning.targets)
    if learning.targets and judge_first(learning.mixing.targets, 0):
        unlearn(learning, remembered, seen, touched)
    if learning.targets and touched.filled[1] + 1 == seen:  # nothing is agreed on yet
        models.centre[0] = mean_target(learning.mixing.targets)


@inner
def count_right(models: Models, said: FloatArray, code: int, awake: BoolArray) -> None:
    """Count the record under its label, and for each model that gave this one more than any other."""
    models.bearing[code] += 1.0
    for m in range(len(models.right)):
        right = awake[m]
        for c in range(said.shape[1]):
            right = right and (c == code or said[m, c] < said[m, code])
        models.right[m, code] += 1.0 if right else 0.0


@inner
def unlearn(learning: Learning, remembered: int, seen: int, touched: Touched) -> None:
    """Unlearn what errors of any size have taught: how large errors usually are would be misjudged for ever."""
    memory, mixing, models, awake = learning.memory, learning.mixing, learning.models, learning.mixing.awake.sum()
    for i in range(min(FIRST, len(memory.y))):
        memory.y[(remembered - i) % len(memory.y)] = mixing.targets.first[FIRST - 1 - i, 0]
    for e in range(len(mixing.awake)):
        mixing.best[e] = mixing.awake[e] / awake
        mixing.stacked[:, e] = mixing.awake[e] / awake
    mixing.outer[:] = 1.0 / len(mixing.outer)
    mixing.running[:] = 0.0
    if seen == FIRST:  # else others have taught the models, too
        models.centre[0] = mean_target(mixing.targets)
        models.weights[:] = 0.0
        for row in range(touched.filled[0]):
            models.table[touched.cells[row]] = touched.before[row]


@inner
def fit(learning: Learning, X: FloatArray, others: FloatArray, truths: FloatArray, predicted: FloatArray) -> bool:
    """Tell whether records fit what they are to be sent through: in loops, what is too small is other memory."""
    columns = len(learning.said.mixed)
    if X.shape[1] != len(learning.said.z) - 1 or len(others) != len(X):
        return False
    if len(truths) and len(truths) != len(X):
        return False
    if len(predicted) and (len(predicted) != len(X) or predicted.shape[1] != columns):
        return False
    if not learning.targets:
        for truth in truths:
            if not 0.0 <= truth < columns:
                return False
    return True


@compiled
def hold(learning: Learning) -> Held:
    """Return all that the way of a record leads through, to be handed over again and again."""
    return Held(learning)


@compiled
def go(
    held: Held,
    remembered: int,
    seen: int,
    X: FloatArray,
    others: FloatArray,
    truths: FloatArray,
    predicted: FloatArray,
    touched: Touched,
) -> bool:
    """Send records on their way: each is predicted, if `predicted`, shape (n, C), has rows, and then learnt.

    It is not learnt if there are no `truths`. What is learnt without being predicted must be what was predicted last.
    Returns whether they fit; if not, nothing was done.
    """
    learning: Learning = held.inside
    if not fit(learning, X, others, truths, predicted):
        return False
    for i in range(len(X)):
        if len(predicted):
            scale(learning.scales, X, i, learning.said.z)
            centre = predict(learning, remembered, others, i)
            for c in range(predicted.shape[1]):
                predicted[i, c] = learning.said.mixed[c] + centre
        if len(truths):
            count_in(learning.scales, X, i)
            learn(learning, remembered, truths[i], seen + i + 1, touched)
            touched.filled[1] += 1
            remembered += 1
    return True
