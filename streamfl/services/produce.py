"""`streamfl produce`: write a recorded stream to the topics that the clients of a live federation read."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from streamfl.core.errors import UsageError
from streamfl.formats import FieldMap, JsonRecords, Packed
from streamfl.ports import Connector, RecordWriter
from streamfl.services.settings import FederationSettings
from streamfl.services.stopping import Stop
from streamfl.streams.dealing import Log
from streamfl.streams.table import Table

# Records per packed message.
PACK = 64

# Seconds ahead of the rate before a wait: shorter sleeps are not accurate.
BEAT = 0.05

Encode = Callable[[str, slice], bytes]


@dataclass(frozen=True)
class Production:
    """The records to write, and the rate.

    Parameters
    ----------
    table, logs
        The records, and by client which of them it gets, in order.
    rate
        Records a second in all; None is as fast as possible.
    limit
        The most records in all; None is all.
    end
        Whether to mark the end of every stream.
    """

    table: Table
    logs: Mapping[str, Log]
    rate: float | None = None
    limit: int | None = None
    end: bool = False

    @property
    def records(self) -> int:
        """Count the records that will be written: the good ones of the file."""
        every = sum(len(log.rows) for log in self.logs.values())
        return every if self.limit is None else min(every, self.limit)

    def messages(self, pack: int) -> Iterator[tuple[str, slice]]:
        """Yield the client and the slice of records of each message; clients take turns.

        >>> table = Table("t", ("a",), np.zeros((5, 1)), np.zeros(5), ("x",), np.arange(5))
        >>> logs = {"c0": Log(np.array([0, 2, 4]), np.zeros(3)), "c1": Log(np.array([1, 3]), np.zeros(2))}
        >>> [(client, part.start, part.stop) for client, part in Production(table, logs).messages(pack=2)]
        [('c0', 0, 2), ('c1', 0, 2), ('c0', 2, 3)]
        """
        left = self.records
        longest = max((len(log.rows) for log in self.logs.values()), default=0)
        for start in range(0, longest, pack):
            for client, log in self.logs.items():
                n = min(pack, len(log.rows) - start, left)
                if n > 0:
                    left -= n
                    yield client, slice(start, start + n)


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
    writer = connector.writer(settings.placement, list(production.logs))
    written, began = 0, time.monotonic()
    for client, part in production.messages(pack):
        if stop.requested:
            break
        writer.write(client, encode(client, part))
        written += part.stop - part.start
        progress(part.stop - part.start)
        _keep_to(production.rate, written, began)
    _finish(writer, end=production.end and not stop.requested)
    return written


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
        raise UsageError(f"{table.name} has {kind}, and [federation] task is {settings.federation.task}; correct it")
    if settings.records.format == "packed":
        return _packed(table, logs, settings.federation.task), PACK
    return _json(table, logs, settings.field_map), 1


def _json(table: Table, logs: Mapping[str, Log], fields: FieldMap) -> Encode:
    form = JsonRecords(fields)

    def encode(client: str, part: slice) -> bytes:
        log = logs[client]
        y = log.y[part.start]
        label = table.labels[int(y)] if table.labels else float(y)
        return form.encode(table.features, table.X[log.rows[part.start]].astype(np.float64), label, client=client)

    return encode


def _packed(table: Table, logs: Mapping[str, Log], task: str) -> Encode:
    form = Packed("classification" if task == "classification" else "regression")

    def encode(client: str, part: slice) -> bytes:
        log = logs[client]
        X = table.X[log.rows[part]].astype(np.float64)
        return form.encode(table.features, X, log.y[part], table.labels)

    return encode
