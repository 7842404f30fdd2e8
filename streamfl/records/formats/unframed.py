"""What a message in another form becomes: a JSON object, in bytes."""

import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

Read = Callable[[bytes], bytes]
"""Makes a message without its head a JSON object."""


class UnreadableError(Exception):
    """A message is no record: it does not fit its schema, or a function of the user's cannot read it."""


def as_json(record: object) -> bytes:
    """Return a decoded record as a JSON object. Bytes become hexadecimal text.

    Raises
    ------
    UnreadableError
        It has a value that JSON cannot hold; the error names the value.

    >>> as_json({"t": datetime.datetime(2026, 3, 21, tzinfo=datetime.UTC), "x": decimal.Decimal("1.5"), "b": b"ab"})
    b'{"t":"2026-03-21T00:00:00Z","x":"1.5","b":"0x6162"}'
    """
    try:
        return msgspec.json.encode(_finite(record), enc_hook=_other)
    except UnreadableError:
        raise
    except RecursionError:
        raise UnreadableError("objects or lists nested too deeply") from None
    except UnicodeEncodeError:
        raise UnreadableError("half a surrogate pair") from None
    except Exception as error:  # what a program's own classes raise
        raise UnreadableError(f"a value that raises {type(error).__name__}") from None


def _finite(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex()}"  # no number, also where all digits are decimal
    if isinstance(value, Mapping):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def _other(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, datetime.date | datetime.time | decimal.Decimal | uuid.UUID):
        return str(value)
    raise UnreadableError(f"a value of type {type(value).__name__}")
