"""Sums that no order can change."""

import itertools

import numpy as np
import pytest

from streamfl.errors import PeerError
from streamfl.learning.fixed_point import largest_part, weighted_mean


def test_the_weighted_mean_is_the_one_computed_by_hand() -> None:
    # (2 * 1 + 3 * 6) / 5 = 4 and (2 * 0.5 - 3 * 0.5) / 5 = -0.1.
    mean = weighted_mean([(2, np.array([[1.0, 0.5]])), (3, np.array([[6.0, -0.5]]))])
    np.testing.assert_array_equal(mean, [[4.0, -0.1]])


def test_the_mean_of_one_part_is_that_part_to_the_grid() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    np.testing.assert_allclose(weighted_mean([(7, x)]), x, rtol=0, atol=2.0**-33 / 7)


def test_products_are_rounded_to_multiples_of_2_to_the_minus_32() -> None:
    # 2^-34 is less than half a step and vanishes; 3 * 2^-34 is three quarters of one, and rounds up to it.
    small = np.array([2.0**-34, 3.0 * 2.0**-34])
    np.testing.assert_array_equal(weighted_mean([(1, small)]), [0.0, 2.0**-32])


def test_no_permutation_changes_a_bit() -> None:
    rng = np.random.default_rng(1)
    parts = [(int(rng.integers(1, 500)), rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-8, 5)) for _ in range(5)]
    bits = {weighted_mean(order).tobytes() for order in itertools.permutations(parts)}
    assert len(bits) == 1


def test_a_float_sum_would_depend_on_the_order() -> None:
    # So that the test above can fail: the same kind of parts, added as floats.
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-8, 5) for _ in range(5)]
    assert len({np.sum(order, axis=0).tobytes() for order in itertools.permutations(parts)}) > 1


@pytest.mark.parametrize(
    "parts",
    [
        [(1, np.array([0.0, 2.0**30]))],
        [(1, np.array([-(2.0**31)]))],
        [(1024, np.array([2.0**20]))],
        [(1, np.array([2.0**29])), (1, np.array([2.0**29]))],  # each fits, their sum does not
        [(1, np.array([2.0**29])), (1, np.array([-(2.0**29)]))],  # nor when they would cancel
        [(1, np.array([np.inf]))],
        [(1, np.array([np.nan]))],
    ],
)
def test_a_number_that_does_not_fit_into_fixed_point_is_refused(parts: list[tuple[int, np.ndarray]]) -> None:
    with pytest.raises(PeerError, match="overflows"):
        weighted_mean(parts)


def test_the_largest_number_that_fits_is_its_own_mean() -> None:
    x = np.array([2.0**30 - 1.0])
    np.testing.assert_array_equal(weighted_mean([(1, x)]), x)


def test_a_weighted_mean_of_no_parts_is_refused() -> None:
    with pytest.raises(PeerError, match="no client"):
        weighted_mean([])


def test_the_mean_of_arrays_without_numbers_is_one_without_numbers() -> None:
    np.testing.assert_array_equal(weighted_mean([(1, np.zeros((2, 0))), (2, np.zeros((2, 0)))]), np.zeros((2, 0)))


def test_the_largest_part_by_hand() -> None:
    # Half of 2^62 / 2^32, so that rounding cannot reach the limit: 2^29, shared by 4 clients of 8 records: 2^24.
    assert largest_part(8, 4) == 2.0**24
    assert largest_part(0, 1) == 2.0**29


def test_parts_below_the_bound_can_be_added_and_one_at_the_bound_is_not_below_it() -> None:
    for weights in ((5,), (1, 1000), (3, 7, 20, 100)):
        parts = [(n, np.array([0.999 * largest_part(n, len(weights))])) for n in weights]
        mean = weighted_mean(parts)
        np.testing.assert_allclose(mean, sum(n * x for n, x in parts) / sum(weights), rtol=1e-12)
        with pytest.raises(PeerError, match="overflows"):
            weighted_mean([(n, np.array([2.001 * largest_part(n, len(weights))])) for n in weights])
