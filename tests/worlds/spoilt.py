"""Any one thing in a message replaced by what a broken or hostile writer may put there."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, -(2**70), 10**300, 1e308,
    1e-320, float("nan"), float("inf"), float("-inf"), "", "x", "c0", "x" * 300, "\x00", "\ud800", "é" * 200,
    "9" * 400,
    [], {}, [0], [[]], {"x": 1}, {"$array": "0"}, {"$array": None}, {"$array": "x"}, [None] * 50, [[[[[[[]]]]]]],
)  # fmt: skip
"""What may stand in the place of any value."""

NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1.0, 0.0, 0.5, 2.0**70)
"""What may stand in the place of a number of an array."""

# How often what holds other values is replaced as a whole.
DEEPER = 0.25

Arrays = Mapping[str, FloatArray]


def spoilt(plain: Any, arrays: Arrays, rng: random.Random) -> tuple[Any, Arrays]:
    """Return plain data and arrays, as `codec.split` gives them, with one thing in them replaced.

    Parameters
    ----------
    plain, arrays
        The data, and the arrays to which they refer; both stay as they are.
    rng
        Draws what is replaced, and by what: a value, a name, the elements of a list, a number or an array.

    Examples
    --------
    >>> plain = {"client": "c0", "records": 20}
    >>> spoilt(plain, {}, random.Random(5))[0]
    {'client': 'c0', 'records': 'x'}
    """
    if arrays and rng.random() < 0.3:
        name = rng.choice(sorted(arrays))
        return plain, {**arrays, name: _other_array(arrays[name], rng)}
    place = _place(plain, rng)
    return (_replaced(plain, place, rng) if place else rng.choice(VALUES)), arrays


def _place(plain: Any, rng: random.Random) -> tuple[Any, ...]:
    """Return the path to a value in plain data, or to what holds it; () if there is none."""
    path: list[Any] = []
    while isinstance(plain, dict | list) and plain and not (path and rng.random() < DEEPER):
        key = rng.choice(list(plain)) if isinstance(plain, dict) else rng.randrange(len(plain))
        path.append(key)
        plain = plain[key]
    return tuple(path)


def _replaced(plain: Any, place: tuple[Any, ...], rng: random.Random) -> Any:
    key, rest = place[0], place[1:]
    changed = dict(plain) if isinstance(plain, dict) else list(plain)
    changed[key] = _replaced(plain[key], rest, rng) if rest else rng.choice(VALUES)
    how = 1.0 if rest else rng.random()
    if isinstance(changed, list):
        return [*plain, *plain * rng.choice((1, 3))] if how < 0.35 else changed
    if how < 0.15:
        del changed[key]
    elif how < 0.25:
        changed[str(rng.choice(VALUES))] = plain[key]
    return changed


def _other_array(x: FloatArray, rng: random.Random) -> FloatArray:
    other = x.astype(np.float64).copy()
    if other.size and rng.random() < 0.6:
        other.flat[rng.randrange(other.size)] = rng.choice(NUMBERS)
        return other
    few = (np.zeros(0), np.zeros((0, 0)), np.array(1.0), np.zeros((1, 1)), np.zeros_like(other))
    return rng.choice((*few, -other, other[None], np.repeat(other.ravel(), 2), np.atleast_1d(other)[:-1]))
