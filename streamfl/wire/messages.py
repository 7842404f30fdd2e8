"""Encodes messages to bytes and decodes them: the only mapping between the wire and the core."""

import gzip
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import PeerError
from streamfl.protocol.messages import (
    FromClient,
    FromCoordinator,
    Join,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
    Scores,
    Update,
)
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.wire import codec, compact


def _names(union: UnionType) -> dict[str, type]:
    return {re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in get_args(union)}


KINDS: dict[str, type] = _names(FromClient) | _names(FromCoordinator)
# The messages of every client and of models: no person reads them, and their bytes count.
MANY = Join | Update | Scores | RegistryPublished | ModelPublished | ModelsChanged | OnlinePublished

TYPES = {kind: name for name, kind in KINDS.items()}


def encode(message: FromClient | FromCoordinator) -> bytes:
    """Return a message as bytes: JSON with its type first if people may read it, else the form of `compact.py`.

    >>> from streamfl.protocol.messages import Leave
    >>> encode(Leave(client="c0", nonce="a"))
    b'{"type":"leave","client":"c0","nonce":"a","after":0}'
    """
    header = {"type": TYPES[type(message)]}
    if isinstance(message, MANY):
        return compact.encode(message, header=header, coded=_is_coded(message))
    return codec.encode(message, header=header)


def _is_coded(message: MANY) -> bool:
    """Tell whether it is about models that learn record by record, whose processes have compiled loops."""
    match message:
        case Update():
            return isinstance(message.numbers.learnt, NativeLearnt)
        case OnlinePublished():
            return isinstance(message.agreed, NativeState | NativeChange)
    return False


def size(message: FromClient | FromCoordinator) -> int:
    """Return the bytes that a message takes."""
    return len(encode(message))


def size_on_log(message: FromClient | FromCoordinator, data: bytes) -> int:
    """Return the bytes that an encoded message takes on a log that compresses JSON, each message alone.

    >>> from streamfl.protocol.messages import Leave
    >>> leave = Leave(client="c0", nonce="a" * 999)
    >>> len(encode(leave)), size_on_log(leave, encode(leave))
    (1050, 74)
    """
    return len(data) if isinstance(message, MANY) else len(gzip.compress(data, mtime=0))


def decode(data: bytes) -> FromClient | FromCoordinator:
    """Return the message that some bytes encode.

    Raises
    ------
    PeerError
        The bytes are not a message, or one of an unknown type; a reader counts it and continues.
    """
    return understood(*unpack(data))


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain data and the arrays of a message.

    Raises
    ------
    PeerError
        The bytes are not a message.
    """
    return compact.unpack(data) if data.startswith(compact.MAGIC[:3]) else codec.unpack(data, bounded_text=True)


def understood(plain: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> FromClient | FromCoordinator:
    """Return the message of unpacked plain data and arrays.

    Raises
    ------
    PeerError
        It is not a message, or one of an unknown type.
    """
    name = plain.get("type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        what = repr(name) if isinstance(name, str) else f"that is a {type(name).__name__}"
        raise PeerError(bounded(f"a message of unknown type {what}"))
    message: FromClient | FromCoordinator = codec.join(kind, plain, arrays)
    return message
