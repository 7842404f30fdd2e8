"""Standardisation record by record: by hand, beside NumPy's moments, and whatever comes together."""

import numpy as np
import pytest

from streamfl.core.moments import LARGEST, Moments
from streamfl.core.online.running_scaler import RunningScaler
from streamfl.core.sampling import generator

NOTHING = Moments(("x",), np.zeros(1), np.zeros(1), np.zeros(1))


def scaler(moments: Moments = NOTHING) -> RunningScaler:
    return RunningScaler.of(moments, moments.features)


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_each_record_is_scaled_by_those_before_it():
    # Before 4: mean 2, variance 1. Before 0: mean 8/3, variance 14/9.
    z = scaler().scaled(column(1.0, 3.0, 4.0, 0.0))
    assert z[:, 0] == pytest.approx([0.0, 0.0, 2.0, (0.0 - 8 / 3) / np.sqrt(14 / 9)])


def test_it_goes_on_from_moments_by_name():
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


def test_asking_counts_nothing():
    one = scaler()
    one.scaled(column(1.0, 3.0, 4.0))
    before = [a.tolist() for a in one.sums]
    z = one.scaled(column(0.0, 8 / 3, np.nan), count=False)[:, 0]
    assert z == pytest.approx([(0.0 - 8 / 3) / np.sqrt(14 / 9), 0.0, 0.0])
    assert [a.tolist() for a in one.sums] == before


def test_values_far_from_0_lose_no_digits():
    rng = generator(0, "scaler")
    x = rng.normal(size=500)
    here, there = (scaler().scaled((x + shift)[:, None]) for shift in (0.0, 1e8))
    assert there[2:] == pytest.approx(here[2:], abs=1e-5)


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


def test_a_value_far_out_counts_as_twenty_deviations_once_thirty_are_known():
    known, one = column(*[-1.0, 1.0] * 15), scaler()
    one.scaled(known)
    one.scaled(column(1e6))
    moments = one.moments(("x",), since=NOTHING)
    assert (moments.count[0], moments.mean[0]) == pytest.approx((31.0, 20.0 / 31.0))
    fewer = scaler()
    fewer.scaled(known[:28])
    fewer.scaled(column(1e6))
    assert fewer.moments(("x",), since=NOTHING).mean[0] == pytest.approx(1e6 / 29.0)


def test_what_has_no_spread_yet_has_no_bounds():
    one = scaler()
    one.scaled(np.full((50, 1), 3.0))
    one.scaled(column(1e6))
    assert one.moments(("x",), since=NOTHING).mean[0] == pytest.approx((150.0 + 1e6) / 51.0)
