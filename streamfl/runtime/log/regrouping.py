"""Records and labels as they are in a log, put in one order: those of a client in one partition, labels by id.

Theory of operation. A client's records may lie in any partitions of their topics, and a label names only the id of
its record. Whoever regroups reads all partitions and writes every record to the partition of its client, and every
label to the same partition of another topic. What it has written is the order of the federation: nobody behind it
looks at the topics again. It reads messages by the time at which they were written, over all partitions, so an index
of ids says whose a label is. The index holds the newest `window` records of each partition that is written.

A label whose id is not known holds up its own partition until every partition of records has passed it by `GRACE`. It
is then stray: its record never came, or was too long ago.

What is written, and how far was read, is one transaction. After a kill the index is filled again from what was
written, so nothing is lost and nothing is written twice.
"""

import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.runtime.log.intake import LogMessage, client_named
from streamfl.runtime.ports import RecordFormat

# Milliseconds by which clocks of those who write records and labels may differ.
GRACE = 60_000

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


@dataclass(slots=True)
class _Queue:
    """What was read of a partition and not written yet.

    Parameters
    ----------
    kind
        What it holds.
    next
        The offset after the last message that was read.
    since
        Since when nothing was read, in milliseconds.
    """

    kind: Kind
    next: int
    since: int
    at_end: bool = False
    messages: deque[tuple[LogMessage, Head, int]] = field(default_factory=deque)

    @property
    def has_ended(self) -> bool:
        """Tell whether all that is left is the mark of its end."""
        return self.at_end and len(self.messages) == 1 and self.messages[0][1].is_mark

    @property
    def first(self) -> tuple[LogMessage, Head, int]:
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

    def begin(self, place: Place, kind: Kind, offset: int, now: int) -> None:
        """Take a partition, from an offset on."""
        self._queues[place] = _Queue(kind, offset, now)

    @property
    def places(self) -> Mapping[Place, Kind]:
        """Return the partitions, and what they hold."""
        return {place: queue.kind for place, queue in self._queues.items()}

    def waiting(self, place: Place) -> int:
        """Count the messages of a partition that were read and are not taken yet."""
        return len(self._queues[place].messages)

    @property
    def offsets(self) -> dict[Place, int]:
        """Return the offset of each partition before which all is taken."""
        queues = self._queues.items()
        return {place: queue.first[0].offset if queue.messages else queue.next for place, queue in queues}

    def arrived(self, place: Place, messages: Sequence[LogMessage], heads: Iterable[Head], now: int) -> None:
        """Take the next messages of a partition; a time that is ahead of the clock counts as now."""
        queue = self._queues[place]
        for message, head in zip(messages, heads, strict=True):
            if queue.messages and queue.messages[-1][1].is_mark:
                queue.messages.pop()  # it goes on: that was not the end
            time = now if message.timestamp < 0 else min(message.timestamp, now)
            queue.messages.append((message, head, time))
            queue.next, queue.since = message.offset + 1, now

    def note_end(self, place: Place, *, at_end: bool) -> None:
        """Note whether all of a partition was read that has been written."""
        self._queues[place].at_end = at_end

    def take(self, now: int, most: int) -> list[Regrouped]:
        """Return the next messages in order, at most so many; none while an earlier one may still come."""
        taken: list[Regrouped] = []
        while len(taken) < most and (place := self._next(now)) is not None:
            queue = self._queues[place]
            message, head, _ = queue.messages.popleft()
            queue.since = now
            taken.append(self._regrouped(queue.kind, place, message, head))
        return taken or [*self._ends()]

    def _next(self, now: int) -> Place | None:
        """Return the partition with the message that is next; of a record and a label of one time, the record."""
        queues = self._queues
        if any(not one.messages and not one.at_end and now - one.since < STALLED for one in queues.values()):
            return None
        ready = [(one.first[2], one.kind == "labels", place) for place, one in queues.items() if one.messages]
        return next((place for *_, place in sorted(ready) if self._is_ready(queues[place], now)), None)

    def _is_ready(self, queue: _Queue, now: int) -> bool:
        _, head, time = queue.first
        if head.is_mark or queue.kind == "records":
            return not head.is_mark
        return bool(head.reason) or self._ids.client(head.id) is not None or self._have_passed(time + GRACE, now)

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
