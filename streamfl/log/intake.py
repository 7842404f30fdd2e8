"""The records that one process reads, from messages to clients: decoded, counted once, routed."""

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import structlog

from streamfl.core.protocol.records import Rejection
from streamfl.log.dead_letters import DeadLetter, reasons
from streamfl.log.partition import Fetch, PartitionReader
from streamfl.log.placement import owner
from streamfl.ports import Decoded, Placement, ReadingCounts, RecordFormat

LOG = structlog.get_logger("streamfl.log.intake")

# Records a client holds, beyond its machine's buffer, before its partition is paused or passes it by.
ROOM = 1000


class Message(Protocol):
    """One message of a log."""

    @property
    def offset(self) -> int:
        """Where it lies."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key, if it has one."""
        ...

    @property
    def value(self) -> bytes | None:
        """What it holds."""
        ...


class Intake:
    """Takes the messages of any number of partitions in.

    Parameters
    ----------
    placement, records
        Whose the records are, and how messages hold them.
    counts
        Counted into; what is read again was counted the first time.
    """

    def __init__(self, placement: Placement, records: RecordFormat, counts: ReadingCounts) -> None:
        self._placement = placement
        self._format = records
        self._counts = counts
        # One for each partition: the names that whoever writes to one may bring take no room from the others'.
        self._formats: dict[str, RecordFormat] = {}
        # Positions read before, while this process runs.
        self._seen: dict[str, int] = {}
        self._newest: dict[str, float] = {}

    def begin(self, topic: str, number: int, offset: int, read_again: Fetch) -> PartitionReader:
        """Return a reader of a partition, named `topic/number` as in the ledger, from an offset on."""
        name = f"{topic}/{number}"
        self._formats[name] = self._format.fresh()
        return PartitionReader(
            name=name,
            head=offset * self._format.stride,
            room=ROOM,
            read_again=read_again,
            only=owner(self._placement, topic, number),
        )

    def give_up(self, name: str) -> None:
        """Let go of a partition; what was counted of it stays counted."""
        del self._formats[name]

    def take(self, reader: PartitionReader, messages: Sequence[Message], marks: Collection[int]) -> list[DeadLetter]:
        """Take consecutive messages of a partition in, at least one.

        Parameters
        ----------
        reader
            Of the partition.
        messages
            All of them.
        marks
            Offsets of those that say that the partition has ended.

        Returns
        -------
        What to write to the dead letters: each message with bad records that was not read before.
        """
        first, last, stride = messages[0].offset, messages[-1].offset, self._format.stride
        ends = set(marks)
        if ends:
            messages = [message for message in messages if message.offset not in ends]
        decoded = self._formats[reader.name].decode([m.offset for m in messages], [m.value for m in messages])
        end, seen = (last + 1) * stride, self._seen.get(reader.name, 0)
        if first * stride >= seen:
            self._counts.add(decoded)
        for remark in decoded.remarks:
            LOG.warning(remark, partition=reader.name)
        self._count_late(reader.name, decoded, seen)
        self._counts.unrouted += sum(stray.position >= seen for stray in reader.take(end, decoded))
        self._seen[reader.name] = max(seen, end)
        if last in ends:
            reader.ends_at(last * stride)
        elif messages:
            reader.goes_on(messages[-1].offset * stride)
        return self._letters(reader.name, [bad for bad in decoded.rejected if bad.position >= seen], messages)

    def _letters(self, name: str, bad: Sequence[Rejection], messages: Sequence[Message]) -> list[DeadLetter]:
        if not bad:
            return []
        topic, _, number = name.rpartition("/")
        by_offset = {message.offset: message for message in messages}
        told = ((by_offset[offset], reason) for offset, reason in reasons(bad, self._format.stride).items())
        return [DeadLetter.of(topic, int(number), m.offset, reason, m.key, m.value) for m, reason in told]

    def _count_late(self, name: str, decoded: Decoded, seen: int) -> None:
        """Count records measured long before others that came earlier."""
        if not len(decoded.times):
            return
        times = decoded.times[(decoded.positions >= seen) & ~np.isnan(decoded.times)]
        if not len(times):
            return
        newest = np.maximum.accumulate(np.concatenate([[self._newest.get(name, -np.inf)], times]))
        self._counts.late += int((times < newest[:-1] - self._placement.late_after).sum())
        self._newest[name] = float(newest[-1])
