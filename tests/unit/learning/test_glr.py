"""The GLR test: its statistic by hand, quiet streams, and jumps."""

import math

import numpy as np
import pytest

from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.protocol.alarm import Alarm


def fed(glr: GLRDetector, losses: list[float], records: int = 2000, first: int = 1) -> list[Alarm | None]:
    return [glr.take(t, loss, records) for t, loss in enumerate(losses, start=first)]


def test_the_statistic_by_hand_where_records_bound_the_variance() -> None:
    # Seven times 0.2, then 0.6, 250 records: differences 0 but one, so sigma^2 = 1/(4 * 250) = 0.001. Split after 7:
    # 7 * 1 / 8 * (0.4 - 0.03)^2 / 0.002 = 59.894. Threshold (1 + 1/8) ln(16 sqrt(10) 500) = 11.406.
    alarm = fed(GLRDetector(), [0.2] * 7 + [0.6], records=250)[-1]
    assert alarm is not None
    assert (alarm.cause, alarm.since) == ("glr", 8)
    assert alarm.statistic == pytest.approx(59.89375)
    assert alarm.threshold == pytest.approx(1.125 * math.log(16.0 * math.sqrt(10.0) * 500.0))


def test_the_statistic_by_hand_where_differences_bound_the_variance() -> None:
    # 0.2, 0.3 in turn, four times; then the median of |differences| is 0.1: sigma^2 = (0.14826)^2 / 2 = 0.010991.
    # The best split of the eight is after the first: 7/8 (0.257142.. - 0.2 - 0.03)^2 = 0.000644.
    glr = GLRDetector()
    fed(glr, [0.2, 0.3] * 4, records=10**6)
    assert glr.reading is not None
    rise = (4 * 0.3 + 3 * 0.2) / 7 - 0.2 - 0.03
    assert glr.reading.statistic == pytest.approx(7 / 8 * rise**2 / 0.14826**2)


def test_just_below_and_just_above_the_threshold() -> None:
    # 100 records: sigma^2 = 0.0025, G = 7/8 (x - 0.03)^2 / 0.005 reaches 11.406 at x = 0.03 + 0.25530 = 0.2853.
    assert fed(GLRDetector(), [0.2] * 7 + [0.2 + 0.285], records=100)[-1] is None
    assert fed(GLRDetector(), [0.2] * 7 + [0.2 + 0.286], records=100)[-1] is not None


def test_a_rise_within_the_margin_or_a_fall_has_no_statistic() -> None:
    for second in (0.229, 0.05):
        glr = GLRDetector()
        fed(glr, [0.2] * 20 + [second] * 20, records=10**6)
        assert glr.reading is not None
        assert glr.reading.statistic == 0.0


def test_there_is_no_reading_before_the_eighth_round() -> None:
    glr = GLRDetector()
    assert fed(glr, [0.0] * 3 + [1.0] * 4) == 7 * [None]
    assert glr.reading is None
    assert fed(glr, [1.0], first=8)[0] is not None


@pytest.mark.parametrize("seed", range(20))
def test_a_quiet_stream_of_500_rounds_is_quiet(seed: int) -> None:
    # Uniform noise of standard deviation 0.015: half width 0.015 sqrt(3).
    noise = 0.015 * math.sqrt(3.0) * np.random.default_rng(seed).uniform(-1.0, 1.0, 500)
    assert fed(GLRDetector(), (0.4 + noise).tolist()) == 500 * [None]


@pytest.mark.parametrize("seed", range(10))
def test_a_jump_is_found_in_the_round_in_which_it_happens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = (0.3 + 0.01 * rng.uniform(-1.0, 1.0, 60)).tolist()
    glr = GLRDetector()
    assert fed(glr, before, records=5000) == 60 * [None]
    alarm = glr.take(61, 0.55, 5000)
    assert alarm is not None
    assert alarm.since == 61


def test_since_is_the_first_round_of_a_rise_that_took_several_to_be_found() -> None:
    # 2000 records: sigma^2 = 1.25e-4. After 40 rounds of 0.3 and m of 0.37: 40 m / (40 + m) 0.04^2 / 2.5e-4
    # = 6.4 * 40 m / (40 + m): 6.24 for m = 1, 12.2 for m = 2, against (1 + 1/42) ln(84 sqrt(44) 500) = 12.86;
    # 17.9 for m = 3. So the alarm is in round 43 of a stream that began with 1, or 143 of one from 101.
    for first in (1, 101):
        alarms = fed(GLRDetector(), [0.3] * 40 + [0.37] * 3, first=first)
        assert alarms[:42] == 42 * [None]
        assert alarms[42] is not None
        assert alarms[42].since == first + 40


def test_the_window_of_the_glr_forgets_old_rounds() -> None:
    # Low losses, which would make 0.5 a rise, have left the window of 10 when the eleventh loss of 0.5 comes.
    glr = GLRDetector(window=10, margin=10.0)
    fed(glr, [0.1] * 50 + [0.5] * 10)
    assert glr.losses == [0.5] * 10
    glr.margin = 0.03
    assert fed(glr, [0.5], first=61) == [None]
    assert glr.reading is not None
    assert glr.reading.statistic == 0.0


def test_since_counts_from_the_window_not_from_the_stream() -> None:
    # Window 10, round 101 is the first after the jump: the split is after 9 of rounds 92 .. 101.
    alarms = fed(GLRDetector(window=10), [0.2] * 100 + [0.6])
    assert alarms[:100] == 100 * [None]
    assert alarms[100] is not None
    assert alarms[100].since == 101


def test_a_reset_forgets_everything() -> None:
    glr = GLRDetector()
    fed(glr, [0.1] * 20)
    glr.reset()
    assert glr.reading is None
    assert fed(glr, [0.6] * 20, first=21) == 20 * [None]


def test_a_longer_run_length_raises_the_threshold() -> None:
    # By (1 + 1/8) ln 10 for ten times the run length, n = 8.
    thresholds = []
    for run_length in (500.0, 5000.0):
        glr = GLRDetector(run_length=run_length)
        fed(glr, [0.2] * 8)
        assert glr.reading is not None
        thresholds.append(glr.reading.threshold)
    assert thresholds[1] - thresholds[0] == pytest.approx(1.125 * math.log(10.0))
