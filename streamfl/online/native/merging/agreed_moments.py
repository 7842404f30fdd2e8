"""The agreed moments by which native models standardise: which new values count, and which old ones still do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.early import Early, followed
from streamfl.protocol.moments import FEWEST, NOTHING, Moments, merged
from streamfl.protocol.native.learnt import NativeLearnt


class Seen(NamedTuple):
    """The moments of all values; what is kept to check the first ones; and the last ones, if all are outliers."""

    moments: Moments = NOTHING
    early: Early = Early()
    far: Moments = NOTHING


def after_round(seen: Seen, parts: Sequence[NativeLearnt]) -> Seen:
    """Return the moments after a round.

    A feature begins again if it did at clients that hold most of its values: the agreed moments, and those of the
    other clients, are dropped. If it began again at fewer, the moments of these are dropped. Clients with few values
    a round cannot begin a feature again alone. It then begins again when all values of the last rounds were outliers,
    at least eight, and not all equal.
    """
    moments, new, moved = _begun_again(seen.moments, parts)
    early = Early(_without(seen.early.first, moved), _without(seen.early.later, moved))
    moments, early = followed(moments, early, new)
    features = moments.features
    far = _far_out(seen.far, parts, features)
    begins = (far.count >= FEWEST) & (far.m2 > 0.0)
    if not begins.any():
        return Seen(moments, early, far)
    early = Early(early.first.aligned(features).only(~begins), early.later.aligned(features).only(~begins))
    return Seen(moments.where(begins, far), early, far.only(~begins))


def _begun_again(seen: Moments, parts: Sequence[NativeLearnt]) -> tuple[Moments, Moments, tuple[str, ...]]:
    """Return the old moments that still count, the new ones that do, and the features that began again."""
    new = [part.moments for part in parts]
    if not any(part.again for part in parts):
        return seen, merged(new), ()
    of_parts = (name for part in parts for name in part.features)
    features = tuple(dict.fromkeys((*seen.features, *of_parts)))
    aligned = [moments.aligned(features) for moments in new]
    again = np.array([[name in part.again for name in features] for part in parts])
    count = np.array([_counted(part, features) for part in parts])
    moved = 2.0 * (count * again).sum(axis=0) > count.sum(axis=0)
    kept = [moments.only(began == moved) for moments, began in zip(aligned, again, strict=True)]
    names = tuple(name for name, has in zip(features, moved, strict=True) if has)
    return seen.aligned(features).only(~moved), merged(kept), names


def _counted(part: NativeLearnt, features: tuple[str, ...]) -> FloatArray:
    """Return how many values of each feature a client had, shape (features,)."""
    counts = dict(zip(part.features, part.count.tolist(), strict=True))
    return np.array([counts.get(name, 0.0) for name in features])


def _without(moments: Moments, features: tuple[str, ...]) -> Moments:
    return moments.only(np.array([name not in features for name in moments.features], np.bool_))


def _far_out(before: Moments, parts: Sequence[NativeLearnt], features: tuple[str, ...]) -> Moments:
    """Return the moments of the last values of each feature, as long as all of them were outliers."""
    far = merged([part.far for part in parts]).aligned(features)
    count = sum((_counted(part, features) for part in parts), np.zeros(len(features)))
    kept = before.aligned(features).only(far.count >= count)
    return merged([kept, far.only((far.count > 0.0) & (far.count >= count))])
