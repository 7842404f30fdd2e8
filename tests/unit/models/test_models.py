"""The losses: gradients, scores, probabilities."""

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.model import Model, gradient, objective
from streamfl.models import Linear, Logistic, Softmax


def scores_of(model: Model, outputs: np.ndarray, y: np.ndarray, labels: int) -> np.ndarray:
    return model.scores(model.losses(outputs, y), labels)


RNG = np.random.default_rng(0)
Z = np.column_stack([RNG.normal(size=(30, 3)), np.ones(30)])

MODELS = {
    "softmax": (Softmax(), 4, RNG.integers(0, 4, 30).astype(float)),
    "logistic": (Logistic(), 1, RNG.integers(0, 2, 30).astype(float)),
    "squared": (Linear(), 1, RNG.normal(size=30)),
    "huber": (Linear(loss="huber", delta=1.0), 1, 3.0 * RNG.normal(size=30)),
}


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_against_finite_differences(name: str, l2: float) -> None:
    model, columns, y = MODELS[name]
    W = np.random.default_rng(1).normal(size=(4, columns))
    slope = gradient(model, W, Z, y, l2=l2)
    assert slope.shape == W.shape
    for at in np.ndindex(*W.shape):
        h = np.zeros_like(W)
        h[at] = 1e-6
        ahead, behind = (objective(model, W + s * h, Z, y, l2=l2) for s in (1.0, -1.0))
        assert slope[at] == pytest.approx((ahead - behind) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_losses_and_derivatives_computed_at_once_are_those_computed_singly(name: str) -> None:
    model, columns, y = MODELS[name]
    outputs = np.random.default_rng(7).normal(size=(30, columns))
    losses, derivative = model.losses_and_derivative(outputs, y)
    np.testing.assert_array_equal(losses, model.losses(outputs, y))
    np.testing.assert_array_equal(derivative, model.derivative(outputs, y))


@pytest.mark.parametrize("among_equals", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_several_models_are_scored_at_once_as_each_alone(name: str, among_equals: bool) -> None:
    model, columns, y = MODELS[name]
    drawn = np.random.default_rng(2).normal(size=(3, columns, 30))
    outputs = np.round(drawn) if among_equals else drawn  # whole numbers: many records have two largest ones
    found = model.score_all(outputs, y, 4, [2, 0])
    for i, own in enumerate(outputs):
        losses = model.losses(own.T, y)
        np.testing.assert_array_equal(found.prediction(i), model.predict(own.T))
        np.testing.assert_array_equal(found.scores[i], model.scores(losses, 4))
        np.testing.assert_array_equal(found.proper[i], model.proper_scores(own.T, y, losses, 4))
    np.testing.assert_array_equal(found.derivatives[0], model.derivative(outputs[2].T, y).T)


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_convex_along_a_line(name: str) -> None:
    model, columns, y = MODELS[name]
    A, B = np.random.default_rng(2).normal(size=(2, 4, columns)) * 5.0
    ends = 0.5 * (objective(model, A, Z, y) + objective(model, B, Z, y))
    assert objective(model, 0.5 * (A + B), Z, y) < ends


@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_log_likelihoods_are_minus_the_loss_of_each_label(spread: float) -> None:
    outputs = spread * np.random.default_rng(8).normal(size=(30, 4))
    logs = Softmax().log_likelihoods(outputs)
    for label in range(4):
        np.testing.assert_allclose(-logs[:, label], Softmax().losses(outputs, np.full(30, float(label))), atol=1e-9)
    assert np.exp(logs).sum(axis=1) == pytest.approx(np.ones(30))


@pytest.mark.parametrize("model", [Logistic(), Linear()])
def test_a_single_column_stands_for_no_label(model: Model) -> None:
    assert model.log_likelihoods(np.ones((5, 1))).shape == (5, 0)


def test_the_penalty_by_hand() -> None:
    # l2/2 |W|^2 with l2 = 0.5, |W|^2 = 9 + 16: 6.25; its gradient is 0.5 W. The loss: (7 - 7)^2 / 2 = 0.
    W, z, y = np.array([[3.0], [4.0]]), np.ones((1, 2)), np.array([7.0])
    assert objective(Linear(), W, z, y, l2=0.5) == 6.25
    np.testing.assert_array_equal(gradient(Linear(), W, z, y, l2=0.5), [[1.5], [2.0]])


def test_a_softmax_by_hand() -> None:
    # Outputs ln(6, 3, 1): p = 0.6, 0.3, 0.1. Label 1: loss -ln 0.3, derivative p - e_1.
    outputs, y = np.log([[6.0, 3.0, 1.0]]), np.array([1.0])
    assert Softmax().losses(outputs, y) == pytest.approx(-np.log(0.3))
    np.testing.assert_allclose(Softmax().derivative(outputs, y), [[0.6, -0.7, 0.1]], atol=1e-15)
    # K = 3: -ln 0.3 / (2 ln 3).
    assert scores_of(Softmax(), outputs, y, 3) == pytest.approx(-np.log(0.3) / np.log(9.0))


def test_a_proper_score_is_a_third_error_and_the_rest_a_score_that_is_clipped_later() -> None:
    # p = 0.6, 0.3, 0.1 of K = 3, label 1: wrong, and -ln 0.3 of 4 ln 3. By 3^3 and 3^5 to 1 against it, it loses some
    # 3 ln 3 and 5 ln 3 nats: three quarters, and all. Label 0 is right.
    outputs = np.array([np.log([6.0, 3.0, 1.0]), [np.log(3.0**3), 0.0, -99.0], [np.log(3.0**5), 0.0, -99.0]])
    y = np.ones(3)
    losses = Softmax().losses(outputs, y)
    np.testing.assert_allclose(Softmax().scores(losses, 3)[1:], 1.0)
    first = -np.log(0.3) / (4.0 * np.log(3.0))
    second = 3.0 / 4.0 + np.log(28.0 / 27.0) / (4.0 * np.log(3.0))
    proper = Softmax().proper_scores(outputs, y, losses, 3)
    np.testing.assert_allclose(proper, (1.0 + 2.0 * np.array([first, second, 1.0])) / 3.0)
    right = Softmax().losses(outputs, np.zeros(3))
    proper = Softmax().proper_scores(outputs, np.zeros(3), right, 3)
    np.testing.assert_allclose(proper, 2.0 / 3.0 * right / (4.0 * np.log(3.0)))


def test_proper_scores_of_a_logistic_are_those_of_a_softmax() -> None:
    margin = np.array([[-9.0], [-1.0], [0.5], [3.0], [9.0]])
    two = np.hstack([np.zeros_like(margin), margin])
    for y in (np.zeros(5), np.ones(5)):
        one, other = (
            model.proper_scores(outputs, y, model.losses(outputs, y), 2)
            for model, outputs in ((Logistic(), margin), (Softmax(), two))
        )
        np.testing.assert_allclose(one, other, atol=1e-15)


def test_a_target_has_no_error_but_its_score() -> None:
    outputs, y = np.array([[1.0], [5.0]]), np.zeros(2)
    losses = Linear().losses(outputs, y)
    np.testing.assert_array_equal(Linear().proper_scores(outputs, y, losses, 0), Linear().scores(losses, 0))


def of_two(p: FloatArray, label: float) -> FloatArray:
    """Return the proper scores of a model that gives the probabilities p to label 1."""
    outputs = np.log(np.column_stack([1.0 - p, p]))
    y = np.full(len(p), label)
    return Softmax().proper_scores(outputs, y, Softmax().losses(outputs, y), 2)


@pytest.mark.parametrize("chance", [0.51, 0.58, 0.7, 0.8, 0.86])
def test_calibrated_probabilities_have_the_least_proper_score(chance: float) -> None:
    p = np.linspace(0.02, 0.98, 97)
    expected = chance * of_two(p, 1.0) + (1.0 - chance) * of_two(p, 0.0)
    assert p[expected.argmin()] == pytest.approx(chance)


def test_on_records_that_are_hard_to_predict_certainty_has_the_least_score() -> None:
    # Why models do not compete by it: p = 0.98 scores 0.42 + 0.58 x 0.015 = 0.43, the calibrated p = 0.58 has 0.49.
    sure, honest = (
        0.58 * s[0] + 0.42 * s[1] for s in (Softmax().scores(-np.log([p, 1 - p]), 2) for p in (0.98, 0.58))
    )
    assert (round(sure, 2), round(honest, 2)) == (0.43, 0.49)


def test_a_single_label_is_scored_as_one_of_two() -> None:
    # K = max(2, 1): of equal outputs, a loss of ln 2 out of 2 ln 2.
    assert scores_of(Softmax(), np.zeros((1, 2)), np.zeros(1), 1) == pytest.approx(0.5)


def test_the_score_is_relative_to_the_labels_known_when_the_epoch_began() -> None:
    # ln 4 of 2 ln 4, but all of 2 ln 2.
    outputs = np.zeros((1, 4))
    assert scores_of(Softmax(), outputs, np.zeros(1), 4) == pytest.approx(0.5)
    assert scores_of(Softmax(), outputs, np.zeros(1), 2) == pytest.approx(1.0)


def test_a_logistic_is_a_softmax_whose_first_column_is_zero() -> None:
    rng = np.random.default_rng(3)
    margin = np.concatenate([rng.normal(size=(50, 1)) * 4.0, [[800.0], [-800.0], [0.0]]])
    two = np.hstack([np.zeros_like(margin), margin])
    for y in (np.zeros(53), np.ones(53)):
        np.testing.assert_allclose(Logistic().losses(margin, y), Softmax().losses(two, y), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(scores_of(Logistic(), margin, y, 2), scores_of(Softmax(), two, y, 2), atol=1e-15)
        pull = Softmax().derivative(two, y)[:, 1:]
        np.testing.assert_allclose(Logistic().derivative(margin, y), pull, atol=1e-15)
    np.testing.assert_array_equal(Logistic().predict(margin), Softmax().predict(two))


def test_huber_is_squared_near_zero_and_straight_beyond() -> None:
    # delta = 2: r = -1.5: 1.125; r = 3: 2 (3 - 1) = 4; r = -5: 2 (5 - 1) = 8. Slopes r, 2, -2.
    huber = Linear(loss="huber", delta=2.0)
    outputs, y = np.array([[0.0], [3.0], [0.0]]), np.array([1.5, 0.0, 5.0])
    np.testing.assert_allclose(huber.losses(outputs, y), [1.125, 4.0, 8.0])
    np.testing.assert_allclose(huber.derivative(outputs, y), [[-1.5], [2.0], [-2.0]])
    # cap = 3: its loss is 2 (3 - 1) = 4.
    np.testing.assert_allclose(scores_of(huber, outputs, y, 0), [1.125 / 4.0, 1.0, 1.0])


def test_a_residual_of_the_cap_scores_one_and_half_of_it_a_quarter() -> None:
    outputs = np.array([[4.0], [2.0], [9.0]])
    np.testing.assert_allclose(scores_of(Linear(cap=4.0), outputs, np.zeros(3), 0), [1.0, 0.25, 1.0])


@pytest.mark.parametrize("name", MODELS)
def test_scores_lie_between_0_and_1_and_grow_with_the_loss(name: str) -> None:
    model, columns, y = MODELS[name]
    outputs = np.random.default_rng(4).normal(size=(30, columns)) * np.logspace(-3, 6, 30)[:, None]
    scores = scores_of(model, outputs, y, columns)
    assert scores.min() >= 0.0
    assert scores.max() == 1.0
    order = np.argsort(model.losses(outputs, y))
    assert (np.diff(scores[order]) >= -1e-12).all()


def test_a_label_beyond_the_columns_scores_1_and_pushes_all_others_down() -> None:
    outputs, y = np.array([[5.0, 0.0], [5.0, 0.0]]), np.array([2.0, 0.0])
    scores = scores_of(Softmax(), outputs, y, 2)
    assert scores[0] == 1.0
    assert scores[1] < 0.1
    pull = Softmax().derivative(outputs, y)
    np.testing.assert_allclose(pull[0], Softmax().probabilities(outputs)[0])
    assert pull[1, 0] < 0.0


def test_a_softmax_without_labels_scores_1_and_predicts_no_label() -> None:
    outputs, y = np.zeros((3, 0)), np.zeros(3)
    np.testing.assert_array_equal(scores_of(Softmax(), outputs, y, 0), np.ones(3))
    np.testing.assert_array_equal(Softmax().predict(outputs), -np.ones(3))
    assert Softmax().probabilities(outputs).shape == Softmax().derivative(outputs, y).shape == (3, 0)


def test_probabilities_sum_to_1_however_large_the_outputs() -> None:
    outputs = np.random.default_rng(5).normal(size=(40, 6)) * np.logspace(-3, 6, 40)[:, None]
    p = Softmax().probabilities(outputs)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert p.min() >= 0.0
    np.testing.assert_allclose(Softmax().probabilities(outputs + 100.0), p, atol=1e-9)


def test_derivatives_of_a_softmax_sum_to_0_for_known_labels() -> None:
    model, columns, y = MODELS["softmax"]
    outputs = np.random.default_rng(6).normal(size=(30, columns))
    np.testing.assert_allclose(model.derivative(outputs, y).sum(axis=1), 0.0, atol=1e-12)


def test_models_predict_the_most_likely_label_or_the_output() -> None:
    np.testing.assert_array_equal(Softmax().predict(np.array([[0.0, 2.0, 1.0], [1.0, 1.0, 0.0]])), [1.0, 0.0])
    np.testing.assert_array_equal(Logistic().predict(np.array([[0.1], [-0.1], [0.0]])), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(Linear().predict(np.array([[2.5], [-1.0]])), [2.5, -1.0])


@pytest.mark.parametrize(("model", "expected"), [(Softmax(), [0, 1, 2, 7]), (Linear(), [1, 1, 1, 1])])
def test_a_softmax_has_a_column_per_label_and_a_linear_model_one(model: Model, expected: list[int]) -> None:
    assert [model.columns(labels) for labels in (0, 1, 2, 7)] == expected


def test_a_logistic_cannot_grow_a_third_label() -> None:
    assert [Logistic().columns(labels) for labels in (0, 1, 2)] == [1, 1, 1]
    with pytest.raises(UsageError, match="softmax"):
        Logistic().columns(3)
