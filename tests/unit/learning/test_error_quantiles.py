"""Quantiles of errors, by past errors only."""

import pytest

from streamfl.learning.error_quantiles import FEWEST, KEPT, ErrorQuantiles
from streamfl.sampling import generator


def coverage(errors):
    """Return the share of errors within the interval that was told before each."""
    quantiles, within = ErrorQuantiles(), []
    for error in errors:
        if (found := quantiles.of(0.0)) is not None:
            within.append(found[0] <= error <= found[-1])
        quantiles.learn(error)
    return sum(within) / len(within)


def normal(n):
    return generator(1, "errors").normal(size=n).tolist()


@pytest.mark.parametrize(
    "errors",
    [
        normal(2000),
        [error * (1.0 + i / 200) for i, error in enumerate(normal(2000))],  # they grow
        [error * (10.0 if i > 1000 else 1.0) for i, error in enumerate(normal(2000))],  # they jump
        [error + (30.0 if i == 0 else 0.0) for i, error in enumerate(normal(500))],  # the first one is far off
        [error**2 for error in normal(2000)],  # they are skew
    ],
    ids=["alike", "growing", "jumping", "first far off", "skew"],
)
def test_four_of_five_targets_lie_within_also_while_errors_change(errors):
    assert coverage(errors) == pytest.approx(0.8, abs=0.02)


def test_without_ten_errors_nothing_is_told_and_a_hundred_are_kept():
    quantiles = ErrorQuantiles()
    for i in range(FEWEST):
        assert quantiles.of(1.0) is None
        quantiles.learn(float(i))
    assert quantiles.of(1.0) == pytest.approx((1.1, 5.5, 9.9))
    for error in normal(300):
        quantiles.learn(error)
    assert len(quantiles.errors) == KEPT


def test_however_long_no_error_is_outside_a_level_stays_one():
    quantiles = ErrorQuantiles()
    for _ in range(300):
        quantiles.learn(1.0)
    assert quantiles.of(2.0) == (3.0, 3.0, 3.0)
    assert (min(quantiles.levels) > 0.5, max(quantiles.levels)) == (True, 1.0)


def test_restored_they_go_on_alike():
    quantiles, errors = ErrorQuantiles(), normal(200)
    for error in errors[:150]:
        quantiles.learn(error)
    again = ErrorQuantiles.restored(quantiles.errors, quantiles.levels)
    for error in errors[150:]:
        quantiles.learn(error)
        again.learn(error)
        assert again.of(0.0) == quantiles.of(0.0)
