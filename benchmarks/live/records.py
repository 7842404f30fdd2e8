"""Covtype records on the log, as often as wanted."""

import numpy as np

from live.federation import Federation
from streamfl.services.connectors import connect
from streamfl.services.produce import Production, produce
from streamfl.services.stopping import Stop
from streamfl.streams.covtype import covtype
from streamfl.streams.dealing import Log
from streamfl.streams.table import shuffled


def clients(n: int) -> list[str]:
    """Return the names of n clients, as `streamfl produce` gives them."""
    return [f"c{i:0{len(str(n - 1))}}" for i in range(n)]


def produced(of: Federation, names: list[str], each: int, *, end: bool) -> int:
    """Write `each` records to every client, covtype again and again; return how many bytes the values have."""
    table = shuffled(covtype(), 0)
    logs = {}
    for i, name in enumerate(names):
        rows = (np.arange(each) * len(names) + i) % len(table)
        logs[name] = Log(rows, table.y[rows])
    return produce(of.settings, connect(of.settings), Production(table, logs, end=end), Stop(), lambda _: None)
