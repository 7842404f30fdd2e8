"""Prequential (test-then-train) metrics of a run, with NoChange next to them."""

from dataclasses import dataclass, field

from streamfl.learning.error_quantiles import ErrorQuantiles
from streamfl.protocol.decisions import PostUpdate, Predicted
from streamfl.run.evaluation.by_class import ByClass, ClassCounts
from streamfl.run.evaluation.by_client import ByClient, ClientErrors, Measure
from streamfl.run.evaluation.errors import Errors
from streamfl.run.evaluation.result import Figures, Interval, Kappa


@dataclass
class Prequential:
    """The metrics of all predictions of a run: in total, by client and by class, each record counted once for all.

    >>> import numpy as np
    >>> figures = Prequential()
    >>> y = np.array([0.0, 1.0, 1.0, 1.0])
    >>> guess = np.array([0.0, 1.0, 0.0, 1.0])
    >>> figures.add(Predicted("c0", 1, "a-1", (), y, guess, guess, np.array([-1.0, 0.0, 1.0, 1.0]), ("a", "b")))
    >>> figures.accuracy().prequential, figures.accuracy().no_change, figures.kappa().cohen, figures.kappa().temporal
    (0.75, 0.5, 0.5, 0.5)
    """

    # The errors of the four predictors.
    served: Errors = field(default_factory=Errors)
    at_start: Errors = field(default_factory=Errors)
    post_update: Errors = field(default_factory=Errors)
    no_change: Errors = field(default_factory=Errors)
    clients: ClientErrors = field(default_factory=ClientErrors)  # the errors by client
    classes: ClassCounts = field(default_factory=ClassCounts)  # classification: the predictions by label
    # Regression: the quantiles of each client's errors so far, and the targets and widths of their intervals.
    quantiles: dict[str, ErrorQuantiles] = field(default_factory=dict)
    _asked: int = 0
    _within: int = 0
    _width: float = 0.0

    def add(self, measured: Predicted | PostUpdate) -> None:
        """Add the measurements of one client's round."""
        if isinstance(measured, PostUpdate):
            self.post_update.add(measured.truth, measured.predicted)
            return
        served = Errors.of(measured.truth, measured.served)
        no_change = Errors.of(measured.truth, measured.no_change)
        self.served.join(served)
        self.at_start.add(measured.truth, measured.at_start)
        self.no_change.join(no_change)
        self.clients.add(measured.client, served, no_change)
        if measured.labels:
            self.classes.add(measured.truth, measured.served, measured.labels)
        else:
            self._add_intervals(measured)

    def _add_intervals(self, measured: Predicted) -> None:
        """Predict an interval for each record by the errors before it."""
        own = self.quantiles.setdefault(measured.client, ErrorQuantiles())
        for truth, served in zip(measured.truth.tolist(), measured.served.tolist(), strict=True):
            if (found := own.of(served)) is not None:
                self._asked += 1
                self._within += found[0] <= truth <= found[-1]
                self._width += found[-1] - found[0]
            own.learn(truth - served)

    def interval(self) -> Interval | None:
        """Return how good the intervals of predicted targets were; None if there were none."""
        n = self._asked
        return Interval(records=n, coverage=self._within / n, width=self._width / n) if n else None

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
        truths, predicted = self.classes.truths, self.classes.predicted
        chance = sum(count * predicted[label] for label, count in truths.items()) / n**2
        return Kappa(cohen=_above(served, chance), temporal=_above(served, repeated))

    def by_client(self, measure: Measure) -> ByClient | None:
        """Return the figures by client; None if nothing was measured."""
        return self.clients.table(measure) if self.served.records else None

    def by_class(self) -> ByClass | None:
        """Return the figures by class; None if nothing was measured."""
        return self.classes.table() if self.served.records else None

    def _figures(self, measure: str) -> Figures:
        return Figures(
            prequential=getattr(self.served, measure),
            round_start=getattr(self.at_start, measure),
            post_update=getattr(self.post_update, measure),
            no_change=getattr(self.no_change, measure),
        )


def _above(accuracy: float, chance: float) -> float | None:
    return None if chance >= 1.0 else (accuracy - chance) / (1.0 - chance)
