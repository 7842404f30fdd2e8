"""What a decoded value takes in memory, about. Bounds are on this: zeros of a few bytes may fill gigabytes."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np

# The most bytes of the decoded messages that one store keeps, unless the last of them alone has more. With default
# limits an honest round needs less: ten models of 2^20 weights take 84 MB, second moments of 4,096 features 134 MB.
MOST_KEPT = 2**29

# The most bytes of the decoded messages that are taken from a log before they are used; the last may exceed it.
MOST_AT_ONCE = 2**27

# The bytes of an object of Python, besides what it holds.
OBJECT = 64


def memory(value: object) -> int:
    """Return about how many bytes a value takes: its arrays, its text, and `OBJECT` for each object.

    >>> memory(np.zeros((1000, 2))), memory(("ab", "c")), memory({"a": 1})
    (16064, 195, 193)
    """
    kind = type(value)
    if kind is float or kind is int or value is None:
        return OBJECT
    if isinstance(value, np.ndarray):
        return OBJECT + value.nbytes
    if isinstance(value, str | bytes):
        return OBJECT + len(value)
    if is_dataclass(kind):
        return OBJECT + sum([memory(getattr(value, name)) for name in _names(kind)])
    if isinstance(value, Mapping):
        return OBJECT + sum([memory(key) + memory(part) for key, part in value.items()])
    if not isinstance(value, Sequence | Set):
        return OBJECT
    # Most are names: a call for each would take three times as long.
    return OBJECT + sum([OBJECT + len(part) if type(part) is str else memory(part) for part in value])


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind))
