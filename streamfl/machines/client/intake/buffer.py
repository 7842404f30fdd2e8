"""A client's pending records: read, and not yet accepted by the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamfl.bounds import Limits
from streamfl.protocol.delayed import Answers
from streamfl.protocol.messages import ends_of
from streamfl.protocol.records import Batch, Span, spans
from streamfl.protocol.registry import Registry


@dataclass
class Buffer:
    """Records in the order they were read. Sending takes nothing out: only the ledger does, by its positions.

    Good records wait until there are `min_records` of them. Bad records must not use up the room for these. Once they
    have used up the capacity, a run of them is kept as one object, so the buffer stays bounded however many there
    are.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.protocol.records import Batch, Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> buffer = Buffer(capacity=5)
    >>> buffer.add([batch])
    >>> buffer.drop([Span("p", 0, 2)])
    >>> buffer.size, buffer.room, buffer.held_spans()
    (1, 4, (Span(partition='p', start=2, end=3),))
    """

    # The most records it holds, good and bad. It holds more bad ones if they leave no room for `min_records` good
    # ones.
    capacity: int
    # With fewer good records than this, none are sent. At most the capacity.
    min_records: int = 1
    batches: list[Batch] = field(default_factory=list, init=False)
    size: int = field(default=0, init=False)  # good records
    pending: int = field(default=0, init=False)  # good and bad ones
    _names: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = field(default=(None, None), init=False)
    _within: int = field(default=0, init=False)  # this many batches have no other names

    @property
    def room(self) -> int:
        """Return how many more records may be read."""
        return self.capacity - self.size if self._is_choked() else max(0, self.capacity - self.pending)

    @property
    def has_sendable(self) -> bool:
        """Tell whether an update can be sent: there are enough good records, or bad ones before the first."""
        return self.size >= self.min_records or any(batch.read for batch in self.leading_bad_records())

    def add(self, batches: Sequence[Batch]) -> None:
        """Append the records that follow."""
        self.batches.extend(batches)
        self._count(batches)
        if self._is_choked():
            self._keep(_condense(self.batches))

    def _keep(self, batches: list[Batch]) -> None:
        """Hold other batches."""
        self.batches, self.size, self.pending, self._within = batches, 0, 0, 0
        self._count(batches)

    def _count(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.size += len(batch)
            self.pending += batch.read

    def _is_choked(self) -> bool:
        """Tell whether bad records have used up the capacity before there are `min_records` good ones."""
        return 0 < self.size < self.min_records and self.pending >= self.capacity

    def head(self, n: int) -> tuple[Batch, ...]:
        """Return the first n good records and the bad ones between them, or all records if there are fewer."""
        taken: list[Batch] = []
        for batch in self.batches:
            if n == 0:
                break
            taken.append(batch.head(n))
            n -= len(taken[-1])
        return tuple(taken)

    def full(self, n: int) -> tuple[Batch, ...]:
        """Return the records for a round of n good ones: the first n, or all records if there are fewer.

        If bad records used up the capacity before there were `min_records` good ones, the round ends with the
        `min_records`-th good one. So the result depends only on the order of the records, not on how they were
        polled.
        """
        choked = self.pending > self.capacity and self._good_within_capacity() < self.min_records
        n = min(n, self.min_records) if choked else n
        return self.head(n) if self.size >= n else tuple(self.batches)

    def closed(self, n: int, *, by_clock: bool) -> tuple[Batch, ...]:
        """Return the records of a round of n: the first n good ones, or all of them if the clock closes the round.

        With too few good records, return only the bad ones before the first good one.
        """
        if self.size < self.min_records:
            return self.leading_bad_records()
        return tuple(self.batches) if by_clock else self.full(n)

    def leading_bad_records(self) -> tuple[Batch, ...]:
        """Return the bad records before the first good one: they can be reported without good ones."""
        taken: list[Batch] = []
        for batch in self.batches:
            taken.append(batch.before(int(batch.positions[0])) if len(batch) else batch)
            if len(batch):
                break
        return tuple(batch for batch in taken if batch.span.end > batch.span.start)

    def until(self, ends: Mapping[str, int]) -> tuple[Batch, ...] | None:
        """Return the records before some positions, by partition; None if they have not all been read."""
        read = ends_of(self.held_spans())
        if any(read.get(partition, 0) < end for partition, end in ends.items()):
            return None
        parts = [batch.before(ends.get(batch.span.partition, 0)) for batch in self.batches]
        return tuple(part for part in parts if part.span.end > part.span.start)

    @property
    def unanswered(self) -> int:
        """Count the good records to which nothing was answered."""
        return sum(len(batch) for batch in self.batches if batch.answers is None)

    @property
    def answered_early(self) -> int:
        """Count the records that were answered, but were too few to be sent."""
        return sum(len(batch) for batch in self.batches if batch.answered_early)

    def keep(self, answers: Answers) -> None:
        """Keep what was answered to the first good records without an answer."""
        kept, at, n = [], 0, len(answers.served)
        for batch in self.batches:
            if batch.answers is not None or not len(batch) or at == n:
                kept.append(batch)
                continue
            first = batch.head(n - at)
            kept.append(replace(first, answers=answers.of(slice(at, at + len(first)))))
            at += len(first)
            if first.span.end < batch.span.end:
                kept.append(batch.after(first.span.end))
        self._keep(kept)

    def _good_within_capacity(self) -> int:
        read, good = 0, 0
        for batch in self.batches:
            good += int((batch.ordinals(read) < self.capacity).sum())
            read += batch.read
        return good

    def drop(self, accepted: Sequence[Span]) -> None:
        """Drop the records up to the end of each span."""
        ends: Mapping[str, int] = {span.partition: span.end for span in accepted}
        left = [(b, ends.get(b.span.partition, b.span.start)) for b in self.batches]
        self._keep([b.after(end) for b, end in left if b.span.end > max(end, b.span.start)])

    def drop_unregistered_names(self, registry: Registry, limits: Limits) -> None:
        """Remove features and records whose names a full registry cannot take."""
        d, k = len(registry.features), len(registry.labels)
        features = registry.features if d >= limits.most_features(k) else None
        labels = registry.labels if k and k >= limits.most_labels(d) else None
        if features is None and labels is None:
            return
        if (features, labels) != self._names:
            self._names, self._within = (features, labels), 0
        if self._within < len(self.batches):
            known, new = self.batches[: self._within], self.batches[self._within :]
            self._keep([*known, *(batch.within(features, labels) for batch in new)])
        self._within = len(self.batches)

    def clear(self) -> None:
        """Drop all records: they will be read again."""
        self._keep([])

    def held_spans(self) -> tuple[Span, ...]:
        """Return the positions held."""
        return spans(self.batches)


def _condense(batches: Iterable[Batch]) -> list[Batch]:
    """Return the batches with one rejection per run of bad records, and adjacent batches of bad records joined."""
    kept: list[Batch] = []
    last: dict[str, int] = {}
    for batch in batches:
        partition = batch.span.partition
        at = last.get(partition)
        if at is None or len(batch) or len(kept[at]):
            last[partition] = len(kept)
            kept.append(batch.condensed())
        else:
            before = kept[at]
            span = Span(partition, before.span.start, batch.span.end)
            kept[at] = replace(before, span=span, rejected=(*before.rejected, *batch.rejected)).condensed()
    return kept
