"""How many records of a client wait: by how far its partitions go, how far they were read, and how far learnt."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from streamfl.runtime.ports import PartitionReach

# By how much older spans count less for what part of the positions of a partition are records of the client.
FADES = 0.9


class LearntSpan(msgspec.Struct, array_like=True):
    """How far a client has learnt a partition, and what part of its positions are records of this client.

    Others have records in the same partition, a log has positions without records, and a message may hold several.

    Examples
    --------
    >>> learnt = LearntSpan()
    >>> learnt.take(0, 100, 50)
    >>> learnt.end, learnt.density
    (100, 0.5)
    """

    end: int = 0  # the position after the last record that it has learnt
    positions: float = 0.0  # the positions of its newest spans, and the records in them
    records: float = 0.0

    def take(self, start: int, end: int, records: int) -> None:
        """Take a span into account, good and bad records."""
        self.end = max(self.end, end)
        self.positions = FADES * self.positions + max(0, end - start)
        self.records = FADES * self.records + records

    @property
    def density(self) -> float:
        """Return what part of the positions are records of the client, at most 1."""
        return min(1.0, self.records / self.positions) if self.positions else 0.0


class WaitingRecords(NamedTuple):
    """About how many records wait: in the log, not read by a host; and read, but not learnt. None if unknown.

    If `unread` alone is unknown, `unlearnt` counts all that wait.
    """

    unread: int | None = None
    unlearnt: int | None = None


def waiting(learnt: Mapping[str, LearntSpan], reaches: Mapping[str, PartitionReach]) -> WaitingRecords:
    """Return about how many records of a client wait, given how far its partitions go.

    If labels have a topic of their own, waiting labels are counted. If it is not known how far a host has read,
    all that wait count as not learnt.

    >>> learnt = {"p/0": LearntSpan(end=100, positions=100.0, records=50.0)}
    >>> waiting(learnt, {"p/0": PartitionReach(end=180, read=140)}), waiting(learnt, {"p/0": PartitionReach(180)})
    (WaitingRecords(unread=20, unlearnt=20), WaitingRecords(unread=None, unlearnt=40))
    >>> waiting(learnt, {})
    WaitingRecords(unread=None, unlearnt=None)
    """
    if not learnt or not learnt.keys() <= reaches.keys():
        return WaitingRecords()
    unread, unlearnt, is_known = 0.0, 0.0, True
    for name, one in learnt.items():
        reach = reaches[name]
        is_known &= reach.read is not None
        end = max(one.end, reach.end)
        read = end if reach.read is None else min(max(one.end, reach.read), end)
        unread += one.density * (end - read)
        unlearnt += one.density * (read - one.end)
    return WaitingRecords(round(unread) if is_known else None, round(unlearnt))
