"""The way of one record: it is scaled, finds its cells, is predicted by every expert, mixed, and learnt.

Shapes: d features, C columns (labels, or 1 for targets), M models, E experts: the models, the neighbours, and one
more.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.compiled import compiled
from streamfl.core.moments import LARGEST
from streamfl.core.online.rungs import DEPTHS, FARTHEST, FERNS, MEMORIES, WHITENED, WINDOW

# A spread below this part of the mean is rounding.
LEAST_SPREAD = 1e-9

# What numbers with more bits than a fern has cells are hashed by (Knuth 6.4).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Neighbours asked, and what no neighbour at all counts, in votes.
NEAREST, SMOOTHING = 5, 0.1

# What part of its weight an expert gives back to all at every record.
SHARE = 0.001

# No probability counts as less than this part of a uniform one, no likelihood of a target than this part of the best.
FLOOR, LEAST_LIKELY = 0.01, 1e-3

# Rates of the steps by which the weights of stacked experts are learnt.
STACKING = (0.03, 0.3)

# The part of their mean that is added to second moments, and for how many records their inverse is kept.
RIDGE, REFRESH = 0.1, 32

Table = npt.NDArray[np.float32]


class Scales(NamedTuple):
    """Sums over values, of their differences to a fixed point near them: see `RunningScaler`. Shape (d,) each."""

    near: FloatArray
    seen: FloatArray
    total: FloatArray
    square: FloatArray


class Tests(NamedTuple):
    """The tests of all ferns, one after another: which feature, and above what. See `Ferns`."""

    feature: IntArray
    threshold: FloatArray


class Memory(NamedTuple):
    """The last records in names of their own: see `Neighbours`.

    `Z` has a row for each feature, so that distances are worked out along it. `column` tells where a feature is
    kept, `code` as what a label is kept, and `place` the column of a label that is kept, or -1. `at` and `distance`
    are scratch.
    """

    Z: FloatArray
    y: FloatArray
    column: IntArray
    code: IntArray
    place: IntArray
    at: FloatArray
    distance: FloatArray


class Mixing(NamedTuple):
    """Weights of the experts: by fixed share (E,), stacked (2, E), and of the three mixtures (3,).

    `running` holds the mean squared norm of what is stacked, the variance of the best expert, and the records learnt.
    """

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    running: FloatArray


class Kinds(NamedTuple):
    """What tells the models apart; they come in the order linear, fern, whitened.

    What part of the features each sees, shape (M,); the rate of each normalised step; the first fern; how many.
    """

    sees: FloatArray
    rate: FloatArray
    first_fern: int
    ferns: int


class Models(NamedTuple):
    """What records change: see `OnlineModels`; and of the round the sums of squared norms, and the cells' visits."""

    weights: FloatArray
    table: Table
    visits: IntArray
    second: FloatArray
    inverse: FloatArray
    norms: FloatArray
    norm_sums: FloatArray


class Touched(NamedTuple):
    """Rows of the table that are changed for the first time in a round, what they held, and how many there are.

    Room for all that may be: (rows,), (rows, rates, C); and (1,).
    """

    cells: IntArray
    before: Table
    filled: IntArray


class Said(NamedTuple):
    """What there is of a record between its prediction and its lesson.

    The constant 1 and the features (d + 1,); its cells; what every expert says (E, C); the same with a floor, and its
    centred logarithms; what the three mixtures say (3, C); what is served (C,).
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


# --- scaling -----------------------------------------------------------------------------------------------------


@compiled
def scale(scales: Scales, x: FloatArray, z: FloatArray) -> None:
    """Standardise by the moments of the values before: within 5 deviations; what is missing or unknown is 0."""
    for j in range(len(x)):
        z[j] = 0.0
        n = scales.seen[j]
        if n > 0.0 and not math.isnan(x[j]):
            mean = scales.total[j] / n
            spread = math.sqrt(max(scales.square[j] / n - mean * mean, 0.0))
            if spread > LEAST_SPREAD * abs(scales.near[j] + mean):
                moved = min(max(x[j], -LARGEST), LARGEST) - scales.near[j]
                z[j] = min(max((moved - mean) / spread, -FARTHEST), FARTHEST)


@compiled
def count_in(scales: Scales, x: FloatArray) -> None:
    """Count the values in."""
    for j in range(len(x)):
        if not math.isnan(x[j]):
            value = min(max(x[j], -LARGEST), LARGEST)
            if math.isnan(scales.near[j]):
                scales.near[j] = value
            moved = value - scales.near[j]
            scales.seen[j] += 1.0
            scales.total[j] += moved
            scales.square[j] += moved * moved


# --- ferns -------------------------------------------------------------------------------------------------------


@compiled
def find_cells(tests: Tests, z: FloatArray, cells: IntArray) -> None:
    """Find the row of the table that each fern leads to; without any feature its first."""
    test = fern = first = 0
    for depth, each in DEPTHS:
        bits = int(math.log2(each))
        for _ in range(FERNS):
            number = np.uint64(0)
            for k in range(depth):
                if len(z):
                    above = z[tests.feature[test]] > tests.threshold[test]
                    number |= np.uint64(above) << np.uint64(k)
                test += 1
            if depth > bits:
                number = (number * GOLDEN) >> np.uint64(64 - bits)
            cells[fern] = first + np.int64(number)
            first += each
            fern += 1


# --- models ------------------------------------------------------------------------------------------------------


@compiled
def ask_models(models: Models, kinds: Kinds, z: FloatArray, cells: IntArray, outputs: FloatArray) -> None:
    """Work out what each model says, shape (M, C): its weights along the features, and its cells."""
    count, columns = models.weights.shape[1:]
    outputs[:count] = 0.0
    for j in range(len(z)):
        for m in range(count):
            for c in range(columns):
                outputs[m, c] += z[j] * models.weights[j, m, c]
    for m in range(count):
        for c in range(columns):
            outputs[m, c] *= kinds.sees[m]
    rates = models.table.shape[1]
    for fern in range(len(cells)):
        first = kinds.first_fern + fern // FERNS * rates
        for r in range(rates):
            for c in range(columns):
                outputs[first + r, c] += models.table[cells[fern], r, c]


@compiled
def step(
    models: Models, kinds: Kinds, z: FloatArray, cells: IntArray, errors: FloatArray, seen: int, touched: Touched
) -> None:
    """Take every model's step down its loss, whose derivatives by the outputs are `errors`, shape (M, C).

    `seen` counts this record.
    """
    count, columns = models.weights.shape[1:]
    normalised = len(kinds.rate)
    normalise(models, kinds, z, errors, seen)
    step_cells(models, kinds, cells, errors, touched)
    for m in range(count):
        for c in range(columns):
            errors[m, c] *= kinds.sees[m]
    for j in range(len(z)):
        for m in range(normalised):
            for c in range(columns):
                models.weights[j, m, c] -= z[j] * errors[m, c]
    if normalised < count:
        whitened_step(models, z, errors[normalised:count], seen)


@compiled
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


@compiled
def step_cells(models: Models, kinds: Kinds, cells: IntArray, steps: FloatArray, touched: Touched) -> None:
    """Take the ferns' steps in the cells of a record, and note what these held before the round's first step."""
    rates = models.table.shape[1]
    for fern in range(len(cells)):
        cell, first = cells[fern], kinds.first_fern + fern // FERNS * rates
        if not models.visits[cell]:
            touched.cells[touched.filled[0]] = cell
            touched.before[touched.filled[0]] = models.table[cell]
            touched.filled[0] += 1
        models.visits[cell] += 1
        for r in range(rates):
            for c in range(steps.shape[1]):
                models.table[cell, r, c] -= steps[first + r, c]


@compiled
def whitened_step(models: Models, z: FloatArray, errors: FloatArray, seen: int) -> None:
    """Step along A^-1 z, A the mean of z z^T and a ridge, as it was a few records ago."""
    size = len(z)
    for j in range(size):
        for k in range(size):
            models.second[j, k] += z[j] * z[k]
    if seen % REFRESH == 0 or math.isnan(models.inverse[0, 0]):
        A = models.second / seen
        ridge = RIDGE * np.trace(A) / size
        for j in range(size):
            A[j, j] += ridge
        models.inverse[:] = np.linalg.inv(A)
    along = np.zeros(size)
    for j in range(size):
        for k in range(size):
            along[k] += z[j] * models.inverse[j, k]
    square = 0.0
    for j in range(size):
        square += z[j] * along[j]
    first = models.weights.shape[1] - len(errors)
    for m in range(len(errors)):
        length = WHITENED[m] / (1.0 + 0.5 * WHITENED[m] * square)
        for c in range(errors.shape[1]):
            errors[m, c] *= length
    for j in range(size):
        for m in range(len(errors)):
            for c in range(errors.shape[1]):
                models.weights[j, first + m, c] -= along[j] * errors[m, c]


# --- neighbours --------------------------------------------------------------------------------------------------


@compiled
def ask_neighbours(memory: Memory, remembered: int, z: FloatArray, said: FloatArray, targets: bool) -> None:
    """Work out what the nearest of the last records say, shape (memories, C).

    A neighbour at distance r weighs R / (r + R / 10), R the distance of the farthest asked. The newer of two at one
    distance is nearer.
    """
    said[:] = 0.0 if targets else SMOOTHING / said.shape[1]
    kept = min(remembered, len(memory.y))
    measure(memory, z, kept)
    nearest = np.empty(NEAREST, np.int64)
    found, expert = 0, 0
    i = remembered % len(memory.y)
    for age in range(kept):
        i = i - 1 if i > 0 else len(memory.y) - 1
        place = found
        while place > 0 and memory.distance[i] < memory.distance[nearest[place - 1]]:
            place -= 1
        if place < NEAREST:
            found = min(found + 1, NEAREST)
            for k in range(found - 1, place, -1):
                nearest[k] = nearest[k - 1]
            nearest[place] = i
        while expert < len(MEMORIES) and (age + 1 == MEMORIES[expert] or age + 1 == kept):
            vote(memory, nearest[:found], said[expert], targets)
            expert += 1
    if not targets:
        for expert in range(len(said)):
            said[expert] /= said[expert].sum()


@compiled
def measure(memory: Memory, z: FloatArray, kept: int) -> None:
    """Work out the squared distances of the last records; a feature that is gone is at its mean, 0."""
    memory.at[:] = 0.0
    for j in range(len(z)):
        memory.at[memory.column[j]] = z[j]
    memory.distance[:kept] = 0.0
    for j in range(len(memory.at)):
        for i in range(kept):
            difference = memory.Z[j, i] - memory.at[j]
            memory.distance[i] += difference * difference


@compiled
def vote(memory: Memory, nearest: IntArray, said: FloatArray, targets: bool) -> None:
    """Add the neighbours' votes, which sum to 1, or set their mean target; labels that are gone have no column."""
    reach = math.sqrt(memory.distance[nearest[-1]])
    weights = np.ones(len(nearest))
    total = 0.0
    for k in range(len(nearest)):
        if reach > 0.0:
            weights[k] = reach / (math.sqrt(memory.distance[nearest[k]]) + reach / 10.0)
        total += weights[k]
    for k in range(len(nearest)):
        y = memory.y[nearest[k]]
        if targets:
            said[0] += weights[k] / total * y
        elif memory.place[int(y)] >= 0:
            said[memory.place[int(y)]] += weights[k] / total


@compiled
def remember(memory: Memory, remembered: int, z: FloatArray, truth: float, targets: bool) -> None:
    """Keep a record in place of the oldest."""
    at = remembered % len(memory.y)
    memory.Z[:, at] = 0.0
    for j in range(len(z)):
        memory.Z[memory.column[j], at] = z[j]
    memory.y[at] = truth if targets else memory.code[int(truth)]


# --- the mixture -------------------------------------------------------------------------------------------------


@compiled
def softmax(outputs: FloatArray) -> None:
    """Turn rows of outputs into probabilities."""
    for m in range(len(outputs)):
        largest = outputs[m].max()
        for c in range(outputs.shape[1]):
            outputs[m, c] = math.exp(outputs[m, c] - largest)
        outputs[m] /= outputs[m].sum()


@compiled
def mix_labels(mixing: Mixing, said: Said) -> None:
    """Mix probabilities: by fixed share, and as softmaxes over the experts' log-probabilities; then all three."""
    experts, columns = said.by_expert.shape
    least = FLOOR / columns
    said.offered[:] = 0.0
    for e in range(experts):
        mean = 0.0
        for c in range(columns):
            said.given[e, c] = max(said.by_expert[e, c], least)
            said.centred[e, c] = math.log(said.given[e, c])
            mean += said.centred[e, c] / columns
        for c in range(columns):
            said.centred[e, c] -= mean
            said.offered[0, c] += mixing.best[e] * said.given[e, c]
            for k in range(len(STACKING)):
                said.offered[1 + k, c] += mixing.stacked[k, e] * said.centred[e, c]
    softmax(said.offered[1:])
    said.mixed[:] = 0.0
    for k in range(len(mixing.outer)):
        for c in range(columns):
            said.mixed[c] += mixing.outer[k] * max(said.offered[k, c], least)
    said.mixed[:] = said.mixed / said.mixed.sum()


@compiled
def learn_to_mix_labels(mixing: Mixing, said: Said, code: int) -> None:
    """Weigh the experts by the probability each gave to the label that came, and step down the softmaxes' losses."""
    experts, columns = said.given.shape
    fixed_share(mixing.outer, np.maximum(said.offered[:, code], FLOOR / columns))
    fixed_share(mixing.best, said.given[:, code])
    square = 0.0
    for e in range(experts):
        for c in range(columns):
            square += said.centred[e, c] * said.centred[e, c]
    mixing.running[2] += 1.0
    mixing.running[0] += (square - mixing.running[0]) / min(mixing.running[2], WINDOW)
    if mixing.running[0] > 0.0:
        for k in range(len(STACKING)):
            size = STACKING[k] / (mixing.running[0] + 0.5 * STACKING[k] * square)
            for e in range(experts):
                slope = -said.centred[e, code]
                for c in range(columns):
                    slope += said.offered[1 + k, c] * said.centred[e, c]
                mixing.stacked[k, e] -= size * slope


@compiled
def mix_targets(mixing: Mixing, said: Said) -> None:
    """Mix predicted targets: by fixed share, and as linear combinations; then all three."""
    said.given[:] = said.by_expert
    said.offered[:] = 0.0
    for e in range(len(said.given)):
        said.offered[0, 0] += mixing.best[e] * said.given[e, 0]
        for k in range(len(STACKING)):
            said.offered[1 + k, 0] += mixing.stacked[k, e] * said.given[e, 0]
    said.mixed[0] = 0.0
    for k in range(len(mixing.outer)):
        said.mixed[0] += mixing.outer[k] * said.offered[k, 0]


@compiled
def learn_to_mix_targets(mixing: Mixing, said: Said, truth: float) -> None:
    """Weigh the experts by their errors under the variance of the best one, and step down the squared errors."""
    least, square = math.inf, 0.0
    for e in range(len(said.given)):
        least = min(least, (said.given[e, 0] - truth) ** 2)
        square += said.given[e, 0] ** 2
    mixing.running[2] += 1.0
    rate = 1.0 / min(mixing.running[2], WINDOW)
    mixing.running[1] += rate * (least - mixing.running[1])
    mixing.running[0] += rate * (square - mixing.running[0])
    fixed_share(mixing.outer, likelihoods(said.offered[:, 0] - truth, mixing.running[1]))
    fixed_share(mixing.best, likelihoods(said.given[:, 0] - truth, mixing.running[1]))
    if mixing.running[0] > 0.0:
        for k in range(len(STACKING)):
            size = STACKING[k] / (mixing.running[0] + 0.5 * STACKING[k] * square)
            for e in range(len(said.given)):
                mixing.stacked[k, e] -= size * (said.offered[1 + k, 0] - truth) * said.given[e, 0]


@compiled
def likelihoods(errors: FloatArray, variance: float) -> FloatArray:
    """Return normal likelihoods by the best one's, none below a thousandth: one outlier must not decide."""
    squares = errors * errors
    relative: FloatArray = np.exp(-0.5 * (squares - squares.min()) / max(variance, 1e-300))
    return np.maximum(relative, LEAST_LIKELY)


@compiled
def fixed_share(weights: FloatArray, likely: FloatArray) -> None:
    """Weigh experts by how likely they found the truth; each gives a part back to all (Herbster and Warmuth 1998)."""
    total = 0.0
    for e in range(len(weights)):
        weights[e] *= likely[e]
        total += weights[e]
    for e in range(len(weights)):
        weights[e] = (1.0 - SHARE) / total * weights[e] + SHARE / len(weights)


# --- the whole way -----------------------------------------------------------------------------------------------


@compiled
def predict(learning: Learning, remembered: int, other: FloatArray) -> None:
    """Predict the record that is scaled; `other` is what one more expert says, empty if there is none."""
    kinds, models, memory, said = learning.kinds, learning.models, learning.memory, learning.said
    count = models.weights.shape[1]
    if len(said.cells):
        find_cells(learning.tests, said.z[1:], said.cells)
    ask_models(models, kinds, said.z, said.cells, said.by_expert)
    more = said.by_expert[-1]
    if len(other):
        more[:] = 0.0  # a label of this round is news to it
        more[: len(other)] = other
    else:
        more[:] = said.by_expert[:count].sum() / count if learning.targets else 1.0 / len(more)
    if not learning.targets:
        softmax(said.by_expert[:count])
    if len(memory.y):
        ask_neighbours(memory, remembered, said.z[1:], said.by_expert[count:-1], learning.targets)
    if learning.targets:
        mix_targets(learning.mixing, said)
    else:
        mix_labels(learning.mixing, said)


@compiled
def learn(learning: Learning, remembered: int, truth: float, seen: int, touched: Touched) -> None:
    """Learn the record that was predicted last: its label's column, or its target."""
    models, said = learning.models, learning.said
    errors = said.by_expert[: models.weights.shape[1]]
    if learning.targets:
        learn_to_mix_targets(learning.mixing, said, truth)
        errors -= truth
    else:
        learn_to_mix_labels(learning.mixing, said, int(truth))
        errors[:, int(truth)] -= 1.0
    step(models, learning.kinds, said.z, said.cells, errors, seen, touched)
    if len(learning.memory.y):
        remember(learning.memory, remembered, said.z[1:], truth, learning.targets)


@compiled
def learn_predicted(
    learning: Learning, x: FloatArray, remembered: int, truth: float, seen: int, touched: Touched
) -> None:
    """Count the values of the record that was predicted last in, and learn it."""
    count_in(learning.scales, x)
    learn(learning, remembered, truth, seen, touched)


@compiled
def predict_all(learning: Learning, remembered: int, X: FloatArray, others: FloatArray, said: FloatArray) -> None:
    """Predict records, of which nothing is learnt: into `said`, shape (n, C)."""
    for i in range(len(X)):
        scale(learning.scales, X[i], learning.said.z[1:])
        predict(learning, remembered, others[i])
        said[i] = learning.said.mixed


@compiled
def predict_and_learn_all(
    learning: Learning,
    remembered: int,
    seen: int,
    X: FloatArray,
    others: FloatArray,
    truths: FloatArray,
    served: FloatArray,
    touched: Touched,
) -> None:
    """Predict every record, into `served`, and then learn it."""
    for i in range(len(X)):
        scale(learning.scales, X[i], learning.said.z[1:])
        count_in(learning.scales, X[i])
        predict(learning, remembered + i, others[i])
        mixed = learning.said.mixed
        served[i] = mixed[0] if learning.targets else mixed.argmax()
        learn(learning, remembered + i, truths[i], seen + i + 1, touched)
