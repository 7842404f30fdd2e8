"""Where the arrays of a packed message lie: what its safetensors header says, and whether that can be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from streamfl.core.bounds import NAMED, Limits
from streamfl.formats.field_map import repeated
from streamfl.streams.cells import listed, quoted
from streamfl.streams.labels import LabelTexts

MAX_RECORDS = 65_536
MAX_HEADER = 4 * 2**20  # bytes; as many names as there may be, of 256 bytes each, have a third of it
LENGTH = 8  # bytes before the header that say how long it is

Task = Literal["classification", "regression"]
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
    """One array: the NumPy type of its numbers, and the byte of the message at which it starts."""

    dtype: str
    start: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One header.

    Parameters
    ----------
    size
        Bytes of the whole message.
    n
        Records.
    features, labels
        Names; in regression there are no labels.
    X, y, time
        Where the arrays are: numbers by row, shape (n, d), and (n,) each; `time` only if there is one.
    """

    size: int
    n: int
    features: tuple[str, ...]
    labels: tuple[str, ...]
    X: ArrayPlace
    y: ArrayPlace
    time: ArrayPlace | None


def layout(head: bytes, task: Task, limits: Limits = NAMED) -> Layout:
    """Return what a header says.

    Parameters
    ----------
    head
        The length of the header, and the header.
    task
        Whether `y` holds class indices or targets.
    limits
        How many labels it may name.

    Raises
    ------
    ValueError
        If it is no safetensors header, or not one of a packed message; the message says what is wrong.

    >>> layout(b"........{}", "regression")
    Traceback (most recent call last):
    ValueError: there is no array X
    """
    try:
        parts = _PARTS.decode(head[LENGTH:])
        metadata = _METADATA.decode(parts.pop("__metadata__", b"{}"))
        tensors = {name: _TENSOR.decode(part) for name, part in parts.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not safetensors ({error})") from None
    size = _tiled(tensors)
    X = _array(tensors, "X", ("F32",), 2)
    n, d = X.shape
    y = _array(tensors, "y", ("I32",) if task == "classification" else ("F32", "F64"), 1, n)
    time = _array(tensors, "time", ("F64",), 1, n) if "time" in tensors else None
    if n > MAX_RECORDS:
        raise ValueError(f"{n} records, more than the {MAX_RECORDS} that one message may hold")
    return Layout(
        size=len(head) + size,
        n=n,
        features=_features(metadata, d),
        labels=_labels(metadata, limits.labels) if task == "classification" else (),
        X=_place(head, X),
        y=_place(head, y),
        time=_place(head, time) if time is not None else None,
    )


def _tiled(tensors: Mapping[str, _Tensor]) -> int:
    """Return the bytes of all arrays, which by the rules of safetensors follow one another without a gap."""
    end = 0
    for start, stop in sorted(tensor.data_offsets for tensor in tensors.values()):
        if start != end or stop < start:
            raise ValueError("not safetensors (the arrays do not follow one another without a gap)")
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
        raise ValueError(f"array {name} has {stop - start} bytes, too many or too few for its shape")
    return tensor


def _place(head: bytes, tensor: _Tensor) -> ArrayPlace:
    return ArrayPlace(_NUMPY[tensor.dtype], len(head) + tensor.data_offsets[0])


def _features(metadata: Mapping[str, str], d: int) -> tuple[str, ...]:
    features = _names(metadata, "features")
    if len(features) != d:
        raise ValueError(f"{len(features)} names of features for {d} columns of X")
    if len(set(features)) < d:
        raise ValueError(f"two features have one name: {listed(repeated(features))}")
    return features


def _labels(metadata: Mapping[str, str], most: int) -> tuple[str, ...]:
    names = _names(metadata, "labels")
    if len(names) > most:
        raise ValueError(f"{len(names)} labels, more than the {most} there may be")
    read = LabelTexts()
    _, wrong = read.add(names)
    if wrong:
        i, reason = next(iter(wrong.items()))
        raise ValueError(f"label {i} is {quoted(names[i])}: {reason}")
    if len(read.codes) < len(names):
        raise ValueError(f"two labels are one: {listed(repeated([name.strip() for name in names]))}")
    return tuple(read.codes)


def _names(metadata: Mapping[str, str], key: str) -> tuple[str, ...]:
    if key not in metadata:
        raise ValueError(f"the metadata have no list of {key}")
    try:
        return _NAMES.decode(metadata[key])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ValueError(f"the {key} in the metadata are no JSON list of texts") from None
