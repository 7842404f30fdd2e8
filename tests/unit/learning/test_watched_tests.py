"""Tests 1 and 2 on one model's losses: statistics by hand, where blocks begin, thresholds, rises and falls."""

import math

import numpy as np
import pytest
from unit.learning.driving import instance

from streamfl.learning.profiles.paper.block import Block
from streamfl.learning.profiles.paper.calibration import Calibration
from streamfl.learning.profiles.paper.master_tests import PaperTests
from streamfl.learning.profiles.paper.watched_tests import WatchedTests
from streamfl.protocol.alarm import Alarm
from streamfl.sampling import generator

# As in test_master_tests, thresholds 0.9 / sqrt(2^k) of Test 1 and 0.3 / sqrt(rounds) of Test 2, here times a half
# and times 0.99: 0.225 for order 2; 0.21 after two rounds, 0.1485 after four.
TESTS = PaperTests(8, delta=8.0 * math.exp(-4.0), rho_scale=1.0 / 960.0, kappa1=0.5, kappa2=0.99)


def in_block(falls: bool = True) -> WatchedTests:
    """Return the tests at the start of a block of 4 rounds in which only the instance of order 2 is placed."""
    return WatchedTests(Calibration(rounds=4), falls=falls, tests=TESTS, blocks=[Block(2, 1, 1, (instance(2, 1),))])


def fed(tests: WatchedTests, losses: list[float], first: int = 1) -> list[Alarm | None]:
    return [tests.update(t, loss, 100) for t, loss in enumerate(losses, start=first)]


def stream(seed: int, *means: tuple[int, float]) -> list[float]:
    """Return losses of some rounds around each mean, with noise of at most 0.1."""
    rng = generator(seed, "stream")
    return [mean + float(rng.uniform(-0.1, 0.1)) for rounds, mean in means for _ in range(rounds)]


@pytest.mark.parametrize(("last", "fires"), [(0.99, False), (1.0, True)])
def test_test_2_by_hand(last: float, fires: bool) -> None:
    # Ft is 0.2, 0.2, 0.2, (0.6 + last) / 4; loss - Ft is 0 but for the last, 0.5925 or 0.6: mean 0.1481 or 0.15. The
    # block that began with round 3 has 0 and (last - 0.2) / 2: mean 0.1975 or 0.2.
    tests = in_block()
    *before, alarm = fed(tests, [0.2, 0.2, 0.2, last])
    assert before == 3 * [None]
    assert (alarm is not None) == fires
    if alarm:
        assert (alarm.cause, alarm.since) == ("test2", 1)
        assert (alarm.statistic, alarm.threshold) == pytest.approx((0.15, 0.1485))


@pytest.mark.parametrize(("last", "fires"), [(0.31, False), (0.29, True)])
def test_test_1_by_hand(last: float, fires: bool) -> None:
    # U = 0.8; the mean of the instance of all four rounds is 0.5775 or 0.5725: 0.2225 or 0.2275 below it.
    for falls in (True, False):
        *before, alarm = fed(in_block(falls), [0.8, 0.8, 0.4, last])
        assert before == 3 * [None]
        assert (alarm is not None) == (fires and falls)
        if alarm:
            assert (alarm.cause, alarm.since) == ("test1", 1)
            assert (alarm.statistic, alarm.threshold) == pytest.approx((0.2275, 0.225))


def test_the_reading_is_that_of_the_block_that_is_nearer_to_its_threshold() -> None:
    # 0.075 of 0.1485 in the first block; 0.1 of 0.21 in the second. A round later the first has ended.
    tests = in_block()
    fed(tests, [0.2, 0.2, 0.2, 0.6])
    assert tests.reading is not None
    assert (tests.reading.statistic, tests.reading.threshold) == pytest.approx((0.075, 0.1485))
    fed(tests, [0.2], first=5)
    # 0.2, 0.6, 0.2: Ft 0.2, 0.4, 1/3.
    assert tests.reading.statistic == pytest.approx((0.2 - (1 / 3 - 0.2)) / 3)


def test_a_block_begins_every_half_block() -> None:
    tests, seen = WatchedTests(Calibration(rounds=8, replays=20)), []
    for t in range(101, 121):
        tests.update(t, 0.3, 1)
        seen.append([(block.start, block.number) for block in tests.blocks])
    assert seen[:4] == 4 * [[(101, 1)]]
    assert seen[4:8] == 4 * [[(101, 1), (105, 2)]]
    assert seen[8:12] == 4 * [[(105, 2), (109, 3)]]
    assert all(block.schedule[0].order == 3 for block in tests.blocks)


def test_nothing_acts_in_the_first_block() -> None:
    tests = WatchedTests(Calibration(rounds=16, replays=20))
    assert fed(tests, [0.0] * 8 + [1.0] * 8) == 16 * [None]
    assert tests.tests is None
    assert tests.reading is None
    fed(tests, [0.5], first=17)
    assert tests.tests is not None
    assert tests.reading is not None


def test_each_test_fires_in_the_stated_part_of_the_blocks() -> None:
    # At 10% in each of about 4 overlapping blocks; the first 64 rounds are a sample, so the rate is so only roughly.
    found: list[str] = []
    for seed in range(40):
        tests = WatchedTests(Calibration(replays=100, rate=0.1), seed=seed)
        for t, loss in enumerate(stream(seed, (192, 0.4)), start=1):
            alarm = tests.update(t, loss, 1)
            if alarm:
                found.append(alarm.cause)
                break
    for cause in ("test1", "test2"):
        assert 4 <= found.count(cause) <= 24


@pytest.mark.parametrize("at", range(65, 130, 8))
def test_a_rise_is_found_wherever_it_begins(at: int) -> None:
    # But for false alarms before it, of which one in 32 blocks is to be expected.
    found = []
    for seed in range(10):
        alarms = fed(WatchedTests(Calibration(rate=0.01), seed=seed), stream(seed, (at - 1, 0.3), (30, 0.6)))
        first = next(t for t, alarm in enumerate(alarms, start=1) if alarm)
        alarm = alarms[first - 1]
        found.append(first >= at and alarm is not None and alarm.cause == "test2")
    assert sum(found) >= 8


def test_a_fall_is_found_by_test_1_alone() -> None:
    losses = stream(0, (96, 0.6), (60, 0.3))
    alarms = fed(WatchedTests(Calibration(rate=0.01)), losses)
    assert alarms[:96] == 96 * [None]
    assert next(alarm for alarm in alarms if alarm).cause == "test1"
    assert fed(WatchedTests(Calibration(rate=0.01), falls=False), losses) == 156 * [None]


def test_equal_losses_are_no_alarm() -> None:
    for loss in (0.0, 0.3, 1.0):
        assert fed(WatchedTests(), [loss] * 300) == 300 * [None]


def test_the_thresholds_of_watched_tests_depend_on_the_seed_and_on_nothing_else() -> None:
    losses = stream(0, (100, 0.3), (40, 0.6))
    thresholds = []
    for seed in (0, 0, 1):
        tests = WatchedTests(seed=seed)
        fed(tests, losses[:70])
        assert tests.tests is not None
        thresholds.append((tests.tests.kappa1, tests.tests.kappa2))
    assert thresholds[0] == thresholds[1] != thresholds[2]


def test_a_reset_forgets_everything() -> None:
    tests = WatchedTests(Calibration(rounds=8, replays=20), falls=False, seed=3)
    fed(tests, np.linspace(0.1, 0.5, 20).tolist())
    tests.reset()
    assert tests == WatchedTests(Calibration(rounds=8, replays=20), falls=False, seed=3)
