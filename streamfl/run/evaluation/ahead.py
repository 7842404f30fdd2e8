"""How far ahead of the records that it predicted any model was: 0 if every figure is honest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.records import Span
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.order import came


@dataclass
class Ahead:
    """Counts how many later records models had learnt when they predicted a record.

    A client's own records of the round do not count: it learns each one after it has predicted it.

    Parameters
    ----------
    logs
        The records of each client.
    at
        When each row of the table came.
    most
        The most later records, over all predictions so far.

    Examples
    --------
    >>> logs = {"c0": Log(np.array([0, 2]), np.zeros(2)), "c1": Log(np.array([1, 3]), np.zeros(2))}
    >>> ahead = Ahead(logs, np.arange(4.0))
    >>> ahead.learnt([Span("c0", 0, 2)])
    >>> ahead.predicted("c1", 0, 2)
    >>> ahead.most
    1
    """

    logs: Mapping[str, Log]
    at: FloatArray
    most: int = 0
    _ranks: dict[str, IntArray] = field(init=False)
    _learnt: IntArray = field(init=False)
    _later: IntArray | None = None

    def __post_init__(self) -> None:
        when = [came(log, self.at) for log in self.logs.values()]
        different, ranks = np.unique(np.concatenate([np.zeros(0), *when]), return_inverse=True)
        ends = np.cumsum([len(each) for each in when])
        self._ranks = dict(zip(self.logs, np.split(ranks, ends[:-1]), strict=True)) if when else {}
        self._learnt = np.zeros(len(different) + 1, np.int64)

    def learnt(self, spans: Sequence[Span]) -> None:
        """Note what the ledger has accepted: models of later rounds have learnt it."""
        for span in spans:
            log = self.logs[span.partition]
            ranks = self._ranks[span.partition][log.good_before(span.start) : log.good_before(span.end)]
            np.add.at(self._learnt, ranks, 1)
        self._later = None

    def predicted(self, client: str, start: int, end: int) -> None:
        """Note that the good records from one position to another are predicted now."""
        log = self.logs[client]
        ranks = self._ranks[client][log.good_before(start) : log.good_before(end)]
        if not len(ranks):
            return
        if self._later is None:
            self._later = np.cumsum(self._learnt[::-1])[::-1]  # learnt of a rank or later
        self.most = max(self.most, int(self._later[ranks.min() + 1]))
