"""Replays a recorded stream: the state machines of a live federation over the in-memory transport."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np

from streamfl import __version__
from streamfl.arrays import FloatArray
from streamfl.bounds import MOST_DELAY, NAME_BYTES, NAMED, is_name
from streamfl.errors import BrokenInvariantError, PeerError, UsageError
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.learning.profiles.base import Profile
from streamfl.machines.client.intake.period import AGREEING
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.aggregators import AGGREGATORS, Aggregator
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.private.part import OwnPart
from streamfl.protocol.decisions import Answered, Dropped, OverBudget, PostUpdate, Predicted, Refused
from streamfl.protocol.messages import FromCoordinator, LocalDrift, Restarted, RoundClosed
from streamfl.records.table import Table
from streamfl.records.values.cells import listed, quoted
from streamfl.records.values.times import iso
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.delayed import delayed
from streamfl.run.dealing.order import MOST_OF_PERIOD, row_times
from streamfl.run.dealing.source import TableSource
from streamfl.run.evaluation.ahead import Ahead
from streamfl.run.evaluation.by_class import ClassCounts, largest
from streamfl.run.evaluation.changes import Change, Changes, Kind
from streamfl.run.evaluation.epsilon import epsilon
from streamfl.run.evaluation.history import RunHistory
from streamfl.run.evaluation.model_file import FileErrors
from streamfl.run.evaluation.prequential import Prequential
from streamfl.run.evaluation.result import (
    BytesARecord,
    BytesBudget,
    Figures,
    Loss,
    Privacy,
    Result,
)
from streamfl.run.evaluation.source_figures import missing, r2
from streamfl.run.evaluation.target_range import TargetRange
from streamfl.run.evaluation.unlearnt import why_unlearnt
from streamfl.run.model_file import NO_PARTS, ServedModel
from streamfl.run.report.changes import sentence
from streamfl.run.saved.own_files import own_file
from streamfl.run.saved.provenance import Provenance, settings_told
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl.run.summary import RoundLine, RoundSummary
from streamfl.runtime.clock import ManualClock, stopwatch
from streamfl.runtime.log.recorded import Recorded
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode, unobserved
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.runtime.transport.traffic import Traffic
from streamfl.sampling import generator
from streamfl.wire import messages
from streamfl.wire.masking import MaskKeys, expand


@dataclass(frozen=True)
class ReplaySettings:
    """How a recorded stream is replayed."""

    round_size: int = 100  # records per client and round
    # Minimum number of good records in an update; fewer that are left at the end stay pending.
    min_records: int = 10
    seed: int = 0  # seed of all random draws
    # How the federation learns, and how it handles drift; both as they hold with each other.
    learning: LearningSettings = LearningSettings()
    profile: ProfileSettings = ProfileSettings()

    # By how many records of its client a label comes later than its record, at most `MOST_DELAY`. A record is
    # answered when it comes, scored by that answer, and learnt when its label has come. 0 and 1: before the client's
    # next record.
    label_delay: int = 0

    # Seconds of event time in a round, by the times of the table: see `streamfl.machines.client.intake.period`.
    # Without times, rows of the file count as seconds. None: a round takes `round_size` records of each client.
    interval: float | None = None
    scaling: bool = True  # whether features are standardised by the federation
    aggregation: Aggregator = "mean"  # how the differences of models that rounds train are combined
    privacy: PrivacySettings = PrivacySettings()  # what the coordinator may know of the numbers about records
    # Whether predictions are measured: without it the result has no accuracy, and the run is faster.
    measure: bool = True

    # Whether messages are encoded in order to count their bytes: without it the result has no bytes, and the run is
    # faster, since nothing else encodes messages here.
    count_bytes: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "learning", self.learning.resolved_with(self.profile, self.privacy))
        object.__setattr__(self, "profile", self.profile.resolved_with(self.privacy))
        AGGREGATORS.find(self.aggregation)
        if not 0 <= self.label_delay <= MOST_DELAY:
            raise UsageError(f"a label delay of {self.label_delay} records: give 0 to {MOST_DELAY:,}")
        if self.interval is not None and not 0.0 < self.interval < math.inf:
            raise UsageError(f"rounds of {self.interval} seconds: give a time above 0")


Observer = Callable[[FromCoordinator | Refused | Predicted | PostUpdate], None]


@dataclass(frozen=True)
class Replayed:
    """A finished run: its result, its rounds, and the final model."""

    result: Result
    rounds: tuple[RoundLine, ...]
    model: ServedModel


@dataclass
class Replay:
    """A federation over the logs of a table. `history` is what has happened so far.

    Examples
    --------
    >>> from streamfl.run.dealing.dealing import deal
    >>> from streamfl.records.files.readers import read
    >>> table = read("river:Phishing")
    >>> result = Replay(table, deal(table, 2, "round-robin", 0), ReplaySettings(round_size=25)).run().result
    >>> result.rounds, round(result.accuracy.prequential, 3), round(result.accuracy.no_change, 3)
    (25, 0.905, 0.511)
    """

    # The records, and the rows of each client in order.
    table: Table
    logs: Mapping[str, Log]
    settings: ReplaySettings  # how to replay
    observe: Observer = unobserved  # called with every event as it happens
    # The sizes of each client's rounds, if the stream was recorded in rounds; else all have `round_size`.
    sizes: Mapping[str, tuple[int, ...]] | None = None
    # The column whose values the clients are named by, for the model file; empty if there is none.
    client_column: str = ""

    # With labels that come later: what a live federation answered to each record, by client. Those answers count,
    # whatever the delay, and what is learnt is what it learnt.
    answers: Mapping[str, Recorded] = field(default_factory=dict)
    history: RunHistory = field(init=False)
    _traffic: Traffic = field(default_factory=Traffic)
    _machine: Coordinator = field(init=False)
    _clients: dict[str, ClientNode] = field(default_factory=dict)
    _file: FileErrors | None = None
    _changes: Changes = field(init=False)
    _range: TargetRange = field(init=False)
    _ahead: Ahead = field(init=False)

    def __post_init__(self) -> None:
        _check_features(self.table)
        self.settings.learning.check_objective(self.task)
        self._check_costs()
        self.settings.learning.check_budget(self._largest_round)
        settings = self.settings
        settings.privacy.check(settings.learning, settings.profile, self.task, settings.aggregation)
        settings.privacy.check_clients(
            len(self.logs), f"choose --clients {settings.privacy.fewest_clients} or more, or a --split into as many"
        )
        settings.privacy.check_noise(settings.learning, settings.profile, scaling=settings.scaling)
        if settings.privacy.noise:
            epsilon(settings.privacy.noise, 1, settings.privacy.delta)  # what counts it is there
        figures = Prequential(classes=ClassCounts(largest(self._counts())))
        self.history = RunHistory(figures, by_row=not len(self.table.times))
        self._changes = Changes(self.table, self.logs)
        self._ahead = Ahead(self.logs, self._moments)
        self._range = TargetRange(self.logs, self.task == "regression")
        external = self.settings.learning.external_model(self.task)
        if external is not None:
            external.check(self.table.labels)
            self.history.unlearnt = 0

    def _counts(self) -> dict[str, int]:
        """Return how often each label occurs; nothing in regression."""
        labels = self.table.labels
        if not labels:
            return {}
        counts = np.zeros(len(labels), np.int64)
        for log in self.logs.values():
            counts += np.bincount(log.y.astype(np.intp), minlength=len(labels))
        return dict(zip(labels, counts.tolist(), strict=True))

    @property
    def task(self) -> Task:
        """Return the task."""
        return "classification" if self.table.labels else "regression"

    @property
    def horizon(self) -> int:
        """Return the number of rounds of the client with the most records; by event time, of periods with any."""
        if self.settings.interval is not None:
            rows = np.concatenate([log.rows for log in self.logs.values()])
            periods = np.floor(self._seconds[rows] / self.settings.interval)
            return max(1, len(np.unique(periods[~np.isnan(periods)])))
        if self.sizes is not None:
            return max(map(len, self.sizes.values()))
        return max((self._rounds(len(log.rows)) for log in self.logs.values()), default=1)

    def profile(self) -> Profile:
        """Return the profile in its first state."""
        return self.settings.profile.create(self.horizon, self._learner)

    @property
    def _largest_round(self) -> int:
        """Return the records of the largest round of a client."""
        sizes = [self.settings.round_size] if self.sizes is None else [max(each) for each in self.sizes.values()]
        return max(sizes) if self.settings.interval is None else MOST_OF_PERIOD

    def _rounds(self, records: int) -> int:
        """Return the number of rounds for this many records; a remainder of `min_records` or more is a round."""
        whole, rest = divmod(records, self.settings.round_size)
        return whole + (rest >= self.settings.min_records)

    def run(self) -> Replayed:
        """Run the federation over all its records."""
        transport = MemoryTransport(observe=self._traffic.add if self._counts_bytes else None)
        self._machine = self._coordinator()
        if self.history.unlearnt is None:  # a model of others has no file
            self._file = FileErrors(self.table, self.logs, self.horizon, self._model, self._known)
        coordinator = CoordinatorNode(self._machine, transport.coordinator(), self._handle)
        self._clients = {name: self._client(name, transport) for name in self.logs}
        clients = list(self._clients.values())
        began = stopwatch()
        coordinator.start(0.0)
        run([*clients, coordinator], ManualClock())
        seconds = stopwatch() - began
        result = self._result(coordinator.machine.state, seconds, [node.machine for node in clients])
        model = replace(self._model(), provenance=self._provenance(result))
        return Replayed(result, tuple(self.history.rounds), model)

    def _observe_client(self, event: Answered | Predicted | PostUpdate | Dropped | OverBudget) -> None:
        match event:
            case Dropped():  # no other process could have caused it
                raise event.error
            case OverBudget():  # the client counts them
                pass
            case Answered():  # how right it was is told once the labels have come
                self._ahead.predicted(event.client, event.batch.span.start, event.batch.span.end)
                self.history.unanswered += 0 if event.predictions.shape[1] else len(event.batch)
            case _:
                self._handle(event)

    @cached_property
    def _times(self) -> FloatArray | None:
        """Return the time of each record of the table, in seconds.

        Without times the row counts as the second, where clients have different numbers of records: one drift then
        reaches them in different rounds, and the row alone tells that it is one.
        """
        if len(self.table.times) or self.settings.interval is not None:
            return self._seconds
        lengths = [len(log) for log in self.logs.values()]
        if self.sizes is not None or max(lengths, default=0) - min(lengths, default=0) <= 1:
            return None
        return self._seconds

    @cached_property
    def _seconds(self) -> FloatArray:
        """Return the time of each record of the table, or its row."""
        return self.table.times if len(self.table.times) else self.table.places.astype(np.float64)

    @cached_property
    def _moments(self) -> FloatArray:
        """Return what tells the order in which the records of the table came."""
        return row_times(self.table, self.logs)

    def _check_costs(self) -> None:
        """Refuse prices of labels that no record has."""
        others = [label for label in self.settings.learning.costs if label not in self.table.labels]
        if others:
            known = listed(self.table.labels)
            raise UsageError(f"costs: no label is called {quoted(others[0])}; the labels are {known}")

    def _time_of(self, closed: RoundSummary) -> str | None:
        times = self.table.times
        if not len(times):
            return None
        ends = [(self.logs[span.partition], span.end) for one in closed.accepted for span in one.spans]
        last = [times[log.rows[: log.good_before(end)][-1:]] for log, end in ends]
        known = [float(time) for time in np.concatenate([np.empty(0), *last]) if not math.isnan(time)]
        return iso(max(known)) if known else None

    def _handle(self, event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
        if isinstance(event, Refused):  # nothing is late or lost here, so it would be sent and refused for ever
            raise PeerError(f"the update of client {event.client} was refused: {event.reason}")
        match event:
            case RoundClosed():
                closed = RoundSummary.of(event, targets=self.task == "regression")
                self.history.close(closed, self._time_of(closed))
                self._ahead.learnt([span for accepted in closed.accepted for span in accepted.spans])
                self._changes.closed(closed)
                self._range.take(closed)
                if self._file is not None:
                    self._file.closed(closed.round)
            case _:
                self.history.add(event)
        match event:
            case Restarted() | LocalDrift(state="latched"):
                self.history.changes.append(self._change(event))
            case _:
                pass
        if isinstance(event, Predicted):
            self._note_predicted(event)
        self.observe(event)

    def _note_predicted(self, event: Predicted) -> None:
        if self._file is not None:
            self._file.add(event)
        if not self.settings.label_delay:  # else they were answered before
            for span in event.spans:
                self._ahead.predicted(span.partition, span.start, span.end)

    def _change(self, event: Restarted | LocalDrift) -> Change:
        """Return what is known of a restart or a local drift."""
        kind: Kind = "restart" if isinstance(event, Restarted) else "local drift"
        change = self._changes.found(kind, event.round, event.since, event.clients)
        told = self.history.restarts[-1] if isinstance(event, Restarted) else self.history.local_drifts[-1]
        text = sentence(told, clients=len(self.logs), moved=change.moved)
        return change.model_copy(update={"sentence": text})

    @property
    def _is_alone(self) -> bool:
        """Tell whether there is one client, and nothing asks for what it would send to others."""
        settings = self.settings
        plain = settings.privacy.secure_aggregation == "off" and settings.learning.bytes == "auto"
        return plain and len(self.logs) == 1

    @cached_property
    def _learner(self) -> Learner:
        """Return how all learn."""
        learner = self.settings.learning.learner(self.task, self.settings.seed)
        return learner.alone() if self._is_alone else learner

    def _coordinator(self) -> Coordinator:
        settings = self.settings
        return Coordinator(
            CoordinatorSettings(
                learner=self._learner,
                min_clients=len(self.logs),
                round_size=None
                if self.sizes or settings.interval
                else max(settings.round_size, settings.min_records),
                task=self.task,
                scaling=settings.scaling,
                objective=settings.learning.objective_chosen,
                aggregation=settings.aggregation,
                by_event_time=settings.interval is not None,
                secure_aggregation=settings.privacy.secure_aggregation,
                min_clients_per_sum=settings.privacy.min_clients_per_sum,
                noise=settings.privacy.mechanism,
                expand=expand,
                alone=self._is_alone,
            ),
            CoordinatorState(self.profile()),
        )

    @cached_property
    def _of_clients(self) -> Learner:
        """Return how all clients learn: what is the same at all of them they have once."""
        return self._learner.in_one_process()

    def _client(self, name: str, transport: MemoryTransport) -> ClientNode:
        settings = self.settings
        machine = Client(
            ClientSettings(
                learner=self._of_clients,
                round_size=self.sizes[name] if self.sizes else settings.round_size,
                min_records=settings.min_records,
                measure=settings.measure,
                window=self._window(name) if settings.label_delay else None,
                clock="records" if settings.interval is None else "event_time",
                period=settings.interval or 1.0,
                capacity=None if settings.interval is None else MOST_OF_PERIOD,
                budget=settings.learning.budget(messages.size),
                secure_aggregation=settings.privacy.secure_aggregation,
                min_clients_per_sum=settings.privacy.min_clients_per_sum,
                noise=settings.privacy.mechanism,
                waits=False,
            ),
            name,
            nonce="0",
            secrets=self._secrets(name),
        )
        source = TableSource(self.table, name, self.logs[name], self._times)
        until = None if settings.interval is None else partial(self._labels_due, name)
        read = (
            delayed(source, settings.label_delay, self.answers.get(name), until) if settings.label_delay else source
        )
        return ClientNode(machine, read, transport.client(name), self._observe_client)

    def _labels_due(self, name: str) -> int:
        """Return how many labels of a client show that the open period is over: more are for later rounds.

        If it read all that it has room for, it would answer most records before anything was learnt.
        """
        log, period = self.logs[name], self._machine.state.period
        if period is None or self.settings.interval is None:
            return max(self.settings.min_records, AGREEING)
        later = np.flatnonzero(self._seconds[log.rows] >= (period + 1) * self.settings.interval)[AGREEING - 1 :]
        return int(later[0]) + 1 + len(log.rejected) if len(later) else len(log)

    def _secrets(self, name: str) -> MaskKeys | None:
        """Return the keys of a client's masks and noise: in one process they follow from the seed."""
        if self.settings.privacy.secure_aggregation == "off":
            return None
        return MaskKeys(generator(self.settings.seed, "secrets", name).bytes(64))

    def _window(self, name: str) -> int:
        """Return how far from the mark a round may look for a record: no record is kept for longer.

        All bad records of a client may lie in one of its rounds.
        """
        size = max(self._largest_round, self.settings.min_records)
        return self.settings.label_delay + 2 * size + len(self.logs[name].rejected)

    def _known(self) -> dict[str, OwnPart]:
        """Return what each client alone knows now."""
        online = ((name, node.machine.online_models) for name, node in self._clients.items())
        return {name: one.own_part() for name, one in online if isinstance(one, NativeAtClient)}

    def save_own_models(self, replayed: Replayed, folder: Path) -> None:
        """Write the own file of each client to a folder, after the run.

        Raises
        ------
        UsageError
            One cannot be written.
        """
        figures, made = replayed.result.accuracy or replayed.result.mae, replayed.model.provenance
        if made is not None and figures is not None:
            made = replace(made, file=figures.own_file)
        for name, part in self._known().items():
            replace(self._model({name: part}), provenance=made).save(own_file(folder, name))

    def _model(self, own_parts: Mapping[str, OwnPart] = NO_PARTS) -> ServedModel:
        """Return the model as it serves now; of a model of others, the one that detects drift."""
        return ServedModel.of(
            self._machine,
            self.settings.learning,
            own_parts,
            categories=dict(self.table.categories),
            label=self.table.label,
            left_out=(*self.table.left_out, *self.table.excluded, *self._without_a_value()),
            client_column=self.client_column,
            missing_values=self.table.missing_values,
            codes=dict(self.table.codes),
            units=dict(self.table.units),
            time_features=self.table.time_features,
            past=self.table.past,
            extremes=self._range.extremes,
        )

    def _without_a_value(self) -> list[str]:
        """Return the columns of the file that never became features, as no learnt record has a value there."""
        known = {*self._machine.serving()[0].features}
        return [name for name in self.table.features if name not in known]

    def _figures(self, measure: Literal["accuracy", "mae", "rmse"]) -> Figures:
        """Return a metric of all predictors, that of the model file among them."""
        figures: Figures = getattr(self.history.figures, measure)()
        if self._file is None:
            return figures
        files = {"model_file": self._file.errors, "own_file": self._file.of_own, "last_rounds": self._file.served}
        return figures.model_copy(update={name: getattr(errors, measure) for name, errors in files.items()})

    def _provenance(self, result: Result) -> Provenance:
        settings, state = self.settings, self._machine.state
        figures, measure = (result.accuracy, "accuracy") if result.accuracy else (result.mae, "mae")
        return Provenance(
            version=__version__,
            source=result.source,
            entry=state.entry - 1,
            epoch=state.profile.epoch,
            records=result.accepted,
            clients=result.clients,
            rounds=result.rounds,
            sha256=result.model_sha256,
            settings=settings_told(
                settings.learning,
                settings.profile,
                round_size=settings.round_size,
                min_records=settings.min_records,
                seed=settings.seed,
                scaling=settings.scaling,
                label_delay=settings.label_delay,
            ),
            measure="accuracy" if measure == "accuracy" else "mae",
            file=figures.model_file if figures else None,
            served=figures.last_rounds if figures else None,
            privacy="none" if result.privacy is None else result.privacy.secure_aggregation,
            epsilon=None if result.privacy is None else result.privacy.epsilon,
            delta=None if result.privacy is None else result.privacy.delta,
            **({} if result.bytes is None else result.bytes.model_dump()),
        )

    @property
    def _counts_bytes(self) -> bool:
        """Tell whether there are messages whose bytes are wanted."""
        return self.settings.count_bytes and not self._is_alone

    def _bytes(self) -> BytesARecord | None:
        """Return the bytes of messages and of raw features, a record; None without messages, or if not counted."""
        if not self._counts_bytes:
            return None
        up, down = self._traffic.bytes_per_record
        return BytesARecord(up=round(up, 1), down=round(down, 1), raw=4.0 * len(self.table.features))

    def _in_time(self, clients: Sequence[Client]) -> dict[str, int | None]:
        """Return what the result tells of records that were answered where they are, of the order, of late labels."""
        ahead = self._ahead.most if self.settings.measure and not self.answers else None
        answered = sum(client.answered for client in clients)
        return {"answered": answered, "ahead": ahead, **self._late_labels(clients)}

    def _late_labels(self, clients: Sequence[Client]) -> dict[str, int]:
        """Return what the result tells of labels that come later than their records; nothing if they do not."""
        if not self.settings.label_delay:
            return {}
        return {
            "label_delay": self.settings.label_delay,
            "unanswered": self.history.unanswered + sum(one.unanswered for one in self.answers.values()),
            "waiting": sum(client.intake.waiting for client in clients),
            "expired": sum(client.expired for client in clients),
        }

    def _budget(self, clients: Sequence[Client]) -> BytesBudget | None:
        """Return the budget of updates, and how it was kept."""
        budget = self.settings.learning.budget(messages.size)
        if budget is None:
            return None
        return BytesBudget(
            a_record=budget.of(1, len(self.table.features)),
            coarser=sum(client.made_coarser for client in clients),
            exceeded=sum(client.over_budget for client in clients),
        )

    def _privacy(self, clients: Sequence[Client]) -> Privacy | None:
        """Return what was told of records; None if all that clients sent was seen."""
        chosen = self.settings.privacy
        if chosen.secure_aggregation == "off":
            return None
        if not chosen.noise:
            return Privacy(
                secure_aggregation=chosen.secure_aggregation, min_clients_per_sum=chosen.min_clients_per_sum
            )
        told = max(1, *(client.releases for client in clients))
        return Privacy(
            secure_aggregation=chosen.secure_aggregation,
            min_clients_per_sum=chosen.min_clients_per_sum,
            noise=chosen.noise,
            radius=chosen.radius,
            messages=told,
            epsilon=epsilon(chosen.noise, told, chosen.delta),
            delta=chosen.delta,
        )

    def _why_unlearnt(self) -> str | None:
        rows = next(log.rows for log in self.logs.values() if len(log.rows))
        return why_unlearnt(self.settings.learning.external_model(self.task), self.table, rows)

    def _unread(self, client: Client) -> int:
        """Return the records of a client that has left because too few others were left to mask its sums."""
        log = self.logs[client.name]
        return len(log) - (client.accounted or 0) - client.pending if client.has_too_few_peers else 0

    def _counted(self, clients: Sequence[Client]) -> tuple[int, int]:
        """Return the records read, and those of them that no entry names yet; every other one is in one entry."""
        history = self.history
        pending = sum(client.pending + self._unread(client) for client in clients)
        records = sum(map(len, self.logs.values()))
        if records != history.accepted + history.rejected + pending:
            raise BrokenInvariantError(
                f"{records} read, {history.accepted} accepted, {history.rejected} rejected, {pending} pending"
            )
        return records, pending

    def _result(self, state: CoordinatorState, seconds: float, clients: Sequence[Client]) -> Result:
        history = self.history
        records, pending = self._counted(clients)
        classes = self.task == "classification"
        rmse = None if classes else self._figures("rmse")
        return Result(
            streamfl=__version__,
            source=self.table.name,
            label=self.table.label,
            left_out=self.table.left_out,
            seed=self.settings.seed,
            profile=self.settings.profile.profile,
            records=records,
            accepted=history.accepted,
            held_out=history.accepted - history.trained,
            rejected=history.rejected,
            pending=pending,
            infinite=self.table.infinite,
            missing=missing(self.table),
            **self._in_time(clients),
            rounds=len(history.rounds),
            clients=len(self.logs),
            seconds=round(seconds, 3),
            records_per_second=round(records / seconds) if seconds > 0.0 else 0,
            bytes=self._bytes(),
            budget=self._budget(clients),
            privacy=self._privacy(clients),
            accuracy=self._figures("accuracy") if classes else None,
            kappa=history.figures.kappa() if classes else None,
            objective=None if (chosen := self.settings.learning.objective) == "accuracy" else chosen,
            mae=None if classes else self._figures("mae"),
            rmse=rmse,
            r2=None if rmse is None else r2(rmse.prequential, self.table.y),
            interval=history.figures.interval() if self.settings.label_delay == 0 else None,
            loss=Loss(prequential=history.mean_loss()),
            by_client=history.figures.by_client("accuracy" if classes else "mae"),
            by_class=history.figures.by_class() if classes else None,
            restarts=tuple(history.restarts),
            local_drifts=tuple(history.local_drifts),
            changes=tuple(history.changes),
            inputs_moved=tuple(history.inputs_moved),
            inputs_stuck=tuple(history.inputs_stuck),
            notices=tuple(history.notices),
            promotions=history.promotions,
            serving=history.serving(),
            unlearnt=history.unlearnt,
            unlearnt_reason=self._why_unlearnt() if 0 < history.accepted == history.unlearnt else None,
            model_sha256=history.model,
            per_round=tuple(history.rounds),
        )


def _check_features(table: Table) -> None:
    """Check the number of features and the length of their names.

    Raises
    ------
    UsageError
        There are too many features, or a name is too long.
    """
    d = len(table.features)
    if d > NAMED.features:
        raise UsageError(
            f"{table.name}: {d} features, but a federation takes at most {NAMED.features}; "
            "leave some out with --drop, or hash them into fewer"
        )
    if long := [name for name in table.features if not is_name(name)]:
        raise UsageError(
            f"{table.name}: the name of a feature has more than {NAME_BYTES} bytes: {quoted(long[0])}; shorten it"
        )
