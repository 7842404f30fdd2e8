"""How the speed check compares, with numbers by hand; nothing is measured here."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from streamfl_benchmarks import speed_check
from streamfl_benchmarks.speed_check import Verdict, advice, judged, measured, missing, ratio_of, slowed
from streamfl_benchmarks.yardsticks import Comparison


class Hands:
    """A clock that only works move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.moved: list[float] = []

    def __call__(self) -> float:
        """Return the time; a look at the clock takes some, so that whoever waits for it comes to an end."""
        self.now += 1e-5
        return self.now

    def work(self, *seconds: float) -> Callable[[], None]:
        """Return a work that takes so many seconds, in turn."""
        left = list(seconds)

        def work() -> None:
            self.moved.append(left[0])
            self.now += left[0]
            left.append(left.pop(0))

        return work


def test_the_ratio_is_the_median_of_the_yardstick_over_ours():
    assert ratio_of([(2.0, 1.0)]) == 0.5
    assert ratio_of([(2.0, 1.0), (1.0, 1.0), (4.0, 1.0), (10.0, 1.0), (2.0, 0.8)]) == 0.4


def test_a_pair_runs_ours_at_both_ends_and_the_yardstick_twice_between():
    clock = Hands()
    compared = Comparison("work", clock.work(4.0), clock.work(1.0))
    assert measured(compared, 1, clock) == pytest.approx(0.25, rel=1e-3)
    assert clock.moved == [4.0, 1.0, 1.0, 4.0]


def test_a_machine_that_becomes_slower_and_slower_slows_both_alike():
    clock = Hands()
    # Ours takes 2, and the yardstick 1, times how slow the machine is: 1.0, 1.1, 1.2 and 1.3.
    compared = Comparison("work", clock.work(2.0, 2.6), clock.work(1.1, 1.2))
    assert measured(compared, 1, clock) == pytest.approx(0.5, rel=1e-3)


def test_what_is_repeated_within_a_measurement_counts_once():
    clock = Hands()
    compared = Comparison("work", clock.work(10.0), clock.work(8.0), (5, 8))
    assert measured(compared, 3, clock) == pytest.approx(0.5, rel=1e-3)


def test_eight_tenths_of_the_committed_ratio_are_enough():
    assert Verdict("work", 0.5, 0.4001).passes
    assert not Verdict("work", 0.5, 0.3999).passes


def test_what_is_slow_is_measured_three_times_and_the_best_result_counts():
    nothing = Comparison("work", lambda: None, lambda: None)

    def verdict(*ratios: float) -> tuple[Verdict, int]:
        left = list(ratios)
        found = judged(nothing, 1.0, lambda compared: left.pop(0))
        return found, len(ratios) - len(left)

    assert verdict(0.9, 0.1) == (Verdict("work", 1.0, 0.9), 1)
    assert verdict(0.7, 0.85) == (Verdict("work", 1.0, 0.85), 2)
    assert verdict(0.7, 0.75, 0.85) == (Verdict("work", 1.0, 0.85), 3)
    assert verdict(0.75, 0.7, 0.6) == (Verdict("work", 1.0, 0.75), 3)


def test_a_work_that_takes_1_4_times_the_time_has_a_ratio_below_eight_tenths():
    clock = Hands()
    compared = Comparison("work", clock.work(2.0), clock.work(1.0))
    slower = slowed(compared, 1.4, clock)
    assert measured(slower, 1, clock) == pytest.approx(0.5 / 1.4, rel=1e-3)
    assert not Verdict("work", 0.5, measured(slower, 1, clock)).passes


def test_figures_that_do_not_fit_are_named():
    assert missing({"a": 1.0, "b": 1.0}, ["b", "a"]) == ""
    assert "figures than are measured: a, c." in missing({"a": 1.0, "b": 1.0}, ["b", "c"])


def test_the_advice_names_both_ratios_and_the_command():
    told = advice([Verdict("encoding", 0.6, 0.3)])
    assert "encoding takes 2.0 times the CPU time that it took: ratio 0.300, committed 0.600" in told
    assert "make speed-renew" in told


@pytest.fixture
def found(monkeypatch, tmp_path):
    """Return a function that runs the command with committed ratios, where each measured ratio is given."""
    monkeypatch.setattr(speed_check, "FIGURES", tmp_path / "speed.json")

    def run(committed: dict[str, float], ratios: dict[str, float], *options: str):
        speed_check.FIGURES.write_text(json.dumps(committed))
        each = [Comparison(name, lambda: None, lambda: None) for name in ratios]
        monkeypatch.setattr(speed_check, "comparisons", lambda: iter(each))
        monkeypatch.setattr(speed_check, "measured", lambda compared: ratios[compared.name])
        monkeypatch.setattr(speed_check, "judged", lambda work, ratio: judged(work, ratio, speed_check.measured))
        return CliRunner().invoke(speed_check.main, options)

    return run


def test_the_command_fails_if_one_ratio_is_too_small(found):
    assert found({"a": 0.5, "b": 0.5}, {"a": 0.45, "b": 0.6}).exit_code == 0
    failed = found({"a": 0.5, "b": 0.5}, {"a": 0.45, "b": 0.3})
    assert failed.exit_code == 1
    assert "b takes 1.7 times the CPU time that it took" in failed.output
    assert "a takes" not in failed.output


def test_the_command_fails_if_a_figure_is_not_committed(found):
    failed = found({"a": 0.5}, {"a": 0.5, "b": 0.3})
    assert failed.exit_code == 1
    assert "measured: b. Run make speed-renew" in failed.output


def test_the_command_that_slows_works_down_fails_if_one_still_passes(found):
    assert found({"a": 0.5}, {"a": 0.3}, "--slower", "1.4").exit_code == 0
    failed = found({"a": 0.5}, {"a": 0.45}, "--slower", "1.4")
    assert failed.exit_code == 1
    assert "still pass: a" in failed.output


def test_figures_are_renewed_by_what_is_measured(found):
    assert found({"a": 0.5}, {"a": 0.25, "b": 0.3}, "--renew").exit_code == 0
    assert json.loads(speed_check.FIGURES.read_text()) == {"a": 0.25, "b": 0.3}


def test_the_committed_figures_are_those_that_are_measured():
    committed = json.loads(speed_check.FIGURES.read_text())
    assert len(committed) == 5
    assert all(0.0 < ratio < 10.0 for ratio in committed.values())
