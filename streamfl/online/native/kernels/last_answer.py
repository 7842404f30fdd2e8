"""Predictions from the last answer of a client: its last label, or its last target and the error made there.

They are mixed with the prediction of all other experts, in a mixture that serves only while it is surely better.
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

# The votes that are spread over all labels, whatever has followed. docs/choices.md, "The last answer".
SPREAD = 1.0

# The mixture serves once its gain is this many standard errors, until there is none; the sums of gains decay by
# TRIED. docs/choices.md, "The last answer".
SURE, TRIED = 2.0, 0.999

# Rows of the predictions: all other experts, then the last label; or the last target, and the last error.
OTHERS, LAST, ERROR = 0, 1, 2

# The last target and the error of the other experts there; and, decayed, the sums of its square and of its product
# with the next error.
LAST_TARGET = np.dtype([
    ("seen", np.float64), ("target", np.float64), ("error", np.float64),
    ("square", np.float64), ("product", np.float64),
])  # fmt: skip


# Decayed sums of the gain over all other experts, in records or absolute errors, and of its square; and whether the
# mixture serves.
TRIAL = np.dtype([("gain", np.float64), ("square", np.float64), ("serves", np.float64)])


class Last(NamedTuple):
    """The arrays of `LastAnswer`.

    `label` is the column of the last label, -1 before any, shape (1,). The labels that followed label k are
    `following[k]`, -1 for none, with their decayed counts `counts[k]`; shapes (labels, FOLLOWING). `target` is one
    `LAST_TARGET`, `trial` one `TRIAL`, shape (1,). `mixing` and `predictions` have two experts for labels and three
    for targets; without any, the last answer is left out.
    """

    label: IntArray
    following: IntArray
    counts: FloatArray
    target: npt.NDArray[np.void]
    trial: npt.NDArray[np.void]
    mixing: Mixing
    predictions: Predictions


@compiled
def mix_last_answer(last: Last, others: FloatArray, centre: float, targets: bool) -> None:
    """Mix the prediction of all other experts, shape (C,), with those from the last answer."""
    by_expert = last.predictions.by_expert
    for c in range(len(others)):
        by_expert[OTHERS, c] = others[c]
    if targets:
        follow_target(last.target, by_expert, centre)
        mix_targets(last.mixing, last.predictions)
    else:
        follow_label(last, by_expert)
        mix_labels(last.mixing, last.predictions)


@compiled
def mix_again(last: Last, targets: bool) -> None:
    """Mix what was said before, by the weights of now."""
    if targets:
        mix_targets(last.mixing, last.predictions)
    else:
        mix_labels(last.mixing, last.predictions)


@inner
def follow_label(last: Last, by_expert: FloatArray) -> None:
    """Set the probability of each label after the last one."""
    columns, total, before = by_expert.shape[1], SPREAD, last.label[0]
    for c in range(columns):
        by_expert[LAST, c] = SPREAD / columns
    if before != NONE:
        for k in range(FOLLOWING):
            if last.following[before, k] != NONE:
                by_expert[LAST, last.following[before, k]] += last.counts[before, k]
                total += last.counts[before, k]
    for c in range(columns):
        by_expert[LAST, c] /= total


@inner
def follow_target(held: npt.NDArray[np.void], by_expert: FloatArray, centre: float) -> None:
    """Set the last target, and the prediction of the others plus the part of their last error that usually stays."""
    target = held[0]
    by_expert[LAST, 0] = target.target - centre if target.seen else by_expert[OTHERS, 0]
    by_expert[ERROR, 0] = by_expert[OTHERS, 0]
    if target.square > 0.0:
        by_expert[ERROR, 0] += target.product / target.square * target.error


@compiled
def learn_last_answer(last: Last, truth: float, centre: float, targets: bool) -> None:
    """Learn the record that was mixed last; `truth` is the column of its label, or its target."""
    judge(last.trial, gain(last.predictions, truth if not targets else truth - centre, targets))
    if targets:
        learn_to_mix_targets(last.mixing, last.predictions, truth - centre)
        count_error(last.target, truth, truth - centre - last.predictions.by_expert[OTHERS, 0])
    else:
        learn_to_mix_labels(last.mixing, last.predictions, int(truth))
        if last.label[0] != NONE:
            count_following(last.following[last.label[0]], last.counts[last.label[0]], int(truth))
        last.label[0] = int(truth)


@inner
def gain(predictions: Predictions, truth: float, targets: bool) -> float:
    """Return by how much the mixture was better than all other experts: in absolute error, or 1, 0, -1 if right."""
    others, mixed, gained = predictions.by_expert[OTHERS], predictions.mixed, 0.0
    if targets:
        gained = abs(others[0] - truth) - abs(mixed[0] - truth)
    else:
        gained += 1.0 if largest(mixed) == truth else 0.0
        gained -= 1.0 if largest(others) == truth else 0.0
    return gained


@inner
def largest(probabilities: FloatArray) -> int:
    """Return the first column with the largest probability, shape (C,)."""
    at = 0
    for c in range(1, len(probabilities)):
        if probabilities[c] > probabilities[at]:
            at = c
    return at


@inner
def judge(held: npt.NDArray[np.void], gained: float) -> None:
    """Decide whether the mixture serves from the next record on."""
    trial = held[0]
    trial.gain, trial.square = TRIED * trial.gain + gained, TRIED * trial.square + gained * gained
    least = 0.0 if trial.serves else SURE * math.sqrt(trial.square)
    trial.serves = 1.0 if trial.gain > least else 0.0


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


@inner
def begin_to_mix(mixing: Mixing) -> None:
    """Give the experts equal weights, and the stacked mixtures the prediction of all other experts."""
    for e in range(len(mixing.best)):
        mixing.best[e] = 1.0 / len(mixing.best)
        for k in range(len(mixing.stacked)):
            mixing.stacked[k, e] = 1.0 if e == OTHERS else 0.0
    for k in range(len(mixing.outer)):
        mixing.outer[k] = 1.0 / len(mixing.outer)
    running = mixing.running[0]
    running.norm, running.variance, running.records = 0.0, 0.0, 0.0


@inner
def correct_last_target(last: Last, target: float) -> None:
    """Undo what was learnt from the first targets, among which there was an outlier; the last one was `target`."""
    held = last.target[0]
    held.target, held.error, held.square, held.product = target, 0.0, 0.0, 0.0
    trial = last.trial[0]
    trial.gain, trial.square, trial.serves = 0.0, 0.0, 0.0
    begin_to_mix(last.mixing)
