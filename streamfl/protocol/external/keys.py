"""Converts River's keys to text and back: features and labels are text, numbers, booleans, or tuples of these."""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from streamfl.errors import PeerError, UsageError

# Text after this mark is JSON; any other text is the key itself.
MARK = "#"


def text_of(key: Hashable) -> str:
    """Return the text of a key: a string is its own text, any other key is JSON after a `#`.

    Whole numbers are written without a point, because 1 and 1.0 are the same key of a dict.

    >>> [text_of(key) for key in ("x", 3, 1.0, True, ("up", 0.5), "#1")]
    ['x', '#3', '#1', '#true', '#["up",0.5]', '#"#1"']

    Raises
    ------
    UsageError
        The key has another type, which would need a pickle.
    """
    if isinstance(key, str) and not key.startswith(MARK):
        return str(key)
    return MARK + json.dumps(_plain(key), separators=(",", ":"), ensure_ascii=False)


def key_of(text: str) -> Hashable:
    """Return the key of a text.

    >>> [key_of(text) for text in ("x", "#3", "#true", '#["up",0.5]', '#"#1"')]
    ['x', 3, True, ('up', 0.5), '#1']

    Raises
    ------
    PeerError
        It is not the text of a key.
    """
    if not text.startswith(MARK):
        return text
    try:
        key = _hashable(json.loads(text[len(MARK) :]))
        same = text_of(key) == text
    except (ValueError, TypeError, RecursionError, UsageError) as error:
        raise PeerError(f"{text!r} is not the text of a key") from error
    if not same:  # a second text of the same key would make a second row
        raise PeerError(f"{text!r} is not the text of a key")
    return key


def keys_of(texts: Iterable[str]) -> list[Hashable]:
    """Return the keys of some texts, which must differ.

    >>> keys_of(["#1", "#true"])
    Traceback (most recent call last):
    ...
    streamfl.errors.PeerError: True and 1 are the same key of a dict: all clients must write it in the same way

    Raises
    ------
    PeerError
        A text is not the text of a key, or two keys are equal.
    """
    seen: dict[Hashable, Hashable] = {}
    for text in texts:
        key = key_of(text)
        if key in seen:
            raise PeerError(
                f"{key!r} and {seen[key]!r} are the same key of a dict: all clients must write it in the same way"
            )
        seen[key] = key
    return list(seen)


def _plain(key: Hashable) -> Any:
    match key.item() if isinstance(key, np.generic) else key:
        case bool() | int() | str() | None as plain:
            return plain
        case float() as number if math.isfinite(number):
            return int(number) if number.is_integer() else number
        case tuple() as parts:
            return [_plain(part) for part in parts]
    raise UsageError(
        f"{key!r}, of type {type(key).__name__}, cannot name a feature or a label: only text, numbers and tuples can"
    )


def _hashable(plain: Any) -> Hashable:
    match plain:
        case list():
            return tuple(_hashable(part) for part in plain)
        case dict():
            raise TypeError("an object cannot be a key")
    key: Hashable = plain
    return key
