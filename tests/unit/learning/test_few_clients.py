"""Rises of a few clients, by hand: likelihood ratios, named clients, dates, and forgotten clients."""

import math

import numpy as np
import pytest

from streamfl.learning.drift.detectors.few_clients import RISES, FewClients, Rise


def ratio(mean: float, variance: float) -> float:
    return float(np.exp((RISES * mean - RISES**2 / 2.0) / variance).mean())


def few(*rounds: dict[str, Rise]) -> FewClients:
    found = FewClients()
    for rises in rounds:
        found.add(rises)
    return found


def test_a_round_by_hand() -> None:
    # Half of the weight is on p = 1/2, half on a tenth; the variance of a round and that of its baseline add up.
    found = few({"a": Rise(0.1, 0.005, 0.001), "b": Rise(-0.02, 0.004, 0.002)})
    a, b = ratio(0.1, 0.006), ratio(-0.02, 0.006)
    halves, tenths = (0.5 + 0.5 * a) * (0.5 + 0.5 * b), (0.9 + 0.1 * a) * (0.9 + 0.1 * b)
    assert found.statistic() == pytest.approx(math.log((halves + tenths) / 2.0))


def test_rounds_weigh_by_their_precision_and_share_the_newest_baseline_s_error() -> None:
    # A lone client has risen or not: p = 1, and a tenth. Since the first round: mean (0.2/0.01 + 0.5/0.005) / 300.
    found = few({"a": Rise(0.2, 0.01, 0.003)}, {"a": Rise(0.5, 0.005, 0.002)})
    both, last = ratio(0.4, 1 / 300 + 0.002), ratio(0.5, 0.005 + 0.002)
    expected = (both + last + (0.9 + 0.1 * both) + (0.9 + 0.1 * last)) / 2.0
    assert found.statistic() == pytest.approx(math.log(expected))


def test_an_absent_client_is_no_evidence() -> None:
    here, away = {"a": Rise(0.1, 0.005, 0.001), "b": Rise(0.3, 0.005, 0.001)}, {"a": Rise(0.2, 0.005, 0.001)}
    found = few(here, away)
    a, b, last = ratio(0.15, 0.0035), ratio(0.3, 0.006), ratio(0.2, 0.006)
    expected = sum((1 - p + p * a) * (1 - p + p * b) + (1 - p + p * last) for p in (0.5, 0.1)) / 2.0
    assert found.statistic() == pytest.approx(math.log(expected))


def test_without_data_the_statistic_is_minus_infinity_and_no_client_is_named() -> None:
    assert (FewClients().statistic(), FewClients().surely_drifted(["a"]), FewClients().age()) == (-math.inf, (), 0)


def test_a_rise_is_as_old_as_the_rounds_that_show_it() -> None:
    low, high = ({"a": Rise(x, 0.005, 0.001), "b": Rise(-0.05, 0.005, 0.001)} for x in (-0.05, 0.3))
    assert [few(low, low, *[high] * n, low).age() for n in (1, 2, 3)] == [1, 2, 3]
    assert few(low, low, high).age() == 0


def test_rounds_without_a_comparable_client_are_minus_infinity_too() -> None:
    assert few({}).statistic() == few({}, {}).statistic() == -math.inf
    assert few({}).surely_drifted(["a"]) == ()
    seen = {"a": Rise(0.1, 0.005, 0.001)}
    assert few({}, seen, {}).statistic() > few({}).statistic()


@pytest.mark.parametrize(("lead", "named"), [(-1e-4, ()), (1e-4, ("c0",))])
def test_a_client_is_named_at_nine_to_one(lead: float, named: tuple[str, ...]) -> None:
    # Of ten clients both p are a tenth: 0.1 l / (0.9 + 0.1 l) is 0.9 at l = 81.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if ratio(middle, 0.006) > 81.0 else (middle, high)
    rises = {f"c{i}": Rise(0.0 if i else low + lead, 0.005, 0.001) for i in range(10)}
    assert few(rises).surely_drifted(rises) == named
    assert few(rises).surely_drifted(["c1"]) == ()


def test_a_client_that_rises_with_others_needs_less_of_a_rise_to_be_named() -> None:
    # Beside two others a tenth of all is likelier to have risen than one of twenty.
    quiet, small, large = Rise(0.0, 0.002, 0.001), Rise(0.195, 0.002, 0.001), Rise(0.4, 0.002, 0.001)
    rest = {f"c{i:02}": quiet for i in range(3, 20)}
    alone = few({"c00": small, "c01": quiet, "c02": quiet, **rest})
    beside = few({"c00": small, "c01": large, "c02": large, **rest})
    assert alone.surely_drifted(["c00"]) == ()
    assert beside.surely_drifted(["c00", "c01", "c02"]) == ("c00", "c01", "c02")


def test_only_the_last_eight_rounds_are_kept() -> None:
    found = few({"a": Rise(0.9, 0.005, 0.001)}, *[{"a": Rise(0.0, 0.005, 0.001)}] * 8)
    assert found.rounds == [{"a": Rise(0.0, 0.005, 0.001)}] * 8


def test_forgotten_clients_leave_no_trace() -> None:
    rise = Rise(0.3, 0.005, 0.001)
    found = few({"a": rise, "b": rise}, {"a": rise})
    found.forget(["a"])
    assert found.rounds == [{"b": rise}]


def test_without_a_rise_every_first_round_has_mean_one_baseline_and_all() -> None:
    rng = np.random.default_rng(3)
    sums = []
    for _ in range(4000):
        baselines = rng.normal(0.0, math.sqrt(0.1), 3)
        rounds = [{f"c{i}": Rise(b + rng.normal(0.0, 0.5), 0.25, 0.1) for i, b in enumerate(baselines)} for _ in "ab"]
        sums.append(math.exp(few(*rounds).statistic()))
    assert np.mean(sums) == pytest.approx(2.0, abs=4.0 * np.std(sums) / math.sqrt(len(sums)))
    assert np.std(sums) < 2.0
