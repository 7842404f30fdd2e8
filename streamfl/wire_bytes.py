"""The ground of the compact form: bytes read from the front, whole numbers of any length, deflate, plain floats."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.core.errors import PeerError


@dataclass
class Bytes:
    """Bytes that are read from the front; whoever reads beyond the end gets a PeerError.

    >>> data = Bytes(b"ab")
    >>> data.take(1), data.left
    (b'a', 1)
    """

    data: bytes
    at: int = 0

    @property
    def left(self) -> int:
        """Return the number of bytes not yet read."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= self.left:
            raise PeerError("the bytes end before the value does")
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self) -> int:
        """Return the next byte, which remains to be read; -1 at the end."""
        return self.data[self.at] if self.left else -1

    def varint(self) -> int:
        """Return the next whole number, written by `varint`."""
        number = 0
        for shift in range(0, 63, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise PeerError("a number of more than 63 bits")


def varint(number: int) -> bytes:
    r"""Return a whole number, at least 0, in seven bits a byte, the lowest first.

    >>> varint(5), varint(300), Bytes(varint(300)).varint()
    (b'\x05', b'\xac\x02', 300)
    """
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def sized(data: bytes) -> bytes:
    """Return bytes after their length."""
    return varint(len(data)) + data


def deflated(data: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY, dictionary: bytes = b"") -> bytes:
    """Return data compressed by deflate (RFC 1951)."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, 8, strategy, *([dictionary] if dictionary else []))
    packed: bytes = packer.compress(data) + packer.flush()
    return packed


def inflated(data: bytes, most: int, dictionary: bytes = b"") -> bytes:
    """Return what `deflated` compressed, at most so many bytes.

    Raises
    ------
    PeerError
        It is no such data, or more.
    """
    unpacker = zlib.decompressobj(-15, *([dictionary] if dictionary else []))
    try:
        whole: bytes = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise PeerError(f"bytes that deflate did not write: {error}") from error
    if len(whole) > most or not unpacker.eof or unpacker.unused_data:
        raise PeerError("deflated bytes that are too many, or not all there")
    return whole


def floats_written(values: Sequence[float]) -> bytes:
    """Return floats as bytes: their number, which of them need 64 bits, and those of 32 and of 64 bits."""
    x = np.array(values, np.float64)
    with np.errstate(over="ignore"):
        short = x.astype("<f4")
    long = ~((short == x) | np.isnan(x))
    parts: tuple[bytes, ...] = (np.packbits(long).tobytes(), short[~long].tobytes(), x[long].astype("<f8").tobytes())
    return varint(len(x)) + b"".join(parts)


def floats_read(data: Bytes) -> list[float]:
    """Return the floats that come next.

    >>> floats_read(Bytes(floats_written([0.5, 0.1])))
    [0.5, 0.1]
    """
    count = data.varint()
    long = np.unpackbits(np.frombuffer(data.take((count + 7) // 8), np.uint8))[:count].astype(np.bool_)
    x = np.zeros(count)
    x[~long] = np.frombuffer(data.take(4 * int(np.count_nonzero(~long))), "<f4")
    x[long] = np.frombuffer(data.take(8 * int(np.count_nonzero(long))), "<f8")
    return x.tolist()
