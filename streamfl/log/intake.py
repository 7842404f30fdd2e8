"""The records that one process reads, from messages to clients: decoded, counted once, routed."""

from collections.abc import Collection, Sequence

import numpy as np
import structlog

from streamfl.core.protocol.records import Rejection
from streamfl.log.partition import Fetch, PartitionReader
from streamfl.log.placement import owner
from streamfl.ports import Decoded, Placement, ReadingCounts, RecordFormat

LOG = structlog.get_logger("streamfl.log.intake")

# Records a client holds, beyond its machine's buffer, before its partition is paused or passes it by.
ROOM = 1000


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

    def take(
        self, reader: PartitionReader, offsets: Sequence[int], values: Sequence[bytes | None], marks: Collection[int]
    ) -> list[Rejection]:
        """Take consecutive messages of a partition in, at least one.

        Parameters
        ----------
        reader
            Of the partition.
        offsets, values
            Of all messages.
        marks
            Offsets of those that say that the partition has ended.

        Returns
        -------
        The bad records among them that were not read before: what to keep as dead letters.
        """
        first, last, stride = offsets[0], offsets[-1], self._format.stride
        ends = set(marks)
        if ends:
            kept = [i for i, offset in enumerate(offsets) if offset not in ends]
            offsets, values = [offsets[i] for i in kept], [values[i] for i in kept]
        decoded = self._formats[reader.name].decode(offsets, values)
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
        elif offsets:
            reader.goes_on(offsets[-1] * stride)
        return [bad for bad in decoded.rejected if bad.position >= seen]

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
