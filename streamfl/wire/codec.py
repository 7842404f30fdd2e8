"""Encodes values to bytes and decodes them: JSON, with safetensors for arrays, validated by pydantic.

A value is a frozen dataclass of plain fields, nested values and float64 arrays. Without arrays its bytes are JSON;
with arrays they are a safetensors file whose metadata holds the JSON, in which every array is a reference. Nothing
is pickled, and a value that does not match its type is refused.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.protocol.kinds import Kind
from streamfl.protocol.messages.base import FieldGroup

T = TypeVar("T")

REFERENCE = "$array"
METADATA = "value"

# Fields that most federations do without: left out where they have their default, as many lists have them.
RARE = frozenset(
    {
        "watermark",
        "beside",
        "period",
        "measured",
        "scores",
        "gains",
        "disclosed",
        "extremes",
        "own_parts",
        "wants_untrained_loss",
        "untrained_loss",
        "online_models_begin_again",
        "resumed",
    }
)

# What holds no array: most of any message.
SIMPLE = frozenset({str, int, float, bool, type(None)})

# The most errors of a value that a message lists.
ERRORS_LISTED = 3

# The most characters of the JSON of a message, and in a longer one than FEW the most values: each takes some sixty
# bytes as an object of Python, however few characters it has.
MOST_TEXT, FEW, MOST_VALUES = 2**24, 2**20, 2**20

# A text in JSON, or one that never ends.
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a type: built once, and again when a kind was registered that may occur in it."""
    return _built(kind, Kind.classes)


@lru_cache(maxsize=256)
def _built(kind: Any, classes: int) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def split(value: object) -> tuple[Any, dict[str, FloatArray]]:
    """Return a value as plain data in which arrays are references, and the arrays."""
    arrays: dict[str, FloatArray] = {}
    plain = _adapter(type(value)).dump_python(value)
    return _without(plain, value, arrays), arrays


def join(kind: type[T], plain: Any, arrays: Mapping[str, FloatArray]) -> T:
    """Return the value that was split into plain data and arrays.

    Examples
    --------
    >>> from streamfl.protocol.messages import Left
    >>> join(Left, {"client": "c0"}, {})
    Traceback (most recent call last):
    streamfl.errors.PeerError: not a Left: nonce: Field required; is it of another version of streamfl?

    Raises
    ------
    PeerError
        The data are not such a value.
    """
    try:
        value: T = _adapter(kind).validate_python(_with(plain, arrays) if arrays else plain)
    except ValidationError as error:
        raise PeerError(bounded(f"not a {getattr(kind, '__name__', kind)}: {_first(error)}")) from None
    except RecursionError as error:
        raise PeerError(f"not a {getattr(kind, '__name__', kind)}: {error}") from error
    return value


# What is asked where fields are missing: most are of a process that was not updated.
OTHER_VERSION = "is it of another version of streamfl?"


def _first(error: ValidationError) -> str:
    """Return the first errors, without the input, which pydantic's own text would repeat in full."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    listed = [f"{_place(one['loc'])}: {one['msg']}" for one in errors[:ERRORS_LISTED]]
    more = [f"{len(errors) - ERRORS_LISTED} more"] if len(errors) > ERRORS_LISTED else []
    other = [OTHER_VERSION] if any(one["type"] == "missing" for one in errors) else []
    return "; ".join([*listed, *more, *other])


def _place(steps: tuple[int | str, ...]) -> str:
    """Return the path of an error, with a bound: names from the other side may have any length.

    >>> _place(("spans", 0, "x" * 100))
    'spans.0.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    """
    return ".".join(str(step)[:40] for step in steps[:8])


def encode(value: object, *, header: Mapping[str, object] | None = None) -> bytes:
    """Return a value as bytes; `header` entries are written before its fields.

    >>> from streamfl.protocol.messages import Left
    >>> encode(Left(client="c0", nonce="a"), header={"type": "left"})
    b'{"type":"left","client":"c0","nonce":"a"}'
    """
    plain, arrays = split(value)
    return pack({**(header or {}), **plain}, arrays)


def pack(plain: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> bytes:
    """Return plain data, and the arrays to which they refer, as bytes."""
    text = json.dumps(plain, separators=(",", ":"), allow_nan=True)
    if not arrays:
        return text.encode()
    return safetensors.numpy.save(dict(arrays), metadata={METADATA: text})


def require_few_values(text: str) -> None:
    """Refuse the JSON of more values than any message has.

    >>> require_few_values("[" + "0," * 2**21 + "0]")
    Traceback (most recent call last):
    ValueError: more than 1048576 values

    Raises
    ------
    ValueError
        It has more, or is too long.
    """
    if len(text) > MOST_TEXT:
        raise ValueError(f"more than {MOST_TEXT} characters of JSON")
    if len(text) <= FEW:
        return
    outside = _TEXT.sub("", text)
    if sum(map(outside.count, ",[{")) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")


def unpack(data: bytes, *, bounded_text: bool = False) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain data and the arrays in some bytes.

    Parameters
    ----------
    data
        By any writer.
    bounded_text
        Whether it is a message: then its JSON is refused if it would take much memory.

    Raises
    ------
    PeerError
        They are neither JSON nor a safetensors file of ours.
    """
    try:
        check = require_few_values if bounded_text else _any_text
        if data[:1] == b"{":
            return _mapping(_checked(data, check)), {}
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(_checked(data[8 : 8 + length], check))["__metadata__"]
        return _mapping(metadata[METADATA]), _floats(safetensors.numpy.load(data))
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise PeerError(bounded(f"neither JSON nor safetensors: {error}")) from error


def decode(kind: type[T], data: bytes) -> T:
    """Return the value that some bytes encode.

    >>> from streamfl.protocol.messages import ModelPublished
    >>> message = ModelPublished(slot="step 16", version=1, registry=1, weights=np.ones((1, 2)))
    >>> decode(ModelPublished, encode(message)).weights
    array([[1., 1.]])

    Raises
    ------
    PeerError
        The bytes do not encode such a value.
    """
    return join(kind, *unpack(data))


def _without(plain: Any, value: Any, arrays: dict[str, FloatArray]) -> Any:
    """Return what a value was dumped as, without its arrays and the rare fields that have their default.

    Keys of mappings come from users: one may be called as a rare field is, and stays whatever it holds.
    """
    match plain:
        case np.ndarray():
            name = str(len(arrays))
            arrays[name] = np.ascontiguousarray(plain, dtype=np.float64)
            return {REFERENCE: name}
        case dict() if isinstance(value, Mapping):
            return {
                str(key): item if type(item) in SIMPLE else _without(item, value[key], arrays)
                for key, item in plain.items()
            }
        case dict():
            written = _written(plain, value)
            made = {
                name: item if type(item) in SIMPLE else _without(item, getattr(value, name), arrays)
                for name, item in written.items()
            }
            return {name: x for name, x in made.items() if x or not isinstance(getattr(value, name), FieldGroup)}
        case list() | tuple():
            return [_without(item, one, arrays) for item, one in zip(plain, value, strict=True)]
    return plain


def _written(plain: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are written."""
    may_lack = plain.keys() if isinstance(value, FieldGroup) else RARE & plain.keys()
    if not may_lack:
        return dict(plain)
    lacks = {f.name for f in fields(value) if f.name in may_lack and has_default(getattr(value, f.name), f)}
    return {name: item for name, item in plain.items() if name not in lacks}


def has_default(value: Any, field: Field[Any]) -> bool:
    """Tell whether a field has its default, which a reader puts there; -0.0 is not 0.0."""
    default = field.default
    if default is MISSING or isinstance(value, np.ndarray):
        return bool(isinstance(value, Mapping) and not value and field.default_factory is dict)
    if value is default:
        return True
    if type(value) is float:
        return bool(value == default) and math.copysign(1.0, value) == math.copysign(1.0, default)
    return type(value) is type(default) and bool(value == default)


def _with(plain: Any, arrays: Mapping[str, FloatArray]) -> Any:
    match plain:
        case {"$array": str() as name} if len(plain) == 1 and name in arrays:
            return arrays[name]
        case dict():
            return {key: _with(item, arrays) for key, item in plain.items()}
        case list():
            return [_with(item, arrays) for item in plain]
    return plain


def _any_text(text: str) -> None:
    """Take any text: that of a file of the user's own."""


def _checked(data: bytes, check: Callable[[str], None]) -> str:
    text = data.decode()
    check(text)
    return text


def _mapping(text: str) -> dict[str, Any]:
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise TypeError("a JSON value that is not an object")
    refuse_surrogates(plain, text)
    return plain


def refuse_surrogates(plain: object, text: str) -> None:
    """Refuse a JSON value with half a surrogate pair, which no text may hold.

    Raises
    ------
    UnicodeEncodeError
        It has one.
    """
    if "\\ud" in text.lower():
        json.dumps(plain, ensure_ascii=False).encode()


def _floats(arrays: Mapping[str, Any]) -> dict[str, FloatArray]:
    for name, array in arrays.items():
        if array.dtype != np.float64:
            raise TypeError(f"array {name} is {array.dtype}, not float64")
    return dict(arrays)
