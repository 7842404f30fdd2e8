"""Tables of small whole numbers as few bytes: an adaptive code, or deflate's Huffman codes.

What models learn record by record has the adaptive code, which is compiled. Processes that do without compiled loops
read and write the Huffman codes, over bytes or over several numbers at a time.

A Huffman code spends at least one bit on a symbol. Most numbers that clients send need less, so three of them that
stand side by side make one symbol, which also saves what they tell about each other. Most rows that add up to 0 are
empty, or have one 1 and one -1: a whole row is then one symbol.
"""

import zlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from streamfl.arrays import IntArray
from streamfl.errors import PeerError
from streamfl.wire.primitives import Bytes, deflated, inflated, sized

# The widest numbers, in bytes.
WIDEST = 4

# How numbers are written: as planes of bytes; three of a row at a time, every three columns with a code of their own;
# three at a time in the order in which they come; or by rows in which one unit goes from column to column. Signed
# numbers are folded.
PLANES, BY_COLUMNS, IN_ORDER, MOVES, SIGNED = 0, 1, 2, 3, 16

# By the adaptive code.
CODED = 4

# So many numbers make one symbol, each below ESCAPE; larger ones are ESCAPE, and the rest follows apart.
TOGETHER, ESCAPE = 3, 5
DIGITS = ESCAPE + 1
PLACES = DIGITS ** np.arange(TOGETHER - 1, -1, -1)

# With more columns, codes of their own cost more than they save.
MOST_COLUMNS = 24

# Exponents of arrays and other tables of few numbers come again and again, and most of the time for them goes into
# choosing a form: what this many of the latest were written as is kept, one kilobyte each at most.
FEW, KEPT = 64, 4096

# With more columns, there are more moves than a byte has room for. OTHER is any row that is none.
MOST_MOVED, OTHER = 14, 255

# Of a table of more numbers, with more columns than make one symbol, not every form is tried: where at most one row
# in FEW_OTHERS is not a move, the moves have always been the shortest; small numbers have always been shorter several
# at a time. To try every form would take twice the time. A reader accepts every form.
LARGE, FEW_OTHERS = 4096, 5


def written(m: IntArray) -> bytes:
    """Return whole numbers as bytes.

    Parameters
    ----------
    m
        Shape (rows, columns); each less than 2^31 in size.

    Examples
    --------
    >>> m = np.array([[0, -1, 2], [1, 0, 0]] * 100)
    >>> len(written(m)), read(Bytes(written(m)), 200, 3).tolist() == m.tolist()
    (10, True)
    """
    if m.size <= FEW:
        return _few_written(m.shape, m.astype(np.int64).tobytes())
    return _shortest(m)


def coded(m: IntArray, groups: int) -> bytes:
    """Return whole numbers as bytes, by the adaptive code.

    Parameters
    ----------
    m
        Shape (rows, columns); each less than 2^31 in size.
    groups
        The number of kinds of rows, which alternate; the reader must also know it.

    Examples
    --------
    >>> m = np.array([[0, -1, 2], [1, 0, 0]] * 100)
    >>> len(coded(m, 2)), read(Bytes(coded(m, 2)), 200, 3, 2).tolist() == m.tolist()
    (10, True)
    """
    if not m.any():
        return bytes([PLANES, 0])
    # Compiled loops take half a second to import, and most processes read no such tables.
    from streamfl.online.native.kernels import coding  # noqa: PLC0415

    return bytes([CODED]) + sized(coding.written(_standing(m), groups))


def _standing(m: IntArray) -> IntArray:
    """Return a single row as a column: a number is predicted from the one above it."""
    return m.T if len(m) == 1 else m


@lru_cache(KEPT)
def _few_written(shape: tuple[int, ...], numbers: bytes) -> bytes:
    return _shortest(np.frombuffer(numbers, np.int64).reshape(shape))


def _shortest(m: IntArray) -> bytes:
    form, data = min(_forms(m), key=lambda choice: len(choice[1]))
    return bytes([form]) + data


def _forms(m: IntArray) -> Iterator[tuple[int, bytes]]:
    signed = bool((m < 0).any())
    moves = _moves(m) if signed and 1 < m.shape[1] <= MOST_MOVED else np.zeros(0, np.uint8)
    others = np.flatnonzero(moves == OTHER)
    if not (_is_large(m) and len(moves) and FEW_OTHERS * len(others) <= len(m)):
        for form, data in _of_numbers(np.where(m < 0, -2 * m - 1, 2 * m) if signed else m):
            yield form | signed * SIGNED, data
    if len(moves) and 2 * len(others) < len(m):
        yield MOVES, sized(_deflated_plane(moves)) + written(m[others])


def _of_numbers(u: IntArray) -> Iterator[tuple[int, bytes]]:
    are_small = bool(u.size) and 4 * np.count_nonzero(u >= ESCAPE) < u.size
    if not (are_small and _is_large(u) and u.any()):
        yield PLANES, _planes(u.ravel())
    if are_small:
        yield IN_ORDER, _packed(u.reshape(1, -1), _thirds(u))
        if TOGETHER <= u.shape[1] <= MOST_COLUMNS:
            yield BY_COLUMNS, _packed(u, _by_columns(u))


def _is_large(m: IntArray) -> bool:
    return m.size > LARGE and m.shape[1] > TOGETHER


def _planes(u: IntArray) -> bytes:
    """Return the number of bytes of the widest number, then a deflated plane for each byte."""
    width = (int(u.max(initial=0)).bit_length() + 7) // 8
    planes = np.ascontiguousarray(u, "<u8").view(np.uint8).reshape(-1, 8)
    return bytes([width]) + b"".join(sized(_deflated_plane(planes[:, k])) for k in range(width))


def _packed(u: IntArray, groups: list[IntArray]) -> bytes:
    """Return symbols of up to three numbers each, group by group, then what exceeds ESCAPE."""
    parts = [sized(_deflated_plane(_symbols(group))) for group in groups]
    return b"".join(parts) + _planes(u[u >= ESCAPE] - ESCAPE)


def _thirds(u: IntArray) -> list[IntArray]:
    flat = u.ravel()
    return [np.concatenate([flat, np.zeros(-len(flat) % TOGETHER, np.int64)]).reshape(-1, TOGETHER)]


def _by_columns(u: IntArray) -> list[IntArray]:
    return [u[:, at : at + TOGETHER] for at in range(0, u.shape[1], TOGETHER)]


def _symbols(group: IntArray) -> npt.NDArray[np.uint8]:
    """Return one symbol for each row of at most three numbers.

    >>> _symbols(np.array([[1, 0, 2], [0, 0, 9]]))
    array([38,  5], dtype=uint8)
    """
    places = PLACES[TOGETHER - group.shape[1] :]
    symbols: npt.NDArray[np.uint8] = (np.minimum(group, ESCAPE) @ places).astype(np.uint8)
    return symbols


def _moves(m: IntArray) -> npt.NDArray[np.uint8]:
    """Return one symbol for each row, of which a further column is what makes it add up to 0.

    >>> _moves(np.array([[0, 0], [1, -1], [0, 1], [2, 0]]))
    array([  0,   1,   5, 255], dtype=uint8)
    """
    last = -m.sum(axis=1)
    size = np.abs(m).sum(axis=1) + np.abs(last)
    moves = np.where(size == 0, 0, OTHER)
    moved = np.flatnonzero(size == 2)  # by one up and one down, since all add up to 0
    whole = np.column_stack([m[moved], last[moved]])
    moves[moved] = whole.shape[1] * whole.argmax(axis=1) + whole.argmin(axis=1)
    return moves.astype(np.uint8)


def _deflated_plane(plane: npt.NDArray[np.uint8]) -> bytes:
    """Return bytes deflated: by their frequencies alone, unless repetitions save more."""
    data = plane.tobytes()
    return min(deflated(data, zlib.Z_HUFFMAN_ONLY), deflated(data, zlib.Z_DEFAULT_STRATEGY), key=len)


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
    from streamfl.online.native.kernels import coding  # noqa: PLC0415  as in coded

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
