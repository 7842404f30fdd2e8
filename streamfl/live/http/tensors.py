"""Reads and writes the data of one tensor of the V2 inference protocol, as JSON or as bytes.

The formats are those of https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol and of its
binary tensor data extension: row-major, little-endian, each text after its length in four bytes.
"""

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError

TEXTS = "BYTES"

NUMBERS: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("u1"),
    **{
        f"{kind}{8 * size}": np.dtype(f"<{kind[0].lower()}{size}")
        for kind in ("UINT", "INT")
        for size in (1, 2, 4, 8)
    },
    **{f"FP{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}
"""The layout of each datatype of numbers."""

_LENGTH = struct.Struct("<I")

Shape = tuple[int, ...]


def numbers_of_bytes(data: memoryview, datatype: str, shape: Shape) -> FloatArray:
    """Return the numbers of a tensor from its bytes.

    Raises
    ------
    PeerError
        They are more or fewer than the shape says, or no truth values.

    Examples
    --------
    >>> numbers_of_bytes(memoryview(bytes([1, 0, 255, 255])), "INT16", (2, 1))
    array([[ 1.],
           [-1.]])
    """
    layout = NUMBERS[datatype]
    if len(data) != (needed := prod(shape) * layout.itemsize):
        raise PeerError(f"{len(data)} bytes, but shape {list(shape)} of {datatype} needs {needed}")
    values = np.frombuffer(data, layout).reshape(shape)
    if datatype == "BOOL" and values.max(initial=0) > 1:
        raise PeerError("a byte of BOOL is neither 0 nor 1")
    with np.errstate(invalid="ignore"):  # of a signalling NaN, which becomes a quiet one: a missing value
        return values.astype(np.float64)


def numbers_of_json(data: bytes, datatype: str, shape: Shape) -> FloatArray:
    """Return the numbers of a tensor from its JSON, a flat or nested list; null is missing.

    Raises
    ------
    PeerError
        It is not such a list, has more or fewer elements than the shape says, or one does not fit the datatype.

    Examples
    --------
    >>> numbers_of_json(b"[[1.5], [null]]", "FP64", (2, 1))
    array([[1.5],
           [nan]])
    """
    n, nested = shape[0], data[1:].lstrip()[:1] == b"["
    if (told := data.count(b",") + 1) != prod(shape) or data.count(b"[") != (n + 1 if nested else 1):
        # Counted before they are decoded: millions of empty lists are small in JSON only.
        raise PeerError(f"{told} elements, but shape {list(shape)} needs {prod(shape)}")
    kind: Any = {"B": bool, "F": float}.get(datatype[0], int) | None
    rows = _decoded(data, list[list[kind]] if nested else list[kind])
    flat = [value for row in rows for value in row] if nested else rows
    if (nested and any((len(row),) != shape[1:] for row in rows)) or len(flat) != prod(shape):
        raise PeerError(f"rows do not have the lengths of shape {list(shape)}")
    layout = NUMBERS[datatype]
    if kind == int | None:
        bounds = np.iinfo(layout)
        if any(value is not None and not bounds.min <= value <= bounds.max for value in flat):
            raise PeerError(f"a number is out of the range of {datatype}")
    values = np.array(flat, np.float64)
    if layout.kind == "f":
        with np.errstate(over="ignore"):  # beyond the datatype it is infinite, which is missing
            values = values.astype(layout).astype(np.float64)
    return values.reshape(shape)


def texts_of_bytes(data: memoryview, n: int) -> list[str]:
    r"""Return the texts of a tensor from its bytes.

    Raises
    ------
    PeerError
        They are more or fewer than n, or one is not in UTF-8.

    Examples
    --------
    >>> texts_of_bytes(memoryview(b"\x03\0\0\0red\0\0\0\0"), 2)
    ['red', '']
    """
    texts, at = list[str](), 0
    while at < len(data) and len(texts) < n:
        start = at + _LENGTH.size
        if start > len(data):
            break
        (length,) = _LENGTH.unpack_from(data, at)
        if (at := start + length) > len(data):
            raise PeerError(f"text {len(texts)} has {length} bytes, but only {len(data) - start} are there")
        try:
            texts.append(str(data[start:at], "utf-8"))
        except UnicodeDecodeError:
            raise PeerError(f"text {len(texts)} is not in UTF-8") from None
    if len(texts) != n or at != len(data):
        raise PeerError(f"{len(data)} bytes are not exactly {n} texts, each after its length in 4 bytes")
    return texts


def texts_of_json(data: bytes, shape: Shape) -> list[str | None]:
    """Return the texts of a tensor from its JSON, a list, or a list of lists of one; null is missing.

    Raises
    ------
    PeerError
        It is neither, or has more or fewer elements than the shape says.

    Examples
    --------
    >>> texts_of_json(b'["red", null]', (2,)), texts_of_json(b'[["red"]]', (1, 1))
    (['red', None], ['red'])
    """
    nested = data[1:].lstrip()[:1] == b"["
    rows = _decoded(data, list[tuple[str | None]] if nested else list[str | None])
    texts: list[str | None] = [row[0] for row in rows] if nested else rows
    if len(texts) != prod(shape):
        raise PeerError(f"{len(texts)} elements, but shape {list(shape)} needs {prod(shape)}")
    return texts


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PeerError(str(error)) from error


def bytes_of_texts(texts: Sequence[str]) -> bytes:
    r"""Return texts as the bytes of a tensor.

    >>> bytes_of_texts(["red", ""])
    b'\x03\x00\x00\x00red\x00\x00\x00\x00'
    """
    return b"".join(_LENGTH.pack(len(text)) + text for text in map(str.encode, texts))


def bytes_of_numbers(values: npt.NDArray[np.float64]) -> bytes:
    """Return numbers as the bytes of a tensor of FP64."""
    return values.astype(NUMBERS["FP64"], order="C", copy=False).tobytes()
