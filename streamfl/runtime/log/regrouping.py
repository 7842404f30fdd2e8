"""Records and labels as they are in a log, put in one order: those of a client in one partition, labels by id.

Theory of operation. A client's records may lie in any partitions of their topics, and a label names only the id of
its record. Whoever regroups reads all partitions and writes every record to the partition of its client, and every
label to the same partition of another topic. What it has written is the order of the federation: nobody behind it
looks at the topics again. It reads messages by the time at which they were written, over all partitions, so an index
of ids says whose a label is. The index holds the newest `window` records of each partition that is written.

A label whose id is not known is held until every partition of records has passed it by `GRACE`. It is then stray: its
record never came, or was too long ago. Others pass it meanwhile, and it holds up its partition only if `MOST_HELD`
are held before it.

What is written, and how far was read, is one transaction: for each partition the first offset that is not done, and
which offsets behind it are not done either. After a kill the index is filled again from what was written, so nothing
is lost and nothing is written twice.
"""

import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.runtime.log.intake import LogMessage, client_named
from streamfl.runtime.ports import RecordFormat

# Milliseconds by which clocks of those who write records and labels may differ.
GRACE = 60_000

# The labels of a partition that are held. Their offsets are told with the committed one, in at most 4 kB.
MOST_HELD = 200

# Milliseconds for which the others wait for a partition that is not at its end, and brings nothing.
STALLED = 10_000

NO_CLIENT = Reason("its key is not a client's name of 1 to 256 bytes", ReasonCode.NO_CLIENT)
NO_RECORD = "a label without a record: none of those that were read last has its id"

Kind = Literal["records", "labels"]
Place = tuple[str, int]
"""A topic, and the number of its partition."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a message: whose it is, by which id, or why it cannot be used.

    Parameters
    ----------
    client
        The client of a record, "" if it names none; a label has none yet.
    id
        The id of the record, "" if it has none.
    reason
        What is wrong with it, "" if nothing is.
    is_mark
        Whether it marks the end of its partition.
    """

    client: str = ""
    id: str = ""
    reason: str = ""
    is_mark: bool = False


MARK = Head(is_mark=True)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition is done.

    Parameters
    ----------
    offset
        All before it is done.
    upto, held
        All before `upto` is done, too, but for the offsets `held`.

    Examples
    --------
    >>> Progress(100, 130, (100, 117)).told, Progress.of(100, "30:0,17")
    ('30:0,17', Progress(offset=100, upto=130, held=(100, 117)))
    """

    offset: int
    upto: int
    held: tuple[int, ...] = ()

    @property
    def told(self) -> str:
        """Return what is told beside the offset."""
        held = ",".join(str(one - self.offset) for one in self.held)
        return f"{self.upto - self.offset}:{held}" if held else ""

    @classmethod
    def of(cls, offset: int, told: str) -> "Progress":
        """Return the progress at an offset of which this was told."""
        upto, _, held = told.partition(":")
        if not held:
            return cls(offset, offset)
        return cls(offset, offset + int(upto), tuple(offset + int(one) for one in held.split(",")))

    def is_open(self, offset: int) -> bool:
        """Tell whether the message at an offset is not done."""
        return offset >= self.upto or offset in self.held


@dataclass(frozen=True, slots=True)
class Regrouped:
    """One message that is written, or one that cannot be.

    Parameters
    ----------
    kind
        Whether it is a record or a label.
    partition
        Where it is written; -1: nowhere, it is stray.
    client, id
        Whose it is, and its id; without a client it is stray, or marks the end.
    reason
        Why it is stray.
    place, message
        Where it was read, and the message; None for a mark.
    """

    kind: Kind
    partition: int
    client: str
    id: str = ""
    reason: str = ""
    place: Place | None = None
    message: LogMessage | None = None


def partition_of_client(client: str, partitions: int) -> int:
    """Return the partition to which a client's records and labels are written.

    >>> partition_of_client("m07", 12), partition_of_client("m08", 12)
    (5, 4)
    """
    return zlib.crc32(client.encode()) % partitions


# --- what messages say ---------------------------------------------------------------------------------------------


def heads_by_key(messages: Sequence[LogMessage], ids: RecordFormat | None) -> list[Head]:
    """Return the heads of records whose key is their client; with a format, also their ids.

    >>> from types import SimpleNamespace
    >>> heads_by_key([SimpleNamespace(offset=0, key=b"m07", value=b"")], None)
    [Head(client='m07', id='', reason='', is_mark=False)]
    """
    known = {} if ids is None else _ids(messages, ids)
    return [
        Head(client, known.get(message.offset, ("", ""))[0], "" if client else NO_CLIENT)
        for message in messages
        for client in [client_named(message.key)]
    ]


def heads_by_field(messages: Sequence[LogMessage], records: RecordFormat) -> list[Head]:
    """Return the heads of records that name their client in a field, and their ids if the format reads them."""
    decoded = records.decode([one.offset for one in messages], [one.value for one in messages])
    ids = [""] * len(decoded.positions) if decoded.half is None else decoded.half.keys.tolist()
    found = {at: Head(*both) for at, *both in zip(decoded.positions.tolist(), decoded.clients, ids, strict=True)}
    for bad, client in zip(decoded.rejected, decoded.rejected_clients, strict=True):
        found[bad.position] = Head(client, bad.key, "" if client else bad.reason)
    return [found[message.offset] for message in messages]


def heads_of_labels(messages: Sequence[LogMessage], labels: RecordFormat) -> list[Head]:
    """Return the heads of labels; those that say no id are stray, and clients refuse those that say nothing else."""
    found = _ids(messages, labels)
    return [Head("", key, "" if key else reason) for key, reason in (found[message.offset] for message in messages)]


def _ids(messages: Sequence[LogMessage], form: RecordFormat) -> dict[int, tuple[str, str]]:
    """Return the id in each message, by offset, and what is wrong with it."""
    decoded = form.decode([one.offset for one in messages], [one.value for one in messages])
    keys = [] if decoded.half is None else decoded.half.keys.tolist()
    good = {at: (key, "") for at, key in zip(decoded.positions.tolist(), keys, strict=True)}
    return good | {bad.position: (bad.key, bad.reason) for bad in decoded.rejected}


# --- whose a label is ----------------------------------------------------------------------------------------------


class Ids:
    """The clients of the newest records, by id.

    Parameters
    ----------
    partitions
        The partitions that are written.
    window
        The records of each that are kept.

    Examples
    --------
    >>> ids = Ids(partitions=1, window=2)
    >>> for number in "123":
    ...     ids.add(f"P{number}", "m07")
    >>> ids.client("P1"), ids.client("P3")
    (None, 'm07')
    """

    def __init__(self, partitions: int, window: int) -> None:
        self.partitions, self._window = partitions, window
        self._clients: dict[str, str] = {}
        self._newest: defaultdict[int, dict[str, None]] = defaultdict(dict)  # by partition, the oldest first

    def add(self, record: str, client: str) -> None:
        """Take the id of the next record, which is this client's."""
        before = self._clients.get(record)
        if before is not None:
            del self._newest[partition_of_client(before, self.partitions)][record]
        newest = self._newest[partition_of_client(client, self.partitions)]
        self._clients[record], newest[record] = client, None
        if len(newest) > self._window:
            oldest = next(iter(newest))
            del newest[oldest], self._clients[oldest]

    def client(self, record: str) -> str | None:
        """Return the client of the record with this id."""
        return self._clients.get(record)


# --- the order -----------------------------------------------------------------------------------------------------


_Read = tuple[LogMessage, Head, int]  # a message, its head, and when it was written


@dataclass(slots=True)
class _Queue:
    """What was read of a partition and not written yet.

    Parameters
    ----------
    kind
        What it holds.
    begun
        What was done when it was taken.
    since
        Since when nothing was read, in milliseconds.
    next
        The offset after the last message that was read.
    held
        The labels that wait for their records, by offset.
    """

    kind: Kind
    begun: Progress
    since: int
    next: int = field(init=False)
    at_end: bool = False
    messages: deque[_Read] = field(default_factory=deque)
    held: dict[int, _Read] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.next = self.begun.offset

    @property
    def progress(self) -> Progress:
        """Return how far it is done."""
        upto = max(self.messages[0][0].offset if self.messages else self.next, self.begun.upto)
        still = [one for one in self.begun.held if one >= self.next]  # not read again yet
        early = takewhile(lambda at: at < upto, (message.offset for message, *_ in self.messages))
        held = sorted({*self.held, *still, *early})
        return Progress(held[0] if held else upto, upto, tuple(held))

    @property
    def has_ended(self) -> bool:
        """Tell whether all that is left is the mark of its end."""
        return self.at_end and not self.held and len(self.messages) == 1 and self.messages[0][1].is_mark

    @property
    def first(self) -> _Read:
        """Return the next message, its head, and when it was written."""
        return self.messages[0]


class Regrouping:
    """Puts the messages of any partitions in one order; it reads and writes nothing itself.

    Parameters
    ----------
    ids
        The records that were written last.
    """

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._queues: dict[Place, _Queue] = {}
        self._awaited: defaultdict[str, list[tuple[Place, int]]] = defaultdict(list)  # held labels, by id

    def begin(self, place: Place, kind: Kind, progress: Progress, now: int) -> None:
        """Take a partition, of which so much is done."""
        self._queues[place] = _Queue(kind, progress, now)

    @property
    def places(self) -> Mapping[Place, Kind]:
        """Return the partitions, and what they hold."""
        return {place: queue.kind for place, queue in self._queues.items()}

    def waiting(self, place: Place) -> int:
        """Count the messages of a partition that were read and are not taken yet."""
        return len(self._queues[place].messages)

    @property
    def progress(self) -> dict[Place, Progress]:
        """Return how far each partition is done."""
        return {place: queue.progress for place, queue in self._queues.items()}

    def next(self, place: Place) -> int:
        """Return the offset after the last message of a partition that was read."""
        return self._queues[place].next

    def arrived(self, place: Place, messages: Sequence[LogMessage], heads: Iterable[Head], now: int) -> None:
        """Take the next messages of a partition; a time that is ahead of the clock counts as now."""
        queue = self._queues[place]
        for message, head in zip(messages, heads, strict=True):
            queue.next, queue.since = message.offset + 1, now
            if not queue.begun.is_open(message.offset):
                continue
            if queue.messages and queue.messages[-1][1].is_mark:
                queue.messages.pop()  # it goes on: that was not the end
            time = now if message.timestamp < 0 else min(message.timestamp, now)
            queue.messages.append((message, head, time))

    def note_end(self, place: Place, *, at_end: bool) -> None:
        """Note whether all of a partition was read that has been written."""
        self._queues[place].at_end = at_end

    def take(self, now: int, most: int) -> list[Regrouped]:
        """Return the next messages in order, about so many; none while an earlier one may still come."""
        taken = [*self._given_up(now)]
        while len(taken) < most and (place := self._next(now)) is not None:
            queue = self._queues[place]
            message, head, time = queue.messages.popleft()
            queue.since = now
            if self._is_early(queue, head, time, now):
                queue.held[message.offset] = message, head, time
                self._awaited[head.id].append((place, message.offset))
                continue
            taken.append(self._regrouped(queue.kind, place, message, head))
            if queue.kind == "records":
                taken += self._found(head.id)
        return taken or [*self._ends()]

    def _given_up(self, now: int) -> Iterator[Regrouped]:
        """Yield held labels whose records do not come any more."""
        for place, queue in self._queues.items():
            for message, head, time in [*queue.held.values()]:
                if self._have_passed(time + GRACE, now):
                    del queue.held[message.offset]
                    self._awaited[head.id].remove((place, message.offset))
                    yield self._regrouped(queue.kind, place, message, head)

    def _found(self, record: str) -> Iterator[Regrouped]:
        """Yield the held labels of a record."""
        for place, offset in self._awaited.pop(record, ()):
            message, head, _ = self._queues[place].held.pop(offset)
            yield self._regrouped("labels", place, message, head)

    def _next(self, now: int) -> Place | None:
        """Return the partition with the message that is next; of a record and a label of one time, the record."""
        queues = self._queues
        if any(not one.messages and not one.at_end and now - one.since < STALLED for one in queues.values()):
            return None
        ready = [(one.first[2], one.kind == "labels", place) for place, one in queues.items() if one.messages]
        return next((place for *_, place in sorted(ready) if self._is_ready(queues[place], now)), None)

    def _is_ready(self, queue: _Queue, now: int) -> bool:
        _, head, time = queue.first
        return not head.is_mark and (len(queue.held) < MOST_HELD or not self._is_early(queue, head, time, now))

    def _is_early(self, queue: _Queue, head: Head, time: int, now: int) -> bool:
        """Tell whether a message is a label whose record may still come."""
        is_known = queue.kind == "records" or head.reason != "" or self._ids.client(head.id) is not None
        return not is_known and not self._have_passed(time + GRACE, now)

    def _have_passed(self, time: int, now: int) -> bool:
        """Tell whether all partitions of records are beyond a time."""
        records = [one for one in self._queues.values() if one.kind == "records"]
        return all(one.has_ended or (one.first[2] if one.messages else now) > time for one in records)

    def _regrouped(self, kind: Kind, place: Place, message: LogMessage, head: Head) -> Regrouped:
        client = head.client if kind == "records" else self._ids.client(head.id) or ""
        if head.reason or not client:
            return Regrouped(kind, -1, "", head.id, head.reason or NO_RECORD, place, message)
        if kind == "records" and head.id:
            self._ids.add(head.id, client)
        return Regrouped(kind, partition_of_client(client, self._ids.partitions), client, head.id, "", place, message)

    def _ends(self) -> Iterator[Regrouped]:
        """Yield the marks of all partitions that are written, once all that are read have ended."""
        if not self._queues or not all(queue.has_ended for queue in self._queues.values()):
            return
        for queue in self._queues.values():
            queue.messages.clear()
        for kind in dict.fromkeys(queue.kind for queue in self._queues.values()):
            yield from (Regrouped(kind, number, "") for number in range(self._ids.partitions))
