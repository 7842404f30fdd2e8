"""A source of a client's records that adds what is made of those before them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import REACH
from streamfl.protocol.records import Batch
from streamfl.records.past_features import PastFeatures, PastRecords
from streamfl.runtime.ports import Source


@dataclass(eq=False)
class SourceWithPast:
    """The records of another source with the features that are made of the records before: a `Source` itself.

    It remembers the last records of each partition. After a seek, and for old records that are read again, it reads
    the `REACH` positions before them, so that a record always has the same features while the log keeps these.
    """

    source: Source
    past: PastFeatures
    _last: dict[str, PastRecords] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again."""
        return self.source.ended

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones."""
        return [self._extended(batch) for batch in self.source.poll(limit)]

    def seek(self, positions: Mapping[str, int]) -> None:
        """Continue each named partition at its position."""
        self.source.seek(positions)
        for partition in positions:
            self._last.pop(partition, None)

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, with what is made of those before them."""
        found = []
        for partition, wanted in positions.items():
            last = PastRecords(self.past)
            for batch in self._near(partition, wanted):
                features, X = last.extended(batch.positions, batch.features, batch.X)
                rows = np.flatnonzero(np.isin(batch.positions, wanted))
                found.append(replace(batch, features=features, X=X).only(rows))
        return [batch for batch in found if len(batch)]

    def _near(self, partition: str, wanted: Sequence[int]) -> Sequence[Batch]:
        """Read old records again, and as many before each as are needed.

        Held-out records lie far apart, and few records are bad: so only where some are the whole `REACH` is read.
        """
        few = self.past.longest
        near = _up_to(wanted, few)
        found = self.source.fetch({partition: near})
        good = np.concatenate([np.zeros(0, np.int64), *(batch.positions for batch in found)])
        before = np.searchsorted(good, wanted) - np.searchsorted(good, np.subtract(wanted, few))
        lacking = [one for one, n in zip(wanted, before.tolist(), strict=True) if n < min(one, few)]
        return self.source.fetch({partition: sorted({*near, *_up_to(lacking, REACH)})}) if lacking else found

    def next_of(self, partition: str, features: tuple[str, ...], X: FloatArray) -> tuple[tuple[str, ...], FloatArray]:
        """Return records that may come next, one after another, with what is made of those before them."""
        last = self._last.get(partition, PastRecords(self.past))
        positions = np.arange(len(X)) + (int(last.positions[-1]) + 1 if len(last.positions) else 0)
        return replace(last).extended(positions, features, X)

    def _extended(self, batch: Batch) -> Batch:
        last = self._last.get(batch.span.partition)
        if last is None:
            last = self._last[batch.span.partition] = self._before(batch.span.partition, batch.span.start)
        features, X = last.extended(batch.positions, batch.features, batch.X)
        return replace(batch, features=features, X=X)

    def _before(self, partition: str, position: int) -> PastRecords:
        """Return the last records before a position."""
        found = PastRecords(self.past)
        near = range(max(0, position - REACH), position)
        for batch in self.source.fetch({partition: near}) if near else ():
            found.made(batch.positions, batch.features, batch.X)
        return found


def _up_to(wanted: Sequence[int], before: int) -> list[int]:
    """Return some positions with so many before each, rising.

    >>> _up_to([1, 9, 10], 2)
    [0, 1, 7, 8, 9, 10]
    """
    return sorted({at for one in wanted for at in range(max(0, one - before), one + 1)})
