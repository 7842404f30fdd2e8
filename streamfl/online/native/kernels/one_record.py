"""One record: it is scaled, finds its cells, is predicted by every expert, mixed, and learnt.

Shapes: d features, C columns (labels, or 1 for targets), M models, E experts: the models, the neighbours, and
`rounds`, the model that rounds agreed on. The client's own model and the last answer are mixed with the result in an
outer mixture, on which nothing else depends.
"""

import math
from typing import NamedTuple

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.online.native.kernels.compiled import inner, released
from streamfl.online.native.kernels.ferns import Tests, find_cells
from streamfl.online.native.kernels.last_answer import (
    Last,
    PastAnswers,
    correct_last_target,
    learn_outer,
    mix_last_answer,
)
from streamfl.online.native.kernels.mixing import (
    Mixing,
    Predictions,
    learn_to_mix_labels,
    learn_to_mix_targets,
    mix_equally,
    mix_labels,
    mix_targets,
)
from streamfl.online.native.kernels.neighbours import Memory, predict_by_neighbours, remember
from streamfl.online.native.kernels.own import (
    Own,
    forget_first_targets,
    largest_believed,
    least_believed,
    own_learns,
    own_predicts,
    own_sees,
)
from streamfl.online.native.kernels.scaling import (
    FIRST,
    Scales,
    count_in,
    count_target,
    judge_first,
    mean_target,
    scale,
)
from streamfl.online.native.kernels.softmax import softmax
from streamfl.online.native.kernels.steps import Kinds, Models, Touched, predict_by_models, step


class Record(NamedTuple):
    """A standardised record: the constant 1 and its features, shape (d + 1,), and its cells in the table of ferns."""

    z: FloatArray
    cells: IntArray


class Learning(NamedTuple):
    """All arrays that the loops read and write; `targets` says whether targets are learnt, not labels.

    `measured` is the record's features as distances to others are measured: on the client's own scale, if it has a
    model of its own. `agreed` is the mixture of the experts that all clients share, the models and `rounds`.
    `mixing`, which serves, has the client's own experts next to them. `believed` are the least and the largest target
    that are believed by those of all clients, shape (2,). `seen` counts the records of the agreed state; `touched`
    has the rows that records changed since, and counts these.
    """

    kinds: Kinds
    scales: Scales
    tests: Tests
    models: Models
    memory: Memory
    mixing: Mixing
    own: Own
    last: Last
    record: Record
    measured: FloatArray
    predictions: Predictions
    agreed: Mixing
    agreed_predictions: Predictions
    touched: Touched
    seen: int
    targets: bool
    believed: FloatArray


@inner
def predict(learning: Learning, remembered: int, X: FloatArray, rounds: FloatArray, i: int, is_next: bool) -> float:
    """Predict row i, which was scaled last; row i of `rounds` is that expert's prediction, empty if it sleeps.

    `is_next` tells whether the record comes next after those learnt.

    Returns the centre of the targets, which is to be added to predicted targets.
    """
    models, memory, awake = learning.models, learning.memory, learning.mixing.awake
    by_expert = learning.predictions.by_expert
    z, cells = learning.record
    if len(learning.own.weights):
        own_sees(learning.own, X, i)
    count, last, centre = models.weights.shape[1], len(by_expert) - 1, centre_of_targets(learning, rounds, i)
    if len(cells):
        find_cells(learning.tests, z, cells, awake, learning.kinds.first_fern, models.table.shape[1])
    predict_by_models(models, learning.kinds, z, cells, by_expert, awake)
    for c in range(by_expert.shape[1]):
        by_expert[last, c] = 1.0 / by_expert.shape[1]
        if rounds.shape[1]:  # it does not know labels that are new in this round
            by_expert[last, c] = rounds[i, c] - centre if c < rounds.shape[1] else 0.0
        elif learning.targets:
            by_expert[last, 0] = mean_of_awake(by_expert, awake[:count])
    if not learning.targets:
        softmax(by_expert, 0, count)
    if len(memory.y) and awake[count]:
        predict_by_neighbours(memory, remembered, learning.measured, by_expert, count, learning.targets)
        for e in range(count, last):  # before any record they predict 0: the centre
            for c in range(by_expert.shape[1]):
                by_expert[e, c] -= centre if remembered else 0.0
    mix(learning, centre, is_next)
    return centre


@inner
def mix(learning: Learning, centre: float, is_next: bool) -> None:
    """Mix what all experts say of the record, then this with the client's own model and its last answer."""
    own, mixed = learning.own, learning.predictions.mixed
    least = least_believed(own, learning.believed) - centre
    largest = largest_believed(own, learning.believed) - centre
    if learning.targets:
        mix_targets(learning.mixing, learning.predictions, least, largest)
        mixed[0] = min(max(mixed[0], least), largest)
    else:
        mix_labels(learning.mixing, learning.predictions)
    if len(own.weights):
        own_predicts(own, learning.tests, mixed, centre, learning.targets)
    if len(learning.last.predictions.by_expert):
        mix_last_answer(learning.last, mixed, own.given, centre, learning.targets, is_next, least, largest)


@inner
def centre_of_targets(learning: Learning, rounds: FloatArray, i: int) -> float:
    """Return the value from which targets are measured: before the first one, the prediction of `rounds`, or 0."""
    if not learning.targets:
        return 0.0
    centre: float = learning.models.centre[0]
    if math.isnan(centre):
        centre = rounds[i, 0] if rounds.shape[1] else 0.0
    return centre


@inner
def mean_of_awake(by_expert: FloatArray, awake: BoolArray) -> float:
    """Return the mean of the targets that the models that are awake predict."""
    total, count = 0.0, 0
    for m in range(len(awake)):
        if awake[m]:
            total += by_expert[m, 0]
            count += 1
    return total / max(1, count)


@inner
def learn(
    learning: Learning,
    remembered: int,
    X: FloatArray,
    i: int,
    truth: float,
    past: PastAnswers,
) -> None:
    """Learn row i, which was predicted last; `truth` is the column of its label, or its target."""
    models, predictions, touched = learning.models, learning.predictions, learning.touched
    seen = learning.seen + touched.counted[0].records + 1
    z, cells = learning.record
    errors, target = predictions.by_expert, 0.0
    if learning.targets:
        truth = count_target(learning.mixing.targets, truth)
        if math.isnan(models.centre[0]):
            models.centre[0] = truth
        target = truth - models.centre[0]
        learn_to_mix_targets(learning.mixing, predictions, target)
    else:
        learn_to_mix_labels(learning.mixing, predictions, int(truth))
        count_right(models, predictions.by_expert, int(truth), learning.mixing.awake)
    touched.counted[0].loss += learn_to_mix_agreed(learning, target if learning.targets else truth)
    if len(learning.own.weights):
        own_learns(learning.own, X, i, truth, models.centre[0], learning.targets)
    if len(learning.last.predictions.by_expert):
        learn_outer(learning.last, past, i, truth, models.centre[0], learning.targets)
    for m in range(models.weights.shape[1]):
        errors[m, 0 if learning.targets else int(truth)] -= target if learning.targets else 1.0
        if not learning.mixing.awake[m]:
            for c in range(errors.shape[1]):
                errors[m, c] = 0.0
    step(models, learning.kinds, z, cells, errors, seen, touched, learning.mixing.awake)
    if len(learning.memory.y):
        remember(learning.memory, remembered, learning.measured, truth, learning.targets)
    if learning.targets and judge_first(learning.mixing.targets, 0):
        unlearn(learning, remembered, seen)
    if learning.targets and not learning.seen:  # there is no agreed state yet
        models.centre[0] = mean_target(learning.mixing.targets)


@inner
def learn_to_mix_agreed(learning: Learning, truth: float) -> float:
    """Learn to mix the predictions of the agreed experts alone, for the record that was predicted last.

    Returns the log-loss of the agreed mixture before it learnt the record, in nats; 0 of a target.
    """
    by_expert, agreed = learning.predictions.by_expert, learning.agreed_predictions
    last, columns = len(agreed.by_expert) - 1, by_expert.shape[1]
    for e in range(last):
        for c in range(columns):
            agreed.by_expert[e, c] = by_expert[e, c]
    for c in range(columns):
        agreed.by_expert[last, c] = by_expert[len(by_expert) - 1, c]
    if learning.targets:
        mix_targets(learning.agreed, agreed, -math.inf, math.inf)
        learn_to_mix_targets(learning.agreed, agreed, truth)
        return 0.0
    mix_labels(learning.agreed, agreed)
    loss = max(0.0, -math.log(agreed.mixed[int(truth)]))
    learn_to_mix_labels(learning.agreed, agreed, int(truth))
    return loss


@inner
def count_right(models: Models, by_expert: FloatArray, code: int, awake: BoolArray) -> None:
    """Count the record under its label, and for each model that gave this label the largest probability."""
    models.bearing[code] += 1.0
    for m in range(len(models.right)):
        right = awake[m]
        for c in range(by_expert.shape[1]):
            right = right and (c == code or by_expert[m, c] < by_expert[m, code])
        models.right[m, code] += 1.0 if right else 0.0


@inner
def unlearn(learning: Learning, remembered: int, seen: int) -> None:
    """Undo what was learnt from the first targets, among which there was an outlier.

    The mixture would misjudge the usual size of errors for ever.
    """
    memory, mixing, models, touched = learning.memory, learning.mixing, learning.models, learning.touched
    for i in range(min(FIRST, len(memory.y))):
        memory.y[(remembered - i) % len(memory.y)] = mixing.targets.first[FIRST - 1 - i, 0]
    mix_equally(mixing)
    mix_equally(learning.agreed)
    if len(learning.own.weights):
        forget_first_targets(learning.own, mixing.targets.first)
    if len(learning.last.predictions.by_expert):
        correct_last_target(learning.last, mixing.targets.first[FIRST - 1, 0])
    if seen == FIRST:  # otherwise other clients have also trained the models
        models.centre[0] = mean_target(mixing.targets)
        clear(models.weights)
        for row in range(touched.counted[0].rows):
            for r in range(models.table.shape[1]):
                for c in range(touched.before.shape[2]):
                    models.table[touched.cells[row], r, c] = touched.before[row, r, c]


@inner
def clear(weights: FloatArray) -> None:
    """Set all weights, shape (d + 1, M, C), to 0."""
    inputs, count, columns = weights.shape
    for j in range(inputs):
        for m in range(count):
            for c in range(columns):
                weights[j, m, c] = 0.0


@inner
def is_sound(
    learning: Learning, X: FloatArray, rounds: FloatArray, truths: FloatArray, predicted: FloatArray
) -> bool:
    """Tell whether the shapes of records fit; the loops do not check indices."""
    columns = len(learning.predictions.mixed)
    if X.shape[1] != len(learning.record.z) - 1 or len(rounds) != len(X):
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


@released
def predict_and_learn(
    learning: Learning,
    remembered: int,
    X: FloatArray,
    rounds: FloatArray,
    truths: FloatArray,
    then: FloatArray,
    parts: FloatArray,
    predicted: FloatArray,
) -> bool:
    """Predict every record, then learn it, in order.

    `then` and `parts` are the `PastAnswers` to the first records, those given when they came; none if they are
    answered now. They come one by one, since it takes Numba as long to look into a tuple as to do much of the work.
    Predictions are written to `predicted`, shape (n, C); without rows there, none are made. A record that is learnt
    without being predicted must be the one that was predicted last. Without `truths` nothing is learnt, and the last
    answer predicts the first record only: it was learnt to predict the next one, and would be as sure of all others.
    Returns whether the shapes fit; if not, nothing was done.
    """
    if not is_sound(learning, X, rounds, truths, predicted):
        return False
    for i in range(len(X)):
        if len(predicted):
            scale(learning.scales, X, i, learning.record.z)
            centre = predict(learning, remembered, X, rounds, i, i == 0 or len(truths) > 0)
            mixed = learning.predictions.mixed
            if len(learning.last.predictions.by_expert):
                mixed = learning.last.predictions.mixed
            for c in range(predicted.shape[1]):
                predicted[i, c] = mixed[c] + centre
            if learning.targets:
                least = least_believed(learning.own, learning.believed)
                largest = largest_believed(learning.own, learning.believed)
                predicted[i, 0] = min(max(predicted[i, 0], least), largest)
        if len(truths):
            count_in(learning.scales, X, i)
            learn(learning, remembered, X, i, truths[i], PastAnswers(then, parts))
            learning.touched.counted[0].records += 1
            remembered += 1
    return True
