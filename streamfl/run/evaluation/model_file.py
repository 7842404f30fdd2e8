"""How well the model file and clients' own files predict the last rounds, next to the predictions served."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.online.native.private.part import OwnPart
from streamfl.protocol.decisions import Predicted
from streamfl.protocol.delayed import NO_LABEL
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.errors import Errors
from streamfl.run.model_file import ServedModel

# The file is measured on a tenth of the rounds, but on this many at least: its predictions cost as much as a round.
PART, LEAST = 10, 10

# Own files are measured with at most so many clients: a client's last records are kept twice for it.
MOST_CLIENTS = 100


@dataclass
class FileErrors:
    """The errors of files on the last rounds: each record is predicted by the files as they were before its round.

    A client's own file predicts all records of a round at once, so only the first one from the last label.
    """

    # The records of the clients.
    table: Table
    logs: Mapping[str, Log]
    rounds: int  # the number of rounds, as far as it is known
    # Returns the file as it would be written now, between two rounds, with what some clients alone know.
    before_round: Callable[[Mapping[str, OwnPart]], ServedModel]
    # Returns what each client alone knows now, between two rounds; nothing for a client that keeps nothing.
    known: Callable[[], Mapping[str, OwnPart]]
    errors: Errors = field(default_factory=Errors)
    own: Errors = field(default_factory=Errors)
    served: Errors = field(default_factory=Errors)
    _round: int = 0
    _file: ServedModel | None = None  # with what clients alone know, if they know anything
    _parts: Mapping[str, OwnPart] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Return the first round on which the file is measured: before round 1 there is none."""
        return max(2, self.rounds - max(LEAST, self.rounds // PART) + 1)

    def add(self, predicted: Predicted) -> None:
        """Add one client's round, before the round is closed."""
        if predicted.round >= self.first and len(predicted.truth):
            self._measure(predicted)

    def closed(self, round_: int) -> None:
        """Note that a round was closed, and the next one not begun."""
        if round_ >= self.first - 1 and len(self.logs) <= MOST_CLIENTS:
            self._parts = self.known()

    @property
    def of_own(self) -> Errors:
        """Return the errors of own files; of no records if clients have none."""
        return self.own if self._parts else Errors()

    def _measure(self, predicted: Predicted) -> None:
        if predicted.round != self._round or self._file is None:
            self._round, self._file = predicted.round, self.before_round(self._parts)
        self.errors.add(predicted.truth, self._predictions(replace(self._file, own_parts={}), predicted))
        self.served.add(predicted.truth, predicted.served)
        if self._parts:
            self.own.add(predicted.truth, self._predictions(self._file, predicted))

    def _predictions(self, file: ServedModel, predicted: Predicted) -> FloatArray:
        """Return the file's predictions, coded like the truth."""
        log = self.logs[predicted.client]
        rows = np.concatenate(
            [log.rows[log.good_before(span.start) : log.good_before(span.end)] for span in predicted.spans]
        )
        X = self.table.X[rows].astype(np.float64)
        predictions = file.predictions(
            self.table.features, X, file.clients_of_records.rows({}, len(X), predicted.client)
        )
        if not predicted.labels:
            return predictions[:, 0]
        places = {label: float(code) for code, label in enumerate(predicted.labels)}
        codes = np.array([places.get(label, NO_LABEL) for label in file.labels])
        decided: FloatArray = codes[file.codes_decided(predictions)]
        return decided
