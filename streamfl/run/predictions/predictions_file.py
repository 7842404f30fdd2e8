"""The predictions of a replay as a CSV file."""

import csv
from collections import Counter
from dataclasses import dataclass, field
from typing import TextIO

from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log


@dataclass
class PredictionsFile:
    """Writes the predictions of a replay as they are made."""

    # They give the number in the file of a client's next record.
    table: Table
    logs: dict[str, Log]
    to: TextIO  # an open text file
    _written: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._csv = csv.writer(self.to, lineterminator="\n")
        self._csv.writerow(["record", "client", "round", "label", "predicted"])

    def add(self, predicted: Predicted) -> None:
        """Write the predictions of one client's round."""
        client, n = predicted.client, len(predicted.truth)
        start = self._written[client]
        self._written[client] += n
        rows = self.logs[client].rows[start : start + n]
        records = self.table.places[rows].tolist()
        truth = _named(predicted.truth.tolist(), predicted.labels)
        served = _named(predicted.served.tolist(), predicted.labels)
        for record, label, prediction in zip(records, truth, served, strict=True):
            self._csv.writerow([record, client, predicted.round, label, prediction])


def _named(values: list[float], labels: tuple[str, ...]) -> list[str] | list[float]:
    """Return label indices as names, "" for -1; targets stay as they are."""
    return [labels[int(v)] if v >= 0 else "" for v in values] if labels else values
