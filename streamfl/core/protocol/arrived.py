"""Versions of a value, by arrival: the last few are kept, whatever they say of themselves."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")

# The open round's version, the one that may arrive before its RoundOpened, and one that is late or forged.
VERSIONS = 3


@dataclass
class Arrived(Generic[V]):
    """The versions of a value that arrived last; messages may come in any order, and twice.

    What arrived last is kept, not what says that it is newest: else a forged version that is far ahead would keep out
    the true ones for ever.

    >>> arrived = Arrived()
    >>> for version in (1, 900, 2, 1, 3):
    ...     arrived.take(version, f"model {version}")
    >>> [arrived.get(version) for version in (1, 2, 3, 900)]
    ['model 1', 'model 2', 'model 3', None]
    """

    versions: dict[int, V] = field(default_factory=dict)

    def take(self, version: int, value: V) -> None:
        """Take a version in, as the last that arrived; of more than `VERSIONS` the first goes."""
        self.versions.pop(version, None)
        self.versions[version] = value
        if len(self.versions) > VERSIONS:
            del self.versions[next(iter(self.versions))]

    def get(self, version: int) -> V | None:
        """Return the value of a version, if it is here."""
        return self.versions.get(version)

    def forget_before(self, version: int) -> None:
        """Drop what is older than a version."""
        self.versions = {v: value for v, value in self.versions.items() if v >= version}
