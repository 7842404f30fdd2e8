"""What one client has answered to records that wait for their labels, as a log of answers has it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.protocol.delayed import NO_LABEL, Answers
from streamfl.protocol.records import Batch


@dataclass
class Recorded:
    """The answers by position of the features; the first one of a record counts.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> recorded = Recorded()
    >>> recorded.add(3, "a", None)
    >>> recorded.add(3, "b", "a")
    >>> batch = Batch(Span("f", 0, 5), np.array([2, 3]), ("x",), np.ones((2, 1)), np.zeros(2))
    >>> new, known = recorded.parts(batch)
    >>> new.span, new.answers
    (Span(partition='f', start=0, end=3), None)
    >>> known.answers.served, known.answers.no_change, known.answers.labels
    (array([0.]), array([-1.]), ('a',))
    """

    targets: bool = False  # whether they are targets, not labels
    _by_position: dict[int, tuple[str | float | None, str | float | None]] = field(default_factory=dict)

    def add(self, position: int, served: str | float | None, no_change: str | float | None) -> None:
        """Take what was answered to a record, and the last label known by then; None stands for none."""
        self._by_position.setdefault(position, (served, no_change))

    @property
    def unanswered(self) -> int:
        """Count the records to which nothing was answered, as there was no model."""
        return sum(served is None for served, _ in self._by_position.values())

    def add_all(self, batch: Batch) -> None:
        """Take what has just been answered to some records."""
        answers = batch.answers
        if answers is None:
            return
        columns = (answers.served.tolist(), answers.no_change.tolist())
        for position, served, known in zip(batch.positions.tolist(), *columns, strict=True):
            self.add(position, self._name(served, answers), self._name(known, answers))

    def forget(self, before: int) -> None:
        """Forget the answers before a position."""
        for position in [position for position in self._by_position if position < before]:
            del self._by_position[position]

    def parts(self, batch: Batch) -> Iterator[Batch]:
        """Yield the features of a batch in runs: of records that were answered, or of records that were not."""
        known = np.array([position in self._by_position for position in batch.positions.tolist()], np.bool_)
        starts = [0, *(np.flatnonzero(known[1:] != known[:-1]) + 1).tolist()]
        begins = [batch.span.start, *batch.positions[starts[1:]].tolist()]
        for row, begin, end in zip(starts, begins, [*begins[1:], batch.span.end], strict=True):
            part = batch.after(begin).before(end)
            yield replace(part, answers=self._answers(part)) if len(part) and known[row] else part

    def _answers(self, batch: Batch) -> Answers:
        found = [self._by_position[position] for position in batch.positions.tolist()]
        if self.targets:
            numbers = np.array([[0.0 if one is None else one for one in both] for both in found], np.float64)
            return Answers(numbers[:, 0], numbers[:, 1])
        labels = tuple(dict.fromkeys(str(one) for both in found for one in both if one is not None))
        codes = {label: float(code) for code, label in enumerate(labels)}
        coded = np.array([[NO_LABEL if one is None else codes[str(one)] for one in both] for both in found])
        return Answers(coded[:, 0], coded[:, 1], labels)

    def _name(self, code: float, answers: Answers) -> str | float | None:
        if self.targets:
            return code
        return None if code == NO_LABEL else answers.labels[int(code)]
