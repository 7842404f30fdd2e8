"""A client's own model, which is never sent: it sees features on the client's own scale, and is kept over rounds.

Of labels it is a softmax model; of targets it adds to the running mean, at several rates that a mixture weighs. Its
outputs are a linear part, and cells of a table: of pairs of features, and of ferns where it predicts targets.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.online.native.kernels.ferns import Tests
from streamfl.online.native.kernels.mixing import (
    Mixing,
    Predictions,
    learn_to_mix_targets,
    mix_equally,
    mix_targets,
)
from streamfl.online.native.kernels.scaling import FIRST, Scales, count_in, scale
from streamfl.online.native.kernels.steps import Table
from streamfl.protocol.native.settings import DEPTHS, MARGIN, OWN_RATES, WINDOW

# The rate of normalised steps of labels, and without cells. Of targets with cells it is each of `OWN_RATES`. Next to
# cells, the linear part sees half of each feature.
RATE, HALF = 10.0, 0.5

# The depth of its ferns, and the cells of each.
DEPTH, CELLS = DEPTHS[0]

# A pair has a cell for each pair of bins of its two features: so many between -REACH and REACH deviations.
# docs/choices.md, "Pairs of features".
BINS, REACH = 12, 1.8
PAIR_CELLS = BINS * BINS

# How fast the trust in a fern or a pair follows from what its cells say, by at most half at a record; and the part of
# its trust that each shares out among all at every record. docs/choices.md, "Pairs of features".
TRUSTING, MOST_TRUSTED, SHARED_OUT = 0.3, 0.5, 0.01

# Its cells count half once it has learnt so many records. docs/choices.md, "Pairs of features".
HALFWAY = 100

# Before so many records it says what all other experts say.
FEWEST = 10

# The records over which the mean of squared errors runs.
ERRORS = 1000

# The records learnt, the running mean of the squared norm; of targets the running mean, the least, the largest, and
# the root of the running mean of squared errors.
OWN_RUNNING = np.dtype([
    ("records", np.float64), ("norm", np.float64), ("mean", np.float64),
    ("least", np.float64), ("largest", np.float64), ("error", np.float64),
])  # fmt: skip


class Own(NamedTuple):
    """The arrays of `OwnModel`; without any row in `weights` there is none.

    Its outputs are C labels, or targets at each rate. `weights` has shape (d + 1, C); `table` (rows, C), the cells of
    ferns, then those of `pairs` (P, 2); `trust` is by what each fern and each pair is multiplied; `known` counts the
    records of each label (C,). The last features and labels may be names that are gone. `z` (d + 1,), 0 for these,
    and `cells` are those of the record seen last. `predicted` is what the model predicts for it until it is learnt,
    by present output, `lengths` those of its steps; `rates` and `at_rates` mix these for targets. `given` is what the
    outer mixture gets, by present column: before ten records the predictions of others. `running` is one
    `OWN_RUNNING`, shape (1,).
    """

    weights: FloatArray
    table: Table
    pairs: IntArray
    trust: FloatArray
    known: FloatArray
    scales: Scales
    z: FloatArray
    cells: IntArray
    predicted: FloatArray
    given: FloatArray
    running: npt.NDArray[np.void]
    lengths: FloatArray
    rates: Mixing
    at_rates: Predictions


@compiled
def own_sees(own: Own, X: FloatArray, i: int) -> None:
    """Standardise row i on the client's own scale."""
    scale(own.scales, X, i, own.z)


@compiled
def own_predicts(own: Own, tests: Tests, others: FloatArray, centre: float, targets: bool) -> None:
    """Predict the record seen last; targets are measured from `centre`.

    Before ten records the mixture gets the `others`.
    """
    find_own_cells(own, tests)
    columns, sees = len(own.predicted), HALF if len(own.cells) else 1.0
    for c in range(columns):
        own.predicted[c] = 0.0
    for j in range(len(own.z)):
        for c in range(columns):
            own.predicted[c] += sees * own.z[j] * own.weights[j, c]
    weight = weight_of_cells(own)
    for k in range(len(own.cells)):
        for c in range(columns):
            own.predicted[c] += weight * own.trust[k] * own.table[own.cells[k], c]
    if targets:
        mix_rates(own, centre)
    else:
        softmax_of_known(own)
    for c in range(len(own.given)):
        if own.running[0].records < FEWEST:
            own.given[c] = others[c]
        else:
            own.given[c] = own.at_rates.mixed[c] if targets else own.predicted[c]


@inner
def mix_rates(own: Own, centre: float) -> None:
    """Mix the targets predicted at each rate, which differ from the running mean by its outputs."""
    for r in range(len(own.predicted)):
        own.predicted[r] += own.running[0].mean - centre
        own.at_rates.by_expert[r, 0] = own.predicted[r]
    mix_targets(own.rates, own.at_rates, -math.inf, math.inf)


@inner
def weight_of_cells(own: Own) -> float:
    """Return by what all cells are multiplied: of few records they know less than the linear part."""
    records: float = own.running[0].records
    return records / (records + HALFWAY)


@inner
def find_own_cells(own: Own, tests: Tests) -> None:
    """Find the cells that each of its ferns and pairs selects, by the client's own scale."""
    test, ferns = 0, len(own.cells) - len(own.pairs)
    for fern in range(ferns):
        number = 0
        for bit in range(DEPTH):
            if len(own.z) > 1 and own.z[1 + tests.feature[test]] > tests.threshold[test]:
                number += 1 << bit
            test += 1
        own.cells[fern] = fern * CELLS + number
    for pair in range(len(own.pairs)):
        one, other = bin_of(own.z[1 + own.pairs[pair, 0]]), bin_of(own.z[1 + own.pairs[pair, 1]])
        own.cells[ferns + pair] = ferns * CELLS + pair * PAIR_CELLS + one * BINS + other


@inner
def bin_of(z: float) -> int:
    """Return the bin of a standardised value; the first and the last one have all beyond."""
    return int(min(max((z + REACH) * (BINS / 2.0 / REACH), 0.0), BINS - 1.0))


@inner
def softmax_of_known(own: Own) -> None:
    """Turn outputs into probabilities of the labels that this client has had; before any, of all."""
    largest, total, any_known = -math.inf, 0.0, False
    for c in range(len(own.predicted)):
        any_known = any_known or own.known[c] > 0.0
    for c in range(len(own.predicted)):
        if own.known[c] > 0.0 or not any_known:
            largest = max(largest, own.predicted[c])
    for c in range(len(own.predicted)):
        own.predicted[c] = math.exp(own.predicted[c] - largest) if own.known[c] > 0.0 or not any_known else 0.0
        total += own.predicted[c]
    for c in range(len(own.predicted)):
        own.predicted[c] /= total


@compiled
def own_learns(own: Own, X: FloatArray, i: int, truth: float, centre: float, targets: bool) -> None:
    """Learn row i, which it has just predicted; `truth` is the column of its label, or its target."""
    count_in(own.scales, X, i)
    weight = weight_of_cells(own)
    moved = count_truth(own, truth, targets)
    running, square, sees = own.running[0], 0.0, HALF if len(own.cells) else 1.0
    for j in range(len(own.z)):
        square += sees * sees * own.z[j] * own.z[j]
    for k in range(len(own.cells)):
        square += weight * weight * own.trust[k] * own.trust[k]
    running.norm += (square - running.norm) / min(running.records, WINDOW)
    errors = own.predicted
    if targets:
        learn_at_rates(own, truth - centre, moved)
    else:
        errors[int(truth)] -= 1.0
    for c in range(len(errors)):
        rate = OWN_RATES[c] if targets and len(own.cells) else RATE
        own.lengths[c] = rate / (running.norm + 0.5 * rate * square)
    for j in range(len(own.z)):
        for c in range(len(errors)):
            own.weights[j, c] -= sees * own.z[j] * own.lengths[c] * errors[c]
    if len(own.cells):
        step_cells(own, weight, running.error if targets else 1.0, targets)


@inner
def learn_at_rates(own: Own, truth: float, moved: float) -> None:
    """Learn to mix the rates, and turn their predictions into errors; `truth` is measured from the centre."""
    running, errors = own.running[0], own.predicted
    first = running.records == 1.0  # it becomes the mean, whatever centre there was before it
    if not first:
        learn_to_mix_targets(own.rates, own.at_rates, truth)
    for r in range(len(errors)):
        errors[r] = 0.0 if first else errors[r] + moved - truth
    running.error = usual_error(running.error, abs(errors[0]), 1.0 / min(running.records, ERRORS))


@inner
def usual_error(usual: float, error: float, part: float) -> float:
    """Return the root of a mean of squares that an error joins with a part; no square is too large for a float."""
    largest = max(usual, error)
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt((1.0 - part) * (usual / largest) ** 2 + part * (error / largest) ** 2)


@inner
def count_truth(own: Own, truth: float, targets: bool) -> float:
    """Count a label or a target; return by how much the mean of targets moves."""
    running = own.running[0]
    running.records += 1.0
    if not targets:
        own.known[int(truth)] += 1.0
        return 0.0
    first = running.records == 1.0
    moved: float = (truth - running.mean) / running.records
    running.mean += moved
    running.least = truth if first else min(running.least, truth)
    running.largest = truth if first else max(running.largest, truth)
    return moved


@inner
def step_cells(own: Own, weight: float, unit: float, targets: bool) -> None:
    """Step the cells of the record by its errors, which are in `predicted`, and the trust in ferns and pairs.

    Where a cell says what would have made the error smaller, its fern or pair is trusted more (Cesa-Bianchi, Mansour,
    Stoltz 2007); of targets this counts at the first rate alone. `weight` is that of all cells; `unit` the usual
    error, 0 before any.
    """
    count, total = len(own.cells), 0.0
    for k in range(count):
        cell, slope = own.cells[k], 0.0
        for c in range(len(own.predicted)):
            if unit > 0.0 and (c == 0 or not targets):
                slope -= own.predicted[c] / unit * (own.table[cell, c] / unit)
            own.table[cell, c] -= own.trust[k] * (weight * own.lengths[c]) * own.predicted[c]
        own.trust[k] *= 1.0 + min(max(TRUSTING * slope, -MOST_TRUSTED), MOST_TRUSTED)
        total += own.trust[k]
    for k in range(count):
        own.trust[k] = (1.0 - SHARED_OUT) * own.trust[k] * count / total + SHARED_OUT


@inner
def least_believed(own: Own, of_all: FloatArray) -> float:
    """Return the least target that is believed, by the client's own so far; before any by `of_all`, shape (2,)."""
    running, least = own.running[0], float(of_all[0])
    return running.least - MARGIN * (running.largest - running.least) if running.records else least


@inner
def largest_believed(own: Own, of_all: FloatArray) -> float:
    """Return the largest target that is believed: see `least_believed`."""
    running, largest = own.running[0], float(of_all[1])
    return running.largest + MARGIN * (running.largest - running.least) if running.records else largest


@inner
def forget_first_targets(own: Own, first: FloatArray) -> None:
    """Undo what was learnt from the first targets, shape (FIRST, 1), among which there was an outlier."""
    running = own.running[0]
    running.mean, running.least, running.largest, running.error = 0.0, math.inf, -math.inf, 0.0
    for k in range(FIRST):
        running.mean += first[k, 0] / FIRST
        running.least, running.largest = min(running.least, first[k, 0]), max(running.largest, first[k, 0])
    for r in range(own.weights.shape[1]):
        for j in range(len(own.weights)):
            own.weights[j, r] = 0.0
        for row in range(len(own.table)):
            own.table[row, r] = 0.0
    mix_equally(own.rates)
    for k in range(len(own.trust)):
        own.trust[k] = 1.0
