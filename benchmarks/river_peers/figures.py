"""Metrics of predicted labels."""

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.integer]
Marks = npt.NDArray[np.bool_]


def repeated(truth: Numbers) -> Numbers:
    """Return the predictions of NoChange: the previous label, first -1 for none."""
    return np.concatenate([[-1], truth[:-1]])


def accuracy(truth: Numbers, guesses: Numbers) -> float:
    """Return the share of correct predictions; -1, no prediction, is wrong."""
    return float(np.mean(truth == guesses))


def kappa(truth: Numbers, guesses: Numbers) -> float | None:
    """Return Cohen's kappa; records without a prediction (-1) count as a label of their own.

    None if chance alone is always right.
    """
    labels = int(max(truth.max(), guesses.max())) + 1
    true = np.bincount(truth, minlength=labels)
    guessed = np.bincount(guesses[guesses >= 0], minlength=labels)
    return _above(accuracy(truth, guesses), float(true @ guessed) / len(truth) ** 2)


def temporal_kappa(truth: Numbers, guesses: Numbers) -> float | None:
    """Return the kappa of Bifet et al. 2013: the gain over repeating the last label, relative to the possible gain.

    None if repeating is always right.
    """
    return _above(accuracy(truth, guesses), accuracy(truth, repeated(truth)))


def _above(reached: float, chance: float) -> float | None:
    return None if chance >= 1.0 else (reached - chance) / (1.0 - chance)
