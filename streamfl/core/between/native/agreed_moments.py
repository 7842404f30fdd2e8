"""The moments that all standardise by between rounds: which values of a round count, and which of before still do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamfl.core.protocol.early import Early, followed
from streamfl.core.protocol.moments import FEWEST, NOTHING, Moments, merged
from streamfl.core.protocol.native.learnt import NativeLearnt


class Seen(NamedTuple):
    """Moments of all values; what the first of them are judged by; and of the last ones, if all are far out."""

    moments: Moments = NOTHING
    early: Early = Early()
    far: Moments = NOTHING


def after_round(seen: Seen, parts: Sequence[NativeLearnt]) -> Seen:
    """Return what has been seen after a round.

    A feature that began again at clients with most of its values begins again: what was agreed, and what the others
    saw, is left out. Where it did at fewer, what these saw is left out. Where clients see a few values a round, none
    begins again by itself: the feature does when all values of the last rounds were far out, eight or more, and not
    all the same.
    """
    moments, told, moved = _begun_again(seen.moments, parts)
    early = Early(_without(seen.early.first, moved), _without(seen.early.later, moved))
    moments, early = followed(moments, early, told)
    features = moments.features
    far = _far_out(seen.far, parts, features)
    begins = (far.count >= FEWEST) & (far.m2 > 0.0)
    if not begins.any():
        return Seen(moments, early, far)
    early = Early(early.first.aligned(features).only(~begins), early.later.aligned(features).only(~begins))
    return Seen(moments.where(begins, far), early, far.only(~begins))


def _begun_again(seen: Moments, parts: Sequence[NativeLearnt]) -> tuple[Moments, Moments, tuple[str, ...]]:
    """Return the moments that still count, those of the round that do, and the features that began again."""
    told = [part.moments for part in parts]
    if not any(part.again for part in parts):
        return seen, merged(told), ()
    features = tuple(dict.fromkeys(name for moments in (seen, *told) for name in moments.features))
    aligned = [moments.aligned(features) for moments in told]
    again = np.array([[name in part.again for name in features] for part in parts])
    count = np.array([moments.count for moments in aligned])
    moved = 2.0 * (count * again).sum(axis=0) > count.sum(axis=0)
    kept = [moments.only(mine == moved) for moments, mine in zip(aligned, again, strict=True)]
    names = tuple(name for name, has in zip(features, moved, strict=True) if has)
    return seen.aligned(features).only(~moved), merged(kept), names


def _without(moments: Moments, features: tuple[str, ...]) -> Moments:
    return moments.only(np.array([name not in features for name in moments.features], np.bool_))


def _far_out(before: Moments, parts: Sequence[NativeLearnt], features: tuple[str, ...]) -> Moments:
    """Return the moments of the last values of each feature that were all far out: of none, if one was not."""
    far = merged([part.far for part in parts]).aligned(features)
    count = sum((part.moments.aligned(features).count for part in parts), np.zeros(len(features)))
    kept = before.aligned(features).only(far.count >= count)
    return merged([kept, far.only((far.count > 0.0) & (far.count >= count))])
