"""Records and labels as they are in a log, put in one order: those of a client in one partition, labels by id.

Theory of operation. A client's records may lie in any partitions of their topics, and a label names only the id of
its record. Whoever repartitions reads all partitions and writes every record to the partition of its client, and
every label to the same partition of another topic. What it has written is the order of the federation: nobody behind
it looks at the topics again. It reads messages by the time at which they were written, over all partitions, so an
index of ids says whose a label is. The index holds the newest `window` records of each partition that is written.

A label whose id is not known is held until every partition of records has passed it by `GRACE`. It is then stray: its
record never came, or was too long ago. Others pass it meanwhile, and it holds up its partition only if `MOST_HELD`
are held before it.

What is written, and how far was read, is one transaction: for each partition the first offset that is not done, and
which offsets behind it are not done either. After a kill the index is filled again from what was written, so nothing
is lost and nothing is written twice.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from typing import Literal

from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.runtime.log.intake import LogMessage
from streamfl.runtime.log.repartitioning.ids import Ids, partition_of_client
from streamfl.runtime.log.repartitioning.progress import PartitionProgress
from streamfl.runtime.log.repartitioning.whose import Whose

# Milliseconds by which clocks of those who write records and labels may differ.
GRACE = 60_000

# The labels of a partition that are held, and their bytes. Offsets are told with the committed one, in at most 4 kB.
MOST_HELD, MOST_HELD_BYTES = 200, 1024 * 1024

# Milliseconds for which the others wait for a partition that is not at its end, and brings nothing.
STALLED = 10_000

# Milliseconds for which labels wait for a partition of records that is not at its end, and brings nothing: brokers
# end a transaction that stays open within 15 minutes.
SILENT = 900_000

NO_RECORD = Reason("a label without a record: none of those that were read last has its id", ReasonCode.NO_RECORD)

Kind = Literal["records", "labels"]
Place = tuple[str, int]
"""A topic, and the number of its partition."""


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """One message that is written, or one that cannot be."""

    kind: Kind  # whether it is a record or a label
    partition: int  # where it is written; -1: nowhere, it is stray
    # Whose it is, and its id; without a client it is stray, or marks the end.
    client: str
    id: str = ""
    reason: str = ""  # why it is stray
    # Where it was read, and the message; None for a mark.
    place: Place | None = None
    message: LogMessage | None = None

    @property
    def size(self) -> int:
        """Return about how many bytes are written."""
        return 0 if self.message is None else size_of(self.message)


def size_of(message: LogMessage) -> int:
    """Return how many bytes a message has."""
    return len(message.key or b"") + len(message.value or b"")


_Read = tuple[LogMessage, Whose, int]  # a message, whose it is, and when it was written


@dataclass(slots=True)
class _Queue:
    """What was read of a partition and not written yet."""

    kind: Kind  # what it holds
    begun: PartitionProgress  # what was done when it was taken
    since: int  # since when nothing was read, in milliseconds
    next: int = field(init=False)  # the offset after the last message that was read
    at_end: bool = False
    passed: int = 0  # the time up to which everything was read, in milliseconds
    size: int = 0  # how many bytes `messages` have
    messages: deque[_Read] = field(default_factory=deque)
    held: dict[int, _Read] = field(default_factory=dict)  # the labels that wait for their records, by offset

    def __post_init__(self) -> None:
        self.next = self.begun.offset

    @property
    def progress(self) -> PartitionProgress:
        """Return how far it is done."""
        upto = max(self.messages[0][0].offset if self.messages else self.next, self.begun.upto)
        still = [one for one in self.begun.held if one >= self.next]  # not read again yet
        early = takewhile(lambda at: at < upto, (message.offset for message, *_ in self.messages))
        held = sorted({*self.held, *still, *early})
        return PartitionProgress(held[0] if held else upto, upto, tuple(held))

    @property
    def has_ended(self) -> bool:
        """Tell whether all that is left is the mark of its end."""
        return self.at_end and not self.held and len(self.messages) == 1 and self.messages[0][1].is_mark

    def passed_by(self, now: int) -> float:
        """Return the time up to which nothing is left to take or to come; behind a mark more may come."""
        if self.messages and not self.first[1].is_mark:
            return self.first[2]
        if self.has_ended:
            return inf
        return now if now - self.since > SILENT else self.passed

    @property
    def holds_most(self) -> bool:
        """Tell whether no further label may be held."""
        return len(self.held) >= MOST_HELD or sum(size_of(one) for one, *_ in self.held.values()) >= MOST_HELD_BYTES

    @property
    def first(self) -> _Read:
        """Return the next message, whose it is, and when it was written."""
        return self.messages[0]


class Repartitioning:
    """Puts the messages of any partitions in one order; it reads and writes nothing itself.

    Parameters
    ----------
    ids
        The records that were written last.
    """

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._queues: dict[Place, _Queue] = {}
        self._awaited: dict[str, list[tuple[Place, int]]] = {}  # held labels, by id

    def begin(self, place: Place, kind: Kind, progress: PartitionProgress, now: int) -> None:
        """Take a partition, of which so much is done."""
        self._queues[place] = _Queue(kind, progress, now)

    @property
    def places(self) -> Mapping[Place, Kind]:
        """Return the partitions, and what they hold."""
        return {place: queue.kind for place, queue in self._queues.items()}

    def waiting(self, place: Place) -> tuple[int, int]:
        """Count the messages of a partition that were read and are not taken yet, and their bytes."""
        queue = self._queues[place]
        return len(queue.messages), queue.size

    @property
    def progress(self) -> dict[Place, PartitionProgress]:
        """Return how far each partition is done."""
        return {place: queue.progress for place, queue in self._queues.items()}

    def next(self, place: Place) -> int:
        """Return the offset after the last message of a partition that was read."""
        return self._queues[place].next

    def arrived(self, place: Place, messages: Sequence[LogMessage], owners: Iterable[Whose], now: int) -> None:
        """Take the next messages of a partition; a time that is ahead of the clock counts as now."""
        queue = self._queues[place]
        for message, whose in zip(messages, owners, strict=True):
            queue.next, queue.since = message.offset + 1, now
            if not queue.begun.is_open(message.offset):
                continue
            if queue.messages and queue.messages[-1][1].is_mark:
                queue.size -= size_of(queue.messages.pop()[0])  # it continues: that was not the end
            time = now if message.timestamp < 0 else min(message.timestamp, now)
            queue.messages.append((message, whose, time))
            queue.size += size_of(message)

    def note_end(self, place: Place, *, at_end: bool) -> None:
        """Note whether all of a partition was read that has been written."""
        self._queues[place].at_end = at_end

    def note_passed(self, place: Place, time: int) -> None:
        """Note that all of a partition was read that had been written by a time."""
        self._queues[place].passed = max(self._queues[place].passed, time)

    def take(self, now: int, most: int, most_bytes: float = inf) -> list[Repartitioned]:
        """Return the next messages in order, up to about a size; none while an earlier one may still come."""
        taken = [*self._given_up(now)]
        left = most_bytes
        while len(taken) < most and left > 0 and (place := self._next(now)) is not None:
            queue = self._queues[place]
            message, whose, time = queue.messages.popleft()
            queue.since, queue.passed = now, max(queue.passed, time)
            queue.size -= size_of(message)
            if self._is_early(queue, whose, time, now):
                queue.held[message.offset] = message, whose, time
                self._awaited.setdefault(whose.id, []).append((place, message.offset))
                continue
            taken.append(self._repartitioned(queue.kind, place, message, whose))
            left -= size_of(message)
            if queue.kind == "records":
                taken += self._found(whose.id)
        return taken or [*self._ends()]

    def _given_up(self, now: int) -> Iterator[Repartitioned]:
        """Yield held labels whose records do not come any more."""
        for place, queue in self._queues.items():
            for message, whose, time in [*queue.held.values()]:
                if self._have_passed(time + GRACE, now):
                    del queue.held[message.offset]
                    awaited = self._awaited[whose.id]
                    awaited.remove((place, message.offset))
                    if not awaited:
                        del self._awaited[whose.id]
                    yield self._repartitioned(queue.kind, place, message, whose)

    def _found(self, record: str) -> Iterator[Repartitioned]:
        """Yield the held labels of a record."""
        for place, offset in self._awaited.pop(record, ()):
            message, whose, _ = self._queues[place].held.pop(offset)
            yield self._repartitioned("labels", place, message, whose)

    def _next(self, now: int) -> Place | None:
        """Return the partition with the message that is next; of a record and a label of one time, the record."""
        queues = self._queues
        if any(not one.messages and not one.at_end and now - one.since < STALLED for one in queues.values()):
            return None
        ready = [(one.first[2], one.kind == "labels", place) for place, one in queues.items() if one.messages]
        return next((place for *_, place in sorted(ready) if self._is_ready(queues[place], now)), None)

    def _is_ready(self, queue: _Queue, now: int) -> bool:
        _, whose, time = queue.first
        return not whose.is_mark and not (self._is_early(queue, whose, time, now) and queue.holds_most)

    def _is_early(self, queue: _Queue, whose: Whose, time: int, now: int) -> bool:
        """Tell whether a message is a label whose record may still come."""
        is_known = queue.kind == "records" or whose.reason != "" or self._ids.client(whose.id) is not None
        return not is_known and not self._have_passed(time + GRACE, now)

    def _have_passed(self, time: int, now: int) -> bool:
        """Tell whether all partitions of records are beyond a time."""
        return all(one.passed_by(now) > time for one in self._queues.values() if one.kind == "records")

    def _repartitioned(self, kind: Kind, place: Place, message: LogMessage, whose: Whose) -> Repartitioned:
        client = whose.client if kind == "records" else self._ids.client(whose.id) or ""
        if whose.reason or not client:
            return Repartitioned(kind, -1, "", whose.id, whose.reason or NO_RECORD, place, message)
        if kind == "records" and whose.id:
            self._ids.add(whose.id, client)
        return Repartitioned(
            kind, partition_of_client(client, self._ids.partitions), client, whose.id, "", place, message
        )

    def _ends(self) -> Iterator[Repartitioned]:
        """Yield the marks of all partitions that are written, once all that are read have ended."""
        if not self._queues or not all(queue.has_ended for queue in self._queues.values()):
            return
        for queue in self._queues.values():
            queue.messages.clear()
        for kind in dict.fromkeys(queue.kind for queue in self._queues.values()):
            yield from (Repartitioned(kind, number, "") for number in range(self._ids.partitions))
