"""Paired differences: by hand, and how often the interval holds the truth when records are alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from river_peers.paired import difference


def test_the_interval_of_a_paired_difference_is_the_one_computed_by_hand() -> None:
    a = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    b = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    # Means of three batches: 1, -1/2, 1/2; their standard deviation 0.7638, divided by sqrt(3): 0.4410; t(0.975, 2)
    # is 4.3027, so half the interval is 1.8973.
    found = difference(a, b, batches=3)
    assert found.mean == pytest.approx(1 / 3)
    assert found.high == pytest.approx(1 / 3 + 1.8973, abs=1e-4)
    assert found.low == pytest.approx(1 / 3 - 1.8973, abs=1e-4)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=30, max_size=200))
def test_a_paired_difference_the_other_way_round_is_the_negative(pairs: list[tuple[bool, bool]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    one, other = difference(a, b), difference(b, a)
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))


def test_the_interval_holds_the_truth_as_often_as_it_says_though_neighbours_are_alike() -> None:
    rng = np.random.default_rng(5)
    held = independent = 0
    trials, n = 400, 6000
    for _ in range(trials):
        # Whoever is right stays right for 20 records; the true difference is 0.
        a, b = (np.repeat(rng.random(n // 20) < 0.7, 20).astype(float) for _ in range(2))
        found = difference(a, b)
        held += found.low <= 0.0 <= found.high
        independent += abs(found.mean) <= 1.96 * (a - b).std() / np.sqrt(n)
    assert 0.92 <= held / trials <= 0.98
    assert independent / trials < 0.6  # taken for independent, the records would promise far too much


def test_too_few_records_for_the_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="29 records"):
        difference(np.ones(29), np.zeros(29))
