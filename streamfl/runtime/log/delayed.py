"""The records of one client whose labels come later, in two partitions of a log, with what was answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from streamfl.protocol.records import Batch
from streamfl.runtime.log.partition import NOWHERE, LogSource
from streamfl.runtime.log.recorded import Recorded

# How many windows of answers are read back at a time: more than wait, since hints may be behind the ledger.
WINDOWS = 4


@dataclass(eq=False)
class LogHalves:
    """One client's features and labels: `streamfl.runtime.ports.DelayedSource`.

    Features are given where it is known what was answered to them: in `known`, a range of positions. Where it is not,
    `lacks_answers`, and what reads the log of answers calls `restore`.
    """

    client: str
    # The two partitions.
    features: LogSource
    labels: LogSource
    recorded: Recorded  # what has been answered
    window: int  # see `streamfl.machines.client.intake.waiting`
    known: tuple[int, int] = (0, 0)
    _keys: dict[int, bytes | None] = field(default_factory=dict)

    # --- reading -----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether both partitions have ended."""
        return self.features.ended and self.labels.ended

    @property
    def features_ended(self) -> bool:
        """Whether that of features has ended."""
        return self.features.ended

    @property
    def features_next(self) -> bool:
        """Whether there are features to be taken, and no label as far as the log has been written."""
        return self.features.waiting > 0 and self.labels.at_end and not self.labels.waiting

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next halves, at most so many of each kind."""
        return self.poll_halves(limit, limit)

    def poll_halves(self, labels: int, features: int, *, waits: bool = False) -> Sequence[Batch]:
        """Return the next features, then the next labels, at most so many of each, good and bad.

        Features come first, whether labels wait for them or not.

        Features that were answered come alone: before the next ones the client may have to wait for the models.
        """
        return [*self._asked(features), *self.labels.poll(labels)]

    def _asked(self, limit: int) -> list[Batch]:
        if self.lacks_answers:
            return []
        parts: list[Batch] = []
        end = self.known[1]
        polled = self.features.poll(limit)
        for batch in polled:
            parts += self.recorded.parts(batch.before(end)) if batch.span.start < end else []
        beyond = [batch.after(end) for batch in polled if batch.span.end > end]
        answered = len([*takewhile(lambda part: part.answers is not None, parts)])
        now = parts[:answered] or parts
        self.features.put_back([*parts[len(now) :], *beyond])
        return now

    def seek(self, positions: Mapping[str, int], needed: Mapping[str, int] | None = None) -> None:
        """Continue at positions. Features before any offset may be gone; labels, before what is needed."""
        self._keys.clear()
        self.features.seek(positions, may_lack=NOWHERE)
        self.labels.seek(positions, may_lack=(needed or {}).get(self.labels.partition, 0))

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read old halves again, without those that the log no longer holds."""
        return [*self.features.fetch(positions), *self.labels.fetch(positions)]

    # --- answers -----------------------------------------------------------------------------------------------

    @property
    def lacks_answers(self) -> bool:
        """Tell whether it is unknown what was answered to the next features."""
        return not self.known[0] <= self.features.position < self.known[1]

    def restore(self, begin: int, end: int) -> None:
        """Note that all is recorded that was answered between two positions."""
        self.known = (begin, end)

    def arrived(self, keys: Mapping[int, bytes | None]) -> None:
        """Take the keys of the messages of features, by position, as they are read."""
        self._keys.update(keys)

    def take(self, batch: Batch) -> list[bytes | None]:
        """Record what has been answered, and return the keys of the messages, or the ids where none arrived."""
        self.recorded.add_all(batch)
        ids = [None] * len(batch) if batch.half is None else [one.encode() for one in batch.half.keys.tolist()]
        named = zip(batch.positions.tolist(), ids, strict=True)
        keys = [self._keys.get(position, record) for position, record in named]
        for position in [*takewhile(lambda one: one < batch.span.end, self._keys)]:
            del self._keys[position]
        return keys

    def forget(self, before: int) -> None:
        """Forget the answers before a position."""
        self.recorded.forget(before)
