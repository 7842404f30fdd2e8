"""The least and the largest target of some records: predictions beyond them, and a tenth, are not believed."""

import math
from collections.abc import Iterable

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.native.settings import MARGIN
from streamfl.protocol.records import LARGEST_TARGET

# The least and the largest target; empty before any, and if they are not known.
Extremes = tuple[float, ...]

# Extremes are sent as multiples of about this part of their distance, so no single target is sent exactly.
PART = 1.0 / 64.0


def extremes(targets: FloatArray) -> Extremes:
    """Return the extremes of targets, rounded outwards.

    >>> extremes(np.array([3.0, 101.0, 50.0])), extremes(np.array([5.0, 5.0])), extremes(np.zeros(0))
    ((2.0, 102.0), (5.0, 5.0), ())
    """
    if not len(targets):
        return ()
    least, largest = float(targets.min()), float(targets.max())
    distance = largest - least
    step = 2.0 ** math.ceil(math.log2(distance * PART)) if distance * PART > 0.0 else 0.0
    if not step:
        return (least, largest)
    return (math.floor(least / step) * step, math.ceil(largest / step) * step)


def of_all(parts: Iterable[Extremes]) -> Extremes:
    """Return the extremes of all targets of which parts have these; empty parts have no targets.

    >>> of_all([(1.0, 2.0), (), (0.0, 1.5)]), of_all([()])
    ((0.0, 2.0), ())
    """
    known = [part for part in parts if part]
    return (min(part[0] for part in known), max(part[1] for part in known)) if known else ()


def are_sound(found: Extremes) -> bool:
    """Tell whether these are the extremes of some targets."""
    most = (1.0 + 2.0 * PART) * 2.0 * LARGEST_TARGET
    return not found or (len(found) == 2 and -most <= found[0] <= found[1] <= most)


def believed(found: Extremes) -> FloatArray:
    """Return the least and the largest prediction that is believed, shape (2,).

    >>> believed((0.0, 10.0)), believed(())
    (array([-1., 11.]), array([-inf,  inf]))
    """
    least, largest = found or (-math.inf, math.inf)
    margin = MARGIN * (largest - least) if found else 0.0
    return np.array([least - margin, largest + margin])
