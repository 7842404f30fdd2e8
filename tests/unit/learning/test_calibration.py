"""Thresholds of tests that watch a model: ratios by hand, replays, factors and their margin."""

import math

import numpy as np
import pytest
from unit.learning.driving import instance

from streamfl.learning.profiles.paper.calibration import Calibration, ReplayBlock
from streamfl.learning.profiles.paper.master_tests import PaperTests
from streamfl.sampling import generator

# As in test_master_tests: thresholds 0.9 / sqrt(2^k) of Test 1 and 0.3 / sqrt(rounds) of Test 2.
TESTS = PaperTests(8, delta=8.0 * math.exp(-4.0), rho_scale=1.0 / 960.0)


def replays(losses: np.ndarray, order: int, count: int) -> list[ReplayBlock]:
    return [ReplayBlock.drawn(losses, order, generator(0, "replay", i)) for i in range(count)]


def test_ratios_by_hand() -> None:
    # Test 2: gaps 0.1, 0.3, 0, 0.4 have means 0.1, 0.2, 0.4/3, 0.2 against 0.3, 0.3/sqrt(2), 0.3/sqrt(3), 0.15.
    # Test 1: order 1 on rounds 1-2: U = 0.4 less the mean of 0.2 and 0.6: 0. Order 0 on round 3: 0.4 - 0.1 = 0.3 of
    # 0.9. Round 4: order 0, 0.4 - 0.5 = -0.1 of 0.9; order 2, 0.4 - 1.4 / 4 = 0.05 of 0.45, which is more.
    schedule = (instance(2, 1), instance(1, 1), instance(0, 3), instance(0, 4))
    replay = ReplayBlock(schedule, np.array([0.2, 0.6, 0.1, 0.5]), np.array([0.1, 0.4, 0.1, 0.1]))
    one, two = replay.ratios(TESTS)
    middle = 0.4 - (0.2 + 0.6) / 2
    assert one == pytest.approx([-math.inf, middle / (0.9 / math.sqrt(2)), 0.3 / 0.9, 0.05 / 0.45], abs=1e-12)
    gaps = np.cumsum([0.1, 0.2, 0.0, 0.4]) / np.arange(1, 5)
    assert two == pytest.approx(gaps / (0.3 / np.sqrt(np.arange(1, 5))))


def test_ratios_are_those_of_the_tests_that_act() -> None:
    # Whatever the losses: a ratio of at least 1 is an alarm, and the other way round.
    for replay in replays(generator(0, "losses").random(16), 4, 30):
        ratios = replay.ratios(TESTS)
        for t in range(1, 17):
            served, optimistic = list(replay.served[:t]), list(replay.optimistic[:t])
            ending = [p for p in replay.schedule if p.end == t]
            found = [TESTS.test1(p, block_start=1, served=served, optimistic=optimistic) for p in ending]
            assert any(found) == (ratios[0, t - 1] >= 1.0)
            test2 = TESTS.test2(block_start=1, served=served, optimistic=optimistic)
            assert (test2 is not None) == (ratios[1, t - 1] >= 1.0)


def test_a_replay_is_drawn_with_replacement_under_its_own_schedule() -> None:
    drawn = replays(np.arange(16.0), 4, 50)
    assert {len(replay.served) for replay in drawn} == {16}
    assert {x for replay in drawn for x in replay.served} == set(range(16))
    assert len({float(replay.served.sum()) for replay in drawn}) > 25
    assert len({replay.schedule for replay in drawn}) > 25


def test_the_optimistic_losses_of_a_replay_are_its_means_so_far() -> None:
    (replay,) = replays(np.array([0.2, 0.6]), 2, 1)
    assert set(replay.served) == {0.2, 0.6}
    assert replay.optimistic.tolist() == pytest.approx([replay.served[: n + 1].mean() for n in range(4)])


def test_each_factor_is_the_quantile_of_its_own_test() -> None:
    drawn = replays(generator(0, "losses").random(16), 4, 100)
    found = Calibration(rounds=16, replays=100, rate=0.1).factors(drawn, TESTS)
    largest = np.array([replay.ratios(TESTS).max(axis=1) for replay in drawn])
    assert (largest >= found).sum(axis=0).tolist() == [9, 9]


def test_no_threshold_is_below_the_margin() -> None:
    found = Calibration(margin=0.02).factors(replays(np.zeros(64), 6, 20), TESTS)
    tests = PaperTests(8, TESTS.delta, TESTS.rho_scale, *found.tolist())
    assert (tests.threshold1(6), tests.threshold2(64)) == pytest.approx((0.02, 0.02))
