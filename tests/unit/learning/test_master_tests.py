"""Tests 1 and 2 just below and just above their thresholds, alone and at work in profile `paper`."""

import math

import numpy as np
import pytest
from unit.learning.driving import in_block, instance, play

from streamfl.errors import UsageError
from streamfl.learning.profiles.paper.master_tests import PaperTests, first_horizon
from streamfl.learning.profiles.paper.optimistic import history_estimate, radius, regret_estimate
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings

# T = 8 and ln(T / delta) = 4, so 6 (log2 T + 1) ln(T / delta) = 96; a 960th of it: rho_hat(t) = 0.1 / sqrt(t).
# Test 1: 0.9, 0.636, 0.45, 0.318 for orders 0 to 3. Test 2: 0.3 / sqrt(rounds).
TESTS = PaperTests(8, delta=8.0 * math.exp(-4.0), rho_scale=1.0 / 960.0)

# The same rho_hat at T = 64: ln(T / delta) = 10, 6 * 7 * 10 = 420.
SMALL = PaperSettings(horizon=64, delta=64.0 * math.exp(-10.0), rho_scale=1.0 / 4200.0)


def test_thresholds_by_hand() -> None:
    assert [TESTS.threshold1(k) for k in (0, 2, 4)] == pytest.approx([0.9, 0.45, 0.225])
    assert [TESTS.threshold2(n) for n in (1, 4, 9)] == pytest.approx([0.3, 0.15, 0.1])
    assert PaperTests(64, SMALL.delta, SMALL.rho_scale).threshold1(2) == pytest.approx(0.45)


@pytest.mark.parametrize(("best", "fires"), [(0.69, False), (0.71, True)])
def test_test_1_compares_the_best_optimistic_loss_with_the_mean_over_the_span(best: float, fires: bool) -> None:
    # The block begins with round 5, the instance of order 2 has rounds 7 to 10: mean 0.25, threshold 0.45.
    served = [0.9, 0.9, 0.1, 0.2, 0.3, 0.4]
    alarm = TESTS.test1(instance(2, 7), block_start=5, served=served, optimistic=[0.1, best, 0.2, 0.2, 0.2, 0.2])
    assert (alarm is not None) == fires
    if alarm:
        assert (alarm.cause, alarm.since) == ("test1", 7)
        assert (alarm.statistic, alarm.threshold) == pytest.approx((0.46, 0.45))


@pytest.mark.parametrize(("last", "fires"), [(0.29, False), (0.31, True)])
def test_test_1_of_order_1_in_a_later_block(last: float, fires: bool) -> None:
    # Threshold 0.9 / sqrt(2) = 0.6364. Rounds 9 and 10: U = 0.95; the mean must be at most 0.3136:
    # (0.34 + 0.29) / 2 = 0.315 is too much, and (0.3 + 0.31) / 2 = 0.305 is not.
    first = 0.34 if not fires else 0.3
    alarm = TESTS.test1(instance(1, 9), block_start=9, served=[first, last], optimistic=[0.95, 0.0])
    assert (alarm is not None) == fires


@pytest.mark.parametrize(("last", "fires"), [(0.49, False), (0.51, True)])
def test_test_2_compares_played_with_optimistic_over_the_block(last: float, fires: bool) -> None:
    # Four rounds, threshold 0.15: served - optimistic is 0.1, 0, 0, and 0.49 or 0.51: mean 0.1475 or 0.1525.
    alarm = TESTS.test2(block_start=5, served=[0.3, 0.2, 0.2, 0.6], optimistic=[0.2, 0.2, 0.2, 0.6 - last])
    assert (alarm is not None) == fires
    if alarm:
        assert (alarm.cause, alarm.since) == ("test2", 5)
        assert (alarm.statistic, alarm.threshold) == pytest.approx((0.1525, 0.15))


def test_a_statistic_that_equals_its_threshold_fires() -> None:
    zero = PaperTests(8, rho_scale=0.0)
    assert zero.test1(instance(0, 1), block_start=1, served=[0.5], optimistic=[0.5])
    assert zero.test2(block_start=1, served=[0.5], optimistic=[0.5])


def test_the_optimistic_radius_by_hand() -> None:
    # sqrt(4 / 100) = 0.2, times c.
    delta = 8.0 * math.exp(-4.0)
    assert radius(100, horizon=8, delta=delta) == pytest.approx(0.2)
    assert radius(100, horizon=8, delta=delta, scale=0.5) == pytest.approx(0.1)


def test_the_history_estimate_by_hand() -> None:
    # This round 0.5, four earlier ones 0.1 on average: (0.5 + 4 * 0.1) / 5.
    assert history_estimate(0.5, 0.1, 5) == pytest.approx(0.18)
    assert history_estimate(0.5, None, 5) == 0.5


def test_the_regret_estimate_by_hand() -> None:
    # 0.5 - (2^2 / (2 * 0.5 * 10) + 0.5 * 3^2 / 2) / 5 = 0.5 - (0.4 + 2.25) / 5.
    found = regret_estimate(0.5, 10, 0.5, distance=2.0, lipschitz=3.0, bound=5.0)
    assert found == pytest.approx(-0.03)


@pytest.mark.parametrize("eta", [0.0, -1.0])
def test_the_regret_estimate_needs_a_step(eta: float) -> None:
    with pytest.raises(UsageError, match="step size"):
        regret_estimate(0.5, 10, eta, distance=1.0, lipschitz=1.0, bound=1.0)


def test_optimistic_losses_by_history_as_they_are_computed_in_a_block() -> None:
    # c = 0.1, ln(T / delta) = 10. Round 1: 0.5 - 0.1 sqrt(10 / 1000). Round 2: (0.3 + 0.7) / 2 - 0.1 sqrt(10 / 4000).
    paper = in_block(PaperSettings(horizon=64, delta=SMALL.delta, rho_scale=0.1), 2, [instance(2, 1)])
    play(paper, 1, 0.5)
    play(paper, 2, 0.3, past=0.7, records=2000)
    assert paper.block is not None
    assert paper.block.optimistic == pytest.approx([0.49, 0.495])


def test_a_second_instance_has_a_history_of_its_own() -> None:
    # Round 2 is the first of an order 0, so nothing is past; in round 3 order 2 has served once before,
    # which gives the mean of 0.3 and 0.7.
    paper = in_block(SMALL, 2, [instance(2, 1), instance(0, 2)])
    play(paper, 1, 0.5)
    play(paper, 2, 0.4)
    play(paper, 3, 0.3, past=0.7)
    assert paper.block is not None
    assert paper.block.optimistic == pytest.approx([0.5, 0.4, 0.5], abs=1e-4)


def test_optimistic_losses_by_regret_as_they_are_computed_in_a_block() -> None:
    # eta = 0.2 / sqrt(4) = 0.1, D = 0.1, mu^2 = 2 (largest norm 1), a bound of 1, and c = 0.1.
    # Round 1: 0.5 - (0.01 / 0.2 + 0.1) - 0.1 sqrt(10 / 1000) = 0.34.
    # Round 2: (0.5 + 0.3) / 2 - (0.01 / 0.4 + 0.1) - 0.1 sqrt(10 / 2000), all records of its active rounds.
    settings = PaperSettings(
        horizon=64, delta=SMALL.delta, rho_scale=0.1, optimistic="regret", step=0.2, distance=0.1
    )
    paper = in_block(settings, 2, [instance(2, 1)])
    play(paper, 1, 0.5)
    play(paper, 2, 0.3)
    assert paper.block is not None
    assert paper.block.optimistic == pytest.approx([0.34, 0.275 - 0.1 * math.sqrt(0.005)])


def test_an_optimistic_loss_is_never_below_0_so_the_paper_s_constants_cannot_fire_on_it() -> None:
    paper = in_block(PaperSettings(optimistic="regret"), 2, [instance(2, 1)])
    play(paper, 1, 0.5)
    assert paper.block is not None
    assert paper.block.optimistic == [0.0]


def test_test_1_fires_in_the_round_computed_by_hand_and_for_a_paused_instance() -> None:
    # Losses 0.8, 0.8, 0.1, 0.1 with equal optimistic ones, so U = 0.8. In round 3 order 0 ends: 0.7 < 0.9. In round 4
    # end order 0 (0.7 < 0.9), order 2 (mean 0.45: 0.35 < 0.45) and order 1, which never served: 0.7 >= 0.636.
    schedule = [instance(2, 1), instance(1, 3), instance(0, 3), instance(0, 4)]
    paper = in_block(SMALL, 2, schedule)
    alarms = [play(paper, t, loss)[1] for t, loss in enumerate([0.8, 0.8, 0.1, 0.1], start=1)]
    assert alarms[:3] == [None, None, None]
    assert alarms[3] is not None
    assert (alarms[3].cause, alarms[3].since) == ("test1", 3)
    assert (alarms[3].statistic, alarms[3].threshold) == pytest.approx((0.7, 0.9 / math.sqrt(2)), abs=1e-4)
    assert paper.epoch == 2


def test_no_instance_is_tested_before_it_ends() -> None:
    # As above, but the order 1 is not placed: 0.7 and 0.35 stay below 0.9 and 0.45.
    paper = in_block(SMALL, 2, [instance(2, 1), instance(0, 3), instance(0, 4)])
    assert [play(paper, t, loss)[1] for t, loss in enumerate([0.8, 0.8, 0.1, 0.1], start=1)] == 4 * [None]


def test_the_block_that_ends_is_tested_over_all_its_rounds() -> None:
    # 0.9 and then 0.1 seven times: U = 0.9, mean 0.2; 0.7 >= 0.9 / sqrt(8) = 0.318, with round 8, and since round 1.
    paper = in_block(SMALL, 3, [instance(3, 1)])
    alarms = [play(paper, t, 0.9 if t == 1 else 0.1, past=0.1 if t > 1 else None)[1] for t in range(1, 9)]
    assert alarms[:7] == 7 * [None]
    assert alarms[7] is not None
    assert (alarms[7].cause, alarms[7].since, round(alarms[7].statistic, 3)) == ("test1", 1, 0.7)


def test_test_2_fires_in_the_round_computed_by_hand() -> None:
    # Rounds 1 to 4: 0.2 served, 0.2 optimistic. Then 0.5 served by a model that has 0 on old rounds:
    # round 5: Ft = 0.5 / 5 = 0.1,    sum 0.4,   0.4 / 5 = 0.08 < 0.3 / sqrt(5) = 0.134;
    # round 6: Ft = 0.5 / 6 = 0.0833, sum 0.8167, / 6 = 0.136 >= 0.3 / sqrt(6) = 0.122.
    paper = in_block(SMALL, 3, [instance(3, 1)])
    alarms = [play(paper, t, 0.2, past=0.2 if t > 1 else None)[1] for t in range(1, 5)]
    alarms += [play(paper, t, 0.5, past=0.0)[1] for t in (5, 6)]
    assert alarms[:5] == 5 * [None]
    assert alarms[5] is not None
    assert (alarms[5].cause, alarms[5].since) == ("test2", 1)
    assert (alarms[5].statistic, alarms[5].threshold) == pytest.approx((0.1361, 0.1225), abs=1e-4)


def test_the_reading_is_that_of_test_2() -> None:
    paper = in_block(SMALL, 3, [instance(3, 1)])
    assert paper.readings() == {}
    play(paper, 1, 0.2)
    play(paper, 2, 0.3, past=0.2)
    # Optimistic 0.2 and 0.25: mean difference 0.025, threshold 0.3 / sqrt(2).
    reading = paper.readings()["test2"]
    assert (reading.statistic, reading.threshold) == pytest.approx((0.025, 0.3 / math.sqrt(2)), abs=1e-4)


@pytest.mark.parametrize("horizon", [500, 20])
def test_nothing_fires_with_the_constants_of_the_paper(horizon: int) -> None:
    # Losses of 0 and 1 at random, and as bad as they can be on old rounds.
    rng = np.random.default_rng(0)
    paper = Paper(PaperSettings(horizon=horizon))
    alarms = [play(paper, t, float(rng.integers(2)), past=float(rng.integers(2)))[1] for t in range(1, 501)]
    assert alarms == 500 * [None]


def test_the_same_stream_fires_with_a_small_factor() -> None:
    rng = np.random.default_rng(0)
    paper = Paper(PaperSettings(rho_scale=1e-4))
    assert any(play(paper, t, float(rng.integers(2)), past=float(rng.integers(2)))[1] for t in range(1, 501))


def test_the_first_horizon_is_the_first_within_a_hundredth() -> None:
    first = first_horizon(rho_scale=0.1)
    assert first is not None
    assert first > 1000
    assert PaperTests(first, rho_scale=0.1).threshold2(first // 2) <= 1.0
    before = int(first / 1.02)
    assert PaperTests(before, rho_scale=0.1).threshold2(before // 2) > 1.0


def test_the_first_horizon_of_blocks_of_one_round() -> None:
    # 3 * 6 (1 + 1) ln(2 / 0.05) = 132.8 at T = 2, and more for every larger T.
    assert first_horizon(rho_scale=1.0 / 133.0, max_order=0) == 2
    assert first_horizon(rho_scale=1.0 / 132.0, max_order=0) is None


def test_the_first_horizon_with_no_threshold_and_with_an_impossible_one() -> None:
    assert first_horizon(rho_scale=0.0) == 2
    with pytest.raises(UsageError, match="rho_scale"):
        first_horizon(rho_scale=-1.0)


def test_the_outlook_is_whether_the_tests_can_fire() -> None:
    assert "cannot fire" in PaperSettings().outlook()
    assert "T = 2.8e+08" in PaperSettings().outlook()
    assert "can fire: their least threshold at T = 64 is 0.053" in SMALL.outlook()  # 0.3 / sqrt(32)
    assert "least threshold is 105.6" in PaperSettings().outlook()  # 245 rounds into the block of 256: 500 - 255
    assert "least threshold is 196.2" in PaperSettings(horizon=10_000).outlook()  # no block has more than 256
