"""A client's own model: its steps by hand, its own scale, the range of targets, and names that come and go."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import state
from one_record import OwnModel

from streamfl.errors import PeerError
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.kernels.own import FEWEST, OWN_RUNNING
from streamfl.online.native.kernels.scaling import Scales
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.private import own_state
from streamfl.protocol.native.settings import NativeSettings
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

FERNS = Ferns(0)
EVEN = np.array([[0.5, 0.5]])


def taught(X, y, *, targets=False, features=("x",), labels=("a", "b")):
    own = OwnModel(targets)
    own.over(features, () if targets else labels)
    for row, truth in zip(np.atleast_2d(X).T if np.ndim(X) == 1 else X, y, strict=True):
        own.learn(FERNS, row[None], float(truth))
    return own


def test_a_step_of_labels_by_hand():
    # The second record is not scaled: the first had no deviation. So z = (1, 0) twice, and |z|^2 = 1.
    own = taught([3.0, 5.0], [0, 1])
    step = 10.0 / (1.0 + 5.0)
    first = step * 0.5 * np.array([1.0, -1.0])  # of two labels none was known
    p = 1.0  # then a was the only one that it had had
    expected = first + step * np.array([-p, 1.0])
    assert own.arrays.weights == pytest.approx(np.array([expected, [0.0, 0.0]]))
    # The third: mean 4, deviation 1, so z = (1, 2), |z|^2 = 5, and nu = 1 + (5 - 1) / 3.
    own.learn(FERNS, np.array([[6.0]]), 0.0)
    p = np.exp(expected) / np.exp(expected).sum()
    step = 10.0 / (1.0 + 4.0 / 3.0 + 5.0 * 5.0)
    assert own.arrays.weights == pytest.approx(
        np.array([expected - step * (p - [1.0, 0.0]), -2.0 * step * (p - [1.0, 0.0])])
    )


def test_a_step_of_targets_by_hand():
    own = taught([3.0, 5.0], [10.0, 16.0], targets=True)
    # After the first the mean is 10, and nothing else is left to learn; then it is 13, and 3 are.
    assert own.arrays.running["mean"] == 13.0
    assert own.arrays.weights.ravel() == pytest.approx([10.0 / 6.0 * 3.0, 0.0])


def test_before_ten_records_it_says_what_all_others_say():
    X, y = np.zeros(FEWEST), np.zeros(FEWEST)
    assert taught(X[1:], y[1:]).says(FERNS, np.zeros((1, 1)), EVEN).tolist() == EVEN.tolist()
    assert taught(X, y).says(FERNS, np.zeros((1, 1)), EVEN).tolist() == [[1.0, 0.0]]


def test_it_sees_features_on_the_clients_own_scale():
    rng = generator(0, "scale")
    X, y = rng.normal(size=100), rng.integers(0, 2, 100)
    one, other = taught(X, y), taught(1e6 + 1e3 * X, y)
    assert one.arrays.weights == pytest.approx(other.arrays.weights, rel=1e-6)


def test_targets_are_believed_within_the_clients_range_and_a_tenth():
    rng = generator(1, "range")
    X = rng.normal(size=(300, 1))
    learner = NativeLearner(NativeSettings("linear", targets=True))
    y = 3.0 * X[:, 0]
    learner.learn(("x",), X, y)
    believed = y.max() + 0.1 * (y.max() - y.min())
    learner.predicted(("x",), np.array([[1e3]]))
    learning, centre = learner._table.changes.arguments.inside, float(learner._models.centre[0])
    for predictions in (learning.predictions, learning.last.predictions):
        assert predictions.by_expert.max() + centre > believed
        assert predictions.bounded.max() + centre == pytest.approx(believed)


def test_names_that_come_back_bring_what_was_learnt_of_them():
    rng = generator(2, "names")
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 3, 60)
    own = taught(X, y, features=("x", "y"), labels=("a", "b", "c"))
    before = own.says(FERNS, X[:3], np.full((3, 3), 1 / 3))
    own.over(("y",), ("c", "a"))
    assert own.says(FERNS, X[:3, 1:], np.full((3, 2), 1 / 2)).shape == (3, 2)
    own.over(("new", "y", "x"), ("b", "c", "new", "a"))
    wide = np.column_stack([np.zeros(3), X[:3, ::-1]])
    after = own.says(FERNS, wide, np.full((3, 4), 1 / 4))
    assert after[:, [3, 0, 1]] == pytest.approx(before)
    assert after[:, 2].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "settings", [NativeSettings("linear"), NativeSettings("auto"), NativeSettings("auto", targets=True)]
)
def test_a_saved_own_model_continues_to_the_last_bit(settings):
    rng = generator(3, "saved")
    X = rng.normal(size=(200, 2))
    y, names = (X[:, 0], ()) if settings.targets else ((X[:, 0] > 0).astype(float), ("a", "b"))
    one, other = NativeLearner(settings), NativeLearner(settings)
    one.learn(("x", "y"), X[:150], y[:150], names)
    other.learn(("x", "y"), X[:20], y[:20], names)  # brings the names
    other.remember_own(one.own.state())
    for learner in (one, other):
        OwnModel.learn(learner.own, learner._ferns, X[150:151], 0.0)
    assert state(one.own) == state(other.own)
    other.remember_own(None)
    assert other.own.records == 0


DAMAGES = {
    "a row too few": {"weights": np.zeros((1, 2))},
    "a weight that is no number": {"weights": np.full((2, 2), np.nan)},
    "a cell that there is not": {"cells": np.zeros(1), "table": np.zeros((1, 2))},
    "a label twice": {"labels": ("a", "a")},
    "a count without end": {"known": np.full(2, np.inf)},
    "a scale too few": {"scales": (np.zeros(1),) * 6},
    "fewer records than none": {"running": np.full(6, -1.0)},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_saved_own_model_that_is_damaged_is_refused(damage):
    saved = taught(np.arange(5.0), [0, 1, 0, 1, 1]).state()
    OwnModel.of(saved, targets=False, cells=False, seed=0)
    with pytest.raises(PeerError, match="the file is damaged"):
        OwnModel.of(replace(saved, **damage), targets=False, cells=False, seed=0)


def test_an_own_model_of_other_settings_is_refused():
    saved = taught(np.arange(3.0), [0, 1, 0]).state()
    for settings in (NativeSettings("linear", targets=True), NativeSettings("linear", last_answer=False)):
        with pytest.raises(PeerError, match="the file is damaged"):
            NativeLearner(settings).remember_own(saved)


def test_a_saved_state_has_a_place_for_every_value():
    assert len(OWN_RUNNING) == own_state.RUNNING
    assert (len(Scales._fields), Scales._fields.index("first")) == (own_state.SCALES, own_state.FIRST_VALUES)
