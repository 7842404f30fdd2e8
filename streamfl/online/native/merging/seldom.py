"""Moments and second moments are published seldom: they hardly change from round to round, and take many bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.online.native.merging.placing import rows_of
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.unpublished import Unpublished

# The coordinator publishes moments early if the number of records has grown by this share since the last time.
# docs/choices.md, "Grids".
MORE = 0.5


@dataclass(frozen=True, eq=False)
class MomentsChange:
    """The moments in a published change; see `NativeChange`."""

    second: FloatArray
    moments: Moments = NOTHING
    each: float = 0.0
    since: int = 0


def publish(
    agreed: NativeState, grown: NativeState, parts: Sequence[NativeLearnt], moments: Moments, every: int
) -> tuple[MomentsChange, Unpublished]:
    """Return what is published of moments after a round, and what waits for another one.

    They are published in the last of some rounds, and at once if there are half as many records again, as in the
    first rounds; if a feature is new, which has no scale yet; and if one begins again, whose scale is wrong.

    Parameters
    ----------
    agreed, grown
        The agreed state from which clients learnt, and the same with the names of now.
    moments
        Those of all values so far, which the coordinator knows.
    every
        So many rounds.
    """
    before, total = agreed.unpublished, sum(part.records for part in parts)
    sums, measured = _measured(grown, parts)
    rounds, measured = before.rounds + 1, before.measured + measured
    since = before.since if before.rounds else agreed.seen
    sums[tuple(map(slice, before.second.shape))] += before.second  # names may have been added since
    more = agreed.seen + total - since
    if rounds < every and more < MORE * since and not _at_once(agreed, grown, moments):
        return MomentsChange(np.zeros(grown.second.shape)), Unpublished(rounds, since, moments, measured, sums)
    each = more / measured if measured else 0.0
    return MomentsChange(sums, moments.aligned(grown.features), each, since if before.rounds else 0), Unpublished()


def known_moments(agreed: NativeState) -> Moments:
    """Return the moments of all values so far, of which clients know those that were published last."""
    return agreed.unpublished.moments if agreed.unpublished.rounds else agreed.moments


def _at_once(agreed: NativeState, grown: NativeState, moments: Moments) -> bool:
    """Tell whether a feature is new, or begins again: it then counts fewer values than before."""
    known = known_moments(agreed)
    begun_again = (moments.aligned(known.features).count < known.count).any()
    return len(grown.features) > len(agreed.features) or bool(begun_again)


def _measured(grown: NativeState, parts: Sequence[NativeLearnt]) -> tuple[FloatArray, int]:
    """Return the sum of z z^T over the records of the round that were measured, and how many these are."""
    sums, measured = np.zeros(grown.second.shape), [part for part in parts if part.second.size]
    for part in measured:
        rows = rows_of(part, grown)
        sums[np.ix_(rows, rows)] += part.second
    return sums, sum(part.records for part in measured)
