"""The way of one record: it is scaled, finds its cells, is predicted by every expert, mixed, and learnt.

Shapes: d features, C columns (labels, or 1 for targets), M models, E experts: the models, the neighbours, and one
more.
"""

import math
from typing import NamedTuple

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.between.native.kernels.compiled import KeptArguments, compiled, inner
from streamfl.core.between.native.kernels.ferns import Tests, find_cells
from streamfl.core.between.native.kernels.mixing import (
    Mixing,
    Said,
    learn_to_mix_labels,
    learn_to_mix_targets,
    mix_labels,
    mix_targets,
)
from streamfl.core.between.native.kernels.neighbours import Memory, ask_neighbours, remember
from streamfl.core.between.native.kernels.scaling import (
    FIRST,
    Scales,
    count_in,
    count_target,
    judge_first,
    mean_target,
    scale,
)
from streamfl.core.between.native.kernels.softmax import softmax
from streamfl.core.between.native.kernels.steps import Kinds, Models, Touched, ask_models, step


class Record(NamedTuple):
    """A record between its prediction and its lesson: the constant 1 and its features (d + 1,), and its cells."""

    z: FloatArray
    cells: IntArray


class Learning(NamedTuple):
    """All that the way of a record leads through, and whether targets are learnt."""

    kinds: Kinds
    scales: Scales
    tests: Tests
    models: Models
    memory: Memory
    mixing: Mixing
    record: Record
    said: Said
    targets: bool


@inner
def predict(learning: Learning, remembered: int, others: FloatArray, i: int) -> float:
    """Predict the record that is scaled; row i of `others` is what one more expert says, empty if there is none.

    Returns what is to be added to it: what targets are measured from.
    """
    models, memory, said, awake = learning.models, learning.memory, learning.said, learning.mixing.awake
    z, cells = learning.record
    count, last, centre = models.weights.shape[1], len(said.by_expert) - 1, measured_from(learning, others, i)
    if len(cells):
        find_cells(learning.tests, z, cells, awake, learning.kinds.first_fern, models.table.shape[1])
    ask_models(models, learning.kinds, z, cells, said.by_expert, awake)
    for c in range(said.by_expert.shape[1]):
        said.by_expert[last, c] = 1.0 / said.by_expert.shape[1]
        if others.shape[1]:  # a label of this round is news to it
            said.by_expert[last, c] = others[i, c] - centre if c < others.shape[1] else 0.0
        elif learning.targets:
            said.by_expert[last, 0] = mean_of_awake(said.by_expert, awake[:count])
    if not learning.targets:
        softmax(said.by_expert, 0, count)
    if len(memory.y) and awake[count]:
        ask_neighbours(memory, remembered, z, said.by_expert, count, learning.targets)
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
    z, cells = learning.record
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
    step(models, learning.kinds, z, cells, errors, seen, touched, learning.mixing.awake)
    if len(learning.memory.y):
        remember(learning.memory, remembered, z, truth, learning.targets)
    if learning.targets and judge_first(learning.mixing.targets, 0):
        unlearn(learning, remembered, seen, touched)
    if learning.targets and touched.counted[0].records + 1 == seen:  # nothing is agreed on yet
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
    running = mixing.running[0]
    running.norm, running.variance, running.records = 0.0, 0.0, 0.0
    if seen == FIRST:  # else others have taught the models, too
        models.centre[0] = mean_target(mixing.targets)
        models.weights[:] = 0.0
        for row in range(touched.counted[0].rows):
            models.table[touched.cells[row]] = touched.before[row]


@inner
def fits(learning: Learning, X: FloatArray, others: FloatArray, truths: FloatArray, predicted: FloatArray) -> bool:
    """Tell whether records fit what they are to be sent through: in loops, what is too small is other memory."""
    columns = len(learning.said.mixed)
    if X.shape[1] != len(learning.record.z) - 1 or len(others) != len(X):
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
def hold(learning: Learning) -> KeptArguments:
    """Return all that the way of a record leads through, to be handed over again and again."""
    return KeptArguments(learning)


@compiled
def predict_and_learn(
    held: KeptArguments,
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
    if not fits(learning, X, others, truths, predicted):
        return False
    for i in range(len(X)):
        if len(predicted):
            scale(learning.scales, X, i, learning.record.z)
            centre = predict(learning, remembered, others, i)
            for c in range(predicted.shape[1]):
                predicted[i, c] = learning.said.mixed[c] + centre
        if len(truths):
            count_in(learning.scales, X, i)
            learn(learning, remembered, truths[i], seen + i + 1, touched)
            touched.counted[0].records += 1
            remembered += 1
    return True
