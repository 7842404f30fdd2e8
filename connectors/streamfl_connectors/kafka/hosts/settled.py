"""What hosts commit of a partition to their group: for the next host of it, and for tools that show lag."""

import re
from typing import NamedTuple, Self

from kafka import OffsetAndMetadata

METADATA, READ = "dead letters before {};", " read before {};"


class SettledOffset(NamedTuple):
    """How far a partition is settled.

    Parameters
    ----------
    offset
        The offset before which no client needs a message; None if nothing was ever committed.
    dead_letters_before
        The offset before which every message that cannot be used is a dead letter already.
    read_before
        The offset before which the host has read the partition; None if it did not say so.

    Examples
    --------
    >>> SettledOffset(7, 12, 40).committed
    OffsetAndMetadata(offset=7, metadata='dead letters before 12; read before 40;', leader_epoch=-1)
    >>> SettledOffset.of(OffsetAndMetadata(7, "dead letters before 12; read before 40;", -1))
    SettledOffset(offset=7, dead_letters_before=12, read_before=40)
    >>> SettledOffset.of(OffsetAndMetadata(7, "dead letters before 12;", -1))
    SettledOffset(offset=7, dead_letters_before=12, read_before=None)
    >>> SettledOffset.of(OffsetAndMetadata(7, "", -1)).dead_letters_before, SettledOffset.of(None).offset
    (0, None)
    """

    offset: int | None
    dead_letters_before: int = 0
    read_before: int | None = None

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None) -> Self:
        """Return what was committed; metadata that nobody can read count as none."""
        if committed is None:
            return cls(None)
        text = committed.metadata or ""
        letters, read = (re.search(one.format(r"(\d{1,18})"), text) for one in (METADATA, READ))
        return cls(
            committed.offset, 0 if letters is None else int(letters[1]), None if read is None else int(read[1])
        )

    @property
    def committed(self) -> OffsetAndMetadata:
        """Return what is committed."""
        read = "" if self.read_before is None else READ.format(self.read_before)
        return OffsetAndMetadata(self.offset, METADATA.format(self.dead_letters_before) + read, -1)
