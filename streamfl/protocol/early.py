"""The first values of a feature, checked against later ones: one glitch must not stretch a scale for ever."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import BoolArray
from streamfl.protocol.moments import FEWEST, NOTHING, Moments, merged

# The first values are glitches if their spread is more than so many times that of the values after them.
FARTHER = 20.0

# Glitches among the first values leave their mean within this many deviations of the later mean. If the whole feature
# moved, it may lie farther.
NEAR = 0.5

# Beyond this many values a glitch weighs little. Besides, the spread of all values of a feature that moves all the
# time is that much larger than the spread of its last few.
FEW = FARTHER * FEWEST


@dataclass(frozen=True, slots=True, eq=False)
class Early:
    """The moments of the first values, and of those after them; empty for features with enough values."""

    first: Moments = field(default=NOTHING)
    later: Moments = field(default=NOTHING)


def followed(seen: Moments, early: Early, new: Moments) -> tuple[Moments, Early]:
    """Return the moments with new values, without the first values of features where these were glitches.

    A few values alone do not show which of them is an outlier; the next few do.

    Examples
    --------
    >>> from streamfl.protocol.moments import NOTHING
    >>> def of(*values):
    ...     return Moments.of(("x",), np.array([values]).T)
    >>> seen, early = followed(NOTHING, Early(), of(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -9999.0))
    >>> seen, early = followed(seen, early, of(1.0, 2.0, 3.0, 4.0))
    >>> seen.count, seen.mean.round(1)
    (array([12.]), array([-830.7]))
    >>> seen, early = followed(seen, early, of(1.0, 2.0, 3.0, 4.0))
    >>> seen.count, seen.mean.round(1)
    (array([8.]), array([2.5]))
    """
    everything = merged([seen, new])
    features = everything.features
    before, first = seen.aligned(features), early.first.aligned(features)
    later = merged([early.later, new]).aligned(features)
    is_early = (before.count < FEW) | (first.count > 0.0)
    judged = is_early & (later.count >= np.maximum(FEWEST, first.count / FARTHER))
    wrong = judged & _are_glitches(first, later)
    after = everything.where(wrong, later)
    still = judged & ((after.count < FEW) | (first.count == 0.0))
    waits = is_early & ~judged
    return after, Early(first.where(judged, after).only(waits | still), later.only(waits))


def _are_glitches(first: Moments, later: Moments) -> BoolArray:
    """Return the features whose first values spread so much more than the later ones that some are glitches."""
    deviation, spread = np.sqrt(first.variance), np.sqrt(later.variance)
    known = spread > 1e-12 * np.abs(later.mean)  # a smaller spread is rounding
    return known & (deviation > FARTHER * spread) & (np.abs(first.mean - later.mean) < NEAR * deviation)
