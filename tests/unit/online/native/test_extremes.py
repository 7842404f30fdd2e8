"""What is predicted of targets lies within those known so far, and a tenth of their range."""

from dataclasses import replace

import numpy as np
import pytest

from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging.merging import after
from streamfl.online.native.served import ServedNative
from streamfl.protocol.native.extremes import are_sound, extremes
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto", targets=True)
FAR = np.array([[200.0], [-200.0], [1e6]])


def stream(seed: int, least: float, largest: float, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return records with one feature, on which targets of a range depend in a straight line."""
    x = np.random.default_rng(seed).uniform(least, largest, n)
    return x[:, None], x.copy()


def learnt(X: np.ndarray, y: np.ndarray, settings: NativeSettings = AUTO) -> NativeLearner:
    learner = NativeLearner(settings)
    learner.learn(("x",), X, y)
    return learner


@pytest.mark.parametrize("settings", [AUTO, replace(AUTO, features="linear", neighbours=False)])
def test_a_client_predicts_nothing_beyond_its_own_targets_so_far_and_a_tenth_of_their_range(settings):
    X, y = stream(1, 0.0, 10.0)
    X[40:] *= 50.0  # linear models would go far beyond
    learner, served = NativeLearner(settings), []
    for i in range(len(X)):
        served.append(learner.learn(("x",), X[i : i + 1], y[i : i + 1])[0, 0])
    for i in range(1, len(X)):
        margin = 0.1 * np.ptp(y[:i]) + 1e-9
        assert y[:i].min() - margin <= served[i] <= y[:i].max() + margin


def test_a_file_predicts_nothing_beyond_the_targets_of_all_clients_and_a_tenth_of_their_range():
    parts = [learnt(*stream(seed, least, least + 10.0)) for seed, least in ((1, 0.0), (2, 30.0))]
    agreed, change = after(NativeState.none(AUTO), [part.learnt() for part in parts], (), settings=AUTO)
    least, largest = agreed.extremes
    assert -1.0 <= least < 1.0
    assert 39.0 < largest <= 41.0
    assert change.after(NativeState.none(AUTO)).extremes == agreed.extremes
    served = ServedNative.of(AUTO, agreed)
    margin = 0.1 * (largest - least)
    for rounds in (np.full((3, 1), 1e9), np.full((3, 1), -1e9)):
        predicted = served.predictions(("x",), FAR, rounds)
        assert (least - margin <= predicted).all()
        assert (predicted <= largest + margin).all()
    # Before it has records of its own a client believes the same.
    new = NativeLearner(AUTO)
    new.begin(agreed)
    assert new.predicted(("x",), FAR).max() <= largest + margin


@pytest.mark.parametrize("seed", range(4))
def test_extremes_are_those_of_the_round_rounded_outwards_by_a_little(seed):
    y = np.random.default_rng(seed).normal(1e3, 10.0**seed, 40)
    least, largest = extremes(y)
    assert y.min() - np.ptp(y) / 32.0 <= least <= y.min()
    assert y.max() <= largest <= y.max() + np.ptp(y) / 32.0


@pytest.mark.parametrize("wrong", [(1.0, 0.0), (1.0,), (float("nan"), 1.0), (0.0, 1e31), (float("-inf"), 0.0)])
def test_extremes_that_no_targets_have_are_not_sound(wrong):
    assert not are_sound(wrong)
    assert are_sound(())
    assert are_sound((-1e30, 1e30))


def test_where_the_extremes_of_some_targets_are_not_known_everything_is_believed_for_good():
    def after_rounds(first_sends: bool, others_send: bool) -> NativeState:
        agreed = NativeState.none(AUTO)
        for t in range(3):
            learners = [NativeLearner(AUTO) for _ in range(2)]
            parts = []
            for i, learner in enumerate(learners):
                learner.begin(agreed)
                learner.learn(("x",), *stream(2 * t + i, 0.0, 100.0 if not t else 2.0))
                sends = (first_sends if not t else True) and (others_send or not i)
                parts.append(learner.learnt() if sends else replace(learner.learnt(), extremes=()))
            agreed, change = after(agreed, parts, (), settings=AUTO)
            assert change.extremes == agreed.extremes
        return agreed

    X, rounds = np.array([[94.0]]), np.array([[94.0]])
    for first_sends, others_send in ((False, True), (True, False), (False, False)):  # an older save, an older host
        agreed = after_rounds(first_sends, others_send)
        assert agreed.extremes == ()
        new = NativeLearner(AUTO)
        new.begin(agreed)
        for reader in (ServedNative.of(AUTO, agreed).predictions, new.predicted):
            assert reader(("x",), X, rounds)[0, 0] > 50.0
    assert after_rounds(True, True).extremes[1] > 95.0


def test_the_targets_of_a_client_that_learns_apart_are_believed_too():
    common, alone = learnt(*stream(1, 0.0, 10.0)).learnt(), learnt(*stream(2, 500.0, 510.0)).learnt()
    agreed, _ = after(NativeState.none(AUTO), [common], (), settings=AUTO)
    for parts in ([common], []):
        found, change = after(agreed, parts, (), [alone], settings=AUTO)
        assert found.extremes == change.extremes == change.after(agreed).extremes
        assert found.extremes[0] < 1.0
        assert found.extremes[1] > 509.0
