"""The outer mixture: all other experts' prediction, what follows the client's last answer, and its own model.

The last answer is the last label; or the last target, and the error made there.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.online.native.kernels.mixing import (
    Mixing,
    Predictions,
    learn_to_mix_labels,
    learn_to_mix_targets,
    mix_labels,
    mix_targets,
)
from streamfl.protocol.native.settings import FOLLOWING, NONE

# What is left of older counts with each new one: 0.99, a memory of about 100 records. docs/choices.md, "The last
# answer".
KEPT = 0.99

# How many votes the counts of all clients have, next to the client's own counts; and how many of these are spread
# over all labels, whatever has followed. docs/choices.md, "The last answer".
VOTES, SPREAD = 5.0, 1.0

# Rows of the predictions: all other experts, then the last label; or the last target, and the last error. The own
# model comes last.
OTHERS, LAST, ERROR = 0, 1, 2

# The last target and the error of the other experts there; and, decayed, the sums of its square and of its product
# with the next error.
LAST_TARGET = np.dtype([
    ("seen", np.float64), ("target", np.float64), ("error", np.float64),
    ("square", np.float64), ("product", np.float64),
])  # fmt: skip


# Of a record when it was answered: whether the answer compares the experts; and the column of the last label, or of
# targets what `LAST_TARGET` had and the centre, NaN before any.
COMPARES, LABEL, SEEN, TARGET, LAST_ERROR, CENTRE = WHEN_ANSWERED = range(6)


class PastAnswers(NamedTuple):
    """What was known when records were answered, `WHEN_ANSWERED`, and the answers: parts of `Predictions`.

    Shapes (n, 6) and (n, 3 E + 3, C).
    """

    then: FloatArray
    parts: FloatArray


class Last(NamedTuple):
    """The arrays of `LastAnswer`.

    `label` is the column of the last label, -1 before any, shape (1,). The labels that followed label k are
    `following[k]`, -1 for none, with their decayed counts `counts[k]`; shapes (labels, FOLLOWING). The last of these
    labels may be gone. `all_following` and `all_counts` are the same of all clients. `target` is one `LAST_TARGET`,
    shape (1,). `mixing` and `predictions` have three experts for labels and four for targets; without any, the outer
    mixture is left out.
    """

    label: IntArray
    following: IntArray
    counts: FloatArray
    all_following: IntArray
    all_counts: FloatArray
    target: npt.NDArray[np.void]
    mixing: Mixing
    predictions: Predictions


@compiled
def mix_last_answer(
    last: Last,
    others: FloatArray,
    own: FloatArray,
    centre: float,
    targets: bool,
    is_next: bool,
    least: float,
    largest: float,
) -> None:
    """Mix the predictions of all other experts and of the own model, shape (C,), with those from the last answer.

    `is_next` tells whether the record comes next after the last answer. If not, or before any, the last label says
    nothing, and the last target what all others say. Targets are believed between `least` and `largest`.
    """
    by_expert = last.predictions.by_expert
    for c in range(len(others)):
        for e in range(len(by_expert) - 1):
            by_expert[e, c] = others[c]
        by_expert[len(by_expert) - 1, c] = own[c]
    if targets:
        if is_next:
            follow_target(last.target, by_expert, centre)
        mix_targets(last.mixing, last.predictions, least, largest)
    else:
        last.mixing.awake[LAST] = is_next and last.label[0] != NONE
        if last.mixing.awake[LAST]:
            follow_label(last, by_expert)
        mix_labels(last.mixing, last.predictions)


@inner
def follow_label(last: Last, by_expert: FloatArray) -> None:
    """Set the probability of each label after the last one: by the client's counts, and by those of all clients."""
    columns, before, of_all, total = by_expert.shape[1], last.label[0], SPREAD, VOTES
    for k in range(FOLLOWING):  # but for labels that are gone
        of_all += last.all_counts[before, k] if last.all_following[before, k] < columns else 0.0
        total += last.counts[before, k] if last.following[before, k] < columns else 0.0
    for c in range(columns):
        by_expert[LAST, c] = VOTES / of_all * SPREAD / columns / total
    for k in range(FOLLOWING):
        if NONE < last.all_following[before, k] < columns:
            by_expert[LAST, last.all_following[before, k]] += VOTES / of_all * last.all_counts[before, k] / total
        if NONE < last.following[before, k] < columns:
            by_expert[LAST, last.following[before, k]] += last.counts[before, k] / total


@inner
def follow_target(held: npt.NDArray[np.void], by_expert: FloatArray, centre: float) -> None:
    """Set the last target, and the prediction of the others plus the part of their last error that usually stays."""
    target = held[0]
    by_expert[LAST, 0] = target.target - centre if target.seen else by_expert[OTHERS, 0]
    by_expert[ERROR, 0] = by_expert[OTHERS, 0]
    if target.square > 0.0:
        by_expert[ERROR, 0] += min(max(target.product / target.square, -1.0), 1.0) * target.error


@compiled
def learn_last_answer(last: Last, truth: float, centre: float, targets: bool) -> None:
    """Learn the record that was mixed last; `truth` is the column of its label, or its target."""
    if targets:
        learn_to_mix_targets(last.mixing, last.predictions, truth - centre)
        count_error(last.target, truth, truth - centre - last.predictions.by_expert[OTHERS, 0])
    else:
        if last.label[0] != NONE:  # before that there is nothing to choose between
            last.mixing.awake[LAST] = True
            learn_to_mix_labels(last.mixing, last.predictions, int(truth))
            count_following(last.following[last.label[0]], last.counts[last.label[0]], int(truth))
        last.label[0] = int(truth)


@inner
def learn_outer(last: Last, past: PastAnswers, i: int, truth: float, centre: float, targets: bool) -> None:
    """Learn row i as predicted last or, if `past` has it, by what was known and answered when it came."""
    held, predictions = last.target[0], last.predictions
    if i >= len(past.then):
        learn_last_answer(last, truth, centre, targets)
    elif past.then[i, COMPARES]:
        then, parts, experts = past.then[i], past.parts, len(predictions.by_expert)
        last.label[0] = int(then[LABEL])
        if targets:
            held.seen, held.target, held.error = then[SEEN], then[TARGET], then[LAST_ERROR]
        for c in range(parts.shape[2]):
            for e in range(experts):
                predictions.by_expert[e, c] = parts[i, e, c]
                predictions.bounded[e, c] = parts[i, experts + e, c]
                predictions.centred[e, c] = parts[i, 2 * experts + e, c]
            for k in range(len(predictions.by_mixture)):
                predictions.by_mixture[k, c] = parts[i, 3 * experts + k, c]
        learn_last_answer(last, truth, truth if math.isnan(then[CENTRE]) else then[CENTRE], targets)
    elif targets:
        held.seen, held.target, held.error = 1.0, truth, 0.0
    else:
        last.label[0] = int(truth)


@inner
def count_error(held: npt.NDArray[np.void], truth: float, error: float) -> None:
    """Count how much of the last error stayed; `truth` and `error` are the last ones from here on."""
    target = held[0]
    if target.seen:
        target.square = KEPT * target.square + target.error * target.error
        target.product = KEPT * target.product + target.error * error
    target.seen, target.target, target.error = 1.0, truth, error


@inner
def count_following(following: IntArray, counts: FloatArray, label: int) -> None:
    """Count a label as following another; if there is no room for it, the rarest one is forgotten."""
    at = -1
    for k in range(FOLLOWING):
        counts[k] *= KEPT
        if following[k] == label:
            at = k
    if at < 0:
        at = 0
        for k in range(FOLLOWING):
            if counts[k] < counts[at]:
                at = k
        following[at], counts[at] = label, 0.0
    counts[at] += 1.0


@compiled
def begin_to_mix(mixing: Mixing) -> None:
    """Begin with equal weights, but for the stacked ones.

    These begin at half for each of two predictions from the features, that of the other experts and that of the own
    model, and at 1 for what follows the last answer. That is Bayes' rule for labels, if the last one and the features
    say different things.
    """
    for e in range(len(mixing.best)):
        mixing.best[e] = 1.0 / len(mixing.best)
        for k in range(len(mixing.stacked)):
            mixing.stacked[k, e] = 0.0
    for k in range(len(mixing.stacked)):
        mixing.stacked[k, OTHERS], mixing.stacked[k, len(mixing.best) - 1] = 0.5, 0.5
        mixing.stacked[k, LAST] = 1.0
    for k in range(len(mixing.outer)):
        mixing.outer[k] = 1.0 / len(mixing.outer)
    running = mixing.running[0]
    running.norm, running.variance, running.records = 0.0, 0.0, 0.0


@inner
def correct_last_target(last: Last, target: float) -> None:
    """Undo what was learnt from the first targets, among which there was an outlier; the last one was `target`."""
    held = last.target[0]
    held.target, held.error, held.square, held.product = target, 0.0, 0.0, 0.0
    begin_to_mix(last.mixing)
