"""Mixes the experts' predictions: by fixed share, and stacked at two rates; then these three."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamfl.arrays import BoolArray, FloatArray
from streamfl.online.native.kernels.compiled import compiled, inner
from streamfl.online.native.kernels.scaling import FIRST, KNOWN, Scales
from streamfl.online.native.kernels.softmax import softmax
from streamfl.protocol.native.settings import FARTHEST, STACKING, WINDOW

# The part of its weight that an expert shares out among all experts at every record.
SHARE = 0.001

# The least probability, as a part of a uniform one; and the least likelihood of a target, as a part of the best one.
FLOOR, LEAST_LIKELY = 0.01, 1e-3

# After many records, errors that stay large would hardly raise the best expert's variance if each counted as an
# outlier does. So a record may raise it by this part: a hundred raise it ten thousandfold.
RISE = 0.1

# The mixtures: the first by fixed share, then one for each of these rates.
SHARED, STACKED, MIXTURES = 0, 1, 1 + len(STACKING)
ALL_THREE = np.ones(MIXTURES, np.bool_)


# Running means of a mixture, over `records` records: the squared norm of the stacked inputs (of targets: the experts'
# differences from the first mixture), and the best expert's squared error.
RUNNING = np.dtype([("norm", np.float64), ("variance", np.float64), ("records", np.float64)])


class Mixing(NamedTuple):
    """Weights: of the experts by fixed share (E,) and stacked (2, E), and of the three mixtures (3,).

    `awake` are the experts that predict and learn (E,); all others have no weight, see `sleeping`. `running` is one
    `RUNNING`, shape (1,); `targets` are the moments of the targets, as of a single feature.
    """

    best: FloatArray
    stacked: FloatArray
    outer: FloatArray
    running: npt.NDArray[np.void]
    awake: BoolArray
    targets: Scales


class Predictions(NamedTuple):
    """The predictions of one record; targets are measured from the centre.

    `by_expert`, shape (E, C); `bounded`, the same with a floor, or 0 for experts that sleep; `centred`, the centred
    logarithms of these; `by_mixture`, shape (3, C); and `mixed`, shape (C,), which is served.
    """

    by_expert: FloatArray
    bounded: FloatArray
    centred: FloatArray
    by_mixture: FloatArray
    mixed: FloatArray


@compiled
def mix_labels(mixing: Mixing, predictions: Predictions) -> None:
    """Mix probabilities by fixed share and by softmaxes over the experts' log-probabilities; then these three."""
    experts, columns = predictions.by_expert.shape
    least = FLOOR / columns
    for k in range(MIXTURES):
        for c in range(columns):
            predictions.by_mixture[k, c] = 0.0
    for e in range(experts):
        if not mixing.awake[e]:
            continue
        mean = 0.0
        for c in range(columns):
            predictions.bounded[e, c] = max(predictions.by_expert[e, c], least)
            predictions.centred[e, c] = math.log(predictions.bounded[e, c])
            mean += predictions.centred[e, c] / columns
        for c in range(columns):
            predictions.centred[e, c] -= mean
            predictions.by_mixture[SHARED, c] += mixing.best[e] * predictions.bounded[e, c]
            for k in range(len(STACKING)):
                predictions.by_mixture[STACKED + k, c] += mixing.stacked[k, e] * predictions.centred[e, c]
    softmax(predictions.by_mixture, STACKED, MIXTURES)
    total = 0.0
    for c in range(columns):
        predictions.mixed[c] = 0.0
        for k in range(MIXTURES):
            predictions.mixed[c] += mixing.outer[k] * max(predictions.by_mixture[k, c], least)
        total += predictions.mixed[c]
    for c in range(columns):
        predictions.mixed[c] /= total


@compiled
def learn_to_mix_labels(mixing: Mixing, predictions: Predictions, code: int) -> None:
    """Weigh the experts by the probability that each gave to the true label; step down the softmaxes' losses."""
    experts, columns = predictions.bounded.shape
    running, square = mixing.running[0], 0.0
    for e in range(experts):
        if not mixing.awake[e]:
            continue
        mixing.best[e] *= predictions.bounded[e, code]
        for c in range(columns):
            square += predictions.centred[e, c] * predictions.centred[e, c]
    for k in range(len(mixing.outer)):
        mixing.outer[k] *= max(predictions.by_mixture[k, code], FLOOR / columns)
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
                slope = -predictions.centred[e, code]
                for c in range(columns):
                    slope += predictions.by_mixture[STACKED + k, c] * predictions.centred[e, c]
                mixing.stacked[k, e] -= size * slope


@compiled
def mix_targets(mixing: Mixing, predictions: Predictions, least: float, largest: float) -> None:
    """Mix targets by fixed share and by linear combinations of the differences from that; then these three.

    What an expert says beyond `least` and `largest` counts as these.
    """
    predictions.by_mixture[SHARED, 0] = 0.0
    for e in range(len(predictions.bounded)):
        within = min(max(predictions.by_expert[e, 0], least), largest)
        predictions.bounded[e, 0] = within if mixing.awake[e] else 0.0
        predictions.by_mixture[SHARED, 0] += mixing.best[e] * predictions.bounded[e, 0]
    predictions.mixed[0] = mixing.outer[SHARED] * predictions.by_mixture[SHARED, 0]
    for k in range(len(STACKING)):
        predictions.by_mixture[STACKED + k, 0] = predictions.by_mixture[SHARED, 0]
        for e in range(len(predictions.bounded)):
            if mixing.awake[e]:
                predictions.by_mixture[STACKED + k, 0] += mixing.stacked[k, e] * (
                    predictions.bounded[e, 0] - predictions.by_mixture[SHARED, 0]
                )
        predictions.mixed[0] += mixing.outer[STACKED + k] * predictions.by_mixture[STACKED + k, 0]


@compiled
def learn_to_mix_targets(mixing: Mixing, predictions: Predictions, truth: float) -> None:
    """Weigh the experts by their errors under the variance of the best one; step down the squared errors.

    Errors count as at most `FARTHEST` deviations of the best expert: one outlier must not decide.
    """
    experts, running, least, square = len(predictions.bounded), mixing.running[0], math.inf, 0.0
    farthest = farthest_error(running.records, running.variance)
    for e in range(experts):
        if mixing.awake[e]:
            least = min(least, (predictions.bounded[e, 0] - truth) ** 2)
            square += (predictions.bounded[e, 0] - predictions.by_mixture[SHARED, 0]) ** 2
    running.records += 1.0
    rate = 1.0 / min(running.records, WINDOW)
    most = max(rate * (farthest * farthest - running.variance), RISE * running.variance)
    running.variance += min(rate * (least - running.variance), most)
    running.norm += rate * (square - running.norm)
    weigh(mixing.outer, predictions.by_mixture, truth, running.variance, farthest, ALL_THREE)
    weigh(mixing.best, predictions.bounded, truth, running.variance, farthest, mixing.awake)
    if running.norm > 0.0:
        for k in range(len(STACKING)):
            # If experts differ by less than the error of the best one, their differences carry little information.
            size = STACKING[k] / (running.norm + running.variance + 0.5 * STACKING[k] * square)
            error = min(max(predictions.by_mixture[STACKED + k, 0] - truth, -farthest), farthest)
            for e in range(experts):
                if mixing.awake[e]:
                    apart = predictions.bounded[e, 0] - predictions.by_mixture[SHARED, 0]
                    mixing.stacked[k, e] -= size * error * apart


@inner
def farthest_error(records: float, variance: float) -> float:
    """Return the error as which larger ones count; it is larger after few records, whose variance is rough."""
    if records < FIRST or variance == 0.0:
        return math.inf
    return FARTHEST * max(1.0, KNOWN / records) * math.sqrt(variance)


@inner
def weigh(
    weights: FloatArray, predicted: FloatArray, truth: float, variance: float, farthest: float, awake: BoolArray
) -> None:
    """Multiply weights by normal likelihoods relative to the best one, with a floor; see `learn_to_mix_targets`."""
    least = math.inf
    for e in range(len(weights)):
        if awake[e]:
            least = min(least, min(abs(predicted[e, 0] - truth), farthest) ** 2)
    for e in range(len(weights)):
        if awake[e]:
            worse = min(abs(predicted[e, 0] - truth), farthest) ** 2 - least
            weights[e] *= max(math.exp(-0.5 * worse / max(variance, 1e-300)), LEAST_LIKELY)
    share(weights, awake)


@compiled
def share(weights: FloatArray, awake: BoolArray) -> None:
    """Make weights sum to 1; each expert shares out a part of its own among all (Herbster and Warmuth 1998)."""
    total, count = 0.0, 0
    for e in range(len(weights)):
        if awake[e]:
            total += weights[e]
            count += 1
    for e in range(len(weights)):
        if awake[e]:
            weights[e] = (1.0 - SHARE) / total * weights[e] + SHARE / count


@inner
def mix_equally(mixing: Mixing) -> None:
    """Give all experts that are awake the same weight again."""
    awake = 0
    for e in range(len(mixing.awake)):
        awake += mixing.awake[e]
    for e in range(len(mixing.awake)):
        mixing.best[e] = mixing.awake[e] / awake
        for k in range(len(mixing.stacked)):
            mixing.stacked[k, e] = mixing.awake[e] / awake
    for k in range(len(mixing.outer)):
        mixing.outer[k] = 1.0 / len(mixing.outer)
    running = mixing.running[0]
    running.norm, running.variance, running.records = 0.0, 0.0, 0.0
