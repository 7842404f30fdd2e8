"""Features that moved: found soon, told once, at the clients concerned; and rarely where nothing has happened."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from streamfl.learning.drift.inputs import ENOUGH, PAIRS, Inputs, _evidence
from streamfl.machines.coordinator.close.inputs import _of_second
from streamfl.protocol.moments import Moments
from streamfl.protocol.registry import Registry
from streamfl.wire import codec

RECORDS = 20


def streams(kind: str, clients: int, d: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the values of rounds without a change, shape (records, clients, d)."""
    rng = np.random.default_rng(seed)
    level, state, t = 3.0 * rng.normal(size=(clients, d)), rng.normal(size=(clients, d)), 0
    while True:
        t += 1
        X = rng.normal(size=(RECORDS, clients, d))
        if kind == "autocorrelated":  # over some hundred records
            noise, X = X * np.sqrt(1.0 - 0.99**2), np.empty_like(X)
            for i in range(RECORDS):
                X[i] = state = 0.99 * state + noise[i]
        elif kind == "heavy tails":
            X = rng.standard_t(3, size=X.shape)
        elif kind == "day and night":
            X = X + 3.0 * (t % 24 < 12)
        elif kind == "season":
            X = X + 2.0 * np.sin(2.0 * np.pi * t / 100.0 + np.arange(d))
        elif kind == "counter":
            X = np.broadcast_to((t * RECORDS + np.arange(RECORDS))[:, None, None], X.shape)
        elif kind == "rare ones":
            X = (rng.random(X.shape) < 0.005).astype(float)
        yield X + level


def found(
    kind: str,
    rounds: int,
    clients: int = 8,
    d: int = 4,
    seed: int = 0,
    change: Callable[..., np.ndarray] | None = None,
    one_in: int = 8,
) -> list[tuple[int, str, float, tuple[str, ...]]]:
    """Return the round, feature, difference and clients of what was found; one client in so many sends its means."""
    inputs, told = Inputs(), []
    names, features = [f"c{i}" for i in range(clients)], tuple(f"x{j}" for j in range(d))
    for t, X in zip(range(1, rounds + 1), streams(kind, clients, d, seed), strict=False):
        values, all_send = X if change is None else change(t, X), t <= 4 or inputs.are_suspected
        turns = -(-clients // one_in)
        senders = range(clients) if all_send else [(t * turns + i) % clients for i in range(turns)]
        sent = {names[i]: Moments.of(features, values[:, i]) for i in senders}
        inputs, moved = inputs.after(t, sent, is_whole=len(sent) == clients)
        told += [(t, one.feature, one.after - one.before, one.clients) for one in moved]
    return told


def shifted(since: int, size: float, clients: slice, until: int = 10**9) -> Callable[..., np.ndarray]:
    def change(t: int, X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[:, clients, 0] += size * (since <= t < until)
        return X

    return change


def student(x: np.ndarray, freedom: float) -> np.ndarray:
    """Return a density that is proportional to Student's."""
    return (1.0 + x * x / freedom) ** (-0.5 * (freedom + 1.0))


@pytest.mark.parametrize("means", [6, 12, 256])
def test_evidence_has_a_mean_of_at_most_one_where_nothing_has_moved(means):
    """So false findings are at least as rare as the threshold says, if means are independent and normal."""
    off = np.sinh(np.linspace(-15.0, 15.0, 200_001))
    weight = student(off, means - 1.0) * np.gradient(off)
    e = np.exp(_evidence(off[None, :], np.full((1, 1), means - 1.0)))[:, 0]
    assert ((e * weight).sum(axis=1) / weight.sum() > 0.9).all()
    assert ((e * weight).sum(axis=1) / weight.sum() <= 1.0).all()


@pytest.mark.parametrize(
    "kind", ["independent", "autocorrelated", "heavy tails", "day and night", "season", "counter", "rare ones"]
)
def test_nothing_is_found_where_inputs_do_what_they_always_did(kind):
    assert found(kind, rounds=250) == []


@pytest.mark.parametrize("kind", ["heavy tails", "day and night", "season", "counter"])
def test_nor_is_anything_found_where_all_clients_send_means_in_every_round(kind):
    assert found(kind, rounds=200, clients=4, one_in=1) == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["independent", "autocorrelated", "heavy tails", "day and night", "season"])
@pytest.mark.parametrize("clients", [1, 4, 30])
def test_at_most_one_finding_in_a_thousand_rounds_is_false(kind, clients):
    seeds = range(1, 7)  # after one false finding there may be a second: a few seeds say little about the rate
    rounds = [{t for t, *_ in found(kind, 1000, clients, seed=seed)} for seed in seeds]
    assert sum(map(len, rounds)) <= len(seeds)


def test_a_sensor_that_moves_everywhere_is_found_within_two_rounds_and_told_once():
    ((t, feature, size, clients),) = found("independent", 200, change=shifted(100, -14.0, slice(None)))
    assert (t, feature, clients) == (101, "x0", ())
    assert size == pytest.approx(-14.0, abs=0.5)


def test_a_sensor_that_moves_at_one_client_is_told_with_its_name_in_the_round_after_its_turn():
    ((t, feature, size, clients),) = found("independent", 200, change=shifted(97, 5.0, slice(3, 4)))
    assert (t, feature, clients) == (100, "x0", ("c3",))  # client 3 sends in round 99
    assert size == pytest.approx(5.0, abs=0.7)


def test_a_level_that_is_known_already_is_not_told_again():
    assert len(found("independent", 260, change=shifted(100, 5.0, slice(None), until=180))) == 1


def test_a_small_shift_of_many_is_found_where_one_alone_would_not_be():
    many = found("independent", 160, 30, change=shifted(100, 1.0, slice(None)))
    assert many and many[0][0] <= 103
    assert found("independent", 115, 30, change=shifted(100, 1.0, slice(0, 1))) == []


def test_a_client_that_sends_nonsense_has_only_itself_named_and_ever_more_rarely():
    wild = np.random.default_rng(5)

    def lie(t: int, X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X[:, 2] = 10.0 ** wild.uniform(-3, 12) if t > 60 else X[:, 2]
        return X

    told = found("independent", 400, change=lie)
    assert {clients for *_, clients in told} <= {("c2",)}
    assert len({t for t, *_ in told}) <= 6


def test_a_drift_says_what_moved_with_it_and_what_is_found_next_to_it_names_the_drift():
    inputs, names = Inputs(), [f"c{i}" for i in range(8)]
    rng, told = np.random.default_rng(0), {}
    for t in range(1, 104):
        senders = range(8) if t == 101 else [t % 8]
        X = rng.normal(size=(RECORDS, 8, 2)) + np.array([9.0, 1.0]) * (t >= 100)
        sent = {names[i]: Moments.of(("x", "y"), X[:, i]) for i in senders}
        inputs, moved = inputs.after(t, sent, is_whole=t == 101, is_drift=t == 100)
        told[t] = [(one.feature, one.clients) for one in moved], inputs.drift_before(t)
    assert told[99] == ([], 0)
    assert told[100] == ([("x", ("c4",))], 100)  # as far as one client tells
    assert told[101] == ([("y", ())], 100)  # the other feature is known already
    assert told[102] == ([], 100)


def test_names_that_come_later_or_go_keep_their_own_baselines():
    inputs = Inputs()
    for t in range(1, 200):
        sent = {f"c{i}": Moments.of(("x",), np.full((9, 1), float(i)) + np.arange(9.0)[:, None]) for i in range(3)}
        if t > 50:
            sent["late"] = Moments.of(("y", "x"), np.arange(18.0).reshape(9, 2))
        inputs, moved = inputs.after(t, sent, is_whole=True)
        assert moved == ()
    assert inputs.among(["c1", "late"], ["c1"]).clients == ("c1", "late")
    assert inputs.features == ("x", "y")


def test_members_that_left_make_room_when_another_needs_it():
    features = tuple(f"x{j}" for j in range(PAIRS // 4))
    sent = {name: Moments.of(features, np.zeros((10, len(features)))) for name in ("a", "b", "c")}
    inputs, _ = Inputs().after(1, sent, is_whole=True)
    assert inputs.among("abc", "bc").clients == ("a", "b", "c")
    inputs, _ = inputs.after(2, {"d": sent["a"]}, is_whole=True)
    assert inputs.among("abcd", "bcd").clients == ("b", "c", "d")


def of_records(
    counts: list[int], seed: int, *, before: int = 7, shifted: bool = False
) -> list[tuple[int | str, ...]]:
    """Return the rounds and clients of what is found in rounds of so many records, after 200 equal ones."""
    rng, inputs, told = np.random.default_rng(seed), Inputs(), []
    for t, n in enumerate([before] * 200 + counts, 1):
        X = rng.normal(size=(4, n, 6)) + 5.0 * (shifted and t > 200)
        sent = {f"c{i}": Moments.of(tuple("uvwxyz"), X[i]) for i in range(4)}
        inputs, moved = inputs.after(t, sent, is_whole=True)
        told += [(t, *one.clients) for one in moved if t > 200]
    return told


def test_a_mean_of_few_records_is_not_held_against_means_of_more():
    """A mean of one record deviates 2.6 times as much as those of seven; so do those of ten next to those of 70."""
    assert [of_records([1, 2, 3, 4, 5] * 20, seed) for seed in range(8)] == [[]] * 8
    assert [of_records([10, 70, 20] * 20, seed, before=70) for seed in range(8)] == [[]] * 8


def test_a_sensor_that_moves_is_found_also_where_rounds_have_few_records():
    assert of_records([7] * 4, 0, shifted=True)[0] == (201,)
    assert of_records([6] * 4, 0, shifted=True) == []  # of fewer than ten, and than before
    assert ENOUGH == 10


def test_what_is_remembered_is_saved_without_loss():
    inputs = Inputs()
    for t in range(1, 20):
        inputs, _ = inputs.after(t, {"c": Moments.of(("x", "y"), np.array([[t * 0.1, np.nan]]))}, is_whole=True)
    plain, arrays = codec.split(inputs)
    again = codec.join(Inputs, plain, arrays)
    for name in ("sums", "entered", "gave", "common", "since"):
        assert np.array_equal(getattr(again, name), getattr(inputs, name), equal_nan=True)


def test_a_value_that_stays_equal_has_not_moved_where_its_sums_are_rounded() -> None:
    registry = Registry(1, ("snow",), (), np.array([0.01]), np.array([0.1]))
    inputs, moved = Inputs(), []
    for t in range(1, 120):
        z = -0.1 + 0.006 * (t >= 90)  # snow is 0 in each round, but the code of its sum changes
        C = 20.0 * np.array([[z * z, z], [z, 1.0]])
        inputs, found = inputs.after(t, {name: _of_second(C, registry) for name in "abcd"}, is_whole=True)
        moved += found
    assert moved == []


def test_of_a_plant_whose_sensors_depend_on_their_last_values_none_is_told_to_have_moved():
    clients, sensors, records = 30, 12, 20
    names, told = tuple(f"s{j}" for j in range(sensors)), []
    for seed in range(3):
        draws = np.random.default_rng(seed)
        inputs, x = Inputs(), np.zeros((clients, sensors))
        for t in range(1, 81):
            X = np.empty((records, clients, sensors))
            for i in range(records):
                x = X[i] = 0.7 * x + 0.714 * draws.normal(size=x.shape)
            sent = {f"m{c}": Moments.of(names, X[:, c]) for c in range(clients)}
            inputs, moved = inputs.after(t, sent, is_whole=True, is_drift=t == 45)
            told += [(seed, t, one.feature) for one in moved]
    assert told == []


def test_after_a_drift_a_move_needs_as_much_evidence_as_without_one():
    after = Inputs(drift=35)
    assert after.drift_before(36) == 35
    assert after.threshold(36) == Inputs().threshold(36) > after.threshold(35)
