"""A change of coordinates changes no prediction."""

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import FARTHEST_UNSCALED, TargetUnit, re_expression
from streamfl.protocol.registry import Registry as Clipping

# What is clipped does change, so here nothing is.
Registry = partial(Clipping, farthest=FARTHEST_UNSCALED)

OLD, NEW = ("a", "b", "c"), ("d", "e")
NUMBERS = st.floats(-20.0, 20.0)
SCALES = st.floats(0.05, 20.0)
UNITS = st.builds(TargetUnit, NUMBERS, SCALES)


def registries(d: int) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    return st.tuples(arrays(np.float64, d, elements=NUMBERS), arrays(np.float64, d, elements=SCALES))


TABLES = arrays(np.float64, (6, 5), elements=NUMBERS | st.just(float("nan")))


def batch(features: tuple[str, ...], X: np.ndarray) -> Batch:
    return Batch(Span("p", 0, len(X)), np.arange(len(X)), features, X, np.zeros(len(X)), ("u",))


@given(TABLES, arrays(np.float64, (4, 2), elements=NUMBERS), registries(3), registries(5), st.integers(0, 2))
def test_no_output_changes_when_features_labels_and_scaler_change(
    X: np.ndarray, W: np.ndarray, before: tuple, after: tuple, labels: int
) -> None:
    # What is missing stays missing only where it is read as the same value: so nothing is missing here of the old.
    X = np.column_stack([np.nan_to_num(X[:, :3]), X[:, 3:]])
    old = Registry(1, OLD, ("u", "v"), *before)
    new = Registry(2, OLD + NEW, ("u", "v", "w", "x")[: 2 + labels], *after)
    changed = re_expression(old, new, 2 + labels)(W)
    assert changed.shape == (6, 2 + labels)
    outputs = old.design([batch(OLD, X[:, :3])]) @ W
    again = new.design([batch(OLD + NEW, X)]) @ changed
    np.testing.assert_allclose(again[:, :2], outputs, rtol=1e-9, atol=1e-9 * size(old, new, X, W))
    np.testing.assert_array_equal(again[:, 2:], 0.0)


def size(old: Clipping, new: Clipping, X: np.ndarray, W: np.ndarray) -> float:
    """Return how large the numbers are that cancel in an output."""
    reach = (np.abs(np.nan_to_num(X)).max() + np.abs(old.mean).max() + np.abs(new.mean).max()) / old.scale.min()
    return float(max(1.0, reach * np.abs(W).max()))


@given(TABLES, arrays(np.float64, (4, 1), elements=NUMBERS), registries(3), registries(3), UNITS, UNITS)
def test_no_target_changes_when_its_unit_changes(
    X: np.ndarray, W: np.ndarray, before: tuple, after: tuple, unit: TargetUnit, other: TargetUnit
) -> None:
    rows = [batch(OLD, np.nan_to_num(X[:, :3]))]
    old, new = Registry(1, OLD, (), *before, unit), Registry(2, OLD, (), *after, other)
    changed = re_expression(old, new, 1)(W)
    told = (old.design(rows) @ W) * unit.scale + unit.centre
    again = (new.design(rows) @ changed) * other.scale + other.centre
    np.testing.assert_allclose(again, told, rtol=1e-9, atol=1e-8 * size(old, new, X, W))


@given(arrays(np.float64, (4, 2), elements=NUMBERS), registries(3), registries(3), registries(5))
def test_two_changes_of_a_registry_are_one(W: np.ndarray, first: tuple, second: tuple, third: tuple) -> None:
    a, b = Registry(1, OLD, ("u", "v"), *first), Registry(2, OLD, ("u", "v"), *second)
    c = Registry(3, OLD + NEW, ("u", "v", "w"), *third)
    steps = re_expression(b, c, 3)(re_expression(a, b, 2)(W))
    at_once = re_expression(a, c, 3)(W)
    np.testing.assert_allclose(steps, at_once, rtol=1e-9, atol=1e-6)


@given(TABLES, registries(5), st.permutations(range(5)), st.sets(st.integers(0, 4), max_size=3))
def test_a_design_matrix_goes_by_the_names_of_features(
    X: np.ndarray, scaler: tuple, order: list[int], vanished: set[int]
) -> None:
    # Columns in another order, some gone, one more that nobody registered: the same design with means in the gaps.
    names = OLD + NEW
    registry = Registry(1, names, ("u",), *scaler)
    there = [j for j in order if j not in vanished]
    columns = np.column_stack([X[:, there], np.full(6, 7.0)])
    found = registry.design([batch((*(names[j] for j in there), "unknown"), columns)])
    expected = np.array(X)
    expected[:, sorted(vanished)] = np.nan
    z = np.nan_to_num((expected - registry.mean) / registry.scale, nan=0.0)
    np.testing.assert_allclose(found[:, :-1], z, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found[:, -1], 1.0)
