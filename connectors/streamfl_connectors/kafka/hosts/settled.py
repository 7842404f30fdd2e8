"""What hosts commit of a partition to their group: for the next host of it, and for tools that show lag."""

import re
from typing import NamedTuple, Self

from kafka import OffsetAndMetadata

METADATA = "dead letters before {};"


class SettledOffset(NamedTuple):
    """How far a partition is settled.

    Parameters
    ----------
    offset
        The offset before which no client needs a message; None if nothing was ever committed.
    dead_letters_before
        The offset before which every message that cannot be used is a dead letter already.

    Examples
    --------
    >>> SettledOffset(7, 12).committed
    OffsetAndMetadata(offset=7, metadata='dead letters before 12;', leader_epoch=-1)
    >>> SettledOffset.of(OffsetAndMetadata(7, "dead letters before 12;", -1)).dead_letters_before
    12
    >>> SettledOffset.of(OffsetAndMetadata(7, "", -1)).dead_letters_before
    0
    >>> SettledOffset.of(None)
    SettledOffset(offset=None, dead_letters_before=0)
    """

    offset: int | None
    dead_letters_before: int = 0

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None) -> Self:
        """Return what was committed; metadata that nobody can read count as none."""
        if committed is None:
            return cls(None)
        found = re.match(METADATA.format(r"(\d{1,18})"), committed.metadata or "")
        return cls(committed.offset, 0 if found is None else int(found[1]))

    @property
    def committed(self) -> OffsetAndMetadata:
        """Return what is committed."""
        return OffsetAndMetadata(self.offset, METADATA.format(self.dead_letters_before), -1)
