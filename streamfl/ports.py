"""What the machines need from the world: records, a link to the other side, time."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from streamfl.core.records import Batch


class Source(Protocol):
    """The records of one client, in order, one or more partitions."""

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return the next records, at most `limit` good and bad ones; empty when none are there now."""
        ...

    @property
    def ended(self) -> bool:
        """Whether no record can ever come again (a file read to its end; never a topic)."""
        ...

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on reading each named partition at its position; the others where they are."""
        ...

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Read single old records again, one batch a partition, without moving; what is gone is left out."""
        ...
