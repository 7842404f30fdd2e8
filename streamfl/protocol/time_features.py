"""The names of features that are made of times: sine and cosine of the time of day, of the week and of the year."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import BoolArray

CYCLES = ("hour", "weekday", "season")

# The least deviation that such a feature counts as having. It lies between -1 and 1, so with 1 it is only centred.
# docs/choices.md, "Features of the time".
DEVIATION = 1.0


def names_of(cycles: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features of some cycles.

    >>> names_of(("hour",))
    ('hour sin', 'hour cos')
    """
    return tuple(f"{cycle} {part}" for cycle in cycles for part in ("sin", "cos"))


OF_TIME = frozenset(names_of(CYCLES))


def are_of_time(features: Sequence[str]) -> BoolArray:
    """Tell which features are made of times, by their names; shape (d,).

    >>> are_of_time(("x", "season cos"))
    array([False,  True])
    """
    return np.array([name in OF_TIME for name in features], dtype=np.bool_)
