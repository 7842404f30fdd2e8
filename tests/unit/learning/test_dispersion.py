"""Whether rounds differ by more than their records explain: by hand, and on streams that do and do not."""

import math
from collections.abc import Iterable

import numpy as np
import pytest

from streamfl.learning.drift.detectors.dispersion import Dispersion

V = 4e-4  # of a round's mean; a standard deviation of 0.02


def after(means: Iterable[float], variance: float = V) -> Dispersion:
    found = Dispersion()
    for mean in means:
        found.add(mean, variance)
    return found


def test_two_differences_by_hand() -> None:
    found = Dispersion()
    for mean, variance in ((0.0, 0.002), (0.2, 0.003), (0.1, 0.001), *[(0.1, 0.001)] * 8):
        found.add(mean, variance)
    # 0.04 / 0.005 = 8 and 0.01 / 0.004 = 2.5 count, after the prior of ten rounds; the last eight do not yet.
    assert found.total == pytest.approx((10.0 * 0.98 + 8.0) * 0.98 + 2.5)
    assert found.weight == pytest.approx((10.0 * 0.98 + 1.0) * 0.98 + 1.0)
    assert found.waiting == [0.0] * 8
    ratio = found.total / found.weight
    assert found.factor == max(1.0, ratio / (1.0 + 2.0 * math.sqrt(3.0 / found.weight))) == 1.0


def test_far_jumps_count_nine_times_the_mean_by_hand() -> None:
    found = after([0.0, 5.0, *[5.0] * 8])
    assert found.total == pytest.approx(10.0 * 0.98 + 9.0)
    found.add(5.0, V)
    found.waiting[0] = 1e6
    found.add(5.0, V)
    before = 18.8 * 0.98
    assert found.total == pytest.approx(before * 0.98 + 9.0 * before / ((10.0 * 0.98 + 1.0) * 0.98 + 1.0))
    assert found.factor == pytest.approx(found.total / found.weight / (1.0 + 2.0 * math.sqrt(3.0 / found.weight)))
    assert found.factor > 1.0


def test_no_round_or_one_leaves_the_prior() -> None:
    assert after([]).factor == after([7.0]).factor == 1.0


def test_a_jump_does_not_count_within_eight_rounds() -> None:
    rng = np.random.default_rng(0)
    means = [*rng.normal(0.0, 0.02, 20), *(0.3 * (t % 2) for t in range(9))]
    assert after(means[:28]).factor == 1.0
    assert after([*means, *means[20:]]).factor > 2.0


def test_independent_rounds_have_the_variance_that_their_records_explain() -> None:
    # The bound of two errors is passed by less than one in twenty at any one time, and then by little.
    factors = [after(np.random.default_rng(seed).normal(0.0, 0.02, 200)).factor for seed in range(200)]
    assert np.mean([factor > 1.0 for factor in factors]) < 0.05
    assert max(factors) < 1.3


@pytest.mark.parametrize(("level", "least"), [(0.0, 1.0), (0.1, 2.0), (0.2, 8.0)])
def test_weather_that_changes_every_third_round_is_dispersion(level: float, least: float) -> None:
    rng = np.random.default_rng(0)
    found = after(level * (t // 3 % 2) + rng.normal(0.0, 0.02) for t in range(200))
    assert least <= found.factor < 3.0 * least


def test_a_slow_rise_is_no_dispersion() -> None:
    rng = np.random.default_rng(0)
    assert after(0.01 * t + rng.normal(0.0, 0.02) for t in range(60)).factor == 1.0


@pytest.mark.parametrize("rounds", [10, 40])
def test_one_jump_is_no_dispersion_however_far(rounds: int) -> None:
    rng = np.random.default_rng(0)
    still = [*rng.normal(0.0, 0.02, rounds), *rng.normal(-5.0, 0.02, rounds)]
    assert after(still[: rounds + 1]).factor < 1.5
    assert after(still).factor == 1.0


def test_rounds_on_either_side_of_a_pause_are_no_neighbours() -> None:
    found = after([0.0, 0.0])
    found.pause()
    found.add(0.7, V)
    assert found.waiting == [0.0]
    found.add(0.7 + 2.0 * math.sqrt(V), V)
    assert found.waiting == [0.0, pytest.approx(2.0)]
