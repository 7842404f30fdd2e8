"""Arrays of floats as few bytes, exactly: multiples of powers of two as small integers, all others as they are.

What clients send lies on grids of powers of two (`streamfl.core.learning.grid`). An array x of shape (rows, columns)
is then m * 2^(e_row + f_column) with small whole numbers m, which deflate codes in a few bits each. The writer finds
the exponents, one for each row and column or the same for all; nothing is lost, whatever the array. Three further
facts save numbers where they hold: a symmetric matrix is written as its triangle, rows that add up to 0 without their
last column, and an array like the first of the same shape as the difference from it.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.errors import PeerError

# The most numbers of one array: second moments of the most features that a federation registers by default.
MOST_NUMBERS = 2**24

# The largest exponent, in size, of any float, and the widest whole numbers.
FARTHEST, WIDEST = 1100, 4

FLOAT64, FLOAT32, GRID = 0, 1, 2
SYMMETRIC, ZERO_SUM, RELATIVE = 4, 8, 16


def written(x: FloatArray, first: FloatArray | None = None) -> bytes:
    """Return an array as bytes.

    Parameters
    ----------
    x
        Any shape, float64.
    first
        An earlier array of the same shape, which the reader has.

    Examples
    --------
    >>> x = np.outer([1.0, 2.0, 3.0], [0.5, 0.25, -0.75])
    >>> len(written(x)), read(Bytes(written(x))).tolist() == x.tolist()
    (22, True)
    """
    shape = bytes([x.ndim]) + b"".join(map(varint, x.shape))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not written in that form
        form, data = min(_forms(x, first), key=lambda choice: len(choice[1]))
    return bytes([form]) + shape + data


def _forms(x: FloatArray, first: FloatArray | None) -> Iterator[tuple[int, bytes]]:
    """Yield each form that an array can be written in, and its bytes."""
    yield _plain(x)
    if x.size and np.isfinite(x).all():
        if first is not None and np.array_equal(first + (x - first), x):
            yield from _on_grid(x - first, RELATIVE)
        else:
            yield from _on_grid(x, 0)


def _plain(x: FloatArray) -> tuple[int, bytes]:
    short = x.astype("<f4")
    if np.array_equal(short.astype(np.float64), x, equal_nan=True):
        return FLOAT32, short.tobytes()
    return FLOAT64, x.astype("<f8").tobytes()


def _on_grid(x: FloatArray, form: int) -> Iterator[tuple[int, bytes]]:
    """Yield the array as whole numbers, if they are small."""
    if np.signbit(x[x == 0.0]).any():
        return
    matrix = x.reshape(len(x), -1) if x.ndim > 1 else x.reshape(1, -1)
    rows, columns = _exponents(matrix)
    yield from _in_steps(x, matrix, rows, columns, form)
    least = int((rows[:, None] + columns)[matrix != 0.0].min(initial=FARTHEST)) if x.any() else 0
    if rows.any() or columns.any():  # chance makes exponents of small numbers larger, which costs more than it saves
        yield from _in_steps(x, matrix, np.full_like(rows, least), np.zeros_like(columns), form)


def _in_steps(
    x: FloatArray, matrix: FloatArray, rows: IntArray, columns: IntArray, form: int
) -> Iterator[tuple[int, bytes]]:
    """Yield an array as whole numbers of steps, of which the exponents are given by row and column."""
    if max(np.abs(rows).max(), np.abs(columns).max()) > FARTHEST:
        return
    numbers = np.ldexp(matrix, -(rows[:, None] + columns))
    if not np.abs(numbers).max() < 2.0**31:
        return
    m = numbers.astype(np.int64)
    if x.ndim == 2 and x.shape[0] == x.shape[1] > 1 and np.array_equal(x, x.T):
        form, m = form | SYMMETRIC, m[np.tril_indices(len(m))]
    elif x.ndim == 2 and x.shape[1] > 1 and np.array_equal(_last_of_zero_sum(x), x[:, -1]):
        form, m = form | ZERO_SUM, m[:, :-1]
    yield form | GRID, _integers(rows) + _integers(columns) + _integers(m.ravel())


def _last_of_zero_sum(x: FloatArray) -> FloatArray:
    """Return the last column with which rows add up to 0, without negative zeros."""
    last: FloatArray = 0.0 - x[:, :-1].sum(axis=1)
    return last


def _exponents(x: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the largest exponents e, f, first e and then f, so that all x / 2^(e_row + f_column) are whole.

    >>> _exponents(np.array([[12.0, 8.0], [0.0, 0.5]]))
    (array([ 2, -1]), array([0, 0]))
    """
    mantissa, exponent = np.frexp(x)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # the place of the lowest bit that is set
    nothing = 2 * FARTHEST
    place = np.where(x == 0.0, nothing, exponent.astype(np.int64) - 53 + lowest)
    rows = place.min(axis=1)
    rows[rows == nothing] = 0
    columns = (place - rows[:, None]).min(axis=0)
    columns[columns >= FARTHEST] = 0
    return rows, columns


def _integers(m: IntArray) -> bytes:
    """Return whole numbers as bytes: their width, then a deflated plane for each byte of the folded numbers."""
    folded = np.where(m < 0, -2 * m - 1, 2 * m).astype("<u8")
    width = (int(folded.max(initial=0)).bit_length() + 7) // 8
    planes = folded.view(np.uint8).reshape(-1, 8)
    return bytes([width]) + b"".join(_sized(_deflated_plane(planes[:, k])) for k in range(width))


def _deflated_plane(plane: npt.NDArray[np.uint8]) -> bytes:
    """Return bytes deflated: by their frequencies alone, unless most are 0, where repetitions save more."""
    rare = 4 * np.count_nonzero(plane) < len(plane)
    return deflated(plane.tobytes(), zlib.Z_DEFAULT_STRATEGY if rare else zlib.Z_HUFFMAN_ONLY)


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


def read(data: Bytes, first: dict[tuple[int, ...], FloatArray] | None = None) -> FloatArray:
    """Return the array that comes next.

    Parameters
    ----------
    data
        By any writer.
    first
        By shape, the first array that was read.

    Raises
    ------
    PeerError
        They are no array, or one of more than `MOST_NUMBERS` numbers.
    """
    form, dimensions = data.take(2)
    if dimensions > 8:
        raise PeerError("an array of more than 8 dimensions")
    shape = tuple(data.varint() for _ in range(dimensions))
    size = math.prod(shape)
    if not size <= MOST_NUMBERS:
        raise PeerError(f"an array of {size} numbers; at most {MOST_NUMBERS}")
    if form in (FLOAT32, FLOAT64):
        width = 4 if form == FLOAT32 else 8
        plain: FloatArray = np.frombuffer(data.take(width * size), f"<f{width}").astype(np.float64)
        return plain.reshape(shape)
    if not form & GRID or form & ~(GRID | SYMMETRIC | ZERO_SUM | RELATIVE) or not size:
        raise PeerError("an array of unknown form")
    x = _from_grid(data, shape, form)
    if form & RELATIVE:
        before = (first or {}).get(shape)
        if before is None:
            raise PeerError("an array like another that there is not")
        x = before + x
    return x


def _from_grid(data: Bytes, shape: tuple[int, ...], form: int) -> FloatArray:
    rows, columns = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))
    symmetric, zero_sum = bool(form & SYMMETRIC), bool(form & ZERO_SUM)
    if (symmetric and zero_sum) or (symmetric and (len(shape) != 2 or rows != columns)) or (zero_sum and columns < 2):
        raise PeerError("an array of impossible form")
    e, f = _read_integers(data, rows), _read_integers(data, columns)
    if max(np.abs(e).max(), np.abs(f).max()) > FARTHEST:
        raise PeerError("an array with exponents of no float")
    m = np.zeros((rows, columns))
    if symmetric:
        m[np.tril_indices(rows)] = _read_integers(data, rows * (rows + 1) // 2)
    else:
        kept = columns - zero_sum
        m[:, :kept] = _read_integers(data, rows * kept).reshape(rows, kept)
    with np.errstate(over="ignore"):
        x: FloatArray = np.ldexp(m, e[:, None] + f)
    if symmetric:
        x += np.tril(x, -1).T
    elif zero_sum:
        x[:, -1] = _last_of_zero_sum(x)
    return x.reshape(shape)


def _read_integers(data: Bytes, count: int) -> IntArray:
    (width,) = data.take(1)
    if width > WIDEST:
        raise PeerError(f"whole numbers of {width} bytes; at most {WIDEST}")
    planes = np.zeros((count, 8), np.uint8)
    for k in range(width):
        plane = inflated(data.take(data.varint()), count)
        if len(plane) != count:
            raise PeerError("fewer numbers than an array has")
        planes[:, k] = np.frombuffer(plane, np.uint8)
    folded = planes.view("<u8").ravel().astype(np.int64)
    m: IntArray = np.where(folded & 1, -(folded >> 1) - 1, folded >> 1)
    return m


def _sized(data: bytes) -> bytes:
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
