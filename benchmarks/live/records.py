"""Writes covtype records to the log, repeated as often as needed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from live.federation import Federation
from streamfl.live.operator.produce import Production, produce
from streamfl.live.settings.connectors import connect
from streamfl.live.stopping import Stop
from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log


def clients(n: int) -> list[str]:
    """Return the names of n clients."""
    return [f"c{i:0{len(str(n - 1))}}" for i in range(n)]


def _logs(table: Table, names: list[str], each: int) -> dict[str, Log]:
    """Deal `each` records to every client in turn, the table again and again."""
    dealt = {name: (np.arange(each) * len(names) + i) % len(table) for i, name in enumerate(names)}
    return {name: Log(rows, table.y[rows]) for name, rows in dealt.items()}


def produced(of: Federation, names: list[str], each: int, *, end: bool, table: Table | None = None) -> None:
    """Write `each` records to every client, as fast as can be: those of covtype, or of another table."""
    table = shuffled(covtype(), 0) if table is None else table
    written = Production(table, _logs(table, names, each), end=end)
    produce(of.settings, connect(of.settings), written, Stop(), lambda _: None)


@contextmanager
def arriving(of: Federation, names: list[str], each: int, rate: float, table: Table | None = None) -> Iterator[None]:
    """Write records at a steady rate, so many a second in all, until every client has `each` or the block ends."""
    table, settings, stop = shuffled(covtype(), 0) if table is None else table, of.settings, Stop()
    written = Production(table, _logs(table, names, each), rate=rate)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(produce, settings, connect(settings), written, stop, lambda _: None)
        try:
            yield
        finally:
            stop.requested = True
        writing.result()
