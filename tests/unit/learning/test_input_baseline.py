"""Inputs that differ from those since held-out records have been gathered: sure, and not by one client's word."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.learning.drift.input_baseline import InputBaseline
from streamfl.learning.drift.inputs import PAIRS
from streamfl.protocol.moments import Moments
from streamfl.wire import codec

RECORDS = 50


def sends(means: dict[str, float], n: int = 100, feature: str = "heat") -> dict[str, Moments]:
    """Return moments of n values with a deviation of 1, by client."""
    half = np.array([[-1.0], [1.0]] * (n // 2))
    return {client: Moments.of((feature,), mean + half) for client, mean in means.items()}


def differs(baseline: InputBaseline, means: dict[str, float]) -> bool:
    return bool(baseline.moved(9, sends(means)))


def test_a_mean_differs_from_four_standard_errors_on() -> None:
    baseline = InputBaseline().after(sends({"a": 20.0}), since=1)
    # A mean of 100 values with a deviation of 1 less one of 100 has a standard error of sqrt(0.02) = 0.1414.
    # Student's t of 4.18 with 99 degrees of freedom is as rare as a normal deviate of 4.
    assert not differs(baseline, {"a": 20.58})
    (heat,) = baseline.moved(9, sends({"a": 20.6}))
    assert (heat.feature, heat.before, heat.after, heat.since) == ("heat", 20.0, 20.6, 9)
    assert (heat.clients, heat.of_clients) == (("a",), 1)
    assert heat.evidence == pytest.approx(8.0)  # 4 deviations: e^(4^2 / 2)


def test_what_differs_surely_but_by_less_than_a_quarter_of_a_deviation_explains_nothing() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0}, 10_000), since=1)
    assert baseline.moved(2, sends({"a": 0.24}, 10_000)) == ()
    assert baseline.moved(2, sends({"a": 0.26}, 10_000))


def test_one_client_of_two_cannot_make_a_feature_differ_whatever_it_sends() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0, "liar": 0.0}), since=1)
    assert not differs(baseline, {"a": 0.0, "liar": 1e9})
    assert differs(baseline, {"a": 1.0, "liar": 1.0})


def test_three_liars_of_thirteen_cannot_either() -> None:
    names = [f"c{i}" for i in range(13)]
    baseline = InputBaseline().after(sends(dict.fromkeys(names, 0.0)), since=1)
    assert not differs(baseline, dict.fromkeys(names, 0.0) | dict.fromkeys(names[:3], 1e9))


def test_a_baseline_begins_again_with_the_first_moments_after_held_out_records_do() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0, "b": 0.0}), since=1).after(sends({"a": 8.0}), since=2)
    assert (differs(baseline, {"a": 8.0}), differs(baseline, {"a": 0.0})) == (False, True)
    assert not differs(baseline, {"b": 0.0})  # until its turn the one before


def test_clients_that_send_in_turn_are_compared_with_what_was_after_the_change() -> None:
    """All moved by 8 with the change of round 2; those whose turn has come say so of the others."""
    names = [f"c{i}" for i in range(9)]
    baseline = InputBaseline().after(sends(dict.fromkeys(names, 0.0)), since=1)
    assert differs(baseline, dict.fromkeys(names[6:], 8.0))
    for turn in names[:3]:
        baseline = baseline.after(sends({turn: 8.0}), since=2)
    assert not differs(baseline, dict.fromkeys(names[6:], 8.0))
    (heat,) = baseline.moved(9, sends(dict.fromkeys(names[6:], 12.0)))
    assert (heat.before, heat.after) == (8.0, 12.0)
    liar = baseline.after(sends({"c3": 1e9}), since=2).after(sends({"c4": 8.0}), since=2)
    assert not differs(liar, dict.fromkeys(names[6:], 8.0))


def test_what_clients_show_that_begin_again_alone_is_not_taken_for_a_shift_of_all() -> None:
    names = [f"c{i}" for i in range(9)]
    baseline = InputBaseline().after(sends(dict.fromkeys(names, 20.0)), since=1)
    renewed = dict.fromkeys(names[:3], 5)
    baseline = baseline.after(sends(dict.fromkeys(names[:3], 25.0)), since=1, renewed=renewed)
    assert not differs(baseline, dict.fromkeys(names[3:], 20.0))
    assert differs(baseline, dict.fromkeys(names[3:], 25.0))


def test_means_are_over_all_values_since_then() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0}, 100), since=1).after(sends({"a": 4.0}, 300), since=1)
    assert (baseline.means[0, 0], baseline.counts[0, 0]) == (3.0, 400.0)


def test_unknown_clients_and_features_and_constant_ones_do_not_differ() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0}), since=1)
    assert baseline.moved(2, sends({"b": 9.0})) == ()
    assert baseline.moved(2, {"a": Moments.of(("heat",), np.full((50, 1), 9.0))}) == ()
    assert baseline.after({}, since=1).moved(2, sends({"a": 9.0}, feature="load")) == ()
    both = baseline.after(sends({"a": 5.0}, feature="load"), since=1)
    assert [one.feature for one in both.moved(2, sends({"a": 9.0}, feature="load"))] == ["load"]


@pytest.mark.parametrize("kind", ["independent", "heavy tails", "rare ones"])
def test_inputs_that_do_not_move_seldom_differ(kind: str) -> None:
    """In 1 of 100 rounds at most, of 20 features at 3 clients."""
    rng = np.random.default_rng(5)
    features, baseline, found = tuple(f"x{j}" for j in range(20)), InputBaseline(), 0
    for t in range(1, 501):
        X = rng.normal(size=(3, RECORDS, 20))
        if kind == "heavy tails":
            X = rng.standard_t(2, size=X.shape)
        elif kind == "rare ones":
            X = (rng.random(X.shape) < 0.02).astype(float)
        sent = {f"c{i}": Moments.of(features, X[i]) for i in range(3)}
        found += bool(baseline.moved(t, sent)) and t > 10
        baseline = baseline.after(sent, since=1)
    assert found <= 5


def test_rare_values_that_few_records_lack_do_not_differ() -> None:
    """Six clients of a federation of many, each with ten records: all may lack what one record in 16 has."""
    rng = np.random.default_rng(5)
    features, found = tuple(f"soil-{j}" for j in range(50)), 0

    def sent() -> dict[str, Moments]:
        X = (rng.random((6, 10, 50)) < 0.065) + rng.uniform(-1e-3, 1e-3, (6, 10, 50))  # sums are rounded
        return {f"c{i}": Moments.of(features, X[i]) for i in range(6)}

    for _ in range(50):
        baseline = InputBaseline()
        for _ in range(5):
            baseline = baseline.after(sent(), since=1)
        found += bool(baseline.moved(6, sent()))
    assert found <= 1


def test_a_day_and_a_walk_differ_from_what_was_before() -> None:
    """`InputsMoved` of its own is quiet here: that is the way of these features."""
    rng = np.random.default_rng(5)
    baseline, found, walk = InputBaseline(), 0, 0.0
    for t in range(1, 201):
        walk = 0.95 * walk + 0.31 * rng.normal()
        X = rng.normal(size=(3, RECORDS, 2)) + np.array([np.sin(2.0 * np.pi * t / 24.0), walk])
        sent = {f"c{i}": Moments.of(("sun", "wind"), X[i]) for i in range(3)}
        found += bool(baseline.moved(t, sent)) and t > 24
        baseline = baseline.after(sent, since=1)
    assert found > 0.7 * 176


def test_what_is_kept_is_bounded_of_members_alone_and_the_same_after_a_kill() -> None:
    many = {f"c{i}": Moments.of(("a", "b", "c", "d"), np.eye(4)) for i in range(PAIRS // 4 + 5)}
    baseline = InputBaseline().after(many, since=1)
    assert baseline.means.size <= PAIRS
    few = baseline.among({"c1", "c7"}).after(sends({"c7": 1 / 3}, feature="a"), since=1)
    assert few.clients == ("c1", "c7")
    assert few.means.shape == (2, 3)  # where there are so many clients, the first features are watched
    again = codec.join(InputBaseline, *codec.split(few))
    assert (again.features, again.clients) == (few.features, few.clients)
    assert np.array_equal(again.means, few.means, equal_nan=True)
    assert again.moved(5, sends({"c7": 9.0}, feature="a")) == few.moved(5, sends({"c7": 9.0}, feature="a"))


def test_a_mean_that_is_large_next_to_its_deviation_does_not_move_by_rounding() -> None:
    """A time in seconds, or a position in metres: steps of float32 there are larger than the deviation."""
    rng, baseline = np.random.default_rng(1), InputBaseline()
    for t in range(1, 30):
        sent = {f"c{i}": Moments.of(("when",), rng.normal(5_412_345.2, 0.1, (RECORDS, 1))) for i in range(4)}
        assert baseline.moved(t, sent) == ()
        baseline = baseline.after(sent, since=1)


@pytest.mark.parametrize("clients", [1, 4])
def test_features_that_few_records_have_do_not_move_by_chance(clients: int) -> None:
    """A first mean is of few values, and counts as such: in a round of 30 at most, of ten features."""
    rng, found, baseline = np.random.default_rng(3), 0, InputBaseline()
    features = tuple(f"x{j}" for j in range(10))
    for t in range(1, 301):
        X = rng.normal(size=(clients, 100, 10))
        X[rng.random(X.shape) > 0.05] = np.nan
        sent = {f"c{i}": Moments.of(features, X[i]) for i in range(clients)}
        found += bool(baseline.moved(t, sent))
        baseline = baseline.after(sent, since=1)
    assert found <= 10


def test_one_client_that_is_far_off_does_not_make_the_shift_of_all_large_enough() -> None:
    names = [f"c{i}" for i in range(8)]
    baseline = InputBaseline().after(sends(dict.fromkeys(names, 0.0), 4000), since=1)
    slight = dict.fromkeys(names, 0.1)
    assert baseline.moved(2, sends(slight, 4000)) == ()  # sure, but a tenth of a deviation
    assert baseline.moved(2, sends(slight | {"c0": 1e9}, 4000)) == ()
    assert baseline.moved(2, sends(dict.fromkeys(names, 0.3), 4000))


def test_a_client_whose_held_out_records_began_later_is_compared_with_those_since_then() -> None:
    baseline = InputBaseline().after(sends({"a": 0.0, "b": 0.0}), since=1)
    later = baseline.after(sends({"a": 8.0, "b": 8.0}), since=1, renewed={"b": 5})
    assert (differs(later, {"a": 8.0}), differs(later, {"b": 8.0})) == (True, False)


def test_after_an_alarm_that_inputs_explained_all_begin_again() -> None:
    baseline = replace(InputBaseline().after(sends({"a": 0.0}), since=1), explained=4)
    assert not differs(baseline.after(sends({"a": 8.0}), since=1), {"a": 8.0})
