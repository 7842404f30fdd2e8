"""The coordinator's messages in `.control`: JSON for people and programs, none larger than `MOST`.

A larger `round-closed` is written as several pieces, one after another. Each piece is a `round-closed` of its own,
with all fields, some of the accepted updates, and its number (`"piece":"2/3"`). Any other larger message is written
in parts. Readers join both again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from streamfl.errors import PeerError
from streamfl.protocol.messages import Accepted, FromCoordinator, RoundClosed
from streamfl.runtime.log.parts import PART, Headers, PartAssembly, cut
from streamfl.runtime.log.signatures import signer_of, stamp_of
from streamfl.runtime.log.tensors import Tensors
from streamfl.wire import codec, messages
from streamfl.wire.signing import Signer, Verifier

# The most bytes of one message: far below a broker's default limit of 1 MiB.
MOST = 256 * 1024

PIECE = "piece"

# What signatures of control messages are for.
PLACE = "control"

# The most bytes of a message in all its pieces or parts; a ledger entry of 100,000 clients takes 22 MB.
MOST_WHOLE = 64 * 1024 * 1024


def written(
    message: FromCoordinator, most: int = MOST, signer: Signer | None = None
) -> Iterator[tuple[bytes, Headers]]:
    """Yield the values and headers that are written for a message, in order; a signer stamps them in a header.

    >>> from streamfl.protocol.messages import Left
    >>> list(written(Left(client="c0", nonce="a")))
    [(b'{"type":"left","client":"c0","nonce":"a"}', ())]
    """
    data = messages.encode(message)
    if len(data) <= most:
        yield data, stamp_of(signer, PLACE, data)
        return
    pieces = _pieces(message, len(data), most) if isinstance(message, RoundClosed) else [data]
    for piece in pieces:
        stamp = stamp_of(signer, PLACE, piece)
        if len(piece) <= most:
            yield piece, stamp
        else:
            yield from ((part.value, (*part.headers, *stamp)) for part in cut(piece, most))


def _pieces(closed: RoundClosed, size: int, most: int) -> list[bytes]:
    """Return an entry in pieces, each within the bound unless a single update, with all other fields, exceeds it."""
    groups = _groups(closed, size, most)
    return [
        codec.encode(
            replace(closed, accepted=group),
            header={"type": messages.TYPES[RoundClosed], PIECE: f"{number}/{len(groups)}"},
        )
        for number, group in enumerate(groups, 1)
    ]


def _groups(closed: RoundClosed, size: int, most: int) -> list[tuple[Accepted, ...]]:
    """Divide the updates among pieces, in order, by their sizes: a few may have very many spans."""
    repeated = len(messages.encode(replace(closed, accepted=()))) + len(f'"{PIECE}":"/",') + 2 * len(str(size))
    groups: list[list[Accepted]] = [[]]
    used = repeated
    for accepted in closed.accepted:
        size_of_one = len(codec.encode(accepted)) + 1
        if groups[-1] and used + size_of_one > most:
            groups.append([])
            used = repeated
        groups[-1].append(accepted)
        used += size_of_one
    return [tuple(group) for group in groups]


@dataclass
class ControlReader:
    """Reads `.control` message by message, and joins messages that were written in pieces or parts.

    Any message between the pieces of an entry discards them: one transaction writes them one after another. Memory is
    bounded by one message in pieces and one in parts.

    Examples
    --------
    >>> reader = ControlReader()
    >>> reader.read(b'{"type":"left","client":"c0","nonce":"a"}', ())
    Left(client='c0', nonce='a')
    """

    most_bytes: int = MOST_WHOLE  # the most bytes of a message in all its pieces or parts
    verifier: Verifier | None = None  # checks that the coordinator has signed them; without it nothing is signed
    _assembly: PartAssembly = field(init=False)
    _closed: list[RoundClosed] = field(default_factory=list)
    _pieces: int = 0
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._assembly = PartAssembly(self.most_bytes)

    def read(self, value: bytes | None, headers: Headers) -> FromCoordinator | None:
        """Read one message of the log; return the coordinator's message that it completes, if any.

        Raises
        ------
        PeerError
            It is not a message of the coordinator.
        """
        if self.verifier is not None:
            signer_of(self.verifier, PLACE, headers, value)
        if any(name == PART for name, _ in headers):
            whole = self._assembly.add("", headers, value or b"")
            if whole is None:
                return None
            value = whole
        plain, arrays = messages.unpack(value or b"")
        message = messages.understood(plain, arrays)
        if isinstance(message, Tensors) or not isinstance(message, FromCoordinator):
            raise PeerError("not a message of the coordinator for the control topic")
        if isinstance(message, RoundClosed) and PIECE in plain:
            return self._joined(message, plain[PIECE], len(value or b""))
        self._forget()
        return message

    def _joined(self, closed: RoundClosed, piece: Any, size: int) -> RoundClosed | None:
        """Add a piece to those before it; return the entry with the last."""
        number, count = _numbers(piece)
        if number == 1:
            self._forget()
            self._pieces = count
        follows = not self._closed or _same(self._closed[0], closed)
        if (number, count) != (len(self._closed) + 1, self._pieces) or not follows:
            self._forget()
            raise PeerError(f"piece {number} of {count} of an entry, without the pieces before it")
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
