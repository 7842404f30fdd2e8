"""Dead letters: unusable messages with their place and the reason, unchanged unless they are too large."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamfl.bounds import NAME_BYTES, bounded
from streamfl.protocol.reasons import code_of, within
from streamfl.protocol.records import Rejection

# A value up to WHOLE bytes is kept complete; of a larger one the first HEAD bytes, its size and its digest.
WHOLE = 64 * 1024
HEAD = 1024


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One unusable message, of bounded size.

    A repeat, after records are read again or a coordinator was killed, has the same topic, partition and offset.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(
        cls, topic: str, partition: int, offset: int, reason: str, key: bytes | None, value: bytes | None
    ) -> "DeadLetter":
        """Return the dead letter of a message.

        Parameters
        ----------
        topic, partition, offset
            The place of the message, which becomes the first headers.
        reason
            What is wrong with it; a header of bounded length. If it has a code, that is the header `code`.
        key, value
            Kept unchanged: the key up to 256 bytes, the value up to 64 KiB. Of a longer one the head is kept, and its
            size and SHA-256 digest become the headers `size` and `sha256`, for the key `key-size` and `key-sha256`.

        Examples
        --------
        >>> letter = DeadLetter.of("f.updates", 0, 17, "no message", b"c0", b"x" * 70_000)
        >>> len(letter.value), [name for name, _ in letter.headers]
        (1024, ['topic', 'partition', 'offset', 'reason', 'size', 'sha256'])
        """
        place = {"topic": topic, "partition": partition, "offset": offset, "reason": bounded(reason)}
        code = {} if code_of(reason) is None else {"code": code_of(reason)}
        kept_key, of_key = _within(key, NAME_BYTES, NAME_BYTES, "key-")
        kept, of_value = _within(value, WHOLE, HEAD, "")
        headers = (place | code | of_value | of_key).items()
        return cls(
            kept_key, kept, tuple((name, str(item).encode(errors="backslashreplace")) for name, item in headers)
        )

    @property
    def place(self) -> tuple[str, int, int]:
        """Return the topic, partition and offset of the message.

        >>> DeadLetter.of("f.updates", 0, 17, "no message", None, b"x").place
        ('f.updates', 0, 17)
        """
        topic, partition, offset = (item.decode() for _, item in self.headers[:3])
        return topic, int(partition), int(offset)

    @property
    def size(self) -> int:
        """Return its approximate size in bytes."""
        return len(self.key or b"") + len(self.value or b"") + sum(len(item) for _, item in self.headers)


def reasons(bad: Sequence[Rejection], stride: int) -> Mapping[int, str]:
    """Return what is wrong with each message that holds bad records, by offset.

    A message becomes one letter, however many of its records are bad: a packed message has up to 65,536 records, and
    a letter for each would be as many copies of it.

    >>> reasons([Rejection(9, "no label"), Rejection(10, "infinite"), Rejection(13, "no label")], stride=4)
    {2: 'no label, and 1 more of its records cannot be used', 3: 'no label'}
    """
    first: dict[int, str] = {}
    for one in bad:
        first.setdefault(one.position // stride, one.reason)
    counts = Counter(one.position // stride for one in bad)
    more = {offset: f", and {n - 1:,} more of its records cannot be used" for offset, n in counts.items() if n > 1}
    return {offset: within(reason, "", more.get(offset, "")) for offset, reason in first.items()}


def _within(data: bytes | None, most: int, head: int, prefix: str) -> tuple[bytes | None, dict[str, object]]:
    """Return the data that are kept, and the headers about data that are cut."""
    if data is None or len(data) <= most:
        return data, {}
    return data[:head], {f"{prefix}size": len(data), f"{prefix}sha256": hashlib.sha256(data).hexdigest()}
