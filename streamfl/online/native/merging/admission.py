"""Checks what a client's update says its native models have learnt: impossible numbers are refused."""

import math

import numpy as np

from streamfl.learning.fixed_point import largest_part
from streamfl.learning.grid import second_steps
from streamfl.learning.online_models import Covered
from streamfl.online.native.merging.rounding import ROOM
from streamfl.protocol.digits import BITS
from streamfl.protocol.moments import LARGEST, Moments
from streamfl.protocol.native.extremes import are_sound as are_extremes
from streamfl.protocol.native.learnt import MOST_LOST, NativeLearnt, sends_moments
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import are_sound
from streamfl.protocol.native.settings import FARTHEST, FERNS, KINDS, TOUCHED, NativeSettings
from streamfl.protocol.native.sleeping import together
from streamfl.protocol.native.steps import COARSEST
from streamfl.protocol.records import LARGEST_TARGET

# The groups of experts that may sleep.
MAY_SLEEP = frozenset(map(together, NativeSettings("auto").agreed_experts))

# Relative slack for the rounding of sums.
ROUNDING = 1e-8


def wrong_learnt(learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
    """Return why what a client learnt cannot be merged, or None if it can.

    Examples
    --------
    >>> from streamfl.online.native.learner import NativeLearner
    >>> from streamfl.bounds import NAMED
    >>> settings = NativeSettings("linear", neighbours=False)
    >>> agreed = NativeState.none(settings)
    >>> learnt = NativeLearner(settings).learnt()
    >>> def covered(records):
    ...     return Covered(records, features=set(), labels=set(), members=1, limits=NAMED)
    >>> wrong_learnt(learnt, agreed, covered(0)) is None
    True
    >>> wrong_learnt(learnt, agreed, covered(3))
    'the online models have another number of records than the update'
    """
    if learnt.records != covered.records:
        return "the online models have another number of records than the update"
    return (
        _wrong_names(learnt, agreed, covered)
        or _wrong_turn(learnt, agreed, covered)
        or _wrong_shapes(learnt, agreed)
        or _wrong_cells(learnt, agreed)
        or _wrong_numbers(learnt, covered.members)
        or _wrong_counts(learnt)
        or _wrong_pairs(learnt)
        or _wrong_moments(learnt.moments, learnt.records)
        or _wrong_moments(learnt.far, learnt.records)
        or _wrong_second(learnt, agreed)
        or (
            None
            if learnt.mixture.is_sound(1 + agreed.weights.shape[1])
            else "the mixture of online models is impossible"
        )
    )


def damaged(learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
    """Return what shows that learning was broken off halfway, or None: all that is checked of a client alone."""
    if learnt.records != covered.records:
        return "the online models have another number of records than the update"
    numbers = (learnt.weights, learnt.table, learnt.second)
    if not all(np.isfinite(array).all() for array in numbers):
        return "a number of online models is not finite"
    return _wrong_second(learnt, agreed)


def _wrong_names(learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
    for names, known in ((learnt.features, agreed.features), (learnt.labels, agreed.labels)):
        if names[: len(known)] != known or len(set(names)) != len(names):
            return "the names of online models do not follow the agreed ones"
    if not covered.features >= set(learnt.features):
        return "online models name a feature that no record has"
    if not covered.labels >= set(learnt.labels):
        return "online models name a label that no record has"
    if not MAY_SLEEP.issuperset(learnt.unused):
        return "online experts are named that do not exist"
    if not set(learnt.again) <= set(learnt.features):
        return "a feature of online models began again, but is not among the features"
    return None


def _wrong_turn(learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
    """Return why moments or steps are there without being asked for, or the other way round, or None."""
    asked = sends_moments(learnt.features, learnt.again, agreed.features, measured=covered.measured)
    if learnt.moments.features != (learnt.features if asked else ()):
        return "moments of online models are of other features"
    if bool(learnt.second.size) != (asked and bool(agreed.second.size)):
        return "second moments of online models were not asked for, or are missing"
    if learnt.far.features not in {(), learnt.features}:
        return "moments of online models are of other features"
    steps = learnt.steps
    if not steps.are_known or not steps.are_sound(agreed.weights.shape[1], KINDS):
        return "steps of online models are out of range"
    if not 0 <= learnt.coarser <= COARSEST:
        return "numbers of online models are rounded too coarsely"
    return None


def _wrong_shapes(learnt: NativeLearnt, agreed: NativeState) -> str | None:
    rows, models, columns = agreed.weights.shape
    rows += len(learnt.features) - len(agreed.features)
    columns += len(learnt.labels) - len(agreed.labels)
    cells, moments, far = learnt.cells.size, learnt.moments, learnt.far
    shapes = [
        ("weights", learnt.weights, (rows, models, columns)),
        ("second moments", learnt.second, (rows, rows) if learnt.second.size else (0, 0)),
        ("a table", learnt.table, (cells, agreed.table.shape[1], columns)),
        ("cells", learnt.cells, (cells,)),
        ("visits", learnt.visits, (cells,)),
        ("counts", learnt.count, (len(learnt.features),)),
        ("norms", learnt.norms, (2,)),
        ("records by label", learnt.bearing, (len(learnt.labels),)),
        ("right ones by label", learnt.right, (models, len(learnt.labels))),
        *(("moments", part, (len(moments.features),)) for part in (moments.count, moments.mean, moments.m2)),
        *(("moments far out", part, (len(far.features),)) for part in (far.count, far.mean, far.m2)),
    ]
    wrong = (name for name, array, shape in shapes if array.shape != shape)
    return next((f"{name} of online models have another shape" for name in wrong), None)


def _wrong_cells(learnt: NativeLearnt, agreed: NativeState) -> str | None:
    cells, visits = learnt.cells, learnt.visits
    whole = np.array_equal(cells, np.floor(cells)) and np.array_equal(visits, np.floor(visits))
    if not whole:
        return "cells or visits are not whole numbers"
    if len(cells) and (cells.min() < 0 or cells.max() >= len(agreed.table)):
        return "cells lie beyond the table"
    if (np.diff(cells) <= 0).any():
        return "cells are named twice, or not in order"
    if len(visits) and (visits.min() < 0 or visits.max() > math.ceil(math.log2(max(1, learnt.records)))):
        return "visits are out of range for this number of records"
    # Visits are rounded to powers of two. A cell with a single one may count as eight, in one of eight cases.
    if np.ldexp(1.0, visits.astype(np.int64)).sum() > 4.0 * TOUCHED * learnt.records:
        return "there are more visits than the records can make"
    return None


def _wrong_numbers(learnt: NativeLearnt, members: int) -> str | None:
    largest, moments = ROOM * largest_part(learnt.records, members), learnt.moments
    differences = (learnt.weights, learnt.table)
    of_moments = [x for m in (moments, learnt.far) for x in (m.count, m.mean, m.m2)]
    others = (learnt.second, learnt.norms, learnt.count, *of_moments)
    if not all(np.isfinite(array).all() for array in (*differences, *others)):
        return "a number of online models is not finite"
    if any(np.abs(array).max(initial=0.0) >= largest for array in differences):
        return "a difference of online models is far too large"
    if not all(np.array_equal(array, np.rint(array)) for array in differences):
        return "a difference of online models is not a whole number of steps"
    if ((learnt.count < 0.0) | (learnt.count > learnt.records)).any():
        return "online models have more values than there are records"
    if learnt.loss is not None and not 0.0 <= learnt.loss <= MOST_LOST * learnt.records:
        return "the loss of online models is out of range"
    if not abs(learnt.centre) <= LARGEST_TARGET:
        return "a centre of online models is out of the range of targets"
    if not are_extremes(learnt.extremes) or (learnt.extremes and learnt.labels):
        return "the least and the largest target of online models are impossible"
    # Standardised values are clipped, and a record touches one cell of each fern; norms are sent in few bits.
    longest = (1.0 + 2.0**-BITS) * (FERNS + 1.0 + FARTHEST**2 * len(learnt.features))
    if not 0.0 <= learnt.norms.min() <= learnt.norms.max() <= longest:
        return "norms of online models are out of range"
    return None


def _wrong_counts(learnt: NativeLearnt) -> str | None:
    """Return why the counts by label cannot be those of the client's records, or None."""
    bearing, right = learnt.bearing, learnt.right
    whole = np.array_equal(bearing, np.floor(bearing)) and np.array_equal(right, np.floor(right))
    if not whole or bearing.min(initial=0.0) < 0 or (learnt.labels and bearing.sum() != learnt.records):
        return "records by label do not add up to the records"
    return "more records are predicted right than there are" if ((right < 0) | (right > bearing)).any() else None


def _wrong_pairs(learnt: NativeLearnt) -> str | None:
    """Return why pairs of labels cannot be those of the client's records, one after another, or None."""
    pairs, labels = learnt.pairs, len(learnt.labels)
    if not are_sound(pairs, labels) or not np.array_equal(pairs, np.floor(pairs)):
        return "online models have impossible pairs of labels"
    sides = (np.bincount(pairs[:, k].astype(np.int64), pairs[:, 2], labels) for k in range(2))
    if any((side > learnt.bearing).any() for side in sides) or pairs[:, 2].sum() > max(0, learnt.records - 1):
        return "online models have more pairs of labels than records can make"
    return None


def _wrong_moments(moments: Moments, n: int) -> str | None:
    """Return why moments cannot be those of n records, whose values are clipped to LARGEST, or None."""
    largest = (1.0 + ROUNDING) * LARGEST
    for part, least, most in (
        (moments.count, 0.0, n),
        (moments.mean, -largest, largest),
        (moments.m2, 0.0, 4.0 * n * largest**2),
    ):
        if ((part < least) | (part > most)).any():
            return "moments of online models are out of range"
    return None


def _wrong_second(learnt: NativeLearnt, agreed: NativeState) -> str | None:
    """Return why a matrix cannot be the sum of z z^T over the records, or None: the total must be invertible."""
    S, n = learnt.second, learnt.records
    if not S.size:
        return None
    # Numbers are rounded to steps, and the matrix is the difference of two sums over all records so far.
    step = float(second_steps((learnt.steps_of(agreed.steps).half,) * len(S), len(S))[0, 0])
    slack = step + ROUNDING * (1.0 + FARTHEST**2 * (agreed.seen + n))
    if abs(S[0, 0] - n) > slack or not np.array_equal(S, S.T) or np.abs(S).max() > FARTHEST**2 * n + slack:
        return "second moments of online models are out of range"
    try:
        np.linalg.cholesky(S + slack * len(S) * np.eye(len(S)))
    except np.linalg.LinAlgError:
        return "second moments of online models are not positive"
    return None
