"""Counts the records that a client's source has returned, apart from the client's own accounts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamfl.protocol.records import Batch


@dataclass
class ReadCounts:
    """How many of a client's records have been read; where labels come later, how many labels.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.protocol.records import Span
    >>> batch = Batch(Span("p", 4, 8), np.arange(4, 8), ("a",), np.ones((4, 1)), np.zeros(4), ("x",))
    >>> reading = ReadCounts()
    >>> reading.begins(5, {"p": 6})
    >>> reading.returned([batch])
    >>> reading.total
    7
    """

    total: int = 0  # the records that the ledger accounted for where reading last began, and those returned since
    _begins: Mapping[str, int] = field(default_factory=dict)

    def begins(self, accounted: int, positions: Mapping[str, int]) -> None:
        """Begin again: the ledger accounts for this many records, which lie before these positions."""
        self.total, self._begins = accounted, positions

    def returned(self, batches: Iterable[Batch]) -> None:
        """Count the records of some batches; features whose labels come later count with their labels."""
        for batch in batches:
            if batch.half is None or batch.half.kind == "labels":
                self.total += batch.after(self._begins.get(batch.span.partition, 0)).read
