"""Tables of small whole numbers as few bytes: an adaptive code, of which the reader knows as much as the writer.

0.2.0 wrote them by deflate's Huffman codes, over bytes or over several numbers at a time, with a symbol for a row in
which one unit goes from column to column. The states that it saved have these, so they are read.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streamfl.arrays import IntArray
from streamfl.errors import PeerError
from streamfl.wire.primitives import Bytes, inflated, sized

# The widest numbers, in bytes.
WIDEST = 4

# How numbers are written: by the adaptive code, or if all are 0 as planes without bytes. What 0.2.0 wrote: planes of
# bytes; three of a row at a time, every three columns with a code of their own; three at a time in the order in which
# they come; or by rows in which one unit goes from column to column. Signed numbers were folded.
CODED = 4
PLANES, BY_COLUMNS, IN_ORDER, MOVES, SIGNED = 0, 1, 2, 3, 16

# So many numbers made one symbol, each below ESCAPE; larger ones were ESCAPE, and the rest followed apart.
TOGETHER, ESCAPE = 3, 5
DIGITS = ESCAPE + 1

# The most columns with codes of their own, and of rows with one unit that moves. OTHER is any row with more.
MOST_COLUMNS, MOST_MOVED, OTHER = 24, 14, 255

# Exponents of arrays and other tables of few numbers come again and again: what this many of the latest were written
# as is kept, one kilobyte each at most.
FEW, KEPT = 64, 4096


def written(m: IntArray, groups: int = 1) -> bytes:
    """Return whole numbers as bytes.

    Parameters
    ----------
    m
        Shape (rows, columns); each less than 2^31 in size.
    groups
        So many kinds of rows come in turn, of which the reader knows, too.

    Examples
    --------
    >>> m = np.array([[0, -1, 2], [1, 0, 0]] * 100)
    >>> len(written(m, 2)), read(Bytes(written(m, 2)), 200, 3, 2).tolist() == m.tolist()
    (10, True)
    """
    if m.size <= FEW:
        return _few_written(m.shape, groups, m.astype(np.int64).tobytes())
    return _coded(m, groups)


@lru_cache(KEPT)
def _few_written(shape: tuple[int, ...], groups: int, numbers: bytes) -> bytes:
    return _coded(np.frombuffer(numbers, np.int64).reshape(shape), groups)


def _coded(m: IntArray, groups: int) -> bytes:
    if not m.any():
        return bytes([PLANES, 0])
    # Compiled loops take half a second to import, and most processes read no such tables.
    from streamfl.online.native.kernels import coding  # noqa: PLC0415

    return bytes([CODED]) + sized(coding.written(_standing(m), groups))


def _standing(m: IntArray) -> IntArray:
    """Return one row as one column: neighbours tell more than places."""
    return m.T if len(m) == 1 else m


def read(data: Bytes, rows: int, columns: int, groups: int = 1) -> IntArray:
    """Return the whole numbers that come next, shape (rows, columns).

    Raises
    ------
    PeerError
        They are not there.
    """
    (form,) = data.take(1)
    if form == CODED:
        return _read_coded(data, rows, columns, groups)
    if form == MOVES:
        return _read_moves(data, rows, columns)
    kind = form & ~SIGNED
    if kind == PLANES:
        u = _read_planes(data, rows * columns).reshape(rows, columns)
    elif kind == IN_ORDER:
        thirds = _read_symbols(data, -(-rows * columns // TOGETHER), TOGETHER)
        u = _beyond(data, thirds.ravel()[: rows * columns]).reshape(rows, columns)
    elif kind == BY_COLUMNS and 0 < columns <= MOST_COLUMNS:
        widths = [min(TOGETHER, columns - at) for at in range(0, columns, TOGETHER)]
        u = _beyond(data, np.hstack([_read_symbols(data, rows, width) for width in widths]))
    else:
        raise PeerError("whole numbers have an unknown form")
    m: IntArray = np.where(u & 1, -(u >> 1) - 1, u >> 1) if form & SIGNED else u
    return m


def _read_coded(data: Bytes, rows: int, columns: int, groups: int) -> IntArray:
    from streamfl.online.native.kernels import coding  # noqa: PLC0415  as in _coded

    m = np.zeros((rows, columns), np.int64)
    if not coding.read(data.take(data.varint()), standing := _standing(m), groups):
        raise PeerError("whole numbers end before all are there, or are too large")
    return standing.reshape(rows, columns)


def _read_moves(data: Bytes, rows: int, columns: int) -> IntArray:
    """Return rows of which most have one 1 and one -1, the further column included, or none."""
    moves = _read_plane(data, rows).astype(np.int64)
    others = np.flatnonzero(moves == OTHER)
    if not 1 < columns <= MOST_MOVED or data.peek() == MOVES:
        raise PeerError("rows of whole numbers have an unknown form")
    up, down = np.divmod(np.where(moves == OTHER, 0, moves), columns + 1)
    if len(up) and int(up.max()) > columns:
        raise PeerError("a row moves to a column that does not exist")
    whole = np.zeros((rows, columns + 1), np.int64)
    whole[range(rows), up] += 1
    whole[range(rows), down] -= 1
    whole[others, :-1] = read(data, len(others), columns)
    return whole[:, :-1]


def _read_planes(data: Bytes, count: int) -> IntArray:
    (width,) = data.take(1)
    if width > WIDEST:
        raise PeerError(f"whole numbers of {width} bytes; at most {WIDEST}")
    planes = np.zeros((count, 8), np.uint8)
    for k in range(width):
        planes[:, k] = _read_plane(data, count)
    return planes.view("<u8").ravel().astype(np.int64)


def _read_symbols(data: Bytes, rows: int, width: int) -> IntArray:
    """Return the numbers of this many symbols, shape (rows, width)."""
    symbols = _read_plane(data, rows).astype(np.int64)
    if len(symbols) and int(symbols.max()) >= DIGITS**width:
        raise PeerError("a symbol stands for no whole numbers")
    group = np.empty((rows, width), np.int64)
    for at in reversed(range(width)):
        symbols, group[:, at] = np.divmod(symbols, DIGITS)
    return group


def _beyond(data: Bytes, u: IntArray) -> IntArray:
    """Return the numbers with what exceeds ESCAPE, which comes next."""
    escaped = u == ESCAPE
    u[escaped] += _read_planes(data, int(np.count_nonzero(escaped)))
    return u


def _read_plane(data: Bytes, count: int) -> npt.NDArray[np.uint8]:
    plane = inflated(data.take(data.varint()), count)
    if len(plane) != count:
        raise PeerError("an array has more numbers than there are")
    return np.frombuffer(plane, np.uint8)
