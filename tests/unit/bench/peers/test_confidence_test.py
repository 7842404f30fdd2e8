"""The change test on confidences: what it finds, where, and how seldom it alarms on one distribution."""

import numpy as np
import pytest
from scipy.stats import beta

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.confidence_test import change_point


def drawn(seed: int, *parts: tuple[float, float, int]) -> FloatArray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.beta(a, b, size=n) for a, b, n in parts])


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_is_found_where_it_is(seed: int) -> None:
    at = change_point(drawn(seed, (8.0, 2.0, 210), (4.0, 4.0, 190)), sensitivity=0.05)
    assert at is not None
    assert abs(at - 210) <= 10


@pytest.mark.parametrize("seed", range(5))
def test_neither_a_rise_nor_too_small_a_fall_is_a_change(seed: int) -> None:
    assert change_point(drawn(seed, (4.0, 4.0, 200), (8.0, 2.0, 200)), sensitivity=0.05) is None
    fall = drawn(seed, (80.0, 20.0, 200), (74.0, 26.0, 200))  # by 7.5%
    assert change_point(fall, sensitivity=0.1) is None
    assert change_point(fall, sensitivity=0.05) is not None


def test_the_ratio_is_that_of_fitted_beta_densities() -> None:
    # Only one split has 40 on each side. The threshold lies just above, and just below, the ratio by scipy.
    x = drawn(3, (5.0, 4.0, 40), (4.0, 5.0, 40))
    parts = [x[:40], x[40:]]
    fits = []
    for part in parts:
        size = part.mean() * (1.0 - part.mean()) / part.var() - 1.0
        fits.append(beta(part.mean() * size, (1.0 - part.mean()) * size))
    ratio = float((fits[1].logpdf(x[40:]) - fits[0].logpdf(x[40:])).sum())
    least_sensitive = float(np.exp(-ratio))  # so little that the mean falls by far more
    assert parts[1].mean() < 0.95 * (1.0 - least_sensitive) * parts[0].mean()
    assert change_point(x, sensitivity=1.01 * least_sensitive, least=40) == 40
    assert change_point(x, sensitivity=0.99 * least_sensitive, least=40) is None


def test_certain_and_equal_confidences_have_finite_ratios() -> None:
    with np.errstate(all="raise"):
        assert change_point(np.ones(300), sensitivity=0.05) is None
        assert change_point(np.concatenate([np.ones(150), np.full(150, 0.5)]), sensitivity=0.05) == 150


def test_too_few_confidences_are_not_tested() -> None:
    assert change_point(np.concatenate([np.full(99, 0.99), np.full(100, 0.5)]), sensitivity=0.05) is None
