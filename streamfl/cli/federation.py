"""A federation in a program: its coordinator and its clients, or a process of one on a log, by the same functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import structlog
from pydantic import ValidationError

from streamfl.arrays import FloatArray
from streamfl.bounds import NAME_BYTES, REACH, is_name
from streamfl.errors import UsageError
from streamfl.live.client import serve_clients
from streamfl.live.host_node import HostNode
from streamfl.live.identity import signatures
from streamfl.live.metrics.logs import configure, warnings_alone
from streamfl.live.model_out import shared_model
from streamfl.live.score import serve_scores
from streamfl.live.settings.connectors import connect
from streamfl.live.settings.loading import load
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.validation import first_of
from streamfl.live.stopping import Stop, stopped_by_signals
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.printable import printable
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import FromCoordinator, LocalDrift, Restarted, RoundClosed
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule, named
from streamfl.protocol.records import Batch, Span, without_infinity
from streamfl.records.doubts.doubting import DoubtingOnce, Looks
from streamfl.records.formats.own import Deserialize, Features, OwnRecords
from streamfl.records.formats.unframed import UnreadableError, as_json
from streamfl.records.formats.with_time_features import timed
from streamfl.records.objects import Record, is_one, several
from streamfl.records.past_source import SourceWithPast
from streamfl.records.values.cells import quoted
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart
from streamfl.run.model_file import ServedModel
from streamfl.run.report.changes import DatedDrift, sentence
from streamfl.run.summary import RoundSummary
from streamfl.runtime.clock import SystemClock
from streamfl.runtime.loop import settle
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.ports import Clock, RecordFormat
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.runtime.transport.memory_host import MemoryHost

if TYPE_CHECKING:
    import polars as pl

    Frame = pl.DataFrame

# Bytes of a client's name: that of its partition is longer by "/0".
LONGEST_NAME = NAME_BYTES - len("/0")

# What becomes of the records of a client that has failed.
FORGOTTEN = "its records that were not learnt are forgotten"

Process = Literal["client", "score"]


class Federation:
    """A federation in your program, with the settings and functions of one on a log.

    Give it the records of each client, and ask it for predictions. Rounds close as `[rounds]` says: by numbers of
    records, or by time. Then call `step` now and then; a test moves a `streamfl.ManualClock`.

    Parameters
    ----------
    settings
        A settings file, or its tables as dicts. `[records] topics` and the connector's section may be missing in
        dicts: they matter to `run` alone.
    deserialize
        Returns what a message holds. None: a JSON object.
    features
        Returns the fields of that, or of a dict, as a dict. `[records.fields]` says which of them is the label.
    on_round
        Called with the numbers of each closed round, once it is closed.
    on_drift
        Called with a sentence about each drift, and the finding itself.
    clock
        The time, in seconds. None: that of this machine.

    Raises
    ------
    UsageError
        The settings cannot be used, or labels come later than their records, which needs a log.

    Examples
    --------
    >>> import streamfl
    >>> tables = {
    ...     "federation": {"min_clients": 2},
    ...     "rounds": {"clock": "records", "size": 20},
    ...     "records": {"fields": {"label": "state"}},
    ... }
    >>> federation = streamfl.Federation(tables, on_round=lambda line: print(line.round, line.records, line.accuracy))
    >>> for i in range(40):
    ...     for site in ("east", "west"):
    ...         federation.learn(site, {"t": float(i % 7), "state": "hot" if i % 7 > 3 else "cold"})
    1 40 0.8
    2 40 1.0
    >>> federation.predict("east", {"t": 6.0}), federation.predict("east", [{"t": 0.0}, {"t": 5.0}])
    ('hot', ['cold', 'hot'])
    """

    def __init__(
        self,
        settings: str | Path | Mapping[str, Any],
        *,
        deserialize: Deserialize | None = None,
        features: Features | None = None,
        on_round: Callable[[RoundSummary], None] | None = None,
        on_drift: Callable[[str, DatedDrift], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = _settings(settings)
        self._functions = deserialize, features
        self._on_round, self._on_drift = on_round, on_drift
        self._clock = SystemClock() if clock is None else clock
        self._events: list[FromCoordinator] = []
        self._asked = self._reader(unlabelled=True)
        own = _by_client(self._settings)
        transport = MemoryTransport()
        self._host = MemoryHost(
            transport, DoubtingOnce(self._reader(), Looks(own.field_map)), keep=0 if own.past is None else REACH
        )
        self._stop = Stop()
        self._node = HostNode(
            self._host, own.client_machine, self._stop, own.client.stop_within, until_end=False, past=own.past
        )
        machine = Coordinator(own.coordinator_machine, own.first_state())
        self._coordinator = CoordinatorNode(machine, transport.coordinator(), self._observe)
        self._coordinator.start(self._clock.now())

    @property
    def rejected(self) -> Sequence[tuple[str, int, str]]:
        """The last 100 records that could not be used: the client, the number of its record, and the reason."""
        return tuple(self._host.rejected)

    @property
    def failed(self) -> Mapping[str, str]:
        """The clients that have stopped, with the reason; records that they have not learnt are forgotten."""
        return {client: f"{reason}; {FORGOTTEN}" for client, reason in self._node.failed.items()}

    def learn(self, client: str, records: "Record | Iterable[Record] | Frame") -> None:
        """Give a client its next records. They count in the round that takes them.

        Parameters
        ----------
        client
            Its name, of 1 to 254 bytes. A new one joins. Records of one that has `failed` are forgotten.
        records
            A dict, a message, several of them, or a data frame. A record without a label is rejected.

        Raises
        ------
        UsageError
            A dict has a value that no message can hold, or a record is neither a dict nor a message. Or the client
            cannot join: it has no such name, or there are `most_clients` already.
        """
        self._check(client)
        self._host.append(client, list(map(self._message, several(records))), self._clock.now())
        self.step()

    def predict(self, client: str, records: "Record | Iterable[Record] | Frame") -> Any:
        """Return the label, or the target, that a client predicts for a record; for several, a list.

        With `lags` or a `window`, the records follow those that the client has learnt, one after another.
        It is None before the federation has a model, and for a record that cannot be read. Nothing is learnt.
        """
        answers, labels = self._answers(client, list(several(records)))
        node = self._node_of(client)
        rule = LIKELIEST if node is None else node.machine.decision
        found = [None if p is None else self._decided(p, labels, rule) for p in answers]
        return found[0] if is_one(records) else found

    def _decided(self, p: FloatArray, labels: tuple[str, ...], rule: DecisionRule) -> str | float | None:
        if self._settings.federation.task == "regression":
            return float(p[0])
        return named(rule.label_indices(p[None], labels), labels)[0]

    def probabilities(self, client: str, records: "Record | Iterable[Record] | Frame") -> Any:
        """Return the probability of each label, as `predict` returns labels."""
        answers, labels = self._answers(client, list(several(records)))
        found = [None if p is None else dict(zip(labels, p.tolist(), strict=True)) for p in answers]
        return found[0] if is_one(records) else found

    def model(self) -> ServedModel:
        """Return the model that all clients share, as `streamfl coordinator --model-out` saves it.

        Raises
        ------
        UsageError
            No round was opened yet, or the model is not one of streamfl's own.
        """
        if self._coordinator.machine.state.agreement is None:
            raise UsageError("there is no model yet; it comes when the first round opens")
        return shared_model(self._coordinator.machine, self._settings)

    def step(self) -> None:
        """Do what is due: rounds that end by a time, and deadlines. `learn` does it as well."""
        with warnings_alone():
            settle([self._node, self._coordinator], self._clock)
            self._node.settle()
        for client in self._node.failed:
            self._host.forget(client)
        events, self._events = self._events, []
        for event in events:
            self._call(event)

    def run(self, process: Process = "client", *, until_end: bool = False) -> None:
        """Run a process of this federation on its log until it is stopped; it reads messages by the same functions.

        Ctrl-C stops it, so call it in the main thread.

        Parameters
        ----------
        process
            `client`: as `streamfl client`. `score`: as `streamfl score`, for records without labels.
        until_end
            Whether clients end when their records end.

        Raises
        ------
        UsageError, PeerError
            As of these commands.
        """
        settings = self._settings
        if not structlog.is_configured():
            configure(settings.logs.level, settings.logs.form)
        connector = connect(settings, signatures(settings, "client" if process == "client" else "reader"))
        with stopped_by_signals() as stop:
            if process == "score":
                serve_scores(settings, connector, stop, self._asked.fresh())
            else:
                serve_clients(settings, connector, stop, until_end=until_end, records=self._reader())

    def _check(self, client: object) -> None:
        """Refuse a client that cannot join: its records would wait for ever."""
        if not isinstance(client, str) or not client or not is_name(client, LONGEST_NAME):
            raise UsageError(
                f"a client's name is a text of 1 to {LONGEST_NAME} bytes, not {printable(repr(client)[:40])}"
            )
        most = self._settings.federation.most_clients
        if client not in self._node.nodes and len(self._node.nodes) >= most:
            raise UsageError(f"client {quoted(client)}: there are {most} already; raise most_clients in [federation]")

    def _reader(self, *, unlabelled: bool = False) -> RecordFormat:
        fields, limits = self._settings.field_map, self._settings.read_limits
        if unlabelled:
            fields = fields.model_copy(update={"task": "unlabelled", "labels": ()})
        return timed(OwnRecords(fields, limits, *self._functions), fields)

    def _message(self, record: Record) -> bytes:
        """Return a record as a message that `_reader` reads."""
        if isinstance(record, bytes):
            return record
        if not isinstance(record, Mapping):
            raise UsageError(f"a record is a dict or a message in bytes, not a {type(record).__name__}")
        try:
            return as_json(record)
        except UnreadableError as error:
            raise UsageError(f"the record has {error}, which no field can hold; leave it out, or give text") from None

    def _answers(self, client: str, records: Sequence[Record]) -> tuple[list[FloatArray | None], tuple[str, ...]]:
        """Return what a client answers to each record, None where it cannot, and the labels."""
        answers: list[FloatArray | None] = [None] * len(records)
        found = self._asked.decode(range(len(records)), list(map(self._message, records)))
        n, node = len(found.positions), self._node_of(client)
        if node is None or not n:
            return answers, ()
        features, (X, _) = found.features, without_infinity(found.X)
        if isinstance(node.source, SourceWithPast):
            features, X = node.source.next_of(f"{client}/0", features, X)
        P, labels = node.machine.answer(Batch(Span("", 0, n), np.arange(n), features, X, np.zeros(n)))
        if P.shape[1]:
            for i, answer in zip(found.positions.tolist(), P, strict=True):
                answers[i] = answer
        return answers, labels

    def _node_of(self, client: str) -> ClientNode | None:
        """Return the node that answers a client: its own, or else the first one."""
        return self._node.nodes.get(client) or next(iter(self._node.nodes.values()), None)

    def _observe(self, event: FromCoordinator | Refused) -> None:
        if isinstance(event, RoundClosed | Restarted | LocalDrift):
            self._events.append(event)

    def _call(self, event: FromCoordinator) -> None:
        """Call what the program wants to hear; an error of it stops no node, since all have been stepped."""
        match event:
            case RoundClosed() if event.records and self._on_round is not None:
                is_regression = self._settings.federation.task == "regression"
                self._on_round(RoundSummary.of(event, targets=is_regression))
            case Restarted() if self._on_drift is not None:
                self._tell(DatedRestart.of(event))
            case LocalDrift(state="latched") if self._on_drift is not None:
                self._tell(DatedLocalDrift.of(event))
            case _:
                pass

    def _tell(self, found: DatedDrift) -> None:
        if self._on_drift is not None:
            self._on_drift(sentence(found, clients=len(self._node.nodes)), found)


def _settings(given: str | Path | Mapping[str, Any]) -> FederationSettings:
    if not isinstance(given, Mapping):
        settings = load(Path(given))
    else:
        tables = {**given, "records": {"topics": ("records-*",), **given.get("records", {})}}
        try:
            settings = FederationSettings(**tables)
        except ValidationError as error:
            raise UsageError(f"the settings cannot be used: {first_of(error, FederationSettings)}") from None
    if settings.labels.topic:
        raise UsageError("[labels] topic: labels that come later than their records need a log; leave it out here")
    return settings


def _by_client(settings: FederationSettings) -> FederationSettings:
    """Return settings in which each client has a partition of its own, whatever the topics are."""
    records = settings.records.model_copy(update={"topics": ("*",), "clients": "topic"})
    return settings.model_copy(update={"records": records})
