"""Laws of targets: a stream plus a constant, or times a factor, is learnt as the stream is."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from integration.test_estimators_beside_replay import NAMES, replayed
from suites.examples import examples

from streamfl import MasterFLRegressor
from streamfl.protocol.registry import TargetUnit
from streamfl.records.table import Table
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

FEATURES = pytest.mark.parametrize("features", ["auto", "linear", "ferns", "rounds"])

# In units of the scale of targets, which is about 3.
OFFSETS = st.floats(-1e6, 1e6)


def stream(n: int, *, drifts: bool = False, glitch: int | None = None) -> Table:
    """Return records whose targets follow their features, and may from the middle on do so the other way round."""
    rng = generator(0, "targets")
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 1.0] + [0.0, 500.0, 0.0]
    y = X @ [2.0, 0.1, 0.0] - 50.0 + 0.1 * rng.normal(size=n)
    if drifts:
        y[n // 2 :] = -3.0 * y[n // 2 :] + 40.0
    if glitch is not None:
        y[glitch] += 1e9
    return Table("targets", NAMES, X, y, (), np.arange(n))


def predictions(model: MasterFLRegressor, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what an estimator predicts of each record before it learns it."""
    told = []
    for x, target in zip(X, y.tolist(), strict=True):
        told.append(float(model.predict_many(x[None])[0]))
        model.learn_many(x[None], [target])
    return np.array(told)


@FEATURES
@given(OFFSETS, st.sampled_from([None, 0, 5, 20]))
@example(1e6, 0)
@settings(max_examples=examples(6))
def test_an_estimator_learns_a_stream_plus_a_constant_as_it_learns_the_stream(
    features: str, offset: float, glitch: int | None
) -> None:
    table, at = stream(90, glitch=glitch), 3.0 * offset
    models = [MasterFLRegressor(round_size=30, features=features) for _ in range(2)]
    plain, moved = (predictions(model, table.X, y) for model, y in zip(models, (table.y, table.y + at), strict=True))
    assert plain[0] == moved[0] == 0.0
    # What a glitch of 1e9 has taught is that many times as coarse.
    size = 3.0 if glitch is None else np.maximum(3.0, np.abs(plain[1:] - np.median(table.y)))
    assert (np.abs(moved[1:] - at - plain[1:]) <= 1e-6 * size).all()


@FEATURES
@given(OFFSETS)
@example(-1e6)
@settings(max_examples=examples(1))
def test_a_federation_learns_a_stream_plus_a_constant_as_it_learns_the_stream_through_restarts(
    features: str, offset: float
) -> None:
    table, at = stream(1500, drifts=True), 3.0 * offset
    run, told, _ = replayed(table, features)
    assert run.result.restarts, "without a restart the unit stays"
    moved_run, moved_told, _ = replayed(replace(table, y=table.y + at), features)
    assert [r.round for r in moved_run.result.restarts] == [r.round for r in run.result.restarts]
    plain, moved = (np.array([said[i] for i in range(len(table.y))]) for said in (told, moved_told))
    # The first record of each of the three clients has nothing before it. Gradients are sent as floats of 32 bits, of
    # which the last may fall the other way: it moves the few records after a restart by up to 1e-4 of the deviation.
    off = np.abs(moved[3:] - at - plain[3:]) / table.y.std()
    assert off.max() <= 1e-3
    assert np.mean(off > 1e-5) <= 0.01


@FEATURES
@given(st.integers(-30, 30))
@example(-30)
@settings(max_examples=examples(4))
def test_a_stream_times_a_factor_is_learnt_as_the_stream_is(features: str, power: int) -> None:
    table, factor = stream(90), 2.0**power
    models = [MasterFLRegressor(round_size=30, features=features) for _ in range(2)]
    plain, stretched = (
        predictions(model, table.X, y) for model, y in zip(models, (table.y, table.y * factor), strict=True)
    )
    np.testing.assert_allclose(stretched / factor, plain, rtol=0.0, atol=3e-6)


def test_targets_near_a_thousand_are_predicted_so_from_the_second_on():
    model = MasterFLRegressor()
    told = []
    for i in range(6):
        told.append(model.predict_one({"x": float(i)}))
        model.learn_one({"x": float(i)}, 1000.0 + i)
    assert told[0] == 0.0
    assert told[1] == 1000.0
    assert np.abs(np.array(told[2:]) - np.arange(1002, 1006)).max() < 1.5


@FEATURES
@pytest.mark.parametrize("glitch", [0, 5, 9])
def test_a_target_of_a_billion_among_the_first_ten_is_forgotten_within_a_round(features: str, glitch: int) -> None:
    table = stream(200, glitch=glitch)
    told = predictions(MasterFLRegressor(round_size=50, features=features), table.X, table.y)
    errors = np.abs(told - table.y)[100:]
    assert errors.mean() < np.abs(table.y[100:] - table.y[100:].mean()).mean()


@FEATURES
def test_an_estimator_follows_a_level_of_targets_that_moves(features: str) -> None:
    table = stream(500)
    y = table.y + 1000.0 * (np.arange(500) >= 200)
    told = predictions(MasterFLRegressor(round_size=20, features=features), table.X, y)
    assert np.abs(told - y)[400:].mean() < 3.0


def test_predicting_leaves_the_centre_of_targets_alone():
    model = MasterFLRegressor(features="linear")
    model.learn_one({"x": 1.0}, 7.0)
    other = copy.deepcopy(model)
    for _ in range(3):
        assert model.predict_one({"x": 2.0}) == 7.0
    model.learn_one({"x": 2.0}, 9.0)
    other.learn_one({"x": 2.0}, 9.0)
    assert model.predict_one({"x": 3.0}) == other.predict_one({"x": 3.0})


def test_targets_that_were_all_the_same_get_a_scale_when_they_differ():
    table = stream(120)
    y = np.where(np.arange(120) < 40, 7.0, 7.0 + 1e-3 * table.y)
    model = MasterFLRegressor(round_size=20, features="rounds")
    units = []
    for k in range(6):
        model.learn_many(table.X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20])
        state = model._federation.state
        assert state is not None
        units.append(state.registry.target)
    assert [(unit.centre, unit.scale) for unit in units[:2]] == [(7.0, 1.0)] * 2
    assert units[2:] == [TargetUnit.of(y[40:60])] * 4
    assert float(model.predict_many(table.X[:1])[0]) == pytest.approx(7.0 + 1e-3 * table.y[0], abs=1e-3)
