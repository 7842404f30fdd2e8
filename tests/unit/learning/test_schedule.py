"""Algorithm 1: what is placed, how often, and which instance plays."""

import math
from collections import Counter

import numpy as np
import pytest
from unit.learning.driving import instance

from streamfl.learning.profiles.paper.schedule import PlacedInstance, active, placed, rho, rho_hat


def schedule(order: int, start: int, seed: int) -> tuple[PlacedInstance, ...]:
    return placed(order, start, np.random.default_rng(seed))


def test_rho_by_hand() -> None:
    assert [rho(t) for t in (1, 4, 16, 100)] == [1.0, 0.5, 0.25, 0.1]


def test_rho_hat_by_hand() -> None:
    # T = 8, ln(T / delta) = 4: 6 (3 + 1) 4 = 96, over sqrt(16) is 24; a tenth of it with scale 0.1.
    delta = 8.0 * math.exp(-4.0)
    assert rho_hat(16, horizon=8, delta=delta) == pytest.approx(24.0)
    assert rho_hat(16, horizon=8, delta=delta, scale=0.1) == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("order", "places", "probability"),
    [(4, 1, 1.0), (3, 2, 2**-0.5), (2, 4, 0.5), (1, 8, 2**-1.5), (0, 16, 0.25)],
)
def test_instances_of_an_order_are_placed_as_often_as_algorithm_1_says(
    order: int, places: int, probability: float
) -> None:
    # In a block of order 4: 2^(4-k) places, each taken with probability 2^(-(4-k)/2).
    seeds = 2000
    found = sum(p.order == order for seed in range(seeds) for p in schedule(4, 1, seed))
    error = math.sqrt(places * probability * (1.0 - probability) / seeds)
    assert abs(found / seeds - places * probability) <= 4.0 * error


@pytest.mark.parametrize("start", [1, 7, 16])
def test_every_place_of_an_order_is_as_likely_as_any_other(start: int) -> None:
    # Order 1 in a block of order 2: offsets 0 and 2, probability 2^-1/2 = 0.707 each; 4 errors of 1000 draws: 0.058.
    seeds = 1000
    found = Counter(p.start - start for seed in range(seeds) for p in schedule(2, start, seed) if p.order == 1)
    assert set(found) == {0, 2}
    assert all(abs(n / seeds - 2**-0.5) <= 0.058 for n in found.values())


@pytest.mark.parametrize("order", range(7))
def test_the_largest_order_is_placed_once_and_covers_the_block(order: int) -> None:
    for seed in range(50):
        largest = [p for p in schedule(order, 7, seed) if p.order == order]
        assert largest == [instance(order, 7)]


@pytest.mark.parametrize("start", [1, 2, 7, 100])
def test_offsets_count_inside_the_block(start: int) -> None:
    # Order 3: 1 + 2 + 4 + 8 = 15 places; over many seeds all are used, and no other.
    seen = {(p.order, p.start, p.end) for seed in range(200) for p in schedule(3, start, seed)}
    places = {(k, start + i * 2**k, start + (i + 1) * 2**k - 1) for k in range(4) for i in range(2 ** (3 - k))}
    assert seen == places


def test_no_place_is_taken_twice() -> None:
    for seed in range(100):
        drawn = schedule(5, 3, seed)
        assert len(set(drawn)) == len(drawn)


def test_the_schedule_is_a_function_of_the_generator() -> None:
    assert schedule(6, 1, 4) == schedule(6, 1, 4)
    assert schedule(6, 1, 4) != schedule(6, 1, 5)


def test_at_most_one_instance_of_an_order_covers_a_round() -> None:
    order = 5
    for seed in range(100):
        drawn = schedule(order, 7, seed)
        for t in range(7, 7 + 2**order):
            orders = [p.order for p in drawn if p.covers(t)]
            assert len(orders) == len(set(orders)) <= order + 1


def most_placed(rounds: int, *, horizon: int, delta: float = 0.05) -> float:
    """Return the bound on the instances placed within `rounds` rounds, held with probability 1 - delta / T.

    6 (log2 T + 1) ln(T / delta) C(t) / C(1), C(t) = t rho(t) = sqrt(t).
    """
    return rho_hat(1, horizon=horizon, delta=delta) * math.sqrt(rounds)


def test_most_placed_by_hand() -> None:
    # T = 8, ln(T / delta) = 4: 96 C(t')/C(1) with C(t) = sqrt(t): 96 within 1 round, 384 within 16.
    delta = 8.0 * math.exp(-4.0)
    assert most_placed(1, horizon=8, delta=delta) == pytest.approx(96.0)
    assert most_placed(16, horizon=8, delta=delta) == pytest.approx(384.0)


def test_most_placed_bounds_the_instances_placed_within_any_rounds() -> None:
    # delta / T = 0.05 / 500 = 1e-4 of all schedules may break it; of 200, none does.
    for seed in range(200):
        starts = np.array([p.start for p in schedule(8, 1, seed)])
        for rounds in (1, 2, 3, 10, 100, 256):
            assert np.sum(starts <= rounds) <= most_placed(rounds, horizon=500)


def test_a_placement_covers_its_first_and_last_round_and_no_other() -> None:
    four = instance(2, 5)
    assert [t for t in range(1, 12) if four.covers(t)] == [5, 6, 7, 8]
    assert four.rounds == 4


def test_the_active_instance_ends_soonest() -> None:
    # In round 5 the order 3 ends at 8, the order 2 at 8, the order 0 at 5; in round 6 order 2 wins the tie.
    drawn = (instance(3, 1), instance(2, 5), instance(0, 5))
    assert [active(drawn, t).order for t in (4, 5, 6, 8)] == [3, 0, 2, 2]


def test_of_two_that_end_together_the_smaller_is_active_in_whatever_order_they_stand() -> None:
    drawn = (instance(1, 3), instance(2, 1), instance(0, 4))
    assert active(drawn, 4).order == active(drawn[::-1], 4).order == 0
    assert active(drawn, 3).order == active(drawn[::-1], 3).order == 1


def test_an_instance_with_an_earlier_end_goes_before_a_smaller_one() -> None:
    # No schedule places them so, yet the rule is by end first: order 1 ends at 4, order 0 at 5.
    assert active((PlacedInstance(start=4, end=5, order=0), instance(1, 3)), 4).order == 1
