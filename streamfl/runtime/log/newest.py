"""The newest value of every key, within bounds: the content of a compacted topic, to which any writer may add.

The size of a value is what is kept: the bytes of an encoded one, the memory of a decoded one.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# The most keys; a federation has a few for every live model.
MOST_KEYS = 65_536

# The bytes that a key costs besides its value.
OVERHEAD = 256


class Newest(Generic[K, V]):
    """Values by key, in the order in which they were put; the oldest are dropped beyond a number or a size.

    Parameters
    ----------
    most_bytes
        The most bytes of all values, with `OVERHEAD` for each.

    Examples
    --------
    >>> newest = Newest(most_bytes=2 * OVERHEAD + 10)
    >>> for key, value in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")):
    ...     newest.put(key, value, 5)
    >>> list(newest.values())
    ['3', '4']
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._values: dict[K, tuple[V, int]] = {}

    def put(self, key: K, value: V, size: int) -> None:
        """Store the newest value of a key, of `size` bytes."""
        self.drop(key)
        self._values[key] = (value, size + OVERHEAD)
        self._held += size + OVERHEAD
        while (self._held > self._most or len(self._values) > MOST_KEYS) and len(self._values) > 1:
            self.drop(next(iter(self._values)))

    def drop(self, key: K) -> None:
        """Remove a key, if it is there."""
        _, size = self._values.pop(key, (None, 0))
        self._held -= size

    def values(self) -> Iterator[V]:
        """Return the values, oldest first."""
        return (value for value, _ in self._values.values())
