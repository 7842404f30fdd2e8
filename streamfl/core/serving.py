"""NoChange, the baseline of every stream: a client's previous label, or target, repeated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.records import Batch


@dataclass
class NoChange:
    """Repeats the last label a client saw. `last` is a label's name, or a target; None before the first record.

    >>> from streamfl.core.records import Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), (), np.ones((3, 0)), np.array([0.0, 0.0, 1.0]), ("a", "b"))
    >>> no_change = NoChange()
    >>> no_change.measured([batch])
    1.0
    >>> no_change.learn([batch])
    >>> no_change.last
    'b'
    """

    last: str | float | None = None

    def measured(self, batches: Sequence[Batch]) -> float:
        """Return how many labels it gets right, or in regression the sum of its absolute errors."""
        total, last = 0.0, self.last
        for batch in (b for b in batches if len(b)):
            previous = np.concatenate([[self._first(batch, last)], batch.y[:-1]])
            total += float((previous == batch.y).sum() if batch.labels else np.abs(previous - batch.y).sum())
            last = self._last_of(batch)
        return total

    def predictions(self, batches: Sequence[Batch]) -> FloatArray:
        """Return what it predicts of each record, as indices of that record's own batch labels, or targets."""
        parts, last = [np.zeros(0)], self.last
        for batch in (b for b in batches if len(b)):
            parts.append(np.concatenate([[self._first(batch, last)], batch.y[:-1]]))
            last = self._last_of(batch)
        return np.concatenate(parts)

    def learn(self, batches: Sequence[Batch]) -> None:
        """Take the last record's label."""
        for batch in (b for b in batches if len(b)):
            self.last = self._last_of(batch)

    def _first(self, batch: Batch, last: str | float | None) -> float:
        """Return the prediction of a batch's first record; before any record a label that is never right, or 0."""
        if not batch.labels:
            return float(last) if isinstance(last, float) else 0.0
        return float(batch.labels.index(last)) if isinstance(last, str) and last in batch.labels else -1.0

    def _last_of(self, batch: Batch) -> str | float:
        return batch.labels[int(batch.y[-1])] if batch.labels else float(batch.y[-1])
