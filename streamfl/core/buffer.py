"""A client's pending records: read, and not yet accepted by the ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamfl.core.records import Batch, Span, spans


@dataclass
class Buffer:
    """Records in the order they were read. Sending takes nothing out: only the ledger does, by its positions.

    Parameters
    ----------
    capacity
        Most records, good and bad, that it holds.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.core.records import Batch, Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> buffer = Buffer(capacity=5)
    >>> buffer.add([batch])
    >>> buffer.drop([Span("p", 0, 2)])
    >>> buffer.size, buffer.room, buffer.covers()
    (1, 4, (Span(partition='p', start=2, end=3),))
    """

    capacity: int
    batches: list[Batch] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Count the good records."""
        return sum(map(len, self.batches))

    @property
    def pending(self) -> int:
        """Count the records, good and bad."""
        return sum(batch.read for batch in self.batches)

    @property
    def room(self) -> int:
        """Return how many more records may be read."""
        return max(0, self.capacity - self.pending)

    def add(self, batches: Sequence[Batch]) -> None:
        """Append records that follow those held."""
        self.batches.extend(batches)

    def head(self, n: int) -> tuple[Batch, ...]:
        """Return the first n good records with every bad one among them; all records if there are no more."""
        taken: list[Batch] = []
        for batch in self.batches:
            if n == 0:
                break
            taken.append(batch.head(n))
            n -= len(taken[-1])
        return tuple(taken)

    def drop(self, accepted: Sequence[Span]) -> None:
        """Let go of the records up to the end of each span."""
        ends: Mapping[str, int] = {span.partition: span.end for span in accepted}
        left = [(b, ends.get(b.span.partition, b.span.start)) for b in self.batches]
        self.batches = [b.after(end) for b, end in left if b.span.end > max(end, b.span.start)]

    def clear(self) -> None:
        """Forget everything: it will be read again."""
        self.batches = []

    def covers(self) -> tuple[Span, ...]:
        """Return the positions held."""
        return spans(self.batches)
