"""Encodes values to few bytes and decodes them: what `codec.py` does, for messages of which there are many.

The bytes are `MAGIC`; the value's JSON, deflated, in which every float is written 0.0 and every array is a reference;
all floats, of 32 bits where that is exact; all arrays (`streamfl.array_bytes`). Fields that have their default are
left out. Nothing is lost, and what comes back is validated like any other value.
"""

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

import numpy as np

from streamfl import array_bytes
from streamfl.codec import REFERENCE, refuse_surrogates
from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import bounded
from streamfl.core.errors import PeerError
from streamfl.wire_bytes import Bytes, deflated, floats_read, floats_written, inflated, varint

# The last byte is the version of this form.
MAGIC = b"sfl\x01"

# The text with which deflate begins: fields that nearly every update has. It is part of the form.
DICTIONARY = (
    b'{"type":"models-changed","version":12,"slots":["step 16","step 4","step 1","step 4 with momentum",'
    b'"average of step 16","average of step 4","average of step 1","average of step 4 with momentum","shadow"],'
    b'"bases":[-1,-1,-1,-1,0,-1,-1,-1,-1],"exponents":{"$array":"0"},"numbers":{"$array":"1"},"digest":"'
    b'{"records":0.0,"correct":"absolute_error":"shares":{"neighbours":"target":{"centre":0.0,"scale":0.0},'
    b'"relabelling":{"stage":"features":["count":{"mean":{"m2":{"type":"model-published","slot":"version":"weights":'
    b'{"type":"scores","candidate":{"type":"update","client":"c0","attempt":"entry":1,"round":1,"epoch":1,'
    b'"registry":1,"records":100,"trained":100,"rejected":0,"spans":[{"partition":"c0","start":0,"end":100}],'
    b'"losses":{"step 16":{"loss":0.0,"square":0.0,"proper":0.0},"step 4":{"loss":0.0,"square":0.0,"proper":0.0},'
    b'"step 1":{"loss":0.0,"square":0.0,"proper":0.0},"step 4 with momentum":{"loss":0.0,"square":0.0,"proper":0.0},'
    b'"average of step 16":{"loss":0.0,"square":0.0,"proper":0.0},"average of step 4":{"loss":0.0,"square":0.0,'
    b'"proper":0.0},"average of step 1":{"loss":0.0,"square":0.0,"proper":0.0},"average of step 4 with momentum":'
    b'{"loss":0.0,"square":0.0,"proper":0.0},"shadow":{"loss":0.0,"square":0.0,"proper":0.0}},"differences":{'
    b'"step 16":{"$array":"0"},"step 4":{"$array":"1"},"step 1":{"$array":"2"},"step 4 with momentum":{"$array":"3"},'
    b'"shadow":{"$array":"4"}},"new":[{"label":"0","count":50,"loss":0.0,"square":0.0},{"label":"1","count":50,'
    b'"loss":0.0,"square":0.0}],"old":[{"label":"0","count":50,"loss":0.0,"square":0.0},{"label":"1","count":50,'
    b'"loss":0.0,"square":0.0}],"held":[{"round":1,"ordinal":10,"partition":"c0","position":10}],"let_go":[1,2],'
    b'"moments":{"features":["0"],"count":{"$array":"5"},"mean":{"$array":"6"},"m2":{"$array":"7"}},'
    b'"second_moments":{"$array":"5"},"squared_norm":0.0,"largest_norm":0.0,"served":{"records":100,"correct":70,'
    b'"no_change":50,"shares":{}}}'
)

# The most bytes of a value's JSON: so many times the deflated ones, but at least and at most so many.
RATIO, LEAST, MOST = 200, 2**16, 2**24


def encode(value: object, *, header: Mapping[str, object] | None = None) -> bytes:
    """Return a value as bytes; `header` entries are written before its fields.

    >>> from streamfl import codec
    >>> from streamfl.core.protocol.messages import ModelPublished
    >>> message = ModelPublished(slot="step 16", version=7, registry=1, weights=np.full((55, 7), 0.25))
    >>> len(encode(message)), len(codec.encode(message))
    (52, 3264)
    """
    numbers: list[float] = []
    arrays: list[FloatArray] = []
    plain = {**(header or {}), **_fields(value, numbers, arrays)}
    text = deflated(json.dumps(plain, separators=(",", ":")).encode(), dictionary=DICTIONARY)
    return b"".join((MAGIC, varint(len(text)), text, floats_written(numbers), *_written(arrays)))


def _written(arrays: list[FloatArray]) -> list[bytes]:
    first: dict[tuple[int, ...], FloatArray] = {}
    parts = []
    for x in arrays:
        parts.append(array_bytes.written(x, first.get(x.shape)))
        first.setdefault(x.shape, x)
    return parts


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain data and the arrays in some bytes, for `codec.join`.

    Raises
    ------
    PeerError
        The bytes are not of this form.
    """
    try:
        return _unpacked(Bytes(data))
    except (ValueError, RecursionError) as error:
        raise PeerError(bounded(f"not a compact value: {error}")) from error


def _unpacked(data: Bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    if data.take(len(MAGIC)) != MAGIC:
        raise PeerError("not a compact value, or one of a later version")
    packed = data.take(data.varint())
    text = inflated(packed, min(MOST, max(LEAST, RATIO * len(packed))), DICTIONARY).decode()
    numbers = deque(floats_read(data))
    plain = json.loads(text, parse_float=lambda _: _next(numbers), parse_constant=_refused)
    if not isinstance(plain, dict) or numbers:
        raise PeerError("not a compact value: its floats are not those of its text")
    refuse_surrogates(plain, text)
    arrays: dict[str, FloatArray] = {}
    first: dict[tuple[int, ...], FloatArray] = {}
    while data.left:
        x = array_bytes.read(data, first)
        first.setdefault(x.shape, x)
        arrays[str(len(arrays))] = x
    return plain, arrays


def _next(numbers: deque[float]) -> float:
    if not numbers:
        raise PeerError("not a compact value: it has fewer floats than its text")
    return numbers.popleft()


def _refused(name: str) -> float:
    raise ValueError(f"{name} in its text")


def _fields(value: Any, numbers: list[float], arrays: list[FloatArray]) -> dict[str, Any]:
    """Return the fields of a dataclass that do not have their default, as plain data; floats and arrays are noted."""
    all_fields = ((field, getattr(value, field.name)) for field in fields(value))
    return {f.name: _plain(x, numbers, arrays) for f, x in all_fields if not _has_default(x, f)}


def _plain(value: Any, numbers: list[float], arrays: list[FloatArray]) -> Any:
    match value:
        case float():
            numbers.append(value)
            return 0.0
        case np.ndarray():
            arrays.append(np.ascontiguousarray(value, dtype=np.float64))
            return {REFERENCE: str(len(arrays) - 1)}
        case Mapping():
            return {str(key): _plain(item, numbers, arrays) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, numbers, arrays) for item in value]
    return _fields(value, numbers, arrays) if is_dataclass(value) else value


def _has_default(value: Any, field: Field[Any]) -> bool:
    default = field.default
    if default is MISSING or isinstance(value, np.ndarray):
        return bool(isinstance(value, Mapping) and not value and field.default_factory is dict)
    if value is default:
        return True
    if type(value) is float:
        return bool(value == default) and math.copysign(1.0, value) == math.copysign(1.0, default)
    return type(value) is type(default) and bool(value == default)
