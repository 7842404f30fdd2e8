"""Values that may be too large for one message, in parts.

Every part carries the digest of the whole, its own number and how many there are, so parts need no order and no
manifest: the whole is there when the last of its parts is, and parts of two wholes can never be mixed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamfl.core.errors import PeerError

Headers = Sequence[tuple[str, bytes]]

PART = "part"
DIGEST = "digest"

# Wholes under way at a time, by name: a sender that starts thousands and ends none must not fill the memory.
MOST_UNDER_WAY = 4096


@dataclass(frozen=True, slots=True)
class Part:
    """One message's worth of a value."""

    number: int
    value: bytes
    headers: Headers


def cut(data: bytes, size: int) -> list[Part]:
    """Return the parts of a value, each of at most `size` bytes.

    >>> [(part.value, part.headers[0][1]) for part in cut(b"abcde", 2)]
    [(b'ab', b'0/3'), (b'cd', b'1/3'), (b'e', b'2/3')]
    """
    digest = hashlib.sha256(data).hexdigest().encode()
    count = max(1, -(-len(data) // size))
    return [
        Part(i, data[i * size : (i + 1) * size], ((PART, f"{i}/{count}".encode()), (DIGEST, digest)))
        for i in range(count)
    ]


@dataclass(slots=True)
class _UnderWay:
    digest: bytes
    count: int
    parts: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts.values()))


@dataclass(slots=True)
class Assembly:
    """Puts parts together again, one whole at a time for each name; a newer one takes the place of an older.

    Parameters
    ----------
    most_bytes
        Largest whole that is accepted.

    Examples
    --------
    >>> assembly = Assembly(most_bytes=100)
    >>> [assembly.add("c0", part.headers, part.value) for part in reversed(cut(b"abcde", 2))]
    [None, None, b'abcde']
    """

    most_bytes: int
    _under_way: dict[str, _UnderWay] = field(default_factory=dict)

    def add(self, name: str, headers: Headers, value: bytes) -> bytes | None:
        """Take a part in; return the whole when it is complete.

        Raises
        ------
        PeerError
            The part has no such headers, is too large, or the whole is not what its digest says.
        """
        number, count, digest = _told(headers)
        whole = self._under_way.get(name)
        if whole is None or whole.digest != digest or whole.count != count:
            whole = self._start(name, digest, count)
        whole.parts[number] = value
        if whole.size > self.most_bytes:
            del self._under_way[name]
            raise PeerError(f"{name!r} sends more than {self.most_bytes} bytes in one value")
        return self._finished(name, whole) if len(whole.parts) == count else None

    def _start(self, name: str, digest: bytes, count: int) -> _UnderWay:
        self._under_way.pop(name, None)
        if len(self._under_way) >= MOST_UNDER_WAY:
            del self._under_way[next(iter(self._under_way))]  # the oldest; whoever sent it sends again
        whole = self._under_way[name] = _UnderWay(digest, count)
        return whole

    def _finished(self, name: str, whole: _UnderWay) -> bytes:
        del self._under_way[name]
        data = b"".join(whole.parts[i] for i in range(whole.count))
        if hashlib.sha256(data).hexdigest().encode() != whole.digest:
            raise PeerError(f"what {name!r} sent is not what its digest says")
        return data


def _told(headers: Headers) -> tuple[int, int, bytes]:
    """Return the number of a part, how many there are, and the digest of the whole."""
    told = dict(headers)
    try:
        number, count = (int(n) for n in told[PART].decode().split("/"))
        digest = told[DIGEST]
    except (KeyError, ValueError, AttributeError) as error:  # a header may have no value at all
        raise PeerError("a message without the headers of a part") from error
    if not 0 <= number < count:
        raise PeerError(f"part {number} of {count}")
    return number, count, digest
