"""Splits values that may be too large for one message into parts, and puts them together again.

Every part carries the digest of the whole, its own number and the number of parts. So parts need neither an order nor
a manifest: the whole is complete when all of its parts are there, and parts of two values can never be mixed.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streamfl.errors import PeerError

Headers = Sequence[tuple[str, bytes]]

PART = "part"
DIGEST = "digest"

# The most bytes of all unfinished values of known names, and of unknown names, unless a setting says otherwise.
BUDGET, STRANGERS = 512 * 1024 * 1024, 16 * 1024 * 1024

# The most unfinished values: a sender that starts thousands and finishes none must not fill the memory.
MOST_UNDER_WAY = 4096

# An unfinished value is dropped after this many messages without a part of it.
EXPIRES_AFTER = 100_000

# The bytes of a header that are read; a digest has 64.
LONGEST = 64

# The bytes that a part costs besides its value.
OVERHEAD = 256


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The part of a value that one message holds."""

    number: int
    value: bytes
    headers: Headers


def cut(data: bytes, size: int) -> list[MessagePart]:
    """Return the parts of a value, each of at most `size` bytes.

    >>> [(part.value, part.headers[0][1]) for part in cut(b"abcde", 2)]
    [(b'ab', b'0/3'), (b'cd', b'1/3'), (b'e', b'2/3')]
    """
    digest = hashlib.sha256(data).hexdigest().encode()
    count = max(1, -(-len(data) // size))
    return [
        MessagePart(i, data[i * size : (i + 1) * size], ((PART, f"{i}/{count}".encode()), (DIGEST, digest)))
        for i in range(count)
    ]


@dataclass(slots=True)
class _UnderWay:
    digest: bytes
    count: int
    parts: dict[int, bytes] = field(default_factory=dict)
    size: int = 0
    last: int = 0

    def put(self, number: int, value: bytes, at: int) -> int:
        """Store a part; return the bytes by which this value has grown."""
        before, had = self.held, self.parts.get(number, b"")
        self.parts[number] = value
        self.size += len(value) - len(had)
        self.last = at
        return self.held - before

    @property
    def held(self) -> int:
        return self.size + OVERHEAD * len(self.parts)


@dataclass(slots=True)
class _Pool:
    """Unfinished values within a budget of bytes; the one without a part for longest is dropped first."""

    budget: int
    held: int = 0
    under_way: dict[str, _UnderWay] = field(default_factory=dict)

    def put(self, name: str, digest: bytes, count: int, number: int, value: bytes, at: int) -> _UnderWay:
        """Store a part as the newest; drop others to make room for it."""
        whole = self.under_way.pop(name, None)
        if whole is not None and (whole.digest, whole.count) != (digest, count):
            self.held -= whole.held
            whole = None
        whole = whole or _UnderWay(digest, count)
        self.held += whole.put(number, value, at)
        self.under_way[name] = whole
        while (self.held > self.budget or len(self.under_way) > MOST_UNDER_WAY) and len(self.under_way) > 1:
            self.forget(next(iter(self.under_way)))
        return whole

    def forget(self, name: str) -> None:
        """Drop the unfinished value of a name."""
        self.held -= self.under_way.pop(name).held

    def expire(self, before: int) -> None:
        """Drop the values whose last part came before message number `before`."""
        while self.under_way:
            name, oldest = next(iter(self.under_way.items()))
            if oldest.last >= before:
                return
            self.forget(name)


def any_name(_: str) -> bool:
    """Allow any name."""
    return True


@dataclass(slots=True)
class PartAssembly:
    """Puts parts together again, one value at a time for each name; a newer value replaces an older one.

    Unfinished values are held within a budget. Beyond it, the value without a part for longest is dropped, and its
    sender sends it again. A value is also dropped after many messages without a part. The cost of a part does not
    depend on what is held.

    Examples
    --------
    >>> assembly = PartAssembly(most_bytes=100)
    >>> [assembly.add("c0", part.headers, part.value) for part in reversed(cut(b"abcde", 2))]
    [None, None, b'abcde']
    """

    most_bytes: int  # the largest value that is accepted
    # Minimum number of bytes of a part, except the last: so a value has at most `most_bytes / least + 1` parts.
    least: int = 1
    budget: int = BUDGET  # the most bytes of all unfinished values of known names
    # The most bytes of all unfinished values of unknown names, which so take no room from the known ones.
    strangers: int = STRANGERS
    allows: Callable[[str], bool] = any_name  # tells whether a name is known
    _seen: int = 0
    _known: _Pool = field(init=False)
    _others: _Pool = field(init=False)

    def __post_init__(self) -> None:
        self._known, self._others = _Pool(self.budget), _Pool(self.strangers)

    @property
    def held(self) -> int:
        """Return the bytes of all unfinished values, with the overhead of every part."""
        return self._known.held + self._others.held

    def add(self, name: str, headers: Headers, value: bytes) -> bytes | None:
        """Store a part; return the value if it is complete.

        Raises
        ------
        PeerError
            The part lacks its headers, is too small or one too many, the value is too large for this name, or it does
            not match its digest.
        """
        self._seen += 1
        for pool in (self._known, self._others):
            pool.expire(self._seen - EXPIRES_AFTER)
        number, count, digest = _part_of(headers)
        if count == 1:
            return self._checked(name, digest, value)
        pool = self._known if self.allows(name) else self._others
        most = min(self.most_bytes, pool.budget)
        self._refuse_wrong_size(name, number, count, len(value), most)
        whole = pool.put(name, digest, count, number, value, self._seen)
        if whole.size > most or whole.held > pool.budget:
            pool.forget(name)
            raise PeerError(f"{name!r} sends more than {most} bytes in one value")
        if len(whole.parts) < count:
            return None
        pool.forget(name)
        return self._checked(name, digest, b"".join(whole.parts[i] for i in range(count)))

    def _refuse_wrong_size(self, name: str, number: int, count: int, size: int, most: int) -> None:
        if count > most // self.least + 1:
            raise PeerError(f"{name!r} sends a value in {count} parts; at most {most // self.least + 1} are accepted")
        if size < self.least and number < count - 1:
            raise PeerError(f"{name!r} sends a part of {size} bytes; all but the last have at least {self.least}")

    def _checked(self, name: str, digest: bytes, data: bytes) -> bytes:
        if len(data) > self.most_bytes:
            raise PeerError(f"{name!r} sends more than {self.most_bytes} bytes in one value")
        if hashlib.sha256(data).hexdigest().encode() != digest:
            raise PeerError(f"a value of {name!r} does not match its digest")
        return data


def _part_of(headers: Headers) -> tuple[int, int, bytes]:
    """Return the number of a part, the number of all parts, and the digest of the value."""
    by_name = dict(headers)
    try:
        numbers, digest = by_name[PART], by_name[DIGEST]
        number, count = (int(n) for n in numbers[:LONGEST].decode().split("/"))
        digest = digest[:LONGEST]
    except (KeyError, ValueError, AttributeError, TypeError) as error:  # a header may have no value at all
        raise PeerError("a message without the headers of a part") from error
    if not 0 <= number < count:
        raise PeerError(f"part {number} of {count}")
    return number, count, digest
