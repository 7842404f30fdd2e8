"""Encodes values to few bytes and decodes them: what `codec.py` does, for messages of which there are many.

The bytes are `MAGIC`; the value's JSON, deflated, in which every float is written 0.0, every whole number 0 and every
array `ARRAY`; all floats, of 32 bits where that is exact; all whole numbers, each as the difference from the last one
of the same name; all arrays (`streamfl.wire.array_bytes`). Fields that have their default are left out. Nothing is
lost, and what comes back is validated like any other value.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.protocol.messages.base import FieldGroup
from streamfl.wire import array_bytes
from streamfl.wire.codec import MOST_TEXT, REFERENCE, has_default, refuse_surrogates, require_few_values
from streamfl.wire.primitives import (
    Bytes,
    deflated,
    floats_read,
    floats_written,
    inflated,
    sized,
    whole_read,
    whole_written,
)

# The last byte is the version of this form.
MAGIC = b"sfl\x05"

# What stands in the text for an array.
ARRAY = {REFERENCE: None}


def _each(names: str, written: str) -> str:
    """Return a text for each name, joined by commas."""
    return ",".join(written.replace("NAME", name) for name in names.split("|"))


# The slots of most federations.
LADDER = (
    "step 16|step 4|step 1|step 4 with momentum|average of step 16|average of step 4|average of step 1|"
    "average of step 4 with momentum|shadow"
)

# Those of targets.
OF_TARGETS = (
    "step 1|step 0.25|step 0.0625|step 0.25 with momentum|average of step 1|average of step 0.25|"
    "average of step 0.0625|average of step 0.25 with momentum|shadow"
)

# The text with which deflate begins: fields that nearly every update has, as an update of `auto` has them, with the
# most frequent ones last. It is part of the form.
DICTIONARY = "".join(
    (
        '"differences":{',
        _each("step 1|step 0.25|step 0.0625|step 0.25 with momentum|shadow", '"NAME":{"$array":null}'),
        '},"new":[{"label":"","count":0,"loss":0.0,"square":0.0}],"old":[{"label":"","count":0,"loss":0.0,"square":0.0}],',
        '"numbers":{"losses":{',
        _each(OF_TARGETS, '"NAME":{"loss":0.0,"square":0.0,"proper":0.0}'),
        '},"largest_norm":0.0,"target":{"centre":0.0,"scale":0.0},"served":{"records":0,"absolute_error":0.0,',
        '"outer":{"$array":null},"norm":0.0,"variance":0.0,"records":0},"centre":0.0,"extremes":[0.0,0.0]',
        '{"type":"models-changed","version":0,"slots":[',
        _each(LADDER, '"NAME"'),
        '],"bases":[0,0,0,0,0,0,0,0,0],"exponents":{"$array":null},"numbers":{"$array":null},"digest":"',
        '"candidate":"absolute_error":"neighbours":"target":{"centre":0.0,"scale":0.0},"relabelling":{"stage":',
        '{"type":"model-published","slot":"weights":{"type":"scores","type":"online-published","version":0,"agreed":{"features":[],"labels":[],',
        _each("second|weights|cells|table", '"NAME":{"$array":null}'),
        ',"seen":0,"moments":{"features":[],"count":{"$array":null},"mean":{"$array":null},"m2":{"$array":null}},',
        '"norms":{"$array":null},"chain":"","rests":{"linear":{"idle":0}},"steps":{"weights":[0,0,0,0,0,0,0],',
        '"table":[0,0,0,0],"half":0,"finer":0},"each":0.0,"pairs":{"$array":null}}}',
        '},"kept":{"sample":{"round":0,"share":0.0,"positions":{"c":[0,0]},"ordinals":[0,0]}}}"new_labels":["new_features":["far":{"features":[],"count":{"$array":null},',
        '{"type":"update","client":"c","attempt":"0-0","entry":0,"round":0,"epoch":0,"registry":0,"records":0,',
        '"trained":0,"rejected":0,"spans":[{"partition":"c","start":0,"end":0}],"numbers":{"losses":{',
        _each(LADDER, '"NAME":{"loss":0.0,"square":0.0,"proper":0.0}'),
        '},"differences":{',
        _each("step 16|step 4|step 1|step 4 with momentum|shadow", '"NAME":{"$array":null}'),
        '},"new":[',
        _each("0|1|2|3|4|5|6", '{"label":"NAME","count":0,"loss":0.0,"square":0.0}'),
        '],"old":[',
        _each("0|1|2|3|4|5|6", '{"label":"NAME","count":0,"loss":0.0,"square":0.0}'),
        '],"moments":{"features":[],"count":{"$array":null},"mean":{"$array":null},"m2":{"$array":null}},',
        '"second_moments":{"$array":null},"squared_norm":0.0,"largest_norm":0.0,',
        '"served":{"records":0,"correct":0,"no_change":0.0,"shares":{',
        _each(
            "linear-10|fern-8-0.3|fern-8-10|fern-24-0.3|fern-24-10|whitened-0.01|whitened-0.1|neighbours-100|"
            "neighbours-1000|rounds|last-answer|own",
            '"NAME":0.0',
        ),
        '}},"learnt":{"features":[],"labels":[],"records":0,',
        _each("count|norms|second|weights|cells|visits|table|bearing|right", '"NAME":{"$array":null}'),
        ',"moments":{"features":[],"count":{"$array":null},"mean":{"$array":null},"m2":{"$array":null}},"steps":{',
        '"weights":[0,0,0,0,0,0,0],"table":[0,0,0,0],"half":0},"unused":["fern-8-0.3"],',
        '"far":{"features":[],"count":{"$array":null},"mean":{"$array":null},"m2":{"$array":null}},"mixture":{',
        '"best":{"$array":null},"stacked":{"$array":null},"outer":{"$array":null},"norm":0.0,"records":0},',
        '"pairs":{"$array":null}},"times":[0,0]},"kept":{"held":[',
        _each("c|c", '{"round":0,"ordinal":0,"partition":"NAME","position":0}'),
        '],"let_go":[0,0,0,0]}}',
    )
).encode()

# Arrays are compared with so many of their shape before them: the gradients of a round are at most five.
ALIKE = 8

# The most numbers of all arrays of a value together.
MOST_NUMBERS = 2**25


@dataclass
class _Apart:
    """What is written apart from the text, in the order of the text."""

    floats: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    arrays: list[FloatArray] = field(default_factory=list)
    _last: dict[str, int] = field(default_factory=dict)

    def add_whole(self, number: int, name: str) -> None:
        self.whole.append(number - self._last.get(name, 0))
        self._last[name] = number


def encode(value: object, *, header: Mapping[str, object] | None = None, coded: bool = False) -> bytes:
    """Return a value as bytes; `header` entries are written before its fields, `coded` as in `array_bytes`.

    >>> from streamfl.wire import codec
    >>> from streamfl.protocol.messages import ModelPublished
    >>> message = ModelPublished(slot="step 16", version=7, registry=1, weights=np.full((55, 7), 0.25))
    >>> len(encode(message)), len(codec.encode(message))
    (55, 3264)
    """
    apart = _Apart()
    plain = {**(header or {}), **_fields(value, apart)}
    text = deflated(json.dumps(plain, separators=(",", ":")).encode(), dictionary=DICTIONARY)
    numbers = floats_written(apart.floats) + whole_written(apart.whole)
    return b"".join((MAGIC, sized(text), numbers, *arrays_written(apart.arrays, coded=coded)))


def arrays_written(arrays: Sequence[FloatArray], *, coded: bool = False) -> list[bytes]:
    """Return arrays as bytes, each exactly."""
    before: dict[tuple[int, ...], list[FloatArray]] = {}
    parts = []
    for x in arrays:
        parts.append(array_bytes.written(x, before.get(x.shape, ()), coded=coded))
        _keep(x, before)
    return parts


def _keep(x: FloatArray, before: dict[tuple[int, ...], list[FloatArray]]) -> None:
    """Keep an array for those after it, unless there are enough of its shape."""
    alike = before.setdefault(x.shape, [])
    if len(alike) < ALIKE:
        alike.append(x)


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
    text = inflated(packed, MOST_TEXT, DICTIONARY).decode()
    require_few_values(text)
    plain = json.loads(text, parse_constant=_refused)
    if not isinstance(plain, dict):
        raise PeerError("not a compact value: its text is not an object")
    refuse_surrogates(plain, text)
    numbers = _Numbers(iter(floats_read(data)), iter(whole_read(data)))
    plain = _filled(plain, "", numbers)
    if numbers.left:
        raise PeerError("not a compact value: it has more numbers than its text")
    return plain, arrays_read(data, MOST_NUMBERS)


def arrays_read(data: Bytes, most: int) -> dict[str, FloatArray]:
    """Return all arrays to the end of some bytes, by the names that references to them have.

    Parameters
    ----------
    data
        By any writer: a few bytes may say that they are many zeros.
    most
        The most numbers of all arrays together.

    Raises
    ------
    PeerError
        They are not arrays, or have more numbers.
    """
    arrays: dict[str, FloatArray] = {}
    before: dict[tuple[int, ...], list[FloatArray]] = {}
    while data.left:
        x = array_bytes.read(data, before, most)
        _keep(x, before)
        arrays[str(len(arrays))] = x
        most -= x.size
    return arrays


@dataclass
class _Numbers:
    """The numbers of a value that are still to be put into its text."""

    floats: Iterator[float]
    whole: Iterator[int]
    arrays: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    def next_whole(self, name: str) -> int:
        number: int = self._last.get(name, 0) + _next(self.whole)
        self._last[name] = number
        return number

    @property
    def left(self) -> bool:
        return any(True for numbers in (self.floats, self.whole) for _ in numbers)


def _next(numbers: Iterator[Any]) -> Any:
    for number in numbers:
        return number
    raise PeerError("not a compact value: it has fewer numbers than its text")


def _filled(plain: Any, name: str, numbers: _Numbers) -> Any:
    """Return plain data with the numbers of a value, and references to its arrays; `name` is that of its field."""
    match plain:
        case bool():
            return plain
        case float():
            return _next(numbers.floats)
        case int():
            return numbers.next_whole(name)
        case dict() if plain == ARRAY:
            numbers.arrays += 1
            return {REFERENCE: str(numbers.arrays - 1)}
        case dict():
            return {key: _filled(item, key, numbers) for key, item in plain.items()}
        case list():
            return [_filled(item, name, numbers) for item in plain]
    return plain


def _refused(name: str) -> float:
    raise ValueError(f"{name} in its text")


def _fields(value: Any, apart: _Apart) -> dict[str, Any]:
    """Return the fields of a dataclass that do not have their default, as plain data; note its numbers and arrays."""
    all_fields = ((field, getattr(value, field.name)) for field in fields(value))
    made = {f.name: (_plain(x, f.name, apart), x) for f, x in all_fields if not has_default(x, f)}
    return {name: plain for name, (plain, x) in made.items() if plain or not isinstance(x, FieldGroup)}


def _plain(value: Any, name: str, apart: _Apart) -> Any:
    match value:
        case bool():
            return value
        case float():
            apart.floats.append(value)
            return 0.0
        case int():
            apart.add_whole(value, name)
            return 0
        case np.ndarray():
            apart.arrays.append(np.ascontiguousarray(value, dtype=np.float64))
            return ARRAY
        case Mapping():
            return {str(key): _plain(item, str(key), apart) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, name, apart) for item in value]
    return _fields(value, apart) if is_dataclass(value) else value
