"""The registry by hand: scaler, design, targets, names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.usable import unusable
from streamfl.machines.coordinator.saved.agreement import middle_unit
from streamfl.protocol.messages import ModelPublished
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import (
    Registry,
    TargetUnit,
    change_of_coordinates,
    ordered,
    placed_columns,
    re_expression,
    widened,
)
from streamfl.protocol.time_features import CYCLES
from streamfl.records.values.time_features import TimeFeatures

REGISTRY = Registry(3, ("a", "b"), ("u", "v"), np.array([1.0, 10.0]), np.array([2.0, 5.0]))
NAN = float("nan")


def batch(
    features: tuple[str, ...], X: list[list[float]], y: list[float] | None = None, labels: tuple[str, ...] = ()
) -> Batch:
    n = len(X)
    columns = np.array(X).reshape(n, len(features))
    return Batch(Span("p", 0, n), np.arange(n), features, columns, np.array(y or [0.0] * n), labels)


def test_a_change_of_coordinates_takes_every_record_from_one_registry_to_another() -> None:
    X = [[5.0, 0.0], [-3.0, 15.0], [NAN, 2.0]]
    new = Registry(4, ("a", "b", "c"), ("u", "v"), np.array([0.5, -2.0, 9.0]), np.array([4.0, 0.9, 1.0]))
    old_Z, new_Z = (registry.design([batch(("a", "b"), X[:2])]) for registry in (REGISTRY, new))
    np.testing.assert_allclose(old_Z @ change_of_coordinates(REGISTRY, new).T, new_Z, atol=1e-12)
    # Second moments follow.
    M = change_of_coordinates(REGISTRY, new)
    np.testing.assert_allclose(M @ (old_Z.T @ old_Z) @ M.T, new_Z.T @ new_Z, atol=1e-9)


def test_labels_seen_first_get_columns_of_zeros() -> None:
    np.testing.assert_array_equal(widened(np.ones((2, 1)), 3), [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(widened(np.ones((2, 3)), 3), np.ones((2, 3)))


def test_a_design_by_hand() -> None:
    # (5 - 1) / 2 = 2, (0 - 10) / 5 = -2, and the constant; a missing value is the mean, so 0.
    Z = REGISTRY.design([batch(("a", "b"), [[5.0, 0.0], [NAN, 15.0]]), batch(("a", "b"), [[1.0, NAN]])])
    np.testing.assert_array_equal(Z, [[2.0, -2.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])


def test_a_design_of_batches_with_other_features() -> None:
    # Reordered; without a; with a stranger; without any.
    Z = REGISTRY.design(
        [
            batch(("b", "a"), [[0.0, 5.0]]),
            batch(("b",), [[20.0]]),
            batch(("new", "a"), [[99.0, 3.0]]),
            batch((), [[]]),
        ]
    )
    np.testing.assert_array_equal(Z, [[2.0, -2.0, 1.0], [0.0, 2.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])


def test_a_design_leaves_the_records_as_they_were() -> None:
    records = batch(("a", "b"), [[5.0, NAN]])
    REGISTRY.design([records])
    np.testing.assert_array_equal(records.X, [[5.0, NAN]])


def test_a_design_of_no_batches_has_no_rows() -> None:
    assert REGISTRY.design([]).shape == (0, 3)
    assert REGISTRY.targets([], ("u",)).shape == (0,)


def test_targets_are_label_indices_by_name() -> None:
    parts = [
        batch(("a",), [[0.0]] * 3, [0.0, 1.0, 0.0], ("v", "u")),
        batch(("a",), [[0.0]] * 2, [0.0, 1.0], ("u", "v")),
        batch(("a",), [[0.0]], [1.0], ("u", "w")),
    ]
    np.testing.assert_array_equal(REGISTRY.targets(parts, ("u", "v", "w")), [1.0, 0.0, 1.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(REGISTRY.targets(parts[1:2], ("u", "v")), [0.0, 1.0])
    np.testing.assert_array_equal(REGISTRY.targets(parts[:1], ("u", "v")), [1.0, 0.0, 1.0])


def test_targets_of_a_regression_are_in_the_registrys_unit() -> None:
    unit = REGISTRY.in_unit(TargetUnit(centre=10.0, scale=4.0))
    np.testing.assert_array_equal(unit.targets([batch(("a",), [[0.0]] * 2, [18.0, 2.0])], ()), [2.0, -2.0])


def test_a_scaler_by_hand() -> None:
    # 1 and 3: mean 2, deviation 1; 10 and 50: 30 and 20; in whatever order the moments name them.
    moments = Moments.of(("b", "a"), np.array([[10.0, 1.0], [50.0, 3.0]]))
    scaled = REGISTRY.scaled_by(moments)
    np.testing.assert_array_equal(scaled.mean, [2.0, 30.0])
    np.testing.assert_array_equal(scaled.scale, [1.0, 20.0])
    assert scaled.version == 4


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -1e-9])
def test_a_constant_column_is_only_centred(value: float) -> None:
    column = np.full((1000, 1), value)
    registry = Registry(1, ("a",), (), np.zeros(1), np.ones(1)).scaled_by(Moments.of(("a",), column))
    assert registry.scale[0] == 1.0
    Z = registry.design([Batch(Span("p", 0, 1000), np.arange(1000), ("a",), column, np.zeros(1000))])
    np.testing.assert_allclose(Z[:, 0], 0.0, atol=1e-6)


def test_a_column_that_was_never_seen_has_no_scale_and_its_values_count_as_missing() -> None:
    registry = REGISTRY.scaled_by(Moments.of(("a", "b"), np.array([[NAN, 1.0], [NAN, 3.0]])))
    assert registry.unscaled == ("a",)
    assert (registry.mean[1], registry.scale[1]) == (2.0, 1.0)
    np.testing.assert_array_equal(registry.design([batch(("a", "b"), [[1e6, 5.0]])]), [[0.0, 3.0, 1.0]])


def test_only_the_named_features_follow_when_the_others_are_frozen() -> None:
    grown = REGISTRY.grown(("c",), ())
    scaled = grown.scaled_by(Moments.of(("a", "c"), np.array([[5.0, 1.0], [9.0, 3.0]])), only=("c",))
    np.testing.assert_array_equal(scaled.mean, [1.0, 10.0, 2.0])
    np.testing.assert_array_equal(scaled.scale, [2.0, 5.0, 1.0])


def test_features_of_the_time_are_only_centred() -> None:
    # 0.4 and 0.6 deviate by 0.1. Values of another feature of that name, -100 and 300, deviate by 200.
    features = ("season sin", "hour cos", "x")
    moments = Moments.of(features, np.array([[0.4, -100.0, 0.4], [0.6, 300.0, 0.6]]))
    scaled = Registry(1, features, (), np.zeros(3), np.ones(3)).scaled_by(moments)
    np.testing.assert_allclose(scaled.mean, [0.5, 100.0, 0.5])
    np.testing.assert_allclose(scaled.scale, [1.0, 200.0, 0.1])


@given(st.lists(st.floats(0.0, 4e9), min_size=1, max_size=9), st.floats(0.0, 4e9))
def test_features_of_the_time_are_never_far_out_whatever_times_came_first(first: list[float], later: float) -> None:
    """They lie between -1 and 1, so at most 2 from their mean."""
    times = TimeFeatures(CYCLES, "at")
    new = Registry(1, times.names, (), np.zeros(6), np.ones(6))
    registry = new.scaled_by(Moments.of(times.names, times.of(np.array(first))))
    z = registry.design([batch(times.names, times.of(np.array([later])).tolist())])[0, :-1]
    assert np.abs(z).max() <= 2.0 + 1e-9


def test_new_names_are_appended() -> None:
    grown = REGISTRY.grown(("c",), ("w",))
    assert (grown.version, grown.features, grown.labels) == (4, ("a", "b", "c"), ("u", "v", "w"))
    np.testing.assert_array_equal(grown.mean, [1.0, 10.0, NAN])
    np.testing.assert_array_equal(REGISTRY.grown(("c",), (), mean=0.0).mean, [1.0, 10.0, 0.0])
    np.testing.assert_array_equal(grown.scale, [2.0, 5.0, 1.0])
    assert grown.rows == 4


def test_unknown_features_are_named_once_in_order() -> None:
    parts = [batch(("z", "a"), [[0.0, 0.0]]), batch(("y", "z"), [[0.0, 0.0]]), batch(("a", "b"), [[0.0, 0.0]])]
    assert REGISTRY.unknown_features(parts) == ("y", "z")
    assert REGISTRY.unknown_features([]) == ()


def test_a_column_without_a_value_is_no_feature_however_the_records_were_polled() -> None:
    later = [batch(("a", "z"), [[0.0, NAN]]), batch(("a", "z"), [[0.0, NAN], [1.0, 2.0]])]
    assert REGISTRY.unknown_features(later[:1]) == ()
    assert REGISTRY.unknown_features([later[0], later[1].head(1)]) == ()
    assert REGISTRY.unknown_features(later) == ("z",)


def test_a_change_of_scaler_by_hand() -> None:
    # z = (x - 1) / 2 with weight 3 and intercept 1: 3 (x - 1) / 2 + 1. With z' = (x - 5) / 4: w' = 3 * 4 / 2 = 6,
    # b' = 1 + 3 (5 - 1) / 2 = 7: 6 (x - 5) / 4 + 7 is the same.
    old = Registry(1, ("a",), ("u",), np.array([1.0]), np.array([2.0]))
    new = Registry(2, ("a",), ("u",), np.array([5.0]), np.array([4.0]))
    np.testing.assert_array_equal(re_expression(old, new, 1)(np.array([[3.0], [1.0]])), [[6.0], [7.0]])


def test_what_an_old_scale_moved_as_far_out_as_may_be_was_a_constant() -> None:
    # Of one value, 1e9, no scale is known: all that came after was 50 below it, and 3 * -50 + 1 told of it.
    old = Registry(1, ("a", "b"), ("u",), np.array([1e9, 0.0]), np.ones(2))
    new = Registry(2, ("a", "b"), ("u",), np.array([2.0, 0.0]), np.ones(2))
    W = np.array([[3.0], [2.0], [1.0]])
    changed = re_expression(old, new, 1)(W)
    np.testing.assert_array_equal(changed, [[0.0], [2.0], [-149.0]])
    batches = [batch(("a", "b"), [[2.0, 5.0]])]
    np.testing.assert_array_equal(new.design(batches) @ changed, old.design(batches) @ W)
    np.testing.assert_array_equal(change_of_coordinates(old, new), np.diag([0.0, 1.0, 1.0]))


@pytest.mark.parametrize("far", [49.0, 51.0, 1e9, -1e9])
def test_a_value_farther_than_fifty_deviations_is_that_far_out(far: float) -> None:
    Z = REGISTRY.design([batch(("a", "b"), [[1.0 + 2.0 * far, 10.0]])])
    np.testing.assert_array_equal(Z, [[np.clip(far, -50.0, 50.0), 0.0, 1.0]])


def test_a_change_of_unit_by_hand() -> None:
    # Outputs in units of 2 about 10: weight 3, intercept 1: 6 z + 12. In units of 4 about 20: 1.5 z - 2.
    old = Registry(1, ("a",), (), np.zeros(1), np.ones(1), TargetUnit(10.0, 2.0))
    new = old.in_unit(TargetUnit(20.0, 4.0))
    np.testing.assert_array_equal(re_expression(old, new, 1)(np.array([[3.0], [1.0]])), [[1.5], [-2.0]])


def test_new_features_and_labels_begin_with_zeros_between_the_old_and_the_intercept() -> None:
    old = Registry(1, ("a",), ("u",), np.zeros(1), np.ones(1))
    changed = re_expression(old, old.grown(("b", "c"), ("v",)), 2)(np.array([[3.0], [1.0]]))
    np.testing.assert_array_equal(changed, [[3.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])


def test_the_target_unit_is_robust() -> None:
    # Median 3; deviations 2, 1, 0, 1, 97: median 1.
    assert TargetUnit.of(np.array([1.0, 2.0, 3.0, 4.0, 100.0])) == TargetUnit(3.0, 1.4826)
    # More than half alike: the deviation instead, here sqrt(3/16) 4.
    assert TargetUnit.of(np.array([5.0, 5.0, 5.0, 9.0])) == TargetUnit(5.0, pytest.approx(3.0**0.5))
    assert TargetUnit.of(np.array([5.0, 5.0])) == TargetUnit(5.0, 1.0)
    assert TargetUnit.of(np.array([])) == TargetUnit(0.0, 1.0)


def test_labels_are_ordered_as_numbers_if_all_are() -> None:
    assert ordered({"10", "9", "-3"}) == ("-3", "9", "10")
    assert ordered({"10", "9", "a"}) == ("10", "9", "a")
    assert ordered({"nan", "10", "9"}) == ("10", "9", "nan")
    assert ordered(()) == ()


def test_columns_are_placed_where_their_feature_is() -> None:
    wide = placed_columns(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([3, 1]), 4)
    np.testing.assert_array_equal(wide, [[0.0, 2.0, 0.0, 1.0], [0.0, 4.0, 0.0, 3.0]])


def test_the_deviation_of_targets_far_from_0_is_not_that_of_rounding():
    assert TargetUnit.of(np.full(7, 1e9 + 0.1)) == TargetUnit(1e9 + 0.1, 1.0)


def test_a_client_measures_targets_in_its_own_unit_where_none_is_agreed_on():
    unknown = Registry(1, (), (), np.zeros(0), np.ones(0), TargetUnit(0.0, 0.0))
    y = np.array([1000.0, 1001.0, 1002.0])
    records = RoundRecords.of([Batch(Span("p", 0, 3), np.arange(3), (), np.zeros((3, 0)), y)], unknown)
    assert records.registry.target == TargetUnit(1001.0, 1.4826)
    assert records.y == pytest.approx(np.array([-1.0, 0.0, 1.0]) / 1.4826)
    # So its models are in what becomes the unit when the round has ended: they stay as they are.
    change = re_expression(unknown, unknown.in_unit(TargetUnit(1001.0, 1.4826)), 1)
    assert change(np.array([[0.25]])).tolist() == [[0.25]]
    assert re_expression(unknown, unknown.in_unit(TargetUnit(0.0, 0.0)), 1)(np.array([[0.25]])).tolist() == [[0.25]]


def test_nobody_knows_a_unit_who_has_no_records():
    assert not middle_unit([(0, TargetUnit()), (0, TargetUnit())]).is_known
    assert middle_unit([(0, TargetUnit()), (3, TargetUnit(5.0, 2.0))]) == TargetUnit(5.0, 2.0)


def test_weights_stay_within_what_clients_take_however_far_a_record_moves_the_scale():
    old = Registry(1, ("x", "y"), ("a",), np.zeros(2), np.array([1e-300, 1.0]))
    new = Registry(2, ("x", "y"), ("a",), np.array([0.0, 1e100]), np.array([1e100, 1e100]))
    W = np.array([[0.0], [-1e5], [1.0]])
    for _ in range(3):  # they are carried on from round to round
        W = re_expression(old, new, 1)(W)
    assert np.isfinite(W).all()
    assert unusable(ModelPublished(slot="m", version=1, registry=2, weights=W), None) is None
