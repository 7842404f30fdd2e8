"""Stuck sensors: found soon, told once, and not where standing still is the way of a feature."""

import math
from collections.abc import Callable
from itertools import combinations, groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.drift.inputs import RARE
from streamfl.learning.drift.means import PAIRS
from streamfl.learning.drift.stuck_sensors import FOLLOWS, StuckSensors, evidence_of
from streamfl.protocol.moments import Moments
from streamfl.wire import codec

FEATURES = ("heat", "flow", "tilt")
Round = Callable[[np.random.Generator, int], np.ndarray]  # the values of round t, shape (records, clients, features)


def found(values: Round, rounds: int, one_in: int = 1) -> list[tuple[int, str, str, float, int]]:
    """Return round, feature, client, value and beginning of what was told; a client in so many sends its moments."""
    rng, standstill, told = np.random.default_rng(7), StuckSensors(), []
    for t in range(1, rounds + 1):
        X = values(rng, t)
        sent = {f"c{i}": Moments.of(FEATURES, X[:, i]) for i in range(X.shape[1]) if i % one_in == t % one_in}
        standstill, stuck = standstill.after(t, sent)
        told += [(t, one.feature, one.client, one.value, one.since) for one in stuck]
    return told


def noise(rng: np.random.Generator, records: int = 10, clients: int = 8) -> np.ndarray:
    return rng.normal((61.0, 14.0, 0.0), (5.0, 1.0, 0.1), size=(records, clients, 3))


def sticking(at: float, since: int, until: int = 10**9, client: int = 3) -> Round:
    def values(rng: np.random.Generator, t: int) -> np.ndarray:
        X = noise(rng)
        X[:, client, 0] = at if since <= t < until else X[:, client, 0]
        return X

    return values


@pytest.mark.parametrize("at", [61.0, 0.0, -9999.0])
def test_a_sensor_that_sticks_is_told_once_whether_at_its_mean_or_not(at):
    assert found(sticking(at, since=200), 300) == [(202, "heat", "c3", at, 200)]


def test_where_a_client_in_four_sends_moments_it_takes_four_times_as_long():
    """Client 3 sends in rounds 3, 7, ..., 199, 203, ...: it varied in 50 descriptions; C(54, 4) is 316,251."""
    assert found(sticking(61.0, since=200), 300, one_in=4) == [(215, "heat", "c3", 61.0, 203)]


def test_a_sensor_that_sticks_again_for_twice_as_long_is_told_again():
    def values(rng, t):
        return sticking(61.0, 300 if t < 900 else 900, 400 if t < 900 else 10**9)(rng, t)

    told = found(values, 1200)
    # After 500 descriptions a spell of 100 counts as one of 100 - 500 / 256 = 98.05.
    assert [(t, since) for t, _, _, _, since in told] == [(302, 300), (900 + 196, 900)]


def test_after_a_spell_was_forgotten_a_short_one_is_told_again():
    """A spell of four descriptions is forgotten after four times `FOLLOWS` in which the feature varied."""
    again = 304 + 4 * FOLLOWS

    def values(rng, t):
        return sticking(61.0, 300 if t < 400 else again, 304 if t < 400 else 10**9)(rng, t)

    assert [t for t, *_ in found(values, again + 20)] == [302, again + 2]


def rounded(rng, t):
    return np.round(noise(rng) / 10.0)  # heat varies between 5 and 7, tilt is 0


def rare_flags(rng, t):
    return (rng.random((10, 8, 3)) < (0.005, 0.03, 0.2)).astype(float)


def setpoints(rng, t):
    return np.broadcast_to(np.floor(t / np.array([20.0, 70.0, 3.0])), (10, 8, 3)).copy()


def all_equal(rng, t):
    return np.broadcast_to(np.array([7.25, 0.0, -1e9]), (10, 8, 3)).copy()


def adjusted(rng, t):
    """A setpoint that is adjusted in its first rounds, and stays."""
    return noise(rng) if t <= 19 else all_equal(rng, t)


@pytest.mark.parametrize("values", [rounded, rare_flags, setpoints, all_equal, adjusted, lambda rng, t: noise(rng)])
def test_nothing_is_told_of_what_stands_still_by_nature(values):
    assert found(values, 500) == []


def test_machines_that_stand_still_at_night_are_told_once():
    def values(rng, t):
        return noise(rng) if t % 100 < 60 else all_equal(rng, t)

    told = found(values, 800)
    assert len(told) == len({(feature, client) for _, feature, client, _, _ in told}) == 24
    assert {since for *_, since in told} == {60}


def test_a_few_records_a_round_are_counted_together():
    """Of three records a round: a tenth of a description each, and one that is equal to the one before is none."""

    def values(rng, t):
        X = noise(rng, records=3)
        X[:, 3, 0] = 61.0 if t >= 400 else X[:, 3, 0]
        return X

    ((t, *_),) = found(values, 500)
    assert 400 + 6 <= t <= 400 + 12


def test_single_records_that_differ_are_no_spell():
    assert found(lambda rng, t: noise(rng, records=1), 400) == []


def test_missing_values_and_clients_that_are_silent_change_nothing():
    before = StuckSensors().after(1, {"c0": Moments.of(("heat",), np.array([[1.0], [2.0]]))})[0]
    after = before.after(2, {"c0": Moments.of(("heat",), np.full((10, 1), np.nan))})[0]
    assert np.array_equal(before.sums, after.sums) and before.after(3, {}) == (before, ())


def test_no_more_pairs_are_watched_than_there_is_room_for_and_clients_that_leave_make_room():
    wide = {f"c{i}": Moments.of(tuple(f"x{j}" for j in range(300)), np.ones((1, 300))) for i in range(300)}
    full, _ = StuckSensors().after(1, wide)
    assert len(full.clients) * len(full.features) <= PAIRS
    assert full.among({"c1"}, {"c1"}).clients == ("c1",)


def test_it_is_saved_as_it_is():
    standstill, _ = StuckSensors().after(
        1, {"c0": Moments.of(FEATURES, np.random.default_rng(0).normal(size=(9, 3)))}
    )
    restored = codec.decode(StuckSensors, codec.encode(standstill))
    assert np.array_equal(restored.sums, standstill.sums, equal_nan=True)
    assert (restored.clients, restored.features) == (standstill.clients, standstill.features)


# --- laws ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 9), st.integers(0, 9), st.floats(1.0, 100.0))
def test_of_all_orders_of_descriptions_at_most_one_in_a_has_evidence_of_a_at_its_end(varied, still, least):
    """So a false finding is as rare as the threshold says, if the order of descriptions is chance."""
    n, reach = varied + still, 0
    orders = list(combinations(range(n), still))
    for order in orders:
        spell = next((m for m in range(n) if n - 1 - m not in order), n)
        reach += evidence_of(varied, still - spell, spell) >= math.log(least) + 1e-9
    assert reach <= len(orders) / least


descriptions = st.lists(st.tuples(st.sampled_from(["varies", "stands", "other"]), st.integers(1, 60)), max_size=12)


@given(descriptions, st.integers(0, 2**16))
def test_whatever_a_feature_does_it_is_told_at_most_as_often_as_its_longest_spell_can_double(course, seed):
    """And once more for each time that it varied long enough for spells to be forgotten."""
    rng, standstill, told, t, varied = np.random.default_rng(seed), StuckSensors(), 0, 0, 0
    course = [("varies", 200), *course]
    for what, rounds in course:
        for _ in range(rounds):
            t += 1
            X = rng.normal(size=(10, 1)) if what == "varies" else np.full((10, 1), float(what == "other"))
            standstill, stuck = standstill.after(t, {"c0": Moments.of(("x",), X)})
            told += len(stuck)
            varied += what == "varies"
    spells = [(what, sum(n for _, n in parts)) for what, parts in groupby(course, key=lambda part: part[0])]
    longest = max([rounds for what, rounds in spells if what != "varies"], default=0)
    assert told <= math.log2(max(1, longest)) + varied / FOLLOWS
    assert told == 0 or longest * math.log1p(200.0) > math.log(RARE)
