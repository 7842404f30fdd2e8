"""The source of one client whose labels come later: a table, in halves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.delayed import Half, Keys
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.run.dealing.source import TableSource
from streamfl.runtime.log.recorded import Recorded


class HalvesSource:
    """A client's records in halves, the labels in an order of their own: `streamfl.runtime.ports.DelayedSource`.

    Labels are in a partition of the client's name, features in another one.

    Parameters
    ----------
    source
        The records. The key of one is its position.
    comes
        The position of features before which each label comes, never falling; one beyond all comes at the end.
    of
        The position of the record of each label.
    recorded
        What was answered before; None: nothing.
    until
        Returns how many labels may be read by now; None: any number.
    """

    def __init__(
        self,
        source: TableSource,
        comes: IntArray,
        of: IntArray,
        recorded: Recorded | None = None,
        until: Callable[[], int] | None = None,
    ) -> None:
        self._source = source
        self._features = f"{source.name}/features"
        self._comes, self._of = comes, of
        self._recorded, self._may_read = recorded, until
        self._reasons = {bad.position: bad.reason for bad in source.rejected}
        self._asked = self._told = 0

    @property
    def ended(self) -> bool:
        """Whether all halves were read."""
        return self._told >= len(self._comes) and self._asked >= self._source.length

    @property
    def features_ended(self) -> bool:
        """Whether all features were read."""
        return self._asked >= self._source.length

    @property
    def read(self) -> int:
        """The position of the next label."""
        return self._told

    @property
    def asked(self) -> int:
        """The position of the next features."""
        return self._asked

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next halves, at most `limit` of each kind."""
        return self.poll_halves(limit, limit)

    @property
    def features_next(self) -> bool:
        """Whether features come next, not labels."""
        return self._due == self._told and not self.features_ended

    def poll_halves(self, labels: int, features: int, *, waits: bool = False) -> Sequence[Batch]:
        """Return the next halves in their order, at most this many labels and positions of features.

        It ends with the last of these labels: features after it are answered with the models of the next round. But
        if labels that were read wait for features, and no more labels can be taken, the next features come first.
        """
        halves: list[Batch] = []
        if self._may_read is not None:
            labels = min(labels, max(0, self._may_read() - self._told))
        if waits and not labels and features and not self.features_ended:
            halves += self._asking(self._asked, self._asked + 1)
            self._asked += 1
        while labels > 0:
            n = min(labels, self._due - self._told)
            if n > 0:
                halves.append(self._labels(self._told, self._told + n))
                self._told, labels = self._told + n, labels - n
                continue
            n = min(features, self._until - self._asked)
            if n <= 0:
                break
            halves += self._asking(self._asked, self._asked + n)
            self._asked, features = self._asked + n, features - n
        return halves

    @property
    def _due(self) -> int:
        """Return the position after the last label that comes before the next features."""
        if self._asked >= self._source.length:
            return len(self._comes)
        return int(np.searchsorted(self._comes, self._asked, side="right"))

    @property
    def _until(self) -> int:
        """Return the position of features before which the next label comes."""
        length = self._source.length
        return length if self._told >= len(self._comes) else min(length, int(self._comes[self._told]))

    def _asking(self, start: int, end: int) -> list[Batch]:
        asked = self._features_of(self._source.between(start, end))
        return [asked] if self._recorded is None else list(self._recorded.parts(asked))

    def _features_of(self, whole: Batch) -> Batch:
        span = Span(self._features, whole.span.start, whole.span.end)
        half = Half("features", _keys(whole.positions))
        return replace(whole, span=span, y=np.zeros(len(whole)), labels=(), rejected=(), half=half)

    def _labels(self, start: int, end: int) -> Batch:
        """Return labels by position; that of a bad record is bad, for the same reason."""
        of = self._of[start:end]
        whole = self._source.at(of)
        rows = np.searchsorted(whole.positions, of)
        good = rows < len(whole)
        good[good] = whole.positions[rows[good]] == of[good]
        positions = np.arange(start, end)
        wrong = zip(positions[~good].tolist(), of[~good].tolist(), strict=True)
        bad = tuple(Rejection(position, self._reasons.get(record, "no label")) for position, record in wrong)
        rows = rows[good]
        return Batch(
            Span(self._source.name, start, end),
            positions[good],
            (),
            np.zeros((len(rows), 0)),
            whole.y[rows],
            whole.labels,
            bad,
            half=Half("labels", _keys(of[good])),
        )

    def seek(self, positions: Mapping[str, int], needed: Mapping[str, int] | None = None) -> None:
        """Continue at the positions of this client's partitions; nothing of them was deleted."""
        self._told = positions.get(self._source.name, self._told)
        self._asked = positions.get(self._features, self._asked)

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old halves again."""
        asked = self._source.fetch({self._source.name: positions.get(self._features, ())})
        told = [self._labels(position, position + 1) for position in positions.get(self._source.name, ())]
        return [*map(self._features_of, asked), *told]


def _keys(positions: IntArray) -> Keys:
    return np.array([str(position) for position in positions.tolist()], dtype=np.object_)


def delayed(
    source: TableSource, delay: int, recorded: Recorded | None = None, until: Callable[[], int] | None = None
) -> HalvesSource:
    """Return a client's records with each label some records later.

    A label comes right before the features of the record `delay` further on are read, as `river.stream.simulate_qa`
    has it; so a delay of 1 is none. Records are answered as recorded; None: nothing was answered before.

    Examples
    --------
    >>> from streamfl.records.files.covtype import covtype
    >>> from streamfl.run.dealing.dealing import deal
    >>> table = covtype()
    >>> source = delayed(TableSource(table, "c3", deal(table, 10, "round-robin", 0)["c3"]), 2)
    >>> [(half.span.partition, half.span.end) for half in source.poll_halves(10, 3)]
    [('c3/features', 2), ('c3', 1), ('c3/features', 3), ('c3', 2)]
    """
    positions = np.arange(source.length)
    return HalvesSource(source, positions + max(1, delay), positions, recorded, until)
