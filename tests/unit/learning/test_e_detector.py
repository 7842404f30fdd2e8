"""The e-detector: its evidence by hand, its run length by simulation, and rises that it finds."""

import math

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.learning.drift.detectors.e_detector import STAKES, EProcessDetector
from streamfl.protocol.alarm import Alarm
from streamfl.sampling import generator
from streamfl.wire import codec


def fed(detector: EProcessDetector, losses: list[float], first: int = 1) -> list[Alarm | None]:
    return [detector.take(t, loss, 2000) for t, loss in enumerate(losses, start=first)]


def rounds_to_an_alarm(detector: EProcessDetector, losses: np.ndarray) -> int:
    return next((t for t, loss in enumerate(losses, start=1) if detector.take(t, float(loss), 100)), len(losses))


def test_the_evidence_by_hand() -> None:
    # m = 0.25. A loss of 0.5 multiplies by 1 + stake: M = 1.1, 1.2, 1.4, 1.8, mean 1.375. Then 0, by 1 - stake:
    # 2.1 * 0.9, 2.2 * 0.8, 2.4 * 0.6, 2.8 * 0.2 = 1.89, 1.76, 1.44, 0.56, mean 1.4125.
    detector = EProcessDetector(bound=0.25)
    for loss, mean in ((0.5, 1.375), (0.0, 1.4125)):
        assert fed(detector, [loss]) == [None]
        assert detector.reading is not None
        assert (detector.reading.statistic, detector.reading.threshold) == pytest.approx(
            (math.log(mean), math.log(500))
        )


@pytest.mark.parametrize(("run_length", "fires"), [(1.37, True), (1.38, False)])
def test_the_e_detector_fires_just_above_its_threshold_and_not_just_below(run_length: float, fires: bool) -> None:
    (alarm,) = fed(EProcessDetector(run_length=run_length, bound=0.25), [0.5], first=7)
    assert (alarm is not None) == fires
    if alarm:
        assert (alarm.cause, alarm.since, alarm.statistic) == ("e-detector", 7, pytest.approx(math.log(1.375)))


def test_a_learnt_bound_is_the_least_mean_so_far_and_a_margin() -> None:
    # Means of two rounds: 0.5, then 0.3, then 0.35: bets are on 0.53 in round 3, and on 0.33 in rounds 4 and 5.
    detector, by_hand = EProcessDetector(shortest=2), np.zeros(len(STAKES))
    assert fed(detector, [0.6, 0.4]) == [None, None]
    assert detector.reading is None
    for t, loss, m in ((3, 0.2, 0.53), (4, 0.5, 0.33), (5, 0.5, 0.33)):
        fed(detector, [loss], first=t)
        by_hand = (by_hand + 1.0) * (1.0 + np.array(STAKES) * (loss / m - 1.0))
        assert detector.reading is not None
        assert detector.reading.statistic == pytest.approx(math.log(by_hand.mean()))


@pytest.mark.parametrize("kind", ["coin", "constant", "runs"])
def test_the_mean_run_length_is_at_least_what_was_asked_for(kind: str) -> None:
    # Losses with mean 0.3 given the past, m = 0.3: 0 or 1; always 0.3; and 0 or 0.6, of which the spread depends on
    # what came before. 200 streams, cut off at 2000 rounds, which only makes the mean smaller.
    lengths = []
    for i in range(200):
        rng = generator(0, "run length", kind, i)
        if kind == "coin":
            losses = (rng.random(2000) < 0.3).astype(float)
        elif kind == "constant":
            losses = np.full(2000, 0.3)
        else:
            signs = rng.choice([-1.0, 1.0], 2000)
            losses = 0.3 + np.where(np.roll(signs, 1) > 0.0, 0.3, 0.01) * signs
        lengths.append(rounds_to_an_alarm(EProcessDetector(run_length=100.0, bound=0.3), losses))
    assert np.mean(lengths) >= 100.0


def test_a_mean_above_the_bound_is_found_far_sooner() -> None:
    lengths = [
        rounds_to_an_alarm(EProcessDetector(run_length=100.0, bound=0.3), (rng.random(2000) < 0.6).astype(float))
        for rng in (generator(0, "above", i) for i in range(50))
    ]
    assert np.mean(lengths) < 25.0


@pytest.mark.parametrize("seed", range(10))
def test_the_e_detector_is_quiet_while_a_model_learns_and_then_finds_the_drift(seed: int) -> None:
    # The loss falls from 0.8 to 0.2 over 30 rounds; round 201 is the first of the new concept, at 0.4.
    noise = generator(seed, "noise").uniform(-0.03, 0.03, 240)
    mean = np.where(np.arange(1, 241) <= 200, np.maximum(0.2, 0.8 - 0.02 * np.arange(240)), 0.4)
    alarms = fed(EProcessDetector(), list(mean + noise))
    assert alarms[:200] == 200 * [None]
    found = next(alarm for alarm in alarms if alarm)
    assert alarms.index(found) <= 212
    assert 195 <= found.since <= 202


def test_losses_of_zero_and_one_leave_the_statistic_finite() -> None:
    detector = EProcessDetector(bound=0.01)
    assert fed(detector, [0.0] * 5) == 5 * [None]
    assert detector.reading is not None
    assert math.isfinite(detector.reading.statistic)
    fed(detector, [1.0] * 2000, first=6)
    assert math.isfinite(detector.reading.statistic)


def test_a_reset_forgets_everything() -> None:
    detector = EProcessDetector()
    fed(detector, [0.1] * 20 + [0.3] * 5)
    detector.reset()
    assert detector == EProcessDetector()


def test_an_e_detector_continues_identically_from_its_bytes() -> None:
    losses = list(generator(0, "bytes").uniform(0.1, 0.5, 60))
    detector = EProcessDetector()
    fed(detector, losses[:30])
    again = codec.decode(EProcessDetector, codec.encode(detector))
    assert again == detector
    assert fed(again, losses[30:], first=31) == fed(detector, losses[30:], first=31)


@pytest.mark.parametrize("bound", [0.0, -0.1])
def test_a_bound_must_be_positive(bound: float) -> None:
    with pytest.raises(UsageError, match="positive"):
        EProcessDetector(bound=bound)
