"""The first values of a feature, judged by those after them: one glitch must not stretch a scale for ever."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import BoolArray
from streamfl.core.protocol.moments import FEWEST, NOTHING, Moments, merged

# How many times as large a spread the first values have as those after them, if they do not belong there.
FARTHER = 20.0

# The mean of values with a few glitches lies within so many deviations of all others; where all move, it need not.
NEAR = 0.5

# Beyond so many values a glitch among them weighs little; and where a feature moves all the time, the spread of all
# values is that much larger than that of the last few.
FEW = FARTHER * FEWEST


@dataclass(frozen=True, slots=True, eq=False)
class Early:
    """Moments of the first values, and of those after them, while there are few; nothing of all other features."""

    first: Moments = field(default=NOTHING)
    later: Moments = field(default=NOTHING)


def followed(seen: Moments, early: Early, told: Moments) -> tuple[Moments, Early]:
    """Return moments after more values, without the first ones where these do not belong there.

    Whoever sees a few values at a time cannot tell which of them is far out: the next few can.

    Parameters
    ----------
    seen
        Of all values so far.
    early
        What is kept of them to judge them by.
    told
        Of the new values.

    Examples
    --------
    >>> from streamfl.core.protocol.moments import NOTHING
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
    everything = merged([seen, told])
    features = everything.features
    before, first = seen.aligned(features), early.first.aligned(features)
    later = merged([early.later, told]).aligned(features)
    is_early = (before.count < FEW) | (first.count > 0.0)
    judged = is_early & (later.count >= np.maximum(FEWEST, first.count / FARTHER))
    wrong = judged & _are_glitches(first, later)
    after = everything.where(wrong, later)
    still = judged & ((after.count < FEW) | (first.count == 0.0))
    waits = is_early & ~judged
    return after, Early(first.where(judged, after).only(waits | still), later.only(waits))


def _are_glitches(first: Moments, later: Moments) -> BoolArray:
    """Tell where the first values are spread so much farther that some of them do not belong there."""
    deviation, spread = np.sqrt(first.variance), np.sqrt(later.variance)
    known = spread > 1e-12 * np.abs(later.mean)  # not by rounding alone
    return known & (deviation > FARTHER * spread) & (np.abs(first.mean - later.mean) < NEAR * deviation)
