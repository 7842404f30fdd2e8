"""Detectors for River: statistics by hand, rises, falls, quiet streams, alarms after which they begin anew."""

import doctest
import math
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.drift import GLR, EDetector, LossDetector, MasterTests
from streamfl.errors import UsageError
from streamfl.learning.drift.detectors import e_detector
from streamfl.sampling import generator

ALL = (GLR, EDetector, MasterTests)


def errors(seed: int, *rates: tuple[int, float]) -> list[int]:
    """Return hits and misses, so many at each rate of error."""
    rng = generator(seed, "errors")
    return [int(rng.random() < rate) for n, rate in rates for _ in range(n)]


def alarms(detector: LossDetector, losses: Sequence[float]) -> list[int]:
    """Return the indices of the losses that raised an alarm."""
    found = []
    for i, loss in enumerate(losses):
        assert detector.update(loss) is None
        if detector.drift_detected:
            found.append(i)
    return found


# --- what each of them says -------------------------------------------------------------------------------------


def test_glr_by_hand() -> None:
    # Seven rounds of 0 and 0.4, mean 0.2 and variance 0.08 each, then one of 1 and 1: differences of rounds are 0 but
    # one, so sigma^2 is that within the eight rounds, 0.07, over the two losses of a round. Split after seven rounds:
    # 7 * 1 / 8 * 0.8^2 / (2 * 0.035) = 8. The threshold has 100 / 2 rounds.
    glr = GLR(run_length=100, round_size=2)
    assert alarms(glr, [0.0, 0.4] * 7 + [1.0, 1.0]) == []
    assert glr.reading is not None
    assert glr.reading.statistic == pytest.approx(8.0)
    assert glr.reading.threshold == pytest.approx(1.125 * math.log(16.0 * math.sqrt(10.0) * 50.0))
    assert glr.warning_detected


def test_glr_believes_no_loss_to_be_certain() -> None:
    # Two misses in a round of 32, after a window of hits: 199 / 200 * 0.0625^2 / (2 * 0.01 / 32) = 6.2 against 14.2.
    # The variance within the 200 rounds, 0.0003, would make it 206.
    glr = GLR()
    assert alarms(glr, [0] * 10_016 + [1] * 2 + [0] * 30) == []
    assert glr.reading is not None
    assert glr.reading.statistic == pytest.approx(199 / 200 * 0.0625**2 * 1600)


def test_glr_dates_the_change_by_the_first_loss_of_a_round() -> None:
    glr = GLR(round_size=10)
    assert alarms(glr, [0.1] * 200 + [0.9] * 10) == [209]
    assert glr.alarm is not None
    assert (glr.alarm.cause, glr.alarm.since) == ("glr", 201)


def test_the_e_detector_with_a_bound_is_that_of_the_core() -> None:
    ours, core = EDetector(run_length=500, bound=0.25), e_detector.EProcessDetector(run_length=500.0, bound=0.25)
    for t, loss in enumerate(errors(0, (200, 0.25), (200, 0.5)), start=1):
        ours.update(loss)
        assert ours.alarm == core.take(t, float(loss), 1)
        assert ours.reading == core.reading
        if ours.drift_detected:
            return
    pytest.fail("no alarm")


def test_the_e_detector_learns_its_bound_from_the_losses_before() -> None:
    # Eight losses with sum 1: 0.2 + 2 sqrt(0.02), and 0.1 of margin. A loss of 1 then makes M the stake over the
    # bound, for every stake, and one more; the mean stake is 0.375.
    detector = EDetector(margin=0.1, shortest=8)
    assert alarms(detector, [0.125] * 8) == []
    assert detector.reading is None
    assert alarms(detector, [1.0]) == []
    bound = 0.3 + 2.0 * math.sqrt(0.02)
    assert detector.reading is not None
    assert detector.reading.statistic == pytest.approx(math.log(1.0 + 0.375 * (1.0 / bound - 1.0)))


def test_master_tests_tell_a_rise_and_a_fall_apart() -> None:
    for before, after, cause in ((0.1, 0.5, "test2"), (0.7, 0.2, "test1")):
        tests = MasterTests()
        losses = errors(1, (1000, before), (1000, after))
        first = alarms(tests, losses[:1000])
        assert first == []
        for loss in losses[1000:]:
            tests.update(loss)
            if tests.alarm is not None:
                break
        assert tests.alarm is not None
        assert tests.alarm.cause == cause
    assert alarms(MasterTests(two_sided_test=False), errors(1, (1000, 0.7), (1000, 0.2))) == []


def test_master_tests_draw_by_their_seed() -> None:
    found = []
    for seed in (0, 0, 1):
        tests = MasterTests(seed=seed)
        alarms(tests, errors(0, (520, 0.3)))
        assert tests.reading is not None
        found.append(tests.reading.threshold)
    assert found[0] == found[1] != found[2]


def test_master_tests_share_the_false_alarms() -> None:
    # Blocks of 512 losses in 10,000; two tests; two blocks at any time.
    assert MasterTests()._calibration().rate == pytest.approx(0.0512 / 4)
    assert MasterTests(two_sided_test=False)._calibration().rate == pytest.approx(0.0512 / 2)
    rare = MasterTests(run_length=10**6)._calibration()
    assert rare.rate * rare.replays >= 2.0


# --- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("before", "after"), [(0.05, 0.4), (0.2, 0.7), (0.0, 0.5)])
def test_a_large_rise_is_found_within_200_losses(
    kind: Callable[[], LossDetector], before: float, after: float
) -> None:
    # But for a false alarm of MasterTests shortly before it, of which about one in twenty is to be expected.
    found = 0
    for seed in range(10):
        at = alarms(kind(), errors(seed, (1000, before), (200, after)))
        found += any(i >= 1000 for i in at)
    assert found >= (8 if kind is MasterTests else 10)


@pytest.mark.parametrize("kind", [GLR, EDetector])
@pytest.mark.parametrize("rate", [0.0, 0.002, 0.05, 0.3, 0.5, 1.0])
def test_detectors_do_not_alarm_on_quiet_streams(kind: Callable[[], LossDetector], rate: float) -> None:
    assert [alarms(kind(), errors(seed, (3000, rate))) for seed in range(5)] == 5 * [[]]


@pytest.mark.full
def test_the_run_length_of_master_tests_is_about_what_was_asked_for() -> None:
    # 20 streams of 3000 losses, and 2000: 30 alarms if the first rounds said all, and up to a few times as many.
    found = sum(len(alarms(MasterTests(run_length=2000, seed=s), errors(s, (3000, 0.3)))) for s in range(20))
    assert 10 <= found <= 70


@pytest.mark.parametrize("kind", [GLR, EDetector, lambda: MasterTests(two_sided_test=False)])
def test_a_fall_is_no_drift_and_a_rise_after_it_is(kind: Callable[[], LossDetector]) -> None:
    losses = errors(3, (1500, 0.7), (1500, 0.1), (400, 0.5))
    (at, *_) = alarms(kind(), losses)
    assert 3000 <= at < 3300


@pytest.mark.parametrize("kind", ALL)
def test_losses_need_not_be_errors(kind: Callable[[], LossDetector]) -> None:
    rng = generator(0, "losses")
    losses = [*rng.uniform(0.2, 0.4, 1000).tolist(), *rng.uniform(0.4, 0.6, 400).tolist()]
    (at, *_) = alarms(kind(), losses)
    assert 1000 <= at < 1300


def test_less_varied_losses_are_watched_more_closely() -> None:
    # The same means: hits and misses vary by 0.2, uniform losses by 0.003.
    rng = generator(0, "losses")
    (even,) = alarms(GLR(), [*rng.uniform(0.2, 0.4, 1024).tolist(), *rng.uniform(0.4, 0.6, 500).tolist()])
    (uneven,) = alarms(GLR(), errors(1, (1024, 0.3), (3000, 0.5)))
    assert even < 1024 + 70 < uneven


# --- as detectors of River are ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GLR, EDetector])
def test_after_an_alarm_the_next_loss_begins_anew(kind: Callable[[], LossDetector]) -> None:
    losses = errors(0, (1000, 0.1), (400, 0.8), (1200, 0.2), (400, 0.9))
    detector = kind()
    first = next(i for i in range(len(losses)) if alarms(detector, losses[i : i + 1]))
    assert first > 1000
    fresh, rest = kind(), losses[first + 1 :]
    found = alarms(detector, rest[:1])
    assert not detector.drift_detected
    assert not detector.warning_detected
    assert detector.alarm is None
    found += [i + 1 for i in alarms(detector, rest[1:])]
    assert found == alarms(fresh, rest)
    assert found


def test_after_an_alarm_master_tests_calibrate_again() -> None:
    tests, losses = MasterTests(), errors(0, (1000, 0.1), (100, 0.9), (600, 0.9))
    (at, *more) = alarms(tests, losses[:1100])
    assert at >= 1000
    assert more == []
    assert alarms(tests, losses[1100 : at + 512]) == []
    assert tests.reading is None


@pytest.mark.parametrize("kind", ALL)
def test_the_start_of_a_drift_counts_all_losses_since_the_first(kind: Callable[[], LossDetector]) -> None:
    detector, last = kind(), 0
    for at, loss in enumerate(errors(5, (2000, 0.05), (2000, 0.4), (1000, 0.95)), start=1):
        detector.update(loss)
        if detector.alarm is not None:
            assert at - 1100 <= detector.alarm.since <= at
            last = detector.alarm.since
    assert last > 3000


@pytest.mark.parametrize("kind", ALL)
def test_a_warning_comes_before_the_alarm_and_never_with_it(kind: Callable[..., LossDetector]) -> None:
    warned: dict[float, list[int]] = {0.3: [], 0.6: []}
    for level, at in warned.items():
        detector = kind(warning_level=level)
        for i, loss in enumerate(errors(7, (1000, 0.1), (3000, 0.25))):
            detector.update(loss)
            assert not (detector.warning_detected and detector.drift_detected)
            if detector.warning_detected:
                at.append(i)
            if detector.drift_detected:
                break
        assert i >= 1000
        assert max(at) > i - 100
    assert set(warned[0.6]) < set(warned[0.3])


@pytest.mark.parametrize("kind", ALL)
def test_a_detector_continues_identically_from_a_pickle(kind: Callable[[], LossDetector]) -> None:
    losses = errors(0, (1100, 0.1), (300, 0.6))
    detector = kind()
    alarms(detector, losses[:1010])
    again = pickle.loads(pickle.dumps(detector))
    rest = alarms(detector, losses[1010:])
    assert rest
    assert alarms(again, losses[1010:]) == rest


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.001, 1.001, 2, "a", None, np.array([0.0, 1.0])])
def test_a_number_that_is_no_loss_is_refused_and_changes_no_detector(
    kind: Callable[[], LossDetector], bad: object
) -> None:
    detector = kind()
    alarms(detector, errors(0, (45, 0.2)))
    before = pickle.dumps(detector)
    with pytest.raises(UsageError, match=r"must be a number in \[0, 1\]"):
        detector.update(bad)  # type: ignore[arg-type]
    assert pickle.dumps(detector) == before


@pytest.mark.parametrize("kind", ALL)
def test_any_kind_of_number_is_taken(kind: Callable[[], LossDetector]) -> None:
    losses = errors(0, (1000, 0.1), (300, 0.7))
    wanted = alarms(kind(), losses)
    assert wanted
    for number in (bool, float, np.bool_, np.int64, np.float32):
        assert alarms(kind(), [number(loss) for loss in losses]) == wanted


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (GLR, {"run_length": 1.0}, "run_length is 1.0: it must be a finite number above 1"),
        (GLR, {"round_size": 1}, "round_size is 1: it must be a whole number, 2 or more"),
        (GLR, {"round_size": 2.5}, "round_size is 2.5: it must be a whole number"),
        (GLR, {"round_size": True}, "round_size is True"),
        (GLR, {"run_length": math.inf}, "run_length is inf: it must be a finite number"),
        (GLR, {"run_length": math.nan}, "run_length is nan"),
        (GLR, {"run_length": "a"}, "run_length is 'a'"),
        (EDetector, {"run_length": math.inf}, "run_length is inf"),
        (MasterTests, {"run_length": math.inf}, "run_length is inf"),
        (MasterTests, {"round_size": 8.0}, "round_size is 8.0: it must be a whole number, 1 or more"),
        (GLR, {"window": 7}, "window is 7: it must be a whole number, 8 or more"),
        (GLR, {"margin": -0.1}, "margin"),
        (GLR, {"warning_level": 0.0}, "warning_level"),
        (EDetector, {"run_length": math.nan}, "run_length"),
        (EDetector, {"bound": 0.0}, "bound is 0.0: it must be between 0 and 1"),
        (EDetector, {"margin": -0.1}, "margin"),
        (EDetector, {"shortest": 0}, "shortest"),
        (MasterTests, {"order": 0}, "order is 0: it must be a whole number, 1 to 16"),
        (MasterTests, {"round_size": 0}, "round_size"),
        (
            MasterTests,
            {"run_length": 1000},
            "run_length is 1000: it must be a finite number, at least two blocks, 1024",
        ),
        (MasterTests, {"warning_level": 1.5}, "warning_level"),
    ],
)
def test_impossible_parameters_of_a_detector_are_refused(
    kind: Callable[..., LossDetector], parameters: dict, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        kind(**parameters)


@pytest.mark.parametrize("kind", ALL)
def test_the_memory_of_a_detector_is_bounded(kind: Callable[[], LossDetector]) -> None:
    detector, sizes = kind(), []
    for _ in range(3):
        alarms(detector, generator(0, "memory").uniform(0.3, 0.4, 16_384).tolist())
        sizes.append(len(pickle.dumps(detector)))
    # One float a round of 32 would be 4,600 more. A block of MasterTests may be fuller than another.
    assert sizes[2] <= sizes[1] + 2500


@given(st.lists(st.floats(0.0, 1.0), max_size=300), st.sampled_from(ALL))
def test_a_detector_takes_any_losses(losses: list[float], kind: Callable[..., LossDetector]) -> None:
    detector = kind(order=3, round_size=2) if kind is MasterTests else kind()
    for loss in losses:
        detector.update(loss)
        assert (detector.drift_detected, detector.warning_detected) != (True, True)
        assert detector.drift_detected == (detector.alarm is not None)
        if detector.alarm is not None:
            assert detector.alarm.statistic >= detector.alarm.threshold


def test_the_examples_of_the_page_are_true() -> None:
    page = (Path(__file__).parents[2] / "docs" / "detectors.md").read_text()
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(examples, {}, "docs/detectors.md", None, None)
    assert len(test.examples) > 10
    output: list[str] = []
    doctest.DocTestRunner().run(test, out=output.append)
    assert "".join(output) == ""
