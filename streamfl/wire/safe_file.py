"""Saves a value as one file: safetensors with a JSON header, a format version and a digest, without a pickle."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError, UsageError
from streamfl.wire import codec
from streamfl.wire.replaced_file import replace

DIGEST = "sha256"

# What becomes of a file of 0.1.0: 0.2.0 reads it, and writes it in the oldest format that is read today.
REMEDY = "this version does not read it: load it with streamfl 0.2.0, and save it again"


def write(path: Path, value: object, *, private: bool = False) -> None:
    """Write a value with a field `format` to a file: completely or, on any failure, not at all.

    Only its owner may read a private file.

    Raises
    ------
    UsageError
        It cannot be written.
    """
    plain, arrays = codec.split(value)
    data = codec.pack({DIGEST: digest(plain, arrays), **plain}, arrays)
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or the like cannot be replaced
        else:
            replace(path, data, private=private)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def read(path: Path, what: str, *, oldest: int, newest: int) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Return the plain data and the arrays of a file.

    Parameters
    ----------
    what
        What the file should be, for error messages.

    Raises
    ------
    UsageError
        It is not such a file, has another format, or is damaged.
    """
    try:
        plain, arrays = codec.unpack(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except PeerError as error:
        raise UsageError(f"{path}: not {what}: {error}") from error
    version = plain.get("format")
    if type(version) is not int or version < 1:  # true is not a number
        raise UsageError(f"{path}: not {what}")
    if version > newest:
        raise UsageError(f"{path}: format {version}; this version of streamfl reads formats up to {newest}")
    if version < oldest:
        raise UsageError(f"{path}: format {version}, which streamfl 0.1.0 wrote; {REMEDY}")
    expected = plain.pop(DIGEST, None)
    if expected is None:
        raise UsageError(f"{path}: the file is damaged: its digest is missing; take a copy of it")
    if expected != digest(plain, arrays):
        raise UsageError(f"{path}: the file is damaged: it is not what was written; take a copy of it")
    return plain, arrays


def digest(plain: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> str:
    """Return the SHA-256 of plain data and arrays.

    >>> import numpy as np
    >>> digest({"a": 1}, {"0": np.zeros(2)}) == digest({"a": 1}, {"0": np.zeros((2, 1))})
    False
    """
    sha256 = hashlib.sha256(json.dumps(plain).encode())
    for name, array in sorted(arrays.items()):
        sha256.update(f"{name}{array.shape}".encode() + array.tobytes())
    return sha256.hexdigest()
