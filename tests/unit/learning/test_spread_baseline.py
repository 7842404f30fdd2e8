"""Features that vary more or less than since held-out records are gathered: sure, and not by one client's word."""

import math
from dataclasses import replace

import numpy as np
import pytest

from streamfl.learning.drift.inputs import PAIRS
from streamfl.learning.drift.spread_baseline import Spread, SpreadBaseline
from streamfl.wire import codec


def rounds(clients: int, n: int, *, noise: float = 0.1, records: int = 50, seed: int = 1) -> list[dict[str, Spread]]:
    """Return n rounds of some clients, whose logarithms have a deviation of `noise`."""
    drawn = np.random.default_rng(seed).normal(size=(n, clients))
    return [{f"c{i}": Spread(records, math.exp(noise * x)) for i, x in enumerate(each)} for each in drawn]


def known(clients: int, n: int = 4) -> SpreadBaseline:
    baseline = SpreadBaseline()
    for sent in rounds(clients, n):
        baseline = baseline.after(sent, registry=1, since=lambda _: 1)
    return baseline


def alike(clients: int, square: float) -> dict[str, Spread]:
    return {f"c{i}": Spread(50, square) for i in range(clients)}


def test_a_deviation_must_differ_by_a_quarter() -> None:
    baseline = SpreadBaseline()
    for sent in rounds(10, 50, noise=0.01):
        baseline = baseline.after(sent, registry=1, since=lambda _: 1)
    assert baseline.moved(alike(10, 1.24**2), registry=1) is None
    assert baseline.moved(alike(10, 1.26**2), registry=1) == pytest.approx((1.0, 1.26), rel=1e-3)
    assert baseline.moved(alike(10, 1.26**-2), registry=1) == pytest.approx((1.0, 1 / 1.26), rel=1e-3)


def test_it_differs_from_four_standard_errors_on() -> None:
    """Steps of the logarithm by 0.4 between rounds of 50 records: one record counts as 0.4 / sqrt(2 / 50) = 2."""
    baseline, n = SpreadBaseline(), 2000
    for i in range(n):
        sent = {"c0": Spread(50, math.exp(0.2 * (-1) ** i))}
        baseline = baseline.after(sent, registry=1, since=lambda _: 1)
    error = 2.0 * math.sqrt(1 / 50 + 1 / (50 * n))
    assert baseline.moved({"c0": Spread(50, math.exp(3.99 * error))}, registry=1) is None
    assert baseline.moved({"c0": Spread(50, math.exp(4.02 * error))}, registry=1) is not None


def test_neither_one_client_of_two_nor_three_liars_of_thirteen_can_make_features_differ() -> None:
    for clients, liars in ((2, 1), (13, 3)):
        sent = alike(clients, 1.0) | {f"c{i}": Spread(50, 1e9) for i in range(liars)}
        assert known(clients).moved(sent, registry=1) is None
        assert known(clients).moved(alike(clients, 9.0), registry=1) is not None


@pytest.mark.parametrize("square", [9.0, 1 / 9])
@pytest.mark.parametrize("odd", ["swings", "a thousand times as many records"])
@pytest.mark.parametrize(("clients", "of_odd"), [(5, 1), (13, 6)])
def test_a_minority_whose_spread_is_odd_hides_nothing(clients: int, of_odd: int, odd: str, square: float) -> None:
    """All others vary by a factor of three more or less; the odd ones swing by e^40, or differ by 0.3 as ever."""
    baseline, names = SpreadBaseline(), [f"c{i}" for i in range(of_odd)]

    def with_odd(sent: dict[str, Spread], t: int) -> dict[str, Spread]:
        if odd == "swings":
            return sent | {name: Spread(50, math.exp(20.0 * (-1) ** t)) for name in names}
        return sent | {name: Spread(50_000, math.exp(0.3 * (-1) ** t)) for name in names}

    for t, sent in enumerate(rounds(clients, 6)):
        baseline = baseline.after(with_odd(sent, t), registry=1, since=lambda _: 1)
    for t in range(2):
        assert baseline.moved(with_odd(alike(clients, square), t), registry=1) is not None


def test_what_is_reported_is_of_the_median_client() -> None:
    sent = {f"c{i}": Spread(50, square) for i, square in enumerate((4.0, 9.0, 16.0, 25.0, 1e300))}
    _, after = known(5).moved(sent, registry=1) or (0.0, 0.0)
    assert after == pytest.approx(4.0)


def test_a_client_that_never_varies_makes_honest_ones_differ_no_more() -> None:
    """It says that all records lie as far from the middle, and at the alarm that they lie far out: 2 of 300."""
    rng, baseline, found = np.random.default_rng(7), SpreadBaseline(), 0
    for t in range(300):
        sent = {f"c{i}": Spread(20, float((rng.normal(size=(20, 6)) ** 2).mean())) for i in range(3)}
        found += baseline.moved(sent | {"c0": Spread(20, 1e9)}, registry=1) is not None
        baseline = baseline.after(sent | {"c0": Spread(20, 1.0)}, registry=1, since=lambda _, t=t: t // 12 * 12)
    assert found <= 2


@pytest.mark.parametrize("tail", [2.0, 3.0, 30.0])
@pytest.mark.parametrize("clients", [1, 4, 20])
def test_records_that_spread_as_ever_seldom_differ(tail: float, clients: int) -> None:
    """In 2 of 500 rounds at most, of features with heavy tails as well."""
    rng, baseline, found = np.random.default_rng(7), SpreadBaseline(), 0
    for t in range(500):
        squares = np.clip(rng.standard_t(tail, size=(clients, 20, 6)), -5.0, 5.0) ** 2
        sent = {f"c{i}": Spread(20, float(squares[i].mean())) for i in range(clients)}
        found += baseline.moved(sent, registry=1) is not None
        baseline = baseline.after(sent, registry=1, since=lambda _, t=t: t // 12 * 12)
    assert found <= 2


def test_it_begins_again_with_held_out_records_and_with_another_scale() -> None:
    baseline = known(4)
    assert baseline.moved(alike(4, 9.0), registry=2) is None
    again = baseline.after(alike(4, 9.0), registry=1, since=lambda _: 2).after(
        alike(4, 8.0), registry=1, since=lambda _: 2
    )
    assert again.moved(alike(4, 8.5), registry=1) is None
    assert again.moved(alike(4, 1.0), registry=1) is not None


def test_what_is_kept_is_bounded_of_members_alone_and_the_same_after_a_kill() -> None:
    few = known(4).among({"c1", "c3"})
    assert few.clients == ("c1", "c3")
    again = codec.join(SpreadBaseline, *codec.split(few))
    assert again.moved(alike(4, 9.0), registry=1) == few.moved(alike(4, 9.0), registry=1) is not None
    many = replace(SpreadBaseline(), clients=tuple(f"x{i}" for i in range(PAIRS)), sums=np.zeros((8, PAIRS)))
    assert len(many.after(alike(4, 1.0), registry=1, since=lambda _: 1).clients) == PAIRS


def test_rounds_without_spread_say_nothing() -> None:
    """As where no feature is scaled yet."""
    baseline = SpreadBaseline().after({"c0": Spread(50, 0.0)}, registry=1, since=lambda _: 1)
    assert baseline.moved({"c0": Spread(50, 0.0)}, registry=1) is None
