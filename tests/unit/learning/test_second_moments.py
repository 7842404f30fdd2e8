"""Second moments: decayed sums by hand, changes of coordinates, and what whitened steps do not depend on."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamfl.arrays import FloatArray
from streamfl.learning import second_moments
from streamfl.learning.second_moments import RIDGE, SecondMoments, wanted
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry, change_of_coordinates, re_expression

NOTHING = SecondMoments(np.zeros((2, 2)), 0.0)


def moments(*rounds: FloatArray) -> SecondMoments:
    """Return the moments of some rounds of records."""
    seen = SecondMoments(np.zeros((rounds[0].shape[1],) * 2), 0.0)
    for Z in rounds:
        seen = seen.after([Z.T @ Z], len(Z))
    return seen


def test_a_round_of_two_thousand_leaves_0_95_of_what_was_before() -> None:
    first = NOTHING.after([np.diag([1.0, 2.0]), np.diag([3.0, 0.0])], 500)
    assert (first.total.tolist(), first.records) == ([[4.0, 0.0], [0.0, 2.0]], 500)
    second = first.after([np.eye(2)], 2000)
    assert second.total == pytest.approx(np.diag([0.95 * 4.0 + 1.0, 0.95 * 2.0 + 1.0]))
    assert second.records == pytest.approx(0.95 * 500 + 2000)
    # Decay is by records: four rounds of 500 leave as much as one of 2000.
    third = first
    for _ in range(4):
        third = third.after([], 500)
    assert third.total == pytest.approx(0.95 * first.total)


def test_the_ridge_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # C/N = diag(6, 2): the mean eigenvalue is 4, a tenth of which is added: A = diag(6.4, 2.4).
    monkeypatch.setattr(second_moments, "RIDGE", 0.1)
    seen = SecondMoments(np.diag([60.0, 20.0]), 10.0)
    assert seen.whitened(np.array([[6.4, 0.0], [2.4, 4.8]])) == pytest.approx(np.array([[1.0, 0.0], [1.0, 2.0]]))


def test_whitened_squared_loss_is_solved_by_one_step_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_moments, "RIDGE", 0.0)
    rng = np.random.default_rng(0)
    Z, W = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    slope = Z.T @ (Z @ np.zeros((4, 2)) - Z @ W) / 50
    assert -moments(Z).whitened(slope) == pytest.approx(W)


def slope_of(Z: FloatArray, W: FloatArray, y: FloatArray) -> FloatArray:
    """Return the gradient of a cross-entropy's mean."""
    P = np.exp(Z @ W)
    P /= P.sum(axis=1, keepdims=True)
    slope: FloatArray = Z.T @ (P - y) / len(Z)
    return slope


def steps(Z: FloatArray, y: FloatArray, eta: float = 2.0) -> FloatArray:
    """Return the outputs after five whitened steps from 0."""
    W = np.zeros((Z.shape[1], y.shape[1]))
    seen = moments(Z)
    for _ in range(5):
        W = W - eta * seen.whitened(slope_of(Z, W, y))
    outputs: FloatArray = Z @ W
    return outputs


def problem() -> tuple[FloatArray, FloatArray, np.random.Generator]:
    rng = np.random.default_rng(1)
    Z = np.column_stack([rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + 0.5, np.ones(300)])
    return Z, np.eye(3)[rng.integers(0, 3, 300)], rng


def test_without_the_ridge_whitened_steps_do_not_depend_on_units_or_mixtures_of_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(second_moments, "RIDGE", 0.0)
    Z, y, rng = problem()
    affine = np.eye(4)
    affine[:, :3] = rng.normal(size=(4, 3))  # every new feature is a mixture of all and the constant
    assert steps(Z @ affine, y) == pytest.approx(steps(Z, y), rel=1e-6, abs=1e-9)


def test_with_the_ridge_they_do_not_depend_on_rotations_nor_on_a_unit_of_all() -> None:
    Z, y, rng = problem()
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert steps(7.0 * Z @ rotation, y) == pytest.approx(steps(Z, y))


def test_the_less_ridge_the_less_they_depend_on_units(monkeypatch: pytest.MonkeyPatch) -> None:
    Z, y, _ = problem()
    units = np.diag([3.0, 1.0, 0.5, 1.0])
    apart = []
    for ridge in (0.1, 0.01, 0.001):
        monkeypatch.setattr(second_moments, "RIDGE", ridge)
        apart.append(float(np.abs(steps(Z @ units, y) - steps(Z, y)).max()))
    assert apart[0] > 3.0 * apart[1] > 9.0 * apart[2] > 0.0


RAW = np.random.default_rng(2).normal(size=(80, 3)) * [1.0, 5.0, 0.2] + [4.0, -3.0, 0.0]
OLD = Registry(1, ("x", "y"), ("a", "b"), np.array([1.0, -2.0]), np.array([2.0, 1.5]))
NEW = Registry(2, ("x", "y", "z"), ("a", "b", "c"), np.array([4.0, -3.0, 0.0]), np.array([1.0, 5.0, 1.0]))


def design(registry: Registry, raw: FloatArray) -> FloatArray:
    d = len(registry.features)
    return registry.design(
        [
            Batch(
                Span("p", 0, len(raw)), np.arange(len(raw)), registry.features, raw[:, :d], np.zeros(len(raw)), ("a",)
            )
        ]
    )


def test_re_expressed_moments_are_those_of_the_same_records_under_the_new_registry() -> None:
    lacking = np.column_stack([RAW[:, :2], np.zeros(len(RAW))])  # z is new, with mean 0
    rounds = lacking[:30], lacking[30:]
    again = moments(*(design(OLD, raw) for raw in rounds)).re_expressed(OLD, NEW)
    assert again.total == pytest.approx(moments(*(design(NEW, raw) for raw in rounds)).total)
    assert again.records == moments(*rounds).records


def test_a_feature_whose_scale_was_not_known_had_its_mean() -> None:
    unknown = Registry(1, ("x", "y"), ("a",), np.array([1.0, np.nan]), np.array([2.0, 1.0]))
    known = Registry(2, ("x", "y"), ("a",), np.array([3.0, -2.0]), np.array([1.0, 4.0]))
    at_the_mean = RAW[:, :2].copy()
    at_the_mean[:, 1] = -2.0
    again = moments(design(unknown, RAW)).re_expressed(unknown, known)
    assert again.total == pytest.approx(moments(design(known, at_the_mean)).total)


@pytest.mark.parametrize("glitch", [1e9, -9999.0])
def test_moments_from_a_glitch_are_dropped_when_the_feature_is_scaled_anew(glitch: float) -> None:
    stretched = Registry(1, ("x", "y"), ("a",), np.array([glitch / 8.0, 0.0]), np.array([abs(glitch) / 3.0, 1.0]))
    known = Registry(2, ("x", "y"), ("a",), np.zeros(2), np.ones(2))
    raw = np.random.default_rng(0).normal(size=(60, 2))
    raw[0, 0] = glitch
    again = moments(design(stretched, raw)).re_expressed(stretched, known)
    assert again.total[0].tolist() == [60.0, 0.0, 0.0]
    assert again.total[1:, 1:] == pytest.approx(moments(design(known, raw)).total[1:, 1:])


def test_weights_and_features_change_so_that_outputs_stay() -> None:
    W = np.random.default_rng(3).normal(size=(3, 2))
    Z = design(OLD, RAW)
    M = change_of_coordinates(OLD, NEW)
    assert (Z @ M.T) @ re_expression(OLD, NEW, 3)(W) == pytest.approx(np.column_stack([Z @ W, np.zeros(len(Z))]))


def test_before_there_are_moments_the_step_is_that_of_round_features_of_the_same_size() -> None:
    # A = (1 + ridge) |z|^2 / d I, which is what features without correlations and of one size would have.
    agreement = Agreement(OLD, squared_norm=6.0)
    slope = np.array([[1.1], [2.2], [3.3]])
    assert agreement.whitened(slope) == pytest.approx(slope * 3 / ((1.0 + RIDGE) * 6.0))
    round_ = SecondMoments(np.diag([2.0, 2.0, 2.0]), 1.0)
    assert round_.whitened(slope) == pytest.approx(agreement.whitened(slope))


@pytest.mark.parametrize(("d", "rounds"), [(512, 40), (513, 4 + 4), (2048, 4 + 4), (2049, 0)])
def test_second_moments_are_collected_the_more_rarely_the_more_features_there_are(d: int, rounds: int) -> None:
    # Rounds 1 to 4, then 8, 16, 24, 32 of the 39; or all, or none.
    assert sum(wanted(t, d) for t in range(1, 40)) == min(rounds, 39)


def test_half_of_what_a_step_is_whitened_by_is_the_round_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The past has diag(4, 0) a record, the round diag(0, 2): A = diag(2, 1), whatever the numbers of records.
    monkeypatch.setattr(second_moments, "RIDGE", 0.0)
    past = SecondMoments(np.diag([4000.0, 0.0]), 1000.0)
    during = past.beside([np.diag([0.0, 3.0]), np.diag([0.0, 3.0])], records=3, of=3)
    assert during.whitened(np.array([[2.0], [1.0]])) == pytest.approx(np.ones((2, 1)))


def test_the_round_weighs_less_where_a_part_of_its_records_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # A quarter of the round's records: an eighth of A, diag(4, 0) * 7 / 8 + diag(0, 2) / 8.
    monkeypatch.setattr(second_moments, "RIDGE", 0.0)
    during = SecondMoments(np.diag([4000.0, 0.0]), 1000.0).beside([np.diag([0.0, 6.0])], records=3, of=12)
    assert during.whitened(np.array([[3.5], [0.25]])) == pytest.approx(np.ones((2, 1)))


def test_older_records_fade_with_all_that_came_measured_or_not() -> None:
    past = SecondMoments(np.eye(2), 100.0)
    part, whole = past.after([np.eye(2)], 10, of=2000), past.after([], 0, of=2000)
    assert part.records == pytest.approx(whole.records + 10.0) == pytest.approx(95.0 + 10.0)


def test_a_first_round_is_whitened_by_its_own_moments() -> None:
    Z = problem()[0]
    slope = np.arange(4.0)[:, None]
    during = NOTHING.beside([np.eye(2)], 4, of=4)
    assert during.whitened(np.ones((2, 1))) == pytest.approx(np.full((2, 1), 4.0 / 1.05))
    during = SecondMoments(np.zeros((4, 4)), 0.0).beside([moments(Z).total], len(Z), of=len(Z))
    assert during.whitened(slope) == pytest.approx(moments(Z).whitened(slope))


@given(
    arrays(np.float64, (6, 3), elements=st.floats(-9.0, 9.0)), arrays(np.float64, (4, 3), elements=st.floats(-9, 9))
)
def test_a_step_is_at_most_twice_as_long_as_the_past_or_the_round_alone_would_have_it(
    past: FloatArray, now: FloatArray
) -> None:
    # A is at least half of either, so g^T A^-1 g is at most twice what it is for that one.
    seen, own, slope = moments(past), moments(now), np.array([[1.0], [-2.0], [3.0]])
    assume(min(np.trace(seen.total), np.trace(own.total)) > 1e-3)
    both = float((slope.T @ seen.beside([own.total], 4, of=4).whitened(slope))[0, 0])
    for alone in (seen, own):
        assert both <= 2.0 * float((slope.T @ alone.whitened(slope))[0, 0]) * (1.0 + 1e-6)


def test_the_window_is_in_records() -> None:
    assert pytest.approx(0.95) == math.exp(-2000.0 / second_moments.WINDOW)
