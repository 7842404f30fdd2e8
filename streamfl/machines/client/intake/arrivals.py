"""What records are like whose labels come later, as soon as they have come."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streamfl.protocol.delayed import MOST_ARRIVED
from streamfl.protocol.moments import Moments, moments_of
from streamfl.protocol.records import Batch


@dataclass
class Arrivals:
    """The records that have come since the last update, at most the newest `MOST_ARRIVED`.

    An update that is refused, or comes too late, is made again. It then describes the same records, without those
    that have come since: these may be too few to be described, and would follow from the difference.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.protocol.records import Span
    >>> X = np.array([[1.0], [2.0], [3.0]])
    >>> arrivals = Arrivals()
    >>> arrivals.add(Batch(Span("f", 0, 3), np.arange(3), ("x",), X, np.zeros(3)))
    >>> arrivals.moments(("x",), least=4), arrivals.moments(("x",), least=3).mean
    (None, array([2.]))
    >>> arrivals.moments(("x",), least=3).mean
    array([2.])
    >>> arrivals.forget_described()
    >>> arrivals.moments(("x",), least=3)
    """

    _batches: deque[Batch] = field(default_factory=deque)
    _records: int = 0
    _described: tuple[Batch, ...] = ()  # those of an update of which it is not known whether it counts

    def add(self, batch: Batch) -> None:
        """Take records that have come."""
        if not len(batch):
            return
        self._batches.append(batch)
        self._records += len(batch)
        while self._records > MOST_ARRIVED:
            first = self._batches.popleft()
            self._records -= len(first)
            if self._records < MOST_ARRIVED:
                kept = first.after(int(first.positions[self._records - MOST_ARRIVED]))
                self._batches.appendleft(kept)
                self._records += len(kept)

    def moments(self, features: Sequence[str], least: int) -> Moments | None:
        """Return the moments of these features, without their names, as an update describes the records.

        None if no description waits and fewer than `least` records have come.
        """
        if not features or not (self._described or self._records >= least):
            return None
        if not self._described:
            self._described = tuple(self._batches)
            self._batches.clear()
            self._records = 0
        return replace(moments_of(self._described).aligned(tuple(features)).in_few_bits, features=())

    def forget_described(self) -> None:
        """Forget the records that an update has described: it is in the ledger."""
        self._described = ()
