"""Running sums of the errors of predictions: the counts behind every figure."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from streamfl.arrays import FloatArray


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

    @classmethod
    def of(cls, truth: FloatArray, predicted: FloatArray) -> Self:
        """Return the errors of predictions, shape (n,) like the truth."""
        miss = predicted - truth
        return cls(len(truth), int((miss == 0.0).sum()), float(np.abs(miss).sum()), float(miss @ miss))

    def add(self, truth: FloatArray, predicted: FloatArray) -> None:
        """Add predictions."""
        self.join(Errors.of(truth, predicted))

    def join(self, more: "Errors") -> None:
        """Add the sums of other records."""
        self.records += more.records
        self.correct += more.correct
        self.absolute += more.absolute
        self.square += more.square

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
