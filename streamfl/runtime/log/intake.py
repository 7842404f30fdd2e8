"""From messages of a log to the records of clients: decoded, counted once, and routed."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import structlog

from streamfl.bounds import is_name
from streamfl.protocol.records import Rejection
from streamfl.runtime.log.dead_letters import DeadLetter, reasons
from streamfl.runtime.log.partition import Fetch, PartitionReader
from streamfl.runtime.log.placement import owner
from streamfl.runtime.ports import Decoded, Placement, ReadingCounts, RecordFormat

LOG = structlog.get_logger("streamfl.intake")

# The records that a client holds, beyond its machine's buffer, before its partition is paused or skips it.
ROOM = 1000

# The remarks that a process remembers, to log each once, in whatever partition; further ones are logged in each.
REMEMBERED = 1000


class LogMessage(Protocol):
    """One message of a log."""

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its content; None if it has none."""
        ...

    @property
    def timestamp(self) -> int:
        """When it was written, in milliseconds since 1970, below 0 if the log does not say."""
        ...


Origin = Callable[[Any], tuple[str, int, int] | None]


class LogIntake:
    """Decodes the messages of any number of partitions and routes their records to clients.

    Parameters
    ----------
    counts
        The counts that are updated; records that are read again were counted the first time.
    origin
        Returns the topic, partition and offset where a repartitioned message was read, None if it does not say so.
        Dead letters and remarks name this place; without `origin`, that in the partition that is taken in.
    """

    def __init__(
        self, placement: Placement, records: RecordFormat, counts: ReadingCounts, origin: Origin | None = None
    ) -> None:
        self._placement = placement
        self._format = records
        self._counts = counts
        self._origin = origin
        # One for each partition, so that names written to one take no room from those of the others.
        self._formats: dict[str, RecordFormat] = {}
        # By partition, the position up to which this process has read.
        self._seen: dict[str, int] = {}
        self._newest: dict[str, float] = {}
        self._remarked: set[str] = set()

    def begin(
        self,
        topic: str,
        number: int,
        offset: int,
        read_again: Fetch,
        only: str | None = None,
        *,
        wait: bool = False,
        dead_letters_before: int = 0,
    ) -> PartitionReader:
        """Return a reader of a partition from an offset on; its name is `topic/number`, as in the ledger.

        `only` names its only client, if the placement does not; for `wait` see `PartitionReader`. No dead letter is
        made of messages before the offset `dead_letters_before`: an earlier process has written these.
        """
        name = f"{topic}/{number}"
        self._formats[name] = self._format.fresh()
        return PartitionReader(
            name=name,
            head=offset * self._format.stride,
            room=ROOM,
            read_again=read_again,
            only=only or owner(self._placement, topic, number),
            wait=wait,
            dead_letters_before=max(dead_letters_before * self._format.stride, self._seen.get(name, 0)),
        )

    def give_up(self, name: str) -> None:
        """Forget a partition; its counts stay."""
        del self._formats[name]

    def take(
        self, reader: PartitionReader, messages: Sequence[LogMessage], marks: Collection[int]
    ) -> list[DeadLetter]:
        """Decode and route consecutive messages of a partition, at least one.

        Parameters
        ----------
        marks
            The offsets of end-of-stream marks among them.

        Returns
        -------
        The dead letters to write: a letter for each message with bad records that was not read before.
        """
        first, last, stride = messages[0].offset, messages[-1].offset, self._format.stride
        ends = set(marks)
        if ends:
            messages = [message for message in messages if message.offset not in ends]
        decoded = self._formats[reader.name].decode([m.offset for m in messages], [m.value for m in messages])
        decoded = _with_times(decoded, messages)
        if self._placement.by == "message-key":
            decoded = _with_clients(decoded, messages, self._format.stride)
        end, seen = (last + 1) * stride, self._seen.get(reader.name, 0)
        if first * stride >= seen:
            self._counts.add(decoded)
        self._log(reader.name, decoded, messages)
        self._count_late(reader.name, decoded, seen)
        self._counts.unrouted += sum(stray.position >= seen for stray in reader.take(end, decoded))
        self._seen[reader.name] = max(seen, end)
        if last in ends:
            reader.ends_at(last * stride)
        elif messages:
            reader.goes_on(messages[-1].offset * stride)
        bad = [one for one in decoded.rejected if one.position >= reader.dead_letters_before]
        reader.dead_letters_before = max(reader.dead_letters_before, end)
        return self._letters(reader.name, bad, messages)

    def _log(self, name: str, decoded: Decoded, messages: Sequence[LogMessage]) -> None:
        """Log what was not remarked before about any partition, with the place of the message, if it is about one."""
        for remark in decoded.remarks:
            if remark not in self._remarked:
                offset = decoded.remarked_at.get(remark, -1) // self._format.stride
                about = next((message for message in messages if message.offset == offset), None)
                place = {} if about is None else {"message": "/".join(map(str, self._place(name, about)))}
                LOG.warning(remark, partition=name, **place)
                if len(self._remarked) < REMEMBERED:
                    self._remarked.add(remark)

    def _letters(self, name: str, bad: Sequence[Rejection], messages: Sequence[LogMessage]) -> list[DeadLetter]:
        if not bad:
            return []
        by_offset = {message.offset: message for message in messages}
        wrong = ((by_offset[offset], reason) for offset, reason in reasons(bad, self._format.stride).items())
        return [DeadLetter.of(*self._place(name, m), reason, m.key, m.value) for m, reason in wrong]

    def _place(self, name: str, message: LogMessage) -> tuple[str, int, int]:
        """Return the topic, partition and offset at which people find a message of a partition."""
        topic, _, number = name.rpartition("/")
        origin = None if self._origin is None else self._origin(message)
        return origin or (topic, int(number), message.offset)

    def _count_late(self, name: str, decoded: Decoded, seen: int) -> None:
        """Count records that were measured long before earlier ones in the partition."""
        if not len(decoded.times):
            return
        times = decoded.times[(decoded.positions >= seen) & ~np.isnan(decoded.times)]
        if not len(times):
            return
        newest = np.maximum.accumulate(np.concatenate([[self._newest.get(name, -np.inf)], times]))
        self._counts.late += int((times < newest[:-1] - self._placement.late_after).sum())
        self._newest[name] = float(newest[-1])


def _with_clients(decoded: Decoded, messages: Sequence[LogMessage], stride: int) -> Decoded:
    """Add the clients of records, which are the keys of their messages."""
    by_offset = {message.offset: client_named(message.key) for message in messages}
    return replace(
        decoded,
        clients=tuple(by_offset[position // stride] for position in decoded.positions.tolist()),
        rejected_clients=tuple(by_offset[bad.position // stride] for bad in decoded.rejected),
    )


def client_named(key: bytes | None) -> str:
    r"""Return the client that a message's key names, "" if it names none.

    >>> client_named(b"m07"), client_named(None), client_named(b"\xff")
    ('m07', '', '')
    """
    try:
        name = (key or b"").decode()
    except UnicodeDecodeError:
        return ""
    return name if is_name(name) else ""


def _with_times(decoded: Decoded, messages: Sequence[LogMessage]) -> Decoded:
    """Add when halves of records were written; a message holds one of them."""
    if decoded.half is None:
        return decoded
    times = {message.offset: message.timestamp for message in messages}
    written = np.array([times[position] for position in decoded.positions.tolist()], np.int64)
    return replace(decoded, half=replace(decoded.half, written=written))
