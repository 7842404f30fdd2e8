"""How far ahead of the records that it predicted any model was: 0 if every figure is honest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.records import Span
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.order import arrival_times


@dataclass
class Ahead:
    """Counts how many later records models had learnt when they predicted a record.

    A client's own records of the round do not count: it learns each one after it has predicted it. A run without
    predictions costs nothing here.

    Examples
    --------
    >>> logs = {"c0": Log(np.array([0, 2]), np.zeros(2)), "c1": Log(np.array([1, 3]), np.zeros(2))}
    >>> ahead = Ahead(logs, np.arange(4.0))
    >>> ahead.learnt([Span("c0", 0, 2)])
    >>> ahead.predicted("c1", 0, 2)
    >>> ahead.most
    1
    """

    logs: Mapping[str, Log]  # the records of each client
    at: FloatArray  # when each row of the table came
    most: int = 0  # the most later records, over all predictions so far
    _new: list[Span] = field(default_factory=list)
    _learnt: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # how often each rank was learnt
    _highest: int = -1  # the highest rank that was learnt
    _first: int = 0  # the rank at which `_later` begins
    _later: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))  # learnt of a rank or later

    @cached_property
    def _ranks(self) -> dict[str, IntArray]:
        """Return the place of each good record of a client among the times of all."""
        when = [arrival_times(log, self.at) for log in self.logs.values()]
        ranks = np.unique(np.concatenate([np.zeros(0), *when]), return_inverse=True)[1]
        ends = np.cumsum([len(each) for each in when])
        return dict(zip(self.logs, np.split(ranks, ends[:-1]), strict=True)) if when else {}

    def _ranks_of(self, partition: str, start: int, end: int) -> IntArray:
        log = self.logs[partition]
        return self._ranks[partition][log.good_before(start) : log.good_before(end)]

    def learnt(self, spans: Sequence[Span]) -> None:
        """Note what the ledger has accepted: models of later rounds have learnt it."""
        self._new.extend(spans)

    def predicted(self, client: str, start: int, end: int) -> None:
        """Note that the good records from one position to another are predicted now."""
        ranks = self._ranks_of(client, start, end)
        if not len(ranks):
            return
        self._count_new()
        self.most = max(self.most, self._learnt_from(int(ranks.min()) + 1))

    def _count_new(self) -> None:
        """Count what was learnt since the last prediction."""
        if not len(self._learnt):
            self._learnt = np.zeros(1 + max(int(ranks.max(initial=-1)) for ranks in self._ranks.values()), np.int64)
        for ranks in [self._ranks_of(span.partition, span.start, span.end) for span in self._new]:
            np.add.at(self._learnt, ranks, 1)
            self._highest = max(self._highest, int(ranks.max(initial=-1)))
        if self._new:
            self._first, self._later = self._highest + 1, self._later[:0]
        self._new.clear()

    def _learnt_from(self, rank: int) -> int:
        """Return how many records of a rank or later were learnt; mostly few lie between it and the highest one."""
        if rank > self._highest:
            return 0
        if rank < self._first:  # twice as far back as before, so that many predictions count few ranks again
            self._first = max(0, min(rank, self._highest + 1 - 2 * len(self._later)))
            self._later = np.cumsum(self._learnt[self._first : self._highest + 1][::-1])[::-1]
        return int(self._later[rank - self._first])
