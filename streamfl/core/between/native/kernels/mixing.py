"""Mixing what the experts say: by fixed share, and stacked at two rates; then all three."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import BoolArray, FloatArray
from streamfl.core.between.native.kernels.compiled import compiled, inner
from streamfl.core.between.native.kernels.scaling import Scales
from streamfl.core.between.native.kernels.softmax import softmax
from streamfl.core.protocol.native.settings import WINDOW

# What part of its weight an expert gives back to all at every record.
SHARE = 0.001

# No probability counts as less than this part of a uniform one, no likelihood of a target than this part of the best.
FLOOR, LEAST_LIKELY = 0.01, 1e-3

# Rates of the steps by which the weights of stacked experts are learnt.
STACKING = (0.03, 0.3)

# The mixtures: the first by fixed share, then one for each of these rates.
SHARED, STACKED, MIXTURES = 0, 1, 1 + len(STACKING)
ALL_THREE = np.ones(MIXTURES, np.bool_)


# Running means of a mixture, over so many records: of the squared norm of what is stacked (of targets: the experts'
# differences to the first mixture), and of the best expert's squared error.
RUNNING = np.dtype([("norm", np.float64), ("variance", np.float64), ("records", np.float64)])


class Mixing(NamedTuple):
    """Weights of the experts: by fixed share (E,), stacked (2, E), and of the three mixtures (3,).

    `awake` tells which are asked and taught (E,); all others have no weight, see `sleeping`. `running` is one
    `RUNNING`, shape (1,); `targets` is of the targets, as if they were one feature.
    """

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    running: npt.NDArray[np.void]
    awake: BoolArray
    targets: Scales


class Said(NamedTuple):
    """What is said of a record, shapes (E, C), (3, C) for the three mixtures, and (C,) for what is served.

    By every expert; the same with a floor, and its centred logarithms; by the mixtures; and by all. Targets are
    measured from the centre.
    """

    by_expert: FloatArray
    given: FloatArray
    centred: FloatArray
    offered: FloatArray
    mixed: FloatArray


@compiled
def mix_labels(mixing: Mixing, said: Said) -> None:
    """Mix probabilities: by fixed share, and as softmaxes over the experts' log-probabilities; then all three."""
    experts, columns = said.by_expert.shape
    least = FLOOR / columns
    for k in range(MIXTURES):
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
            said.offered[SHARED, c] += mixing.best[e] * said.given[e, c]
            for k in range(len(STACKING)):
                said.offered[STACKED + k, c] += mixing.stacked[k, e] * said.centred[e, c]
    softmax(said.offered, STACKED, MIXTURES)
    total = 0.0
    for c in range(columns):
        said.mixed[c] = 0.0
        for k in range(MIXTURES):
            said.mixed[c] += mixing.outer[k] * max(said.offered[k, c], least)
        total += said.mixed[c]
    for c in range(columns):
        said.mixed[c] /= total


@compiled
def learn_to_mix_labels(mixing: Mixing, said: Said, code: int) -> None:
    """Weigh the experts by the probability each gave to the label that came, and step down the softmaxes' losses."""
    experts, columns = said.given.shape
    running, square = mixing.running[0], 0.0
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
    running.records += 1.0
    running.norm += (square - running.norm) / min(running.records, WINDOW)
    if running.norm > 0.0:
        for k in range(len(STACKING)):
            size = STACKING[k] / (running.norm + 0.5 * STACKING[k] * square)
            for e in range(experts):
                if not mixing.awake[e]:
                    continue
                slope = -said.centred[e, code]
                for c in range(columns):
                    slope += said.offered[STACKED + k, c] * said.centred[e, c]
                mixing.stacked[k, e] -= size * slope


@compiled
def mix_targets(mixing: Mixing, said: Said) -> None:
    """Mix predicted targets: by fixed share, and as linear combinations of differences to that; then all three."""
    said.offered[SHARED, 0] = 0.0
    for e in range(len(said.given)):
        said.given[e, 0] = said.by_expert[e, 0] if mixing.awake[e] else 0.0
        said.offered[SHARED, 0] += mixing.best[e] * said.given[e, 0]
    said.mixed[0] = mixing.outer[SHARED] * said.offered[SHARED, 0]
    for k in range(len(STACKING)):
        said.offered[STACKED + k, 0] = said.offered[SHARED, 0]
        for e in range(len(said.given)):
            if mixing.awake[e]:
                said.offered[STACKED + k, 0] += mixing.stacked[k, e] * (said.given[e, 0] - said.offered[SHARED, 0])
        said.mixed[0] += mixing.outer[STACKED + k] * said.offered[STACKED + k, 0]


@compiled
def learn_to_mix_targets(mixing: Mixing, said: Said, truth: float) -> None:
    """Weigh the experts by their errors under the variance of the best one, and step down the squared errors."""
    experts, running, least, square = len(said.given), mixing.running[0], math.inf, 0.0
    for e in range(experts):
        if mixing.awake[e]:
            least = min(least, (said.given[e, 0] - truth) ** 2)
            square += (said.given[e, 0] - said.offered[SHARED, 0]) ** 2
    running.records += 1.0
    rate = 1.0 / min(running.records, WINDOW)
    running.variance += rate * (least - running.variance)
    running.norm += rate * (square - running.norm)
    weigh(mixing.outer, said.offered, truth, running.variance, ALL_THREE)
    weigh(mixing.best, said.given, truth, running.variance, mixing.awake)
    if running.norm > 0.0:
        for k in range(len(STACKING)):
            # Where experts differ by less than the best of them errs, their differences tell hardly anything.
            size = STACKING[k] / (running.norm + running.variance + 0.5 * STACKING[k] * square)
            for e in range(experts):
                if mixing.awake[e]:
                    apart = said.given[e, 0] - said.offered[SHARED, 0]
                    mixing.stacked[k, e] -= size * (said.offered[STACKED + k, 0] - truth) * apart


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
