"""FedAvg of one linear model on a natural federation, with the constants that are best in hindsight."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.learning.model import Model, gradient
from streamfl.models import Linear
from streamfl.records.table import Table
from streamfl.run.compare import errors
from streamfl.run.dealing.dealing import Log, usual_size
from streamfl.run.dealing.order import arrival_times, period_in_order, row_times
from streamfl.run.evaluation.compared import Misses
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, shares
from streamfl_benchmarks.peers.local_work import copies, weighted

# Local steps in a round, and their sizes.
STEPS = (1, 10)
SIZES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
FARTHEST = 30.0  # a round's steps, added up
PENALTY = 2e-4
LEAST = 10  # records of a client's round, as the federation has them


@dataclass(frozen=True)
class Constants:
    """What a run of FedAvg is made with."""

    steps: int
    eta: float


@dataclass
class LinearFedAvg:
    """One linear model of all clients, in the rounds of the federation.

    A round's records are predicted before it; then each client takes its steps, and the models are averaged by
    records. Features and targets are standardised by the whole stream, and the best constants are those of hindsight:
    both favour it.

    Parameters
    ----------
    table, logs
        The records, and those of each client.
    """

    table: Table
    logs: Mapping[str, Log]

    def best(self) -> tuple[Constants, Misses]:
        """Return the constants with the least errors, and these errors."""
        tried = [(constants, self._missed(constants)) for constants in self._grid()]
        means = [np.concatenate(list(missed.values())).mean() for _, missed in tried]
        return tried[int(np.nanargmin(means))]

    @staticmethod
    def _grid() -> Iterator[Constants]:
        for steps in STEPS:
            yield from (Constants(steps, eta) for eta in SIZES if steps * eta <= FARTHEST)

    @property
    def _model(self) -> Model:
        return SOFTMAX if self.table.labels else Linear()

    @cached_property
    def _scaled(self) -> FloatArray:
        """Return the features and the constant 1, shape (n, d + 1); a missing value is the mean."""
        X = self.table.X.astype(np.float64)
        mean, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        Z = np.nan_to_num((X - mean) / np.where(deviation > 0.0, deviation, 1.0))
        return np.concatenate([Z, np.ones((len(Z), 1))], axis=1)

    @cached_property
    def _unit(self) -> tuple[float, float]:
        """Return the mean and the deviation of targets."""
        y = self.table.y
        return (0.0, 1.0) if self.table.labels else (float(y.mean()), float(y.std()) or 1.0)

    @cached_property
    def _rounds(self) -> list[list[tuple[str, IntArray]]]:
        """Return by round its clients and the places of their records."""
        size = usual_size(len(self.table), len(self.logs), min_records=LEAST)
        period = period_in_order(self.table, self.logs, size)
        at, found = row_times(self.table, self.logs), dict[int, list[tuple[str, IntArray]]]()
        for name, log in self.logs.items():
            places = np.arange(len(log.rows))
            of = places // size if period is None else np.floor(arrival_times(log, at) / period).astype(np.int64)
            for round_ in np.unique(of):
                found.setdefault(int(round_), []).append((name, places[of == round_]))
        return [found[round_] for round_ in sorted(found)]

    def _missed(self, constants: Constants) -> Misses:
        labels, (mean, unit) = self.table.labels, self._unit
        W = np.zeros((self._scaled.shape[1], self._model.columns(len(labels))))
        missed = {name: np.full(len(log.rows), np.nan) for name, log in self.logs.items()}
        with np.errstate(all="ignore"):  # too long a step: its errors are infinite
            for round_ in self._rounds:
                own = [self._records(name, places) for name, places in round_]
                for (name, places), records in zip(round_, own, strict=True):
                    outputs = records.Z @ W
                    told = outputs.argmax(axis=1).astype(np.float64) if labels else outputs[:, 0] * unit + mean
                    missed[name][places] = errors(self.logs[name].y[places], told, labels=labels)
                W = self._learnt(W, own, constants)
        return missed

    def _records(self, name: str, places: IntArray) -> ClientRecords:
        log, (mean, unit) = self.logs[name], self._unit
        return ClientRecords(self._scaled[log.rows[places]], (log.y[places] - mean) / unit)

    def _learnt(self, W: FloatArray, clients: Sequence[ClientRecords], constants: Constants) -> FloatArray:
        models = copies(W, clients)
        for _ in range(constants.steps):
            for i, own in enumerate(clients):
                models[i] -= constants.eta * gradient(self._model, models[i], own.Z, own.y, l2=PENALTY)
        return weighted(shares(clients), models)
