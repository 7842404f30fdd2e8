"""What the model file is worth: its predictions of the last rounds, besides those that were served."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.errors import Errors
from streamfl.run.model_file import ServedModel

# The file is measured on a tenth of the rounds, but on this many at least: its predictions cost as much as a round.
PART, LEAST = 10, 10


@dataclass
class FileErrors:
    """The errors of the model file on the last rounds: each record is predicted by the file before its round."""

    # The records of the clients.
    table: Table
    logs: Mapping[str, Log]
    rounds: int  # the number of rounds, as far as it is known
    before_round: Callable[[], ServedModel]  # returns the file as it would be written now, between two rounds
    errors: Errors = field(default_factory=Errors)
    served: Errors = field(default_factory=Errors)
    _round: int = 0
    _file: ServedModel | None = None

    @property
    def first(self) -> int:
        """Return the first round on which the file is measured."""
        return max(1, self.rounds - max(LEAST, self.rounds // PART) + 1)

    def add(self, predicted: Predicted) -> None:
        """Add one client's round, before the round is closed."""
        if predicted.round < self.first or not len(predicted.truth):
            return
        if predicted.round != self._round:
            self._round, self._file = predicted.round, self.before_round()
        if self._file is not None:
            self.errors.add(predicted.truth, self._predictions(self._file, predicted))
            self.served.add(predicted.truth, predicted.served)

    def _predictions(self, file: ServedModel, predicted: Predicted) -> FloatArray:
        """Return the file's predictions, coded like the truth."""
        log = self.logs[predicted.client]
        rows = np.concatenate(
            [log.rows[log.good_before(span.start) : log.good_before(span.end)] for span in predicted.spans]
        )
        X = self.table.X[rows].astype(np.float64)
        predictions = file.predictions(self.table.features, X, file.rows_by_branch({}, len(X), predicted.client))
        if not predicted.labels:
            return predictions[:, 0]
        places = {label: float(code) for code, label in enumerate(predicted.labels)}
        codes = np.array([places.get(label, -1.0) for label in file.labels])
        decided: FloatArray = codes[predictions.argmax(axis=1)]
        return decided
