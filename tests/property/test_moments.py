"""Moments that are merged are those of the pool."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.protocol.moments import Moments, merged, moments_of, without_outliers
from streamfl.protocol.records import Batch, Span

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
    found, expected = moments_of([batch(X, i, j) for i, j in pairwise(at)]), moments_of([batch(X, 0, len(X))])
    for name in ("count", "mean", "m2"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


def batch(X: np.ndarray, first: int, end: int) -> Batch:
    records = np.arange(first, end)
    return Batch(Span("p", first, end), records, NAMES, X[first:end], np.zeros(end - first), ("u",))


# --- values far out ----------------------------------------------------------------------------------------------


@given(TABLES)
def test_only_what_is_far_from_the_others_is_brought_nearer(X: np.ndarray) -> None:
    found = without_outliers(X)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(X))
    for j in range(3):
        there, kept = (np.sort(table[~np.isnan(table[:, j]), j]) for table in (X, found))
        changed = there != kept
        assert changed.sum() <= max(1, len(there) // 40)
        assert not changed.any() or len(there) >= 8
        np.testing.assert_array_equal(np.argsort(kept, kind="stable"), np.arange(len(kept)))


NEAR = st.sampled_from([0.0, 1.0, 2.0, 2.5]) | st.floats(-1.0, 1.0)


@given(
    st.integers(1, 100).flatmap(lambda n: arrays(np.float64, n, elements=NEAR)),
    st.lists(st.floats(-1e4, 1e4), max_size=4),
)
def test_the_bound_on_distances_from_the_median_is_the_one_defined(near: np.ndarray, far: list[float]) -> None:
    X = np.concatenate([far, near])
    n, median = len(X), np.sort(X)[(len(X) - 1) // 2]
    bound = 10.0 * np.sort(np.abs(X - median))[int((n - 1) * (1.0 - 1 / 40))]
    expected = X.clip(median - bound, median + bound) if n >= 8 and bound > 0.0 else X
    np.testing.assert_array_equal(without_outliers(np.column_stack([X, np.full(n, np.nan)]))[:, 0], expected)


@given(arrays(np.float64, (20, 1), elements=st.floats(-1.0, 1.0)), st.floats(1e3, 1e12), st.integers(0, 19))
def test_one_value_far_out_does_not_stretch_a_scale(X: np.ndarray, far: float, at: int) -> None:
    X[at] = far
    spread = without_outliers(X).std()
    # The others are within 2 of the median, and it is within 20 afterwards: sqrt(0.05 x 0.95) x 20 and their spread.
    assert spread <= 5.0 or np.unique(np.delete(X, at)).size <= 2
    nearer = without_outliers(np.where(far == X, far / 2.0, X))
    if spread <= 5.0:  # however far it is
        np.testing.assert_array_equal(nearer, without_outliers(X))


def test_values_far_out_by_hand() -> None:
    # The median of 0 .. 8, and the farthest but one 4 from it: 40 is as far as may be.
    X = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 1e6]]).T
    assert without_outliers(X)[-1].tolist() == [44.0]
    X[-1] = 44.5
    assert without_outliers(X)[-1].tolist() == [44.0]
    X[-1] = 43.5
    assert without_outliers(X) is X
    # The median of these is 0, and all but one lie within 1: 10.5 is too far, though not by the deviation alone.
    X = np.array([[-1.0] * 19 + [0.0] + [1.0] * 19 + [10.5]]).T
    assert without_outliers(X)[-1].tolist() == [10.0]


def test_where_distances_are_no_numbers_any_more_nothing_is_brought_nearer() -> None:
    X = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.7e308, -1.7e308]]).T
    assert without_outliers(X) is X  # and warns of nothing: warnings are errors in tests


def test_no_value_is_an_outlier_among_few_values_or_where_most_are_the_same() -> None:
    few = np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1e6, np.nan]]).T
    same = np.array([[0.0] * 99 + [1.0]]).T
    assert without_outliers(few) is few
    assert without_outliers(same) is same


def test_the_moments_that_a_client_sends_of_a_round_are_without_outliers() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[7, 1] = -9999.0
    assert moments_of([batch(X, 0, 200)]).variance.max() < 5.0
