"""Does federating help on these records? A federation, and what could replace it, on the same records in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.machines.client.intake.no_change import NoChange
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.order import arrival_times, row_times, usual_rounds
from streamfl.run.evaluation.by_client import Measure
from streamfl.run.evaluation.compared import Compared, Misses
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import PrivacySettings

# The model that stops learning has learnt one in so many records.
LEARNT_PART = 10

# Records that a saved model predicts at once.
TOGETHER = 8192

# The only client, if one place has all records.
PLACE = "c0"


@dataclass
class RecordErrors:
    """Collects the error of each record as a replay predicts it.

    >>> missed, truth, guess = RecordErrors(), np.array([0.0, 1.0]), np.array([0.0, 0.0])
    >>> missed.add(Predicted("c0", 1, "a", (), truth, guess, guess, guess, ("x", "y")))
    >>> missed.of({"c0": Log(np.arange(3), np.zeros(3))})["c0"]
    array([ 0.,  1., nan])
    """

    _of: dict[str, list[FloatArray]] = field(default_factory=dict)

    def add(self, event: object) -> None:
        """Take an event of the replay."""
        if isinstance(event, Predicted):
            self._of.setdefault(event.client, []).append(errors(event.truth, event.served, labels=event.labels))

    def of(self, logs: Mapping[str, Log]) -> Misses:
        """Return the errors by client; NaN for its last records, if nothing predicted them."""
        return {name: _filled(self._of.get(name, ()), len(log.rows)) for name, log in logs.items()}


@dataclass
class Alternatives:
    """What could predict the records of some clients. Each way sees them in the order in which they came."""

    # The records, and those of each client.
    table: Table
    logs: Mapping[str, Log]
    # How the federation is replayed. `interval` is the one asked for, or None; `round_size` has no effect.
    settings: ReplaySettings
    # The records of a client's round; None: as many as usual, which are more for a client alone.
    round_size: int | None = None

    def __post_init__(self) -> None:
        check(self.logs, self.settings)
        self.settings = replace(self.settings, count_bytes=False, measure=True)

    def compare(self, federated: Misses | None = None) -> Compared:
        """Return all figures; without the errors of the federation it is run first."""
        return Compared.of(self.measure, self.misses(federated))

    @property
    def measure(self) -> Measure:
        """Return what the figures are."""
        return "accuracy" if self.table.labels else "mae"

    def misses(self, federated: Misses | None = None) -> dict[str, Misses]:
        """Return the errors by way."""
        return {
            "federated": federated or self.federated(),
            "alone": self.alone(),
            "central": self.central(),
            "static": self.static(),
            "majority": self._guessed(majority),
            "no_change": self._guessed(NoChange().predictions),
        }

    def federated(self) -> Misses:
        """Return the errors of the federation."""
        return _run(self.table, self.logs, self.settings, self.round_size)[0]

    def alone(self) -> Misses:
        """Return the errors of the same learner at each client."""
        return {name: self._alone(name, log) for name, log in self.logs.items()}

    def central(self) -> Misses:
        """Return the errors of one learner that has all records."""
        return self._by_client(_run(*_part(self.table, PLACE, self._merged), self._of_one, self._size)[0][PLACE])

    def static(self) -> Misses:
        """Return the errors of the file of such a learner that stops; of the records that it learns, its own."""
        merged = self._merged
        task: Task = "classification" if self.table.labels else "regression"
        if self.settings.learning.external_model(task) is not None:  # it has no file
            return self._by_client(np.full(len(merged.rows), np.nan))
        learnt = max(1, len(merged.rows) // LEARNT_PART)
        table, logs = _part(self.table, PLACE, Log(merged.rows[:learnt], merged.y[:learnt]))
        own, model = _run(table, logs, self._of_one, self._size)
        later = predictions(model, self.table, merged.rows[learnt:])
        missed = errors(merged.y[learnt:], later, labels=self.table.labels)
        return self._by_client(np.concatenate([own[PLACE], missed]))

    def _guessed(self, guess: Callable[[FloatArray, tuple[str, ...]], FloatArray]) -> Misses:
        """Return the errors of a rule that needs a client's labels alone."""
        labels = self.table.labels
        return {name: errors(log.y, guess(log.y, labels), labels=labels) for name, log in self.logs.items()}

    def _alone(self, name: str, log: Log) -> FloatArray:
        if not len(log.rows):
            return np.zeros(0)
        table, logs = _part(self.table, name, log)
        return _run(_varied(table), logs, self._of_one, self.round_size)[0][name]

    @property
    def _of_one(self) -> ReplaySettings:
        """Return the settings of one client, of which nobody need know less than it does itself."""
        learning = self.settings.learning.model_copy(update={"bytes": "auto"})
        return replace(self.settings, learning=learning, min_records=1, aggregation="mean", privacy=PrivacySettings())

    @property
    def _size(self) -> int | None:
        """Return the records of a round of all clients together."""
        return None if self.round_size is None else self.round_size * len(self.logs)

    @cached_property
    def _order(self) -> IntArray:
        """Return the order in which the records came, those of one client after those of another at first."""
        at = row_times(self.table, self.logs)
        when = [np.maximum.accumulate(arrival_times(log, at)) for log in self.logs.values()]
        return np.argsort(np.concatenate(when), kind="stable")

    @cached_property
    def _merged(self) -> Log:
        """Return the records of all clients as those of one."""
        rows, y = (
            np.concatenate(parts)[self._order]
            for parts in zip(*((log.rows, log.y) for log in self.logs.values()), strict=True)
        )
        return Log(rows, y)

    def _by_client(self, merged: FloatArray) -> Misses:
        """Return the errors of the records of one place by client."""
        apart = np.empty(len(merged))
        apart[self._order] = merged
        ends = np.cumsum([len(log.rows) for log in self.logs.values()])
        return dict(zip(self.logs, np.split(apart, ends[:-1]), strict=True))


def check(logs: Mapping[str, Log], settings: ReplaySettings) -> None:
    """Check that there is something to compare.

    Raises
    ------
    UsageError
        There is one client, or labels come later than their records.
    """
    if len(logs) < 2:
        raise UsageError(
            "--compare: there is only one client, and a federation of one is that client alone; give more --clients, "
            "or --split column:NAME"
        )
    if settings.label_delay:
        raise UsageError(
            "--compare works only if labels come with their records; leave out --label-delay or --compare"
        )


def majority(y: FloatArray, labels: tuple[str, ...]) -> FloatArray:
    """Return for each record the label that most records before it had, or the mean of their targets.

    As with NoChange the first one is wrong, in regression 0.

    >>> majority(np.array([1.0, 1.0, 0.0, 0.0, 0.0]), ("a", "b")), majority(np.array([2.0, 4.0, 9.0]), ())
    (array([-1.,  1.,  1.,  1.,  0.]), array([0., 2., 3.]))
    """
    if not labels:
        return np.concatenate([np.zeros(min(1, len(y))), np.cumsum(y)[:-1] / np.arange(1, max(1, len(y)))])
    counts, guesses = np.zeros(len(labels)), np.full(len(y), -1.0)
    for i, label in enumerate(y.astype(np.intp)):
        if i:
            guesses[i] = counts.argmax()
        counts[label] += 1.0
    return guesses


def errors(truth: FloatArray, predicted: FloatArray, *, labels: Sequence[str]) -> FloatArray:
    """Return the error of each prediction: 0 or 1 for labels, absolute for targets, which have none."""
    return (predicted != truth).astype(np.float64) if labels else np.abs(predicted - truth)


def predictions(model: ServedModel, table: Table, rows: IntArray) -> FloatArray:
    """Return what a saved model predicts for rows of a table: indices of its labels, or targets."""
    codes = np.array([table.labels.index(label) for label in model.labels], np.float64)
    found = [np.zeros(0)]
    for at in range(0, len(rows), TOGETHER):
        told = model.predictions(table.features, table.X[rows[at : at + TOGETHER]].astype(np.float64))
        found.append(codes[model.codes_decided(told)] if table.labels else told[:, 0])
    return np.concatenate(found)


def _run(
    table: Table, logs: Mapping[str, Log], settings: ReplaySettings, round_size: int | None
) -> tuple[Misses, ServedModel]:
    """Replay some clients in rounds that keep the order; return their errors, and the model."""
    size, period = usual_rounds(table, logs, round_size, min_records=settings.min_records)
    interval = period if settings.interval is None and len(logs) > 1 else settings.interval
    missed = RecordErrors()
    replay = Replay(table, logs, replace(settings, round_size=size, interval=interval), missed.add)
    model = replay.run().model
    return missed.of(logs), model


def _part(table: Table, name: str, log: Log) -> tuple[Table, dict[str, Log]]:
    """Return the good records of a client as all that there is: what looks at a whole table looks at these alone."""
    rows = log.rows
    times = table.times[rows] if len(table.times) else table.times
    own = replace(table, X=table.X[rows], y=log.y, places=np.arange(len(rows)), times=times, rejected=(), columns={})
    return own, {name: Log(np.arange(len(rows)), log.y)}


def _varied(table: Table) -> Table:
    """Return a table without columns that never change: whoever has these records alone has no such columns.

    Where the column that names the client is a feature, each of its values is one.
    """
    X, first = table.X, table.X[:1]
    varies = ~((first == X) | (np.isnan(X) & np.isnan(first))).all(axis=0)
    names = tuple(name for name, is_kept in zip(table.features, varies, strict=True) if is_kept)
    return replace(table, X=X[:, varies], features=names) if names else table


def _filled(parts: Sequence[FloatArray], records: int) -> FloatArray:
    found = np.concatenate([np.zeros(0), *parts])
    return np.concatenate([found, np.full(records - len(found), np.nan)])
