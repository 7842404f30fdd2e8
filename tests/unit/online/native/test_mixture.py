"""Mixtures of experts: first steps by hand, and what must come of good, bad and half-right experts."""

import math

import numpy as np
import pytest
from one_record import LabelMixture, TargetMixture

from streamfl.online.native.kernels.mixing import share
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles


def test_fixed_share_by_hand():
    weights = np.full(4, 0.25)
    weights *= np.array([0.8, 0.4, 0.2, 0.6])
    share(weights, np.ones(4, np.bool_))
    # Parts of 2.0; each then gives a thousandth back to all.
    assert weights == pytest.approx([0.999 * p + 0.00025 for p in (0.4, 0.2, 0.1, 0.3)])
    share(weights, np.ones(4, np.bool_))
    assert weights == pytest.approx([0.999 * (0.999 * p + 0.00025) + 0.00025 for p in (0.4, 0.2, 0.1, 0.3)])


# --- labels ----------------------------------------------------------------------------------------------------

P = np.array([[0.9, 0.1], [0.4, 0.6]])


def test_the_first_mix_and_the_first_step_by_hand():
    mixture = LabelMixture(2)
    # Centred log-probabilities, and a softmax of their mean.
    s, t = 0.5 * math.log(9.0), 0.5 * math.log(2 / 3)
    stacked = 1.0 / (1.0 + math.exp(-2.0 * (s + t) / 2.0))
    assert mixture.mixed(P) == pytest.approx([(0.65 + 2 * stacked) / 3, (0.35 + 2 * (1.0 - stacked)) / 3])

    mixture.learn(1.0)
    assert mixture.mixing.best == pytest.approx([0.999 * 0.1 / 0.7 + 0.0005, 0.999 * 0.6 / 0.7 + 0.0005])
    likely = np.array([0.35, 1.0 - stacked, 1.0 - stacked])
    assert mixture.mixing.outer == pytest.approx(0.999 * likely / likely.sum() + 0.001 / 3)
    # The error of both softmaxes is (stacked, -stacked); the squared norm, and its mean, 2 s^2 + 2 t^2.
    square = 2.0 * s * s + 2.0 * t * t
    for weights, rate in zip(mixture.mixing.stacked, (0.03, 0.3), strict=True):
        step = rate / square / (1.0 + rate / 2.0)
        assert weights == pytest.approx([0.5 - step * 2.0 * stacked * s, 0.5 - step * 2.0 * stacked * t])


def test_the_mean_squared_norm_is_a_running_one():
    mixture = LabelMixture(2)
    for certain in (0.9, 0.99):
        mixture.mixed(np.array([[certain, 1.0 - certain], [0.5, 0.5]]))
        mixture.learn(0.0)
    mean = (2.0 * (0.5 * math.log(9.0)) ** 2 + 2.0 * (0.5 * math.log(99.0)) ** 2) / 2.0
    assert mixture.mixing.running["norm"][0] == pytest.approx(mean)


def test_no_expert_is_ever_sure():
    mixture = LabelMixture(2)
    assert mixture.mixed(np.array([[1.0, 0.0], [1.0, 0.0]]))[1] > 0.0
    mixture.learn(1.0)  # what both called impossible
    assert mixture.mixing.best == pytest.approx([0.5, 0.5])
    assert np.isfinite(mixture.mixed(P)).all()


def test_a_single_label_is_certain_and_teaches_nothing():
    mixture = LabelMixture(3)
    for _ in range(3):
        assert mixture.mixed(np.ones((3, 1))) == pytest.approx([1.0])
        mixture.learn(0.0)
    assert mixture.mixing.stacked == pytest.approx(np.full((2, 3), 1 / 3))


def losses(mixture, said, truth):
    """Return the losses of the mixture and of each expert, shapes (n,) and (n, experts)."""
    mixed = np.empty(len(said))
    for i, (P_, y) in enumerate(zip(said, truth, strict=True)):
        mixed[i] = -np.log(mixture.mixed(P_)[int(y)])
        mixture.learn(float(y))
    codes = truth.astype(np.intp)
    return mixed, -np.log(said[np.arange(len(said)), :, codes])


def experts(rng, truth, *chances):
    """Return what experts say that are right as often as they claim."""
    right = rng.random((len(truth), len(chances))) < chances
    code = np.where(right, truth[:, None], 1 - truth[:, None])
    p = np.where(code == 1, chances, 1.0 - np.array(chances))
    return np.stack([1.0 - p, p], axis=2)


def test_the_best_expert_wins():
    rng = generator(0, "mixture")
    truth = rng.integers(0, 2, 600)
    # Five that know nothing and claim a lot, and one that knows.
    said = np.concatenate([experts(rng, rng.integers(0, 2, 600), *[0.9] * 5), experts(rng, truth, 0.9)], axis=1)
    mixture = LabelMixture(6)
    mixed, each = losses(mixture, said, truth)
    assert each.mean(axis=0).argmin() == 5
    assert mixed[300:].mean() < each[300:, 5].mean() + 0.02
    assert mixture.shares.argmax() == 5
    assert mixture.mixing.best[5] > 0.9


def test_after_a_change_the_new_best_expert_takes_over():
    rng = generator(1, "mixture")
    truth = rng.integers(0, 2, 1000)
    said = experts(rng, truth, 0.95, 0.95)
    said[:500, 1], said[500:, 0] = 0.5, said[500:, 0, ::-1]
    mixture = LabelMixture(2)
    mixed, each = losses(mixture, said, truth)
    assert (each[:500].mean(axis=0).argmin(), each[500:].mean(axis=0).argmin()) == (0, 1)
    assert mixed[550:].mean() < each[550:, 1].mean() + 0.02
    assert mixture.mixing.best[1] > 0.9


def test_together_experts_can_know_more_than_the_best_of_them():
    rng = generator(2, "mixture")
    truth = rng.integers(0, 2, 1500)
    said = experts(rng, truth, *[0.75] * 5)  # each right three times in four, by evidence of its own
    mixed, each = losses(LabelMixture(5), said, truth)
    assert mixed[500:].mean() < each[500:].mean(axis=0).min() - 0.15


def test_an_expert_that_is_always_wrong_is_believed_the_contrary():
    rng = generator(3, "mixture")
    truth = rng.integers(0, 2, 600)
    said = experts(rng, truth, 0.95)[:, :, ::-1]
    mixture = LabelMixture(1)
    mixed, each = losses(mixture, said, truth)
    assert mixed[300:].mean() < 0.3 < each[300:].mean()
    # Then no expert argues for what is served; the shares are parts of one all the same.
    assert (mixture.mixing.stacked < 0.0).all()
    assert mixture.shares == pytest.approx([1.0])


# --- targets ---------------------------------------------------------------------------------------------------


def test_the_first_target_by_hand():
    mixture = TargetMixture(2)
    assert mixture.mixed(np.array([1.0, 3.0])) == 2.0
    mixture.learn(3.0)
    # One was exact: the other counts a thousandth. All three mixtures said 2.
    assert mixture.mixing.best == pytest.approx([0.999 * 0.001 / 1.001 + 0.0005, 0.999 / 1.001 + 0.0005])
    assert mixture.mixing.outer == pytest.approx(np.full(3, 1 / 3))
    for weights, rate in zip(mixture.mixing.stacked, (0.03, 0.3), strict=True):
        # They lie 1 below and 1 above the first mixture; that erred by 1.
        step = rate / 2.0 / (1.0 + rate / 2.0)
        assert weights == pytest.approx([0.5 - step, 0.5 + step])


def test_differences_between_experts_that_all_err_far_more_teach_little():
    mixture = TargetMixture(2)
    mixture.mixed(np.array([1.0, 3.0]))
    mixture.learn(12.0)
    # The variance of the better one is 81, the mean square of the differences 2; the first mixture erred by 10.
    for weights, rate in zip(mixture.mixing.stacked, (0.03, 0.3), strict=True):
        step = rate * 10.0 / (2.0 + 81.0 + rate)
        assert weights == pytest.approx([0.5 - step, 0.5 + step])


def test_likelihoods_are_normal_with_the_variance_of_the_best():
    mixture = TargetMixture(2)
    mixture.mixed(np.array([1.0, 2.0]))
    mixture.learn(0.0)
    assert mixture.mixing.running["variance"][0] == 1.0
    # Errors 1 and 2 of variance 1: the second is exp(-3/2) as likely.
    likely = np.array([1.0, math.exp(-1.5)])
    assert mixture.mixing.best == pytest.approx(0.999 * likely / likely.sum() + 0.0005)
    mixture.mixed(np.array([3.0, 5.0]))
    mixture.learn(0.0)
    assert mixture.mixing.running["variance"][0] == 5.0


def squared(mixture, said, truth):
    mixed = np.empty(len(said))
    for i, (x, y) in enumerate(zip(said, truth, strict=True)):
        mixed[i] = (mixture.mixed(x) - y) ** 2
        mixture.learn(float(y))
    return mixed, (said - truth[:, None]) ** 2


def test_the_expert_with_the_smallest_error_wins():
    rng = generator(4, "mixture")
    truth = rng.normal(size=600)
    said = truth[:, None] + rng.normal(size=(600, 3)) * [5.0, 0.1, 1.0]
    mixture = TargetMixture(3)
    mixed, each = squared(mixture, said, truth)
    assert mixed[300:].mean() < 1.5 * each[300:, 1].mean()
    assert mixture.shares.argmax() == 1


def test_a_linear_combination_can_be_better_than_each():
    rng = generator(5, "mixture")
    said = rng.normal(size=(1500, 2)) + 3.0
    truth = 2.0 * said[:, 0] - said[:, 1]
    mixed, each = squared(TargetMixture(2), said, truth)
    assert mixed[1000:].mean() < 0.2 * each[1000:].mean(axis=0).min()


def test_one_outlier_does_not_decide():
    mixture = TargetMixture(2)
    rng = generator(6, "mixture")
    truth = rng.normal(size=300)
    squared(mixture, truth[:, None] + rng.normal(size=(300, 2)) * [0.1, 3.0], truth)
    trusted = mixture.mixing.best[0]
    mixture.mixed(np.array([0.0, 9.0]))
    mixture.learn(10.0)
    assert trusted > 0.99
    # At most a thousand times less likely.
    assert mixture.mixing.best[0] > 0.999 * trusted / (trusted + 1000.0 * (1.0 - trusted))


def two_experts(n, seed):
    """Return targets, and what two experts say: the first is nearly right, the second far off."""
    rng = generator(seed, "mixture")
    truth = rng.normal(size=n)
    return truth, truth[:, None] + rng.normal(size=(n, 2)) * [0.1, 3.0]


def test_an_outlier_does_not_move_the_weights_far():
    truth, said = two_experts(300, 8)
    mixture = TargetMixture(2)
    squared(mixture, said, truth)
    stacked = mixture.mixing.stacked.copy()
    mixture.mixed(np.array([0.0, 9.0]))
    mixture.learn(1000.0)
    assert np.abs(mixture.mixing.stacked - stacked).max() < 0.1


def test_when_the_experts_change_places_at_another_scale_the_weights_follow():
    truth, said = two_experts(1000, 9)
    mixture = TargetMixture(2)
    squared(mixture, said, truth)
    mixed, each = squared(mixture, 100.0 * said[:, ::-1], 100.0 * truth)
    assert mixed[100:].mean() < 0.01 * each[100:, 0].mean()
