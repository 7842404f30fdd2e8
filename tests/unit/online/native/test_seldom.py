"""Moments are published seldom, and lead to the same sums as if they had been published in every round."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.merging.alone import ALONE
from streamfl.online.native.merging.on_grids import EVERY
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.native.unpublished import Unpublished

pytestmark = pytest.mark.compiles

SETTINGS = NativeSettings("linear", neighbours=False)
FIRST = 400


def measured(value: float, records: int = 10) -> NativeLearnt:
    """Return a part of records of one feature, all of one value, whose z is 2: z z^T sums to 4 a record."""
    each = np.full(1, float(records))
    second = records * np.array([[1.0, 2.0], [2.0, 4.0]])
    moments = Moments(("x",), each, np.full(1, value), np.zeros(1))
    return replace(silent(records), moments=moments, second=second)


def silent(records: int = 10) -> NativeLearnt:
    """Return a part of records that tells no moments."""
    learner = NativeLearner(SETTINGS)
    learner.learn(("x",), np.zeros((1, 1)), np.zeros(1, np.int64), ("a", "b"))
    one, each = learner.learnt(), np.full(1, float(records))
    return replace(one, records=records, count=each, moments=NOTHING, second=np.zeros((0, 0)))


def after(begin: NativeState, *parts: NativeLearnt):
    return merging.after(begin, parts, ("a", "b"), settings=SETTINGS)


@pytest.fixture
def begun() -> NativeState:
    return after(NativeState.none(SETTINGS), measured(1.0, FIRST))[0]


def test_what_the_first_round_and_new_features_measure_is_published_at_once(begun):
    assert begun.moments.count.tolist() == [FIRST]
    assert begun.unpublished.rounds == 0


def test_the_last_of_eight_rounds_publishes_what_all_of_them_measured(begun):
    models, told = begun, []
    for round_ in range(EVERY):
        models, change = after(models, measured(3.0) if round_ in {1, 4} else silent(), silent())
        told.append(change.moments.count.size)
        if round_ < EVERY - 1:
            assert models.moments.count.tolist() == [FIRST]
            # Records count as like those before: 1 and z of 2.
            assert models.second[0, 0] == pytest.approx(models.seen)
    assert told == [0] * (EVERY - 1) + [1]
    assert models.moments.count.tolist() == [FIRST + 20]
    assert models.moments.mean.tolist() == [pytest.approx((FIRST + 3.0 * 20) / (FIRST + 20))]
    assert models.unpublished.rounds == 0
    # The 20 measured records stand for the 160 of eight rounds.
    assert (change.each, change.since) == (8.0, FIRST)
    np.testing.assert_allclose(models.second, (FIRST + 160) * np.array([[1.0, 2.0], [2.0, 4.0]]))


def test_half_as_many_records_again_are_enough(begun):
    models, change = after(begun, measured(3.0, FIRST // 2 - 1))
    assert not change.moments.count.size
    _, change = after(models, silent(1))
    assert change.moments.count.tolist() == [FIRST * 3 // 2 - 1]


def test_a_feature_that_begins_again_is_published_at_once(begun):
    again = replace(measured(900.0), again=("x",))
    models, change = after(begun, again)
    assert (change.moments.mean.tolist(), models.moments.mean.tolist()) == ([900.0], [900.0])


def test_nobody_waits_for_moments_of_a_client_that_is_alone(begun):
    _, change = merging.after(begun, [measured(3.0)], ("a", "b"), settings=SETTINGS, way=ALONE)
    assert change.moments.count.tolist() == [FIRST + 10]


def test_a_state_that_waits_is_the_same_for_who_follows_its_changes_and_is_not_published(begun):
    models, change = after(begun, measured(3.0), silent())
    assert models.unpublished.second[1, 1] == 40.0
    assert models.published.unpublished.rounds == 0
    followed = change.after(begun)
    np.testing.assert_array_equal(followed.second, models.second)
    assert [replace(change, since=since).fits(begun, 0) for since in (FIRST, FIRST + 1, -1)] == [True, False, False]
    wrong = Unpublished(rounds=1, second=np.zeros((3, 3)))
    assert not replace(models, unpublished=wrong).is_sound(SETTINGS, 0)


def test_a_feature_that_begins_while_moments_wait_is_published_at_once_with_what_waits(begun):
    models, _ = after(begun, measured(3.0), silent())
    learner = NativeLearner(SETTINGS)
    learner.learn(("x", "y"), np.zeros((1, 2)), np.zeros(1, np.int64), ("a", "b"))
    two = learner.learnt()
    new = Moments(("x", "y"), np.array([10.0, 10.0]), np.array([1.0, 5.0]), np.zeros(2))
    second = 10.0 * np.ones((3, 3))
    part = replace(two, records=10, count=np.full(2, 10.0), moments=new, second=second)
    models, change = after(models, part)
    assert change.moments.count.tolist() == [FIRST + 20, 10.0]
    assert models.second.shape == (3, 3)
