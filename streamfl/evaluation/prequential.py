"""Prequential (test-then-train) metrics of a run, with NoChange beside them."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.protocol.decisions import PostUpdate, Predicted
from streamfl.evaluation.result import Figures, Kappa


@dataclass
class Errors:
    """Running sums of the errors of one kind of prediction.

    >>> errors = Errors()
    >>> errors.add(np.array([1.0, 2.0]), np.array([1.0, 5.0]))
    >>> errors.accuracy, errors.mae, round(errors.rmse, 4)
    (0.5, 1.5, 2.1213)
    """

    records: int = 0
    correct: int = 0
    absolute: float = 0.0
    square: float = 0.0

    def add(self, truth: FloatArray, predicted: FloatArray) -> None:
        """Add predictions."""
        miss = predicted - truth
        self.records += len(truth)
        self.correct += int((miss == 0.0).sum())
        self.absolute += float(np.abs(miss).sum())
        self.square += float(miss @ miss)

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct predictions."""
        return self.correct / self.records if self.records else None

    @property
    def mae(self) -> float | None:
        """Return the mean absolute error."""
        return self.absolute / self.records if self.records else None

    @property
    def rmse(self) -> float | None:
        """Return the root of the mean squared error."""
        return math.sqrt(self.square / self.records) if self.records else None


@dataclass
class Prequential:
    """The metrics of all predictions of a run.

    >>> figures = Prequential()
    >>> y = np.array([0.0, 1.0, 1.0, 1.0])
    >>> guess = np.array([0.0, 1.0, 0.0, 1.0])
    >>> figures.add(Predicted("c0", 1, "a-1", (), y, guess, guess, np.array([-1.0, 0.0, 1.0, 1.0]), ("a", "b")))
    >>> figures.accuracy().prequential, figures.accuracy().no_change, figures.kappa().cohen, figures.kappa().temporal
    (0.75, 0.5, 0.5, 0.5)
    """

    served: Errors = field(default_factory=Errors)
    at_start: Errors = field(default_factory=Errors)
    post_update: Errors = field(default_factory=Errors)
    no_change: Errors = field(default_factory=Errors)
    _truths: Counter[str] = field(default_factory=Counter)
    _guesses: Counter[str] = field(default_factory=Counter)

    def add(self, measured: Predicted | PostUpdate) -> None:
        """Add the measurements of one client's round."""
        if isinstance(measured, PostUpdate):
            self.post_update.add(measured.truth, measured.predicted)
            return
        self.served.add(measured.truth, measured.served)
        self.at_start.add(measured.truth, measured.at_start)
        self.no_change.add(measured.truth, measured.no_change)
        if measured.labels:
            self._truths.update(_named(measured.truth, measured.labels))
            self._guesses.update(_named(measured.served, measured.labels))

    def accuracy(self) -> Figures:
        """Return the four accuracies."""
        return self._figures("accuracy")

    def mae(self) -> Figures:
        """Return the four mean absolute errors."""
        return self._figures("mae")

    def rmse(self) -> Figures:
        """Return the four root mean squared errors."""
        return self._figures("rmse")

    def kappa(self) -> Kappa:
        """Return Cohen's kappa, and the temporal kappa of Bifet et al. 2013, which is 0 for NoChange."""
        served, repeated = self.served.accuracy, self.no_change.accuracy
        if served is None or repeated is None:
            return Kappa(cohen=None, temporal=None)
        n = self.served.records
        chance = sum(count * self._guesses[label] for label, count in self._truths.items()) / n**2
        return Kappa(cohen=_above(served, chance), temporal=_above(served, repeated))

    def _figures(self, measure: str) -> Figures:
        return Figures(
            prequential=getattr(self.served, measure),
            round_start=getattr(self.at_start, measure),
            post_update=getattr(self.post_update, measure),
            no_change=getattr(self.no_change, measure),
        )


def _named(codes: FloatArray, labels: tuple[str, ...]) -> dict[str, int]:
    """Count labels by name; -1, a prediction made before any label was known, is not counted."""
    counts = np.bincount(codes[codes >= 0].astype(np.intp), minlength=len(labels))
    return dict(zip(labels, counts.tolist(), strict=True))


def _above(accuracy: float, chance: float) -> float | None:
    return None if chance >= 1.0 else (accuracy - chance) / (1.0 - chance)
