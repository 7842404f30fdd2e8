"""The steps of the online models: the first ones by hand, more by the formulas written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from native_streams import drawn, exact

from streamfl.online.native.ferns import Ferns
from streamfl.online.native.learner import NativeLearner
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import FERNS, WINDOW, NativeSettings
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

AB = ("a", "b")


def learns(settings: NativeSettings, x: list[float], y: list[float], labels: tuple[str, ...] = AB) -> NativeLearnt:
    learner = NativeLearner(settings)
    learner.learn(("x",), np.array(x)[:, None], np.array(y), labels)
    return exact(learner)


def weights(settings: NativeSettings, learnt: NativeLearnt, name: str) -> np.ndarray:
    return learnt.weights[:, settings.names.index(name)]


# --- by hand -----------------------------------------------------------------------------------------------------

LINEAR = NativeSettings("linear", neighbours=False)
LINEAR_TARGETS = NativeSettings("linear", neighbours=False, targets=True)
FERN = NativeSettings("ferns", neighbours=False)


def test_a_single_label_teaches_no_weight():
    assert not learns(LINEAR, [1.0, 3.0], [0.0, 0.0]).weights.any()


def test_the_first_linear_step_by_hand():
    # Nothing is known of x yet: z = (1, 0), its squared norm 1, and so is the mean; p = (1/2, 1/2), the label is b.
    # The step is 10 / (1 + 10 / 2) = 5/3 along p - e = (1/2, -1/2).
    found = weights(LINEAR, learns(LINEAR, [1.0, 3.0], [0.0, 1.0]), "linear-10")
    assert found == pytest.approx(np.array([[-5 / 6, 5 / 6], [0.0, 0.0]]))


def test_the_second_linear_step_by_hand():
    # x = 4 is 2 deviations from 2: z = (1, 2), |z|^2 = 5, the mean of 1, 1, 5 is 7/3: the step is 10 / (7/3 + 25).
    # The logits are -5/6 and 5/6; the label is a.
    p = 1.0 / (1.0 + math.exp(5 / 3))
    step = 10.0 / (7 / 3 + 25.0)
    found = weights(LINEAR, learns(LINEAR, [1.0, 3.0, 4.0], [0.0, 1.0, 0.0]), "linear-10")
    expected = [[-5 / 6 + step * (1.0 - p), 5 / 6 - step * (1.0 - p)], [2 * step * (1.0 - p), -2 * step * (1.0 - p)]]
    assert found == pytest.approx(np.array(expected))


@pytest.mark.parametrize("s", [0.01, 0.1])
def test_the_first_whitened_step_by_hand(s):
    # A = diag(1, 0) + 0.1 (1 / 2) I = diag(1.05, 0.05); u = A^-1 (1, 0) = (1 / 1.05, 0); z^T u = 1 / 1.05.
    step = s / (1.0 + s / 2.1)
    found = weights(LINEAR, learns(LINEAR, [1.0, 3.0], [0.0, 1.0]), f"whitened-{s:g}")
    assert found == pytest.approx(np.array([[-0.5 * step / 1.05, 0.5 * step / 1.05], [0.0, 0.0]]))


@pytest.mark.parametrize("rate", [0.3, 10.0])
@pytest.mark.parametrize("depth", [8, 24])
def test_the_first_fern_step_by_hand(rate, depth):
    # 100 cells and z / 2 = (1/2, 0): the squared norm is 100.25, the step rate / (100.25 (1 + rate / 2)).
    learnt = learns(FERN, [1.0, 3.0], [0.0, 1.0])
    step = rate / 100.25 / (1.0 + rate / 2.0)
    linear = weights(FERN, learnt, f"fern-{depth}-{rate:g}")
    assert linear == pytest.approx(np.array([[-0.25 * step, 0.25 * step], [0.0, 0.0]]))
    # z is 0 both times, so that all 200 cells of both records are the same.
    assert learnt.visits.tolist() == [2.0] * 200
    column = [0.3, 10.0].index(rate)
    mine = learnt.cells < 25600 if depth == 8 else learnt.cells >= 25600
    assert learnt.table[mine, column] == pytest.approx(np.tile([-0.5 * step, 0.5 * step], (100, 1)))


def test_the_first_target_is_where_targets_are_measured_from():
    learnt = learns(LINEAR_TARGETS, [1.0], [1006.0], ())
    assert (learnt.centre, learnt.weights.any()) == (1006.0, False)


def test_the_second_target_by_hand():
    # z = (1, 0) twice, as x is the same: linear-10 goes 5/3 of the way from the first target to the second, 6 above,
    # whitened-0.1 by 0.1 / (1 + 0.1 / 2.1) / 1.05 of it. From then on targets are measured from the mean of both.
    learnt = learns(LINEAR_TARGETS, [1.0, 1.0], [1000.0, 1006.0], ())
    assert (learnt.labels, learnt.centre) == ((), 1003.0)
    assert weights(LINEAR_TARGETS, learnt, "linear-10") == pytest.approx(np.array([[10.0], [0.0]]))
    expected = np.array([[6.0 * 0.1 / (1.0 + 0.1 / 2.1) / 1.05], [0.0]])
    assert weights(LINEAR_TARGETS, learnt, "whitened-0.1") == pytest.approx(expected)


def test_what_is_told_beside_the_steps_by_hand():
    learnt = learns(LINEAR, [1.0, 3.0, 4.0, float("nan")], [0.0, 1.0, 0.0, 0.0])
    assert (learnt.records, learnt.features, learnt.labels) == (4, ("x",), ("a", "b"))
    assert (learnt.moments.count[0], learnt.moments.mean[0], learnt.moments.m2[0]) == pytest.approx(
        (3.0, 8 / 3, 14 / 3)
    )
    # The records are (1, 0) but for the third, (1, 2).
    assert learnt.second == pytest.approx(np.array([[4.0, 2.0], [2.0, 4.0]]))
    assert learnt.norms == pytest.approx([2.0, FERNS + 0.5])


# --- by the formulas, written out --------------------------------------------------------------------------------


class Model:
    """One model over the active features phi of a record: W <- W - g u (p - e)^T, u = phi or A^-1 phi."""

    def __init__(self, rate: float, *, whitened: bool, targets: bool, rows: int) -> None:
        self.rate, self.whitened, self.targets = rate, whitened, targets
        self.W = np.zeros((rows, 1 if targets else 0))
        self.mean, self.n = 0.0, 0
        self.S, self.inverse = np.zeros((rows if whitened else 0,) * 2), None

    def learn(self, phi: np.ndarray, truth: float, label: int) -> None:
        if not self.targets and label == self.W.shape[1]:
            self.W = np.hstack([self.W, np.zeros((len(self.W), 1))])
        outputs = phi @ self.W
        if self.targets:
            error = outputs - truth
        else:
            p = np.exp(outputs) / np.exp(outputs).sum()
            error = p - np.eye(len(p))[label]
        self.n += 1
        q = phi @ phi
        self.mean += (q - self.mean) / self.n
        if self.whitened:
            self.S += np.outer(phi, phi)
            if self.inverse is None or self.n % 32 == 0:
                A = self.S / self.n
                self.inverse = np.linalg.inv(A + 0.1 * np.trace(A) / len(A) * np.eye(len(A)))
            u = self.inverse @ phi
            g = self.rate / (1.0 + self.rate * (phi @ u) / 2.0)
        else:
            u, g = phi, (self.rate / self.mean) / (1.0 + self.rate * q / (2.0 * self.mean))
        self.W = self.W - g * np.outer(u, error)


def standardised(X: np.ndarray) -> np.ndarray:
    """Return each record by the moments of those before it."""
    Z = np.zeros_like(X)
    for i in range(2, len(X)):
        for j in range(X.shape[1]):
            seen = X[:i, j][~np.isnan(X[:i, j])]
            if len(seen) > 1 and not np.isnan(X[i, j]):
                Z[i, j] = np.clip((X[i, j] - seen.mean()) / seen.std(), -5.0, 5.0)
    return Z


@pytest.mark.parametrize("targets", [False, True])
def test_a_pass_over_records_is_what_the_formulas_say(targets):
    settings = NativeSettings("auto", neighbours=False, targets=targets, seed=3)
    stream = drawn(80, targets=targets, missing=0.1)
    X = stream.X.copy()
    X[0] = [0.5, 480.0]  # so that both features are there from the first record on
    learner = NativeLearner(settings)
    learner.learn(stream.features, X, stream.y, stream.labels)
    learnt = exact(learner)

    Z = standardised(X)
    cells = Ferns(3).over(stream.features).cells(Z)
    ones = np.hstack([np.ones((len(Z), 1)), Z])
    order = list(dict.fromkeys(stream.y.astype(int).tolist()))
    # A target is measured from the mean of those before it; the first one says nothing.
    truths = stream.y - [*stream.y[:1], *(stream.y[:i].mean() for i in range(1, 80))] if targets else stream.y
    named = {"linear-10": (10.0, False), "whitened-0.01": (0.01, True), "whitened-0.1": (0.1, True)}
    for name, (rate, whitened) in named.items():
        model = Model(rate, whitened=whitened, targets=targets, rows=3)
        for z, y in zip(ones, truths, strict=True):
            model.learn(z, y, -1 if targets else order.index(int(y)))
        assert weights(settings, learnt, name) == pytest.approx(model.W, rel=1e-6, abs=1e-9), name
        if whitened:
            assert learnt.second == pytest.approx(model.S)
    for k, depth in enumerate((8, 24)):
        mine = (learnt.cells < 25600) == (depth == 8)
        active, at = np.unique(cells[:, k * FERNS : (k + 1) * FERNS], return_inverse=True)
        for r, rate in enumerate((0.3, 10.0)):
            model = Model(rate, whitened=False, targets=targets, rows=3 + len(active))
            for z, found, y in zip(ones, at, truths, strict=True):
                phi = np.zeros(3 + len(active))
                phi[:3], phi[3 + found] = z / 2.0, 1.0
                model.learn(phi, y, -1 if targets else order.index(int(y)))
            assert sorted(learnt.cells[mine]) == active.tolist()
            where = 3 + np.searchsorted(active, learnt.cells[mine])
            # The table has single precision.
            assert learnt.table[mine, r] == pytest.approx(model.W[where], rel=1e-3, abs=2e-5)
            assert weights(settings, learnt, f"fern-{depth}-{rate:g}") == pytest.approx(
                model.W[:3], rel=1e-3, abs=2e-5
            )
    assert learnt.visits.tolist() == [float((cells == cell).sum()) for cell in learnt.cells]


@pytest.mark.parametrize(("features", "renewed"), [(3, [1, 32, 64, 96]), (40, [1, 32, 41, 64, 82])])
def test_an_inverse_is_kept_for_as_many_records_as_it_has_rows_but_at_least_32(features, renewed):
    learner, rng = NativeLearner(LINEAR_TARGETS), generator(0, "inverse")
    names, found, before = tuple(f"f{j}" for j in range(features)), [], np.zeros((0, 0))
    for n in range(1, 100):
        learner.learn(names, rng.normal(size=(1, features)), np.zeros(1))
        inverse = learner._models.inverse.copy()
        if not np.array_equal(inverse, before):
            found.append(n)
            A = learner._models.second / n
            A += 0.1 * np.trace(A) / len(A) * np.eye(len(A))
            assert inverse == pytest.approx(np.linalg.inv(A), rel=1e-9, abs=1e-12)
        before = inverse
    assert found == renewed


def test_the_mean_of_norms_reaches_back_a_window():
    learner = NativeLearner(LINEAR_TARGETS)
    learner.begin(replace(NativeState.none(LINEAR_TARGETS), seen=WINDOW - 3, norms=np.array([3.0, 101.0])))
    learner.learn(("x",), np.array([[1.0], [3.0], [4.0], [float("nan")]]), np.zeros(4))
    # |z|^2 = 1, 1, 5, 1: all weigh one in so many, but no less than one in a window.
    mean = 3.0
    for square, n in ((1.0, WINDOW - 2), (1.0, WINDOW - 1), (5.0, WINDOW), (1.0, WINDOW)):
        mean += (square - mean) / n
    assert learner._models.norms[0] == pytest.approx(mean, rel=1e-12)
    assert learner.learnt().norms[0] == pytest.approx(2.0)  # what is told of the round is that of all


def test_beyond_256_inputs_steps_are_whitened_by_the_diagonal_alone():
    d, rng = 300, generator(0, "wide")
    learner = NativeLearner(LINEAR_TARGETS)
    names = tuple(f"f{j}" for j in range(d))
    X = rng.normal(size=(3, d))
    learner.learn(names, X, np.array([6.0, 0.0, 0.0])[:, None][:, 0])
    second = learner._models.second
    assert np.count_nonzero(second) == np.count_nonzero(np.diag(second))
    # At the first records z = (1, 0, ..): A is 1 and 0 with a ridge of 0.1 / 301, and the step as in two dimensions.
    first = NativeLearner(LINEAR_TARGETS)
    first.learn(names, np.vstack([X[:1], X[:1]]), np.array([0.0, 6.0]))
    u = 1.0 / (1.0 + 0.1 / 301)
    column = LINEAR_TARGETS.names.index("whitened-0.1")
    assert first._models.weights[0, column, 0] == pytest.approx(6.0 * 0.1 / (1.0 + 0.05 * u) * u)
