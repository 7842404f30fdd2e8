"""A queue of batches that knows how many records it holds: it is asked at every turn of a host's loop."""

from collections import deque
from collections.abc import Iterable, Iterator

from streamfl.protocol.records import Batch


class BatchQueue:
    """Batches in order, with the count of their records.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.protocol.records import Span
    >>> batch = Batch(Span("p", 4, 8), np.arange(4, 8), ("a",), np.ones((4, 1)), np.zeros(4), ("x",))
    >>> queue = BatchQueue([batch])
    >>> queue.put_back([queue.take().after(6)])
    >>> queue.read, queue.first.span.start
    (2, 6)
    """

    def __init__(self, batches: Iterable[Batch] = ()) -> None:
        self._batches = deque(batches)
        self.read = sum(batch.read for batch in self._batches)

    def __bool__(self) -> bool:
        """Tell whether there are any batches."""
        return bool(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        """Return the batches in order."""
        return iter(self._batches)

    @property
    def first(self) -> Batch:
        """Return the first batch."""
        return self._batches[0]

    def add(self, batch: Batch) -> None:
        """Add a batch at the end."""
        self._batches.append(batch)
        self.read += batch.read

    def take(self) -> Batch:
        """Take out the first batch."""
        batch = self._batches.popleft()
        self.read -= batch.read
        return batch

    def put_back(self, batches: Iterable[Batch]) -> None:
        """Put batches before the first one, in their order."""
        before = [*batches]
        self._batches.extendleft(reversed(before))
        self.read += sum(batch.read for batch in before)

    def clear(self) -> None:
        """Forget all batches."""
        self._batches.clear()
        self.read = 0
