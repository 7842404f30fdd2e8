"""The versions of a value that arrived last, whatever their numbers."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamfl.protocol.memory import MOST_KEPT, memory
from streamfl.protocol.messages.base import Message

V = TypeVar("V")

# The version of the open round, the next one (it may arrive before its RoundOpened), and one that is late or forged.
VERSIONS = 3


@dataclass
class Arrived(Generic[V]):
    """The versions of a value that arrived last; messages may come in any order, and twice.

    The last arrivals are kept, not the highest numbers: otherwise one forged version with a huge number would shut
    out the real ones for ever.

    >>> arrived = Arrived()
    >>> for version in (1, 900, 2, 1, 3):
    ...     _ = arrived.take(version, f"model {version}")
    >>> [arrived.get(version) for version in (1, 2, 3, 900)]
    ['model 1', 'model 2', 'model 3', None]
    """

    versions: dict[int, V] = field(default_factory=dict)
    memory: int = 0  # about how many bytes all versions take
    _sizes: dict[int, int] = field(default_factory=dict)  # of the versions, counted once: that takes time

    def take(self, version: int, value: V, size: int | None = None) -> int:
        """Store a version as the last arrival; beyond `VERSIONS`, or `MOST_KEPT` bytes, the first are dropped.

        `size` is about how many bytes it takes, where that is known.

        Returns
        -------
        About how many bytes the value takes.
        """
        if size is None:
            size = value.memory if isinstance(value, Message) else memory(value)
        self.drop(version)
        self.versions[version], self._sizes[version] = value, size
        self.memory += size
        while len(self.versions) > VERSIONS or (len(self.versions) > 1 and self.memory > MOST_KEPT):
            self.drop(next(iter(self.versions)))
        return size

    def get(self, version: int) -> V | None:
        """Return the value of a version, None if it is not stored."""
        return self.versions.get(version)

    def has(self, version: int) -> bool:
        """Tell whether a version is stored."""
        return version in self.versions

    def drop(self, version: int) -> None:
        """Drop a version, if it is stored."""
        if version in self.versions:
            del self.versions[version]
            self.memory -= self._sizes.pop(version)

    def forget_before(self, version: int) -> None:
        """Drop all versions before this one."""
        for old in [v for v in self.versions if v < version]:
            self.drop(old)
