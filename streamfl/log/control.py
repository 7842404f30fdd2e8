"""How the coordinator's messages lie in `.control`: as JSON for people and programs, none larger than `MOST`.

A `round-closed` that is larger becomes several, one after another: each is one by itself, with all of its fields and
some of the updates that it accepts, and says which piece it is (`"piece":"2/3"`). Any other message that is larger
goes in parts. Readers put both together again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from streamfl import codec, messages
from streamfl.core.errors import PeerError
from streamfl.core.protocol.messages import Accepted, FromCoordinator, RoundClosed
from streamfl.log.parts import PART, Headers, PartAssembly, cut
from streamfl.log.tensors import Tensors

# Bytes of one message: far below what a broker takes by default, 1 MiB.
MOST = 256 * 1024

PIECE = "piece"

# Bytes of one message in all its pieces or parts; a ledger entry of 100,000 clients takes 20 MB.
MOST_WHOLE = 64 * 1024 * 1024


def written(message: FromCoordinator, most: int = MOST) -> Iterator[tuple[bytes, Headers]]:
    """Return the values and headers of what is written for a message, in order.

    >>> from streamfl.core.protocol.messages import Left
    >>> list(written(Left(client="c0", incarnation="a")))
    [(b'{"type":"left","client":"c0","incarnation":"a"}', ())]
    """
    data = messages.encode(message)
    if len(data) <= most:
        yield data, ()
        return
    pieces = _pieces(message, len(data), most) if isinstance(message, RoundClosed) else [data]
    for piece in pieces:
        if len(piece) <= most:
            yield piece, ()
        else:
            yield from ((part.value, part.headers) for part in cut(piece, most))


def _pieces(closed: RoundClosed, size: int, most: int) -> list[bytes]:
    """Return an entry in pieces, each within its bound if one update and what all pieces repeat allow it."""
    groups = _groups(closed, size, most)
    return [
        codec.encode(
            replace(closed, accepted=group),
            header={"type": messages.TYPES[RoundClosed], PIECE: f"{number}/{len(groups)}"},
        )
        for number, group in enumerate(groups, 1)
    ]


def _groups(closed: RoundClosed, size: int, most: int) -> list[tuple[Accepted, ...]]:
    """Share the updates out, in order, by their own sizes: a few may have very many spans."""
    repeated = len(messages.encode(replace(closed, accepted=()))) + len(f'"{PIECE}":"/",') + 2 * len(str(size))
    groups: list[list[Accepted]] = [[]]
    used = repeated
    for accepted in closed.accepted:
        takes = len(codec.encode(accepted)) + 1
        if groups[-1] and used + takes > most:
            groups.append([])
            used = repeated
        groups[-1].append(accepted)
        used += takes
    return [tuple(group) for group in groups]


@dataclass
class ControlReader:
    """Reads `.control` message by message, and puts together what was written in pieces or parts.

    What lies between the pieces of one entry makes an end of them: one transaction wrote them one after another.
    Memory is bounded by one message in pieces and one in parts.

    Examples
    --------
    >>> reader = ControlReader()
    >>> reader.read(b'{"type":"left","client":"c0","incarnation":"a"}', ())
    Left(client='c0', incarnation='a')
    """

    most_bytes: int = MOST_WHOLE
    _assembly: PartAssembly = field(init=False)
    _closed: list[RoundClosed] = field(default_factory=list)
    _pieces: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._assembly = PartAssembly(self.most_bytes)

    def read(self, value: bytes | None, headers: Headers) -> FromCoordinator | None:
        """Take one message in; return what it completes.

        Raises
        ------
        PeerError
            It is none of the coordinator's.
        """
        if any(name == PART for name, _ in headers):
            whole = self._assembly.add("", headers, value or b"")
            if whole is None:
                return None
            value = whole
        plain, arrays = codec.unpack(value or b"")
        told = messages.understood(plain, arrays)
        if isinstance(told, Tensors) or not isinstance(told, FromCoordinator):
            raise PeerError("neither an entry nor an answer of the coordinator's")
        if isinstance(told, RoundClosed) and PIECE in plain:
            return self._joined(told, plain[PIECE], len(value or b""))
        self._forget()
        return told

    def _joined(self, closed: RoundClosed, piece: Any, size: int) -> RoundClosed | None:
        """Add a piece to those before it; return the entry with the last."""
        number, count = _numbers(piece)
        if number == 1:
            self._forget()
            self._pieces = count
        follows = not self._closed or _same(self._closed[0], closed)
        if (number, count) != (len(self._closed) + 1, self._pieces) or not follows:
            self._forget()
            raise PeerError(f"piece {number} of {count} of an entry, and not those before it")
        self._bytes += size
        if self._bytes > self.most_bytes:
            self._forget()
            raise PeerError(f"an entry of more than {self.most_bytes} bytes")
        self._closed.append(closed)
        if number < count:
            return None
        accepted = tuple(one for part in self._closed for one in part.accepted)
        self._forget()
        return replace(closed, accepted=accepted)

    def _forget(self) -> None:
        self._closed.clear()
        self._pieces = self._bytes = 0


def _same(one: RoundClosed, other: RoundClosed) -> bool:
    return (one.entry, one.round, one.epoch, one.model) == (other.entry, other.round, other.epoch, other.model)


def _numbers(piece: Any) -> tuple[int, int]:
    number, _, count = piece.partition("/") if isinstance(piece, str) else ("", "", "")
    if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit() and len(piece) <= 20):
        raise PeerError("a piece of an entry without its number")
    if not 1 <= int(number) <= int(count):
        raise PeerError(f"piece {int(number)} of {int(count)}")
    return int(number), int(count)
