"""`streamfl produce`: write a recorded stream to the topics that the clients of a live federation read."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from streamfl.errors import UsageError
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.stopping import Stop
from streamfl.records.formats import FieldMap, JsonRecords, Packed
from streamfl.records.formats.packed_layout import Task
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.order import arrival_times, row_times
from streamfl.runtime.ports import Connector, Placement, RecordWriter

# Records per packed message.
PACK = 64

# Seconds ahead of the rate before a wait: shorter sleeps are not accurate.
BEAT = 0.05

Encode = Callable[[str, slice], bytes]


@dataclass(frozen=True)
class Production:
    """The records to write, and the rate."""

    # The records, and by client which of them it gets, in order.
    table: Table
    logs: Mapping[str, Log]
    rate: float | None = None  # records a second in all; None is as fast as possible
    limit: int | None = None  # the most records in all; None is all
    end: bool = False  # whether to mark the end of every stream
    unlabelled: bool = False  # whether to write them without their labels, to the first topic of `[score]`
    # How many records of a client later a label is written, to the topics of `[labels]`; None: with its record.
    label_delay: int | None = None
    run: str = "0"  # if labels come later: what ids begin with, so that those of two runs differ

    @property
    def records(self) -> int:
        """Count the records that will be written: the good ones of the file."""
        every = sum(len(log.rows) for log in self.logs.values())
        return every if self.limit is None else min(every, self.limit)

    def messages(self, pack: int) -> Iterator[tuple[str, slice]]:
        """Yield the client and the slice of records of each message, in the order in which its last record came.

        >>> table = Table("t", ("a",), np.zeros((5, 1)), np.zeros(5), ("x",), np.arange(5))
        >>> logs = {"c0": Log(np.array([0, 2, 4]), np.zeros(3)), "c1": Log(np.array([1, 3]), np.zeros(2))}
        >>> [(client, part.start, part.stop) for client, part in Production(table, logs).messages(pack=2)]
        [('c0', 0, 2), ('c1', 0, 2), ('c0', 2, 3)]
        """
        left, at, clients = self.records, row_times(self.table, self.logs), list(self.logs)
        ends = [np.arange(pack, len(log.rows) + pack, pack).clip(max=len(log.rows)) for log in self.logs.values()]
        last = [arrival_times(log, at)[end - 1] for log, end in zip(self.logs.values(), ends, strict=True)]
        owners = np.repeat(np.arange(len(clients)), [len(end) for end in ends])
        stops, moment = np.concatenate([[0], *ends])[1:], np.concatenate([[0.0], *last])[1:]
        for i in np.lexsort((owners, moment)).tolist():
            stop = int(stops[i])
            start = (stop - 1) // pack * pack
            n = min(stop - start, left)
            if n > 0:
                left -= n
                yield clients[owners[i]], slice(start, start + n)


def produce(
    settings: FederationSettings,
    connector: Connector,
    production: Production,
    stop: Stop,
    progress: Callable[[int], None],
) -> int:
    """Write the records and return how many were written; it ends early if stopped.

    Raises
    ------
    UsageError
        The topics or the settings do not fit the records.
    """
    encode, pack = _encoder(settings, production)
    writer: _Writer = (
        _Whole(connector.writer(_placement(settings, production), list(production.logs)), encode)
        if production.label_delay is None
        else _halves(settings, connector, production)
    )
    written, began = 0, time.monotonic()
    for client, part in production.messages(pack):
        if stop.requested:
            break
        writer.write(client, part)
        written += part.stop - part.start
        progress(part.stop - part.start)
        _keep_to(production.rate, written, began)
    writer.finish(end=production.end and not stop.requested)
    return written


class _Writer(Protocol):
    def write(self, client: str, part: slice) -> None:
        """Write some records of a client."""
        ...

    def finish(self, *, end: bool) -> None:
        """Write what is left, and the end of every stream if that is wanted."""
        ...


@dataclass
class _Whole:
    """Writes records with their labels, or without any."""

    records: RecordWriter
    encode: Encode

    def write(self, client: str, part: slice) -> None:
        self.records.write(client, self.encode(client, part))

    def finish(self, *, end: bool) -> None:
        _finish(self.records, end=end)


@dataclass
class _Halves:
    """Writes features under a running number, and each label so many records of its client later."""

    features: RecordWriter
    labels: RecordWriter
    production: Production
    feature_form: JsonRecords
    label_form: JsonRecords
    later: int
    _number: int = 0
    _unwritten: dict[str, deque[tuple[str, str | float]]] = field(default_factory=dict)

    def write(self, client: str, part: slice) -> None:
        table, log, at = self.production.table, self.production.logs[client], part.start
        key, self._number = f"{self.production.run}-{self._number}", self._number + 1
        X = table.X[log.rows[at]].astype(np.float64)
        self.features.write(client, self.feature_form.encode(table.features, X, 0.0, client=client, key=key))
        left = self._unwritten.setdefault(client, deque())
        left.append((key, _label(table, log, at)))
        if len(left) > self.later:
            self._write_label(client)

    def _write_label(self, client: str) -> None:
        key, label = self._unwritten[client].popleft()
        self.labels.write(client, self.label_form.encode((), [], label, key=key))

    def finish(self, *, end: bool) -> None:
        for client, left in self._unwritten.items():
            while left:
                self._write_label(client)
        _finish(self.features, end=end)
        _finish(self.labels, end=end)


def _halves(settings: FederationSettings, connector: Connector, production: Production) -> _Halves:
    delayed_labels, clients = settings.delayed_labels, list(production.logs)
    if delayed_labels is None or production.unlabelled:
        raise UsageError(
            "--label-delay writes labels to the topics of [labels]; set topic there, and leave out --unlabelled"
        )
    return _Halves(
        connector.writer(settings.placement, clients),
        connector.writer(delayed_labels.placement, clients),
        production,
        JsonRecords(settings.feature_map),
        JsonRecords(settings.label_map),
        production.label_delay or 0,
    )


def _label(table: Table, log: Log, at: int) -> str | float:
    y = log.y[at]
    return table.labels[int(y)] if table.labels else float(y)


def _placement(settings: FederationSettings, production: Production) -> Placement:
    if not production.unlabelled:
        return settings.placement
    if not settings.score.topics:
        raise UsageError("records without labels go to the first topic of [score]; set topics there")
    return Placement(settings.score.topics[:1], by="message-key")


def _keep_to(rate: float | None, written: int, began: float) -> None:
    ahead = 0.0 if rate is None else written / rate - (time.monotonic() - began)
    if ahead > BEAT:
        time.sleep(ahead)


def _finish(writer: RecordWriter, *, end: bool) -> None:
    if end:
        writer.end()
    writer.close()


def _encoder(settings: FederationSettings, production: Production) -> tuple[Encode, int]:
    table, logs = production.table, production.logs
    if bool(table.labels) != (settings.federation.task == "classification"):
        kind = "labels" if table.labels else "targets"
        raise UsageError(
            f"{table.name} has {kind}, but task in [federation] is {settings.federation.task}; correct it"
        )
    fields = settings.field_map
    if production.unlabelled:
        fields = fields.model_copy(update={"task": "unlabelled"})
    if settings.records.format == "packed":
        return _packed(table, logs, fields.task), PACK
    return _json(table, logs, fields, by_row=settings.rounds.clock == "event_time"), 1


def _json(table: Table, logs: Mapping[str, Log], fields: FieldMap, *, by_row: bool) -> Encode:
    """Return what encodes a record; `by_row`: rows of a file without times count as seconds, as in a replay."""
    form, times = JsonRecords(fields), table.times
    if by_row and not len(times):
        times = table.places.astype(np.float64)

    def encode(client: str, part: slice) -> bytes:
        log = logs[client]
        X = table.X[log.rows[part.start]].astype(np.float64)
        time = float(times[log.rows[part.start]]) if len(times) else None
        return form.encode(table.features, X, _label(table, log, part.start), client=client, time=time)

    return encode


def _packed(table: Table, logs: Mapping[str, Log], task: Task) -> Encode:
    form = Packed(task)

    def encode(client: str, part: slice) -> bytes:
        log = logs[client]
        X = table.X[log.rows[part]].astype(np.float64)
        return form.encode(table.features, X, log.y[part], table.labels)

    return encode
