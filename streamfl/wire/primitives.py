"""The ground of the compact form: bytes read from the front, whole numbers of any length, deflate, plain floats."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import BoolArray
from streamfl.errors import PeerError

# The most bits of a whole number of either sign. Fields take fewer, and are refused by their names.
FOLDED = 140


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

    def varint(self, bits: int = 63) -> int:
        """Return the next whole number, written by `varint`, of at most this many bits, a multiple of 7."""
        number = 0
        for shift in range(0, bits, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise PeerError(f"a number of more than {bits} bits")


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
    """Return what `deflated` compressed, at most this many bytes.

    Raises
    ------
    PeerError
        It is no such data, or more.
    """
    unpacker = zlib.decompressobj(-15, *([dictionary] if dictionary else []))
    try:
        whole: bytes = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise PeerError(f"the compressed bytes are damaged: {error}") from error
    if len(whole) > most or not unpacker.eof or unpacker.unused_data:
        raise PeerError("the compressed bytes are too many, or incomplete")
    return whole


def floats_written(values: Sequence[float]) -> bytes:
    """Return floats as bytes: their number, which of them need 64 bits, which of the others 32, and all of them.

    Of the others, those of 8 significant bits take 16. The first bytes of all that do not need 64 bits, sign and
    exponent, are alike in a message and written apart, deflated.

    >>> [len(floats_written([number] * 80)) for number in (2.0 / 3.0, float(np.float32(2.0 / 3.0)), 0.5)]
    [654, 285, 125]
    """
    x = np.array(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN becomes a quiet one
        near = x.astype("<f4")
    long = ~((near == x) | np.isnan(x))
    planes = near[~long].view(np.uint8).reshape(-1, 4)
    whole = planes[:, :2].any(axis=1)
    heads = sized(deflated(planes[:, 3].tobytes(), zlib.Z_HUFFMAN_ONLY))
    marks = np.packbits(long).tobytes() + np.packbits(whole).tobytes()
    rest = (planes[:, 2].tobytes(), planes[whole, :2].tobytes(), x[long].astype("<f8").tobytes())
    return b"".join((varint(len(x)), marks, heads, *rest))


def floats_read(data: Bytes) -> list[float]:
    """Return the floats that come next.

    >>> floats_read(Bytes(floats_written([0.5, 0.1])))
    [0.5, 0.1]

    Raises
    ------
    PeerError
        They are not there.
    """
    count = data.varint()
    long = _marks_read(data, count)
    shorts = count - int(np.count_nonzero(long))
    whole = _marks_read(data, shorts)
    heads = inflated(data.take(data.varint()), shorts)
    if len(heads) != shorts:
        raise PeerError("there are fewer floats than there should be")
    planes = np.zeros((shorts, 4), np.uint8)
    planes[:, 3] = np.frombuffer(heads, np.uint8)
    planes[:, 2] = np.frombuffer(data.take(shorts), np.uint8)
    planes[whole, :2] = np.frombuffer(data.take(2 * int(np.count_nonzero(whole))), np.uint8).reshape(-1, 2)
    x = np.zeros(count)
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which becomes a quiet one
        x[~long] = planes.view("<f4").ravel()
    x[long] = np.frombuffer(data.take(8 * int(np.count_nonzero(long))), "<f8")
    return x.tolist()


def _marks_read(data: Bytes, count: int) -> BoolArray:
    """Return so many bits."""
    packed = np.frombuffer(data.take((count + 7) // 8), np.uint8)
    return np.unpackbits(packed)[:count].astype(np.bool_)


def whole_written(values: Sequence[int]) -> bytes:
    r"""Return whole numbers of either sign as bytes: their number, then each as a varint of 2 n, or -2 n - 1.

    >>> whole_written([3, -1, 200])
    b'\x03\x06\x01\x90\x03'
    """
    return varint(len(values)) + b"".join(varint(2 * n if n >= 0 else -2 * n - 1) for n in values)


def whole_read(data: Bytes) -> list[int]:
    """Return the whole numbers that come next.

    >>> whole_read(Bytes(whole_written([3, -1, 200])))
    [3, -1, 200]

    Raises
    ------
    PeerError
        They are not there, or far too large.
    """
    count = data.varint()
    if count > data.left:
        raise PeerError("there are fewer whole numbers than there should be")
    folded = [data.varint(FOLDED) for _ in range(count)]
    return [-(n >> 1) - 1 if n & 1 else n >> 1 for n in folded]
