"""Moments that are merged are those of the pool."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.core.moments import Moments, merged, moments_of
from streamfl.core.records import Batch, Span

VALUES = st.floats(-1e3, 1e3) | st.just(float("nan"))
TABLES = st.integers(0, 25).flatmap(lambda n: arrays(np.float64, (n, 3), elements=VALUES))
NAMES = ("a", "b", "c")


def same(found: Moments, expected: Moments) -> None:
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.m2, expected.m2, rtol=1e-9, atol=1e-5)


@given(TABLES)
def test_moments_are_those_of_the_values_that_are_there(X: np.ndarray) -> None:
    moments = Moments.of(NAMES, X)
    for j in range(3):
        there = X[~np.isnan(X[:, j]), j]
        assert moments.count[j] == len(there)
        np.testing.assert_allclose(moments.mean[j], there.mean() if len(there) else 0.0, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moments.variance[j], there.var() if len(there) else 0.0, rtol=1e-9, atol=1e-5)


@given(TABLES, st.lists(st.integers(0, 25), max_size=4))
def test_merged_parts_are_the_pool(X: np.ndarray, cuts: list[int]) -> None:
    parts = np.split(X, sorted(min(cut, len(X)) for cut in cuts))
    same(merged([Moments.of(NAMES, part) for part in parts]), Moments.of(NAMES, X))


@given(TABLES, TABLES, TABLES)
def test_merging_is_associative_and_commutative(X: np.ndarray, Y: np.ndarray, Z: np.ndarray) -> None:
    x, y, z = (Moments.of(NAMES, table) for table in (X, Y, Z))
    same(merged([merged([x, y]), z]), merged([x, merged([y, z])]))
    same(merged([x, y, z]), merged([z, x, y]))


@given(TABLES, TABLES)
def test_parts_with_other_features_are_merged_by_name(X: np.ndarray, Y: np.ndarray) -> None:
    # The second part has c, a and d: b was never seen in it, d never in the first.
    both = merged([Moments.of(NAMES, X), Moments.of(("c", "a", "d"), Y)])
    missing = np.full((len(X), 1), np.nan)
    pool = np.concatenate(
        [np.hstack([X, missing]), np.column_stack([Y[:, 1], np.full(len(Y), np.nan), Y[:, 0], Y[:, 2]])]
    )
    assert both.features == ("a", "b", "c", "d")
    same(both, Moments.of(("a", "b", "c", "d"), pool))


@given(TABLES, st.lists(st.integers(0, 25), max_size=4))
def test_how_a_source_was_polled_leaves_no_trace(X: np.ndarray, cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(X)) for cut in cuts), len(X)]
    batches = [
        Batch(Span("p", i, j), np.arange(i, j), NAMES, X[i:j], np.zeros(j - i), ("u",)) for i, j in pairwise(at)
    ]
    found, expected = moments_of(batches), Moments.of(NAMES, X)
    for name in ("count", "mean", "m2"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
