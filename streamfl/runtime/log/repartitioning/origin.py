"""Where a repartitioned message was read, as one of its headers says."""

import re
from collections.abc import Iterable

HEADER = "from"

# As many characters as the name of a topic has, and digits as the largest partition and offset.
_PLACE = re.compile(rb"([\w.-]{1,249})/(\d{1,10})/(\d{1,18})")


def origin_header(topic: str, partition: int, offset: int) -> tuple[str, bytes]:
    """Return the header of a message that was read at this place.

    >>> origin_header("machines.readings", 7, 1204)
    ('from', b'machines.readings/7/1204')
    """
    return HEADER, f"{topic}/{partition}/{offset}".encode()


def origin(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, int, int] | None:
    """Return the topic, the partition and the offset where a message was read, None if no header says so.

    >>> origin([("id", b"P17"), origin_header("machines.readings", 7, 1204)]), origin([("from", b"m07")])
    (('machines.readings', 7, 1204), None)
    """
    found = _PLACE.fullmatch(dict(headers).get(HEADER) or b"")
    return None if found is None else (found[1].decode(), int(found[2]), int(found[3]))
