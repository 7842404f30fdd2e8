"""The layout of a packed message: parses and checks its safetensors header."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from streamfl.bounds import NAMED, Limits
from streamfl.protocol.reasons import Reason, ReasonCode, within
from streamfl.records.formats.field_map import repeated
from streamfl.records.labels import LabelTexts
from streamfl.records.values.cells import listed, quoted

MAX_RECORDS = 65_536
MAX_HEADER = 4 * 2**20  # bytes; the most names, of 256 bytes each, take a third of it
LENGTH = 8  # bytes before the header with its length

Task = Literal["classification", "regression", "unlabelled"]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_BYTES = {"F32": 4, "F64": 8, "I32": 4}
_NUMPY = {"F32": "<f4", "F64": "<f8", "I32": "<i4"}


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: tuple[_Count, ...]
    data_offsets: tuple[_Count, _Count]


_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TENSOR = msgspec.json.Decoder(_Tensor)
_METADATA = msgspec.json.Decoder(dict[str, str])
_NAMES = msgspec.json.Decoder(tuple[str, ...])


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """One array: its NumPy type, and its first byte in the message."""

    dtype: str
    start: int


@dataclass(frozen=True, slots=True)
class PackedHeader:
    """A parsed header."""

    size: int  # bytes of the whole message
    n: int  # records
    # Names; in regression there are no labels.
    features: tuple[str, ...]
    labels: tuple[str, ...]

    # The places of the arrays: `X` by row, shape (n, d); `y` and `time`, shape (n,); `time` is optional, and `y` is
    # not read from records without labels.
    X: ArrayPlace
    y: ArrayPlace | None
    time: ArrayPlace | None


def layout(head: bytes, task: Task, limits: Limits = NAMED) -> PackedHeader:
    """Parse and check a header.

    Parameters
    ----------
    head
        The length bytes and the header.
    task
        Whether `y` holds class indices or targets, or is not read.

    Raises
    ------
    ValueError
        If it is not the safetensors header of a packed message; the error has the reason.

    >>> layout(b"........{}", "regression")
    Traceback (most recent call last):
    ValueError: there is no array X
    """
    try:
        parts = _PARTS.decode(head[LENGTH:])
        metadata = _METADATA.decode(parts.pop("__metadata__", b"{}"))
        tensors = {name: _TENSOR.decode(part) for name, part in parts.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(Reason(f"not safetensors ({error})", ReasonCode.NOT_PACKED)) from None
    size = _tiled(tensors)
    X = _array(tensors, "X", ("F32",), 2)
    n, d = X.shape
    dtypes = ("I32",) if task == "classification" else ("F32", "F64")
    y = _array(tensors, "y", dtypes, 1, n) if task != "unlabelled" else None
    time = _array(tensors, "time", ("F64",), 1, n) if "time" in tensors else None
    if n > MAX_RECORDS:
        raise ValueError(f"{n} records, but one message holds at most {MAX_RECORDS}")
    return PackedHeader(
        size=len(head) + size,
        n=n,
        features=_features(metadata, d),
        labels=_labels(metadata, limits.labels) if task == "classification" else (),
        X=_place(head, X),
        y=_place(head, y) if y is not None else None,
        time=_place(head, time) if time is not None else None,
    )


def _tiled(tensors: Mapping[str, _Tensor]) -> int:
    """Return the total bytes of the arrays, which must follow one another without gaps, as in safetensors."""
    end = 0
    for start, stop in sorted(tensor.data_offsets for tensor in tensors.values()):
        if start != end or stop < start:
            what = "not safetensors (the arrays do not follow one another without a gap)"
            raise ValueError(Reason(what, ReasonCode.NOT_PACKED))
        end = stop
    return end


def _array(
    tensors: Mapping[str, _Tensor], name: str, dtypes: tuple[str, ...], dimensions: int, n: int | None = None
) -> _Tensor:
    if name not in tensors:
        raise ValueError(f"there is no array {name}")
    tensor = tensors[name]
    if tensor.dtype not in dtypes:
        raise ValueError(f"array {name} is of type {quoted(tensor.dtype)}, not {' or '.join(dtypes)}")
    if len(tensor.shape) != dimensions or n not in {None, tensor.shape[0]}:
        raise ValueError(
            f"array {name} has the shape {quoted(tensor.shape)}, not {'(n, d)' if n is None else f'({n},)'}"
        )
    start, stop = tensor.data_offsets
    if math.prod(tensor.shape) * _BYTES[tensor.dtype] != stop - start:
        raise ValueError(f"array {name} has {stop - start} bytes, which does not match its shape")
    return tensor


def _place(head: bytes, tensor: _Tensor) -> ArrayPlace:
    return ArrayPlace(_NUMPY[tensor.dtype], len(head) + tensor.data_offsets[0])


def _features(metadata: Mapping[str, str], d: int) -> tuple[str, ...]:
    features = _names(metadata, "features")
    if len(features) != d:
        raise ValueError(f"{len(features)} names of features for {d} columns of X")
    if len(set(features)) < d:
        raise ValueError(f"two features have the same name: {listed(repeated(features))}")
    return features


def _labels(metadata: Mapping[str, str], most: int) -> tuple[str, ...]:
    names = _names(metadata, "labels")
    if len(names) > most:
        what = f"{len(names)} labels, but at most {most} are possible"
        raise ValueError(Reason(what, ReasonCode.TOO_MANY_LABELS))
    read = LabelTexts()
    _, wrong = read.add(names)
    if wrong:
        i, reason = next(iter(wrong.items()))
        raise ValueError(within(reason, f"label {i} is {quoted(names[i])}: "))
    if len(read.codes) < len(names):
        raise ValueError(f"two labels have the same name: {listed(repeated([name.strip() for name in names]))}")
    return tuple(read.codes)


def _names(metadata: Mapping[str, str], key: str) -> tuple[str, ...]:
    if key not in metadata:
        raise ValueError(f"the metadata have no list of {key}")
    try:
        return _NAMES.decode(metadata[key])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ValueError(f"the {key} in the metadata are not a JSON list of texts") from None
