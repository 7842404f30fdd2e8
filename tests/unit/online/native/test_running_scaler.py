"""Standardisation record by record: by hand, beside NumPy's moments, and whatever comes together."""

import numpy as np
import pytest

from streamfl.online.native.running_scaler import RunningScaler
from streamfl.protocol.moments import LARGEST, Moments
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

NOTHING = Moments(("x",), np.zeros(1), np.zeros(1), np.zeros(1))


def scaler(moments: Moments = NOTHING) -> RunningScaler:
    return RunningScaler.of(moments, moments.features)


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_each_record_is_scaled_by_those_before_it():
    # Before 4: mean 2, variance 1. Before 0: mean 8/3, variance 14/9.
    z = scaler().scaled(column(1.0, 3.0, 4.0, 0.0))
    assert z[:, 0] == pytest.approx([0.0, 0.0, 2.0, (0.0 - 8 / 3) / np.sqrt(14 / 9)])


def test_a_scaler_continues_from_moments_by_the_names_of_features():
    moments = Moments(("x", "y"), np.array([4.0, 2.0]), np.array([10.0, -1.0]), np.array([16.0, 0.5]))
    one = RunningScaler.of(moments, ("y", "new", "x"))
    assert one.scaled(np.array([[-0.5, 7.0, 14.0]]), count=False).tolist() == [[1.0, 0.0, 2.0]]


def test_a_missing_value_is_the_mean_and_counts_for_nothing():
    one = scaler()
    z = one.scaled(column(1.0, np.nan, 3.0, np.nan, 4.0))
    assert z[:, 0] == pytest.approx([0.0, 0.0, 0.0, 0.0, 2.0])
    seen = one.moments(("x",), since=NOTHING)
    assert (seen.count[0], seen.mean[0], seen.variance[0]) == pytest.approx((3.0, 8 / 3, 14 / 9))


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6 + 0.1, 1e-12])
def test_a_constant_feature_says_nothing_until_it_varies(value):
    one = scaler()
    assert not one.scaled(np.full((50, 1), value)).any()
    assert not one.scaled(column(value + 1.0)).any()  # nothing is known yet of how far it goes
    assert one.scaled(column(value + 1.0))[0, 0] == 5.0


@pytest.mark.parametrize("far", [40.0, 1e12, 1e200, np.inf])
def test_far_outliers_count_as_five_deviations(far):
    one = scaler(Moments(("x",), np.array([100.0]), np.array([1.0]), np.array([400.0])))
    assert one.scaled(column(1.0 + 9.9, 1.0 + 10.1, -far, far), count=False)[:, 0] == pytest.approx(
        [4.95, 5.0, -5.0, 5.0]
    )


def test_no_value_is_so_large_that_a_square_overflows():
    one = scaler()
    assert np.isfinite(one.scaled(column(np.inf, -np.inf, 1e300, 5.0))).all()
    moments = one.moments(("x",), since=NOTHING)
    assert np.isfinite([moments.mean[0], moments.m2[0]]).all()
    assert abs(moments.mean[0]) <= LARGEST


def test_scaling_a_record_for_a_prediction_counts_nothing():
    one = scaler()
    one.scaled(column(1.0, 3.0, 4.0))
    before = [a.copy() for a in one.sums]
    z = one.scaled(column(0.0, 8 / 3, np.nan), count=False)[:, 0]
    assert z == pytest.approx([(0.0 - 8 / 3) / np.sqrt(14 / 9), 0.0, 0.0])
    for now, then in zip(one.sums, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_values_far_from_0_lose_no_digits():
    rng = generator(0, "scaler")
    x = rng.normal(size=500)
    here, there = (scaler().scaled((x + shift)[:, None]) for shift in (0.0, 1e8))
    assert there[2:] == pytest.approx(here[2:], abs=1e-5)


def test_values_that_are_all_0_have_the_mean_0_whatever_is_known_of_the_others() -> None:
    rare = Moments.of(("x",), np.array([[1.0]] + [[0.0]] * 2999))
    for n in (1, 7, 100):
        scaler = RunningScaler.of(rare, ("x",))
        scaler.scaled(np.zeros((n, 1)))
        assert scaler.moments(("x",), since=rare).mean.tolist() == [0.0]


def test_a_spread_of_a_billionth_of_the_mean_is_rounding():
    x = generator(0, "scaler").normal(size=50)
    assert not scaler().scaled((x + 1e10)[:, None]).any()


def test_features_that_come_later_begin_with_nothing_known():
    one = scaler()
    one.scaled(column(1.0, 3.0))
    one = one.grown(2)
    z = one.scaled(np.array([[4.0, 1.0, np.nan], [4.0, 2.0, 5.0], [4.0, 3.0, 5.0]]))
    assert z[0].tolist() == [2.0, 0.0, 0.0]
    assert z[2, 1:].tolist() == [3.0, 0.0]


def test_a_value_farther_than_twenty_deviations_counts_as_five():
    known, one = column(*[-1.0, 1.0] * 15), scaler()
    one.scaled(known)
    one.scaled(column(1e6))
    moments = one.moments(("x",), since=NOTHING)
    assert (moments.count[0], moments.mean[0]) == pytest.approx((31.0, 5.0 / 31.0))
    one = scaler()
    one.scaled(known)
    one.scaled(column(-19.9))
    assert one.moments(("x",), since=NOTHING).mean[0] == pytest.approx(-19.9 / 31.0)


def test_a_value_must_be_farther_out_to_be_clipped_while_few_values_are_known():
    # Ten are known: not 20 deviations, but 60.
    for far, counts_as in ((59.0, 59.0), (-61.0, -5.0)):
        one = scaler()
        one.scaled(column(*[-1.0, 1.0] * 5))
        one.scaled(column(far))
        assert one.moments(("x",), since=NOTHING).mean[0] == pytest.approx(counts_as / 11.0)


@pytest.mark.parametrize("at", range(8))
def test_a_value_far_out_among_the_first_eight_is_judged_by_the_others(at):
    # The others are 1 from their median at most, and it counts as 10 away.
    values = [-1.0, 1.0, 0.0, 0.5, -0.5, 1.0, -1.0]
    values.insert(at, 1e9)
    one = scaler()
    one.scaled(column(*values[:7]))
    before = one.moments(("x",), since=NOTHING)
    assert before.m2[0] > 1e17 or at == 7
    one.scaled(column(values[7]))
    after = one.moments(("x",), since=NOTHING)
    median = 0.25
    first = np.clip(values, median - 12.5, median + 12.5)
    assert (after.count[0], after.mean[0]) == pytest.approx((8.0, first.mean()))
    assert after.m2[0] == pytest.approx(8 * first.var())


def test_the_first_eight_of_which_most_are_the_same_have_no_bounds():
    one = scaler()
    one.scaled(column(*[0.0] * 7, 1.0))
    assert one.moments(("x",), since=NOTHING).mean[0] == 0.125


def test_the_first_eight_are_not_judged_where_others_have_seen_some_of_them():
    before = Moments(("x",), np.array([4.0]), np.array([0.0]), np.array([4.0]))
    one = scaler(before)
    one.scaled(column(1.0, 1e9, -1.0, 0.5))
    assert one.moments(("x",), since=before).mean[0] == pytest.approx((1e9 + 0.5) / 4.0)


@pytest.mark.parametrize("at", [0, 3, 9, 40])
def test_a_sensor_that_is_once_broken_tells_nearly_as_much_as_one_that_never_was(at):
    x = generator(0, "scaler").normal(size=(1000, 1))
    broken = x.copy()
    broken[at] = -9999.0
    sound, other = (scaler().scaled(X)[500:, 0] for X in (x, broken))
    slope, shift = np.polyfit(sound, other, 1)
    assert 0.7 < slope < 1.01
    assert abs(shift) < 0.05


def test_a_sensor_that_is_broken_now_and_then_still_tells_something():
    x = generator(0, "scaler").normal(size=(5000, 1))
    broken = x.copy()
    broken[::50] = -9999.0
    assert np.abs(scaler().scaled(broken)[1001:1050]).mean() > 0.3


def test_a_feature_without_spread_has_no_bounds():
    one = scaler()
    one.scaled(np.full((50, 1), 3.0))
    one.scaled(column(1e6))
    assert one.moments(("x",), since=NOTHING).mean[0] == pytest.approx((150.0 + 1e6) / 51.0)


def test_a_feature_that_has_moved_begins_again_with_the_first_eight_values_there():
    rng = generator(0, "moves")
    one = scaler()
    one.scaled(rng.normal(size=(500, 1)))
    there = rng.normal(size=(8, 1)) + 1e6
    assert one.scaled(there)[:, 0].tolist() == [5.0] * 8
    assert one.again.tolist() == [True]
    moments = one.moments(("x",), since=NOTHING)
    assert (moments.count[0], moments.mean[0], moments.variance[0]) == pytest.approx((8.0, there.mean(), there.var()))
    after = one.scaled(rng.normal(size=(500, 1)) + 1e6)
    assert abs(after[100:].mean()) < 0.3
    assert 0.7 < after[100:].std() < 1.3


def test_seven_values_far_out_are_no_move_and_each_counts_as_five_deviations():
    one = scaler(Moments(("x",), np.array([100.0]), np.array([0.0]), np.array([100.0])))
    one.scaled(column(*(1e6 + i for i in range(7)), 0.0, *(1e6 + i for i in range(7))))
    assert not one.again.any()
    assert one.moments(("x",), since=NOTHING).mean[0] < 100.0


@pytest.mark.parametrize("together", [True, False])
def test_a_sentinel_that_comes_again_counts_for_nothing(together):
    rest = generator(0, "sentinel").normal(size=(300, 1))
    sentinels = np.full((100, 1), -9999.0)
    mixed = np.concatenate([rest[:100], sentinels, rest[100:]])
    if not together:
        mixed = np.concatenate([rest[:100], np.column_stack([sentinels, rest[100:200]]).reshape(-1, 1), rest[200:]])
    one = scaler()
    one.scaled(mixed)
    moments = one.moments(("x",), since=NOTHING)
    assert moments.count[0] == 301  # the first of them counts, as five deviations
    assert moments.variance[0] == pytest.approx(rest.var(), rel=0.2)
    assert not one.again.any()
