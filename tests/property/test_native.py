"""Laws of what learns online, for whatever comes: how records come together leaves no trace."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from native_streams import agreed, drawn, learnt, powers, state
from one_record import LabelMixture, TargetMixture
from suites.examples import examples
from unit.machines.script import opening

from streamfl.bounds import NAMED
from streamfl.learning.online_models import Renewal
from streamfl.learning.serving import Serving
from streamfl.models import Softmax
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.online.native.running_scaler import RunningScaler
from streamfl.protocol.moments import Moments, merged
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.sampling import generator
from streamfl.wire import messages

pytestmark = pytest.mark.compiles

VALUES = st.floats(-1e3, 1e3) | st.sampled_from([float("nan"), 0.0, 1e6, -1e12, 1e200])
# No two of them are so far apart that one is out of what others are, in 25.
NEAR = arrays(np.float64, (25, 3), elements=st.integers(-2, 2).map(lambda i: 250.0 * i) | st.just(float("nan")))
TABLES = st.integers(1, 25).flatmap(lambda n: arrays(np.float64, (n, 3), elements=VALUES))
CUTS = st.lists(st.integers(0, 25), max_size=5)
NAMES = ("a", "b", "c")
NOTHING = Moments(NAMES, np.zeros(3), np.zeros(3), np.zeros(3))
FEATURES = pytest.mark.parametrize("features", ["linear", "ferns", "auto"])


def parts(X, cuts):
    return [part for part in np.split(X, sorted(min(cut, len(X)) for cut in cuts)) if len(part)]


# --- the scaler --------------------------------------------------------------------------------------------------


@given(TABLES, CUTS)
def test_records_are_scaled_to_the_same_bits_one_by_one_and_together(X, cuts):
    together, apart = RunningScaler.of(NOTHING, NAMES), RunningScaler.of(NOTHING, NAMES)
    with np.errstate(over="ignore"):  # the sum of squares of 1e200
        Z = together.scaled(X)
        np.testing.assert_array_equal(np.concatenate([apart.scaled(part) for part in parts(X, cuts)]), Z)
    assert state(together) == state(apart)
    assert np.abs(Z).max() <= 5.0
    assert not Z[np.isnan(X)].any()


@given(NEAR, CUTS)
def test_a_record_is_scaled_by_numpys_moments_of_those_before_it(X, cuts):
    scaler = RunningScaler.of(NOTHING, NAMES)
    Z = np.concatenate([scaler.scaled(part) for part in parts(X, cuts)])
    for j in range(3):
        for i in range(25):
            seen = X[:i, j][~np.isnan(X[:i, j])]
            if np.isnan(X[i, j]) or not len(seen) or seen.std() < 1e-3:
                continue
            assert Z[i, j] == pytest.approx(np.clip((X[i, j] - seen.mean()) / seen.std(), -5.0, 5.0), abs=1e-6)


@given(NEAR, st.integers(0, 24))
def test_moments_since_the_agreed_ones_are_those_of_the_records(X, cut):
    before = Moments.of(NAMES, X[:cut])
    scaler = RunningScaler.of(before, ("c", "a", "b"))
    scaler.scaled(X[cut:][:, [2, 0, 1]])
    found = scaler.moments(("c", "a", "b"), since=before).aligned(NAMES)
    for told, expected in ((found, Moments.of(NAMES, X[cut:])), (merged([before, found]), Moments.of(NAMES, X))):
        np.testing.assert_array_equal(told.count, expected.count)
        there = expected.count > 0
        np.testing.assert_allclose(told.mean[there], expected.mean[there], rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(told.m2[there], expected.m2[there], rtol=1e-6, atol=1e-2)


# --- ferns -------------------------------------------------------------------------------------------------------


@given(st.permutations(range(6)), st.lists(st.integers(0, 6), max_size=3), st.integers(0, 5))
def test_cells_do_not_depend_on_the_order_of_features_nor_on_when_they_came(order, cuts, seed):
    names = tuple(f"f{j}" for j in range(6))
    Z = generator(seed, "records").normal(size=(20, 6))
    ferns = Ferns(seed)
    for cut in sorted({*cuts, 6}):
        ferns = ferns.over(tuple(names[j] for j in order[:cut]))
    np.testing.assert_array_equal(ferns.cells(Z[:, order]), Ferns(seed).over(names).cells(Z))


# --- the learner -------------------------------------------------------------------------------------------------


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
@given(st.lists(st.integers(0, 40), max_size=4), st.integers(0, 3))
@settings(max_examples=examples(12))
def test_learning_in_any_pieces_gives_the_same_bits(features, targets, cuts, seed):
    how = NativeSettings(features, targets=targets, seed=seed)
    stream = drawn(40, seed=seed, targets=targets, missing=0.3)
    others = generator(seed, "others").random((40, 1 if targets else 2))
    together, apart = NativeLearner(how), NativeLearner(how)
    models = agreed(how, learnt(how, drawn(20, seed=seed + 1, targets=targets)), labels=() if targets else NAMES)
    for one in (together, apart):
        one.begin(models)
    served = together.learn(*stream.part(0, 40), others)
    ends = sorted({0, *cuts, 40})
    pieces = [apart.learn(*stream.part(a, b), others[a:b]) for a, b in pairwise(ends)]
    np.testing.assert_array_equal(np.concatenate(pieces), served)
    without = ("_touched",)  # has room for more than there is; `learnt` tells what there is
    assert state(together, without=without) == state(apart, without=without)
    assert state(together.learnt()) == state(apart.learnt())


@FEATURES
@given(st.integers(0, 10), st.integers(0, 40), st.booleans())
@settings(max_examples=examples(12))
def test_restoring_undoes_everything_to_the_last_bit(features, seed, n, from_nothing):
    how = NativeSettings(features, neighbours=False, last_answer=False)  # a client's own goes on
    learner, fresh = NativeLearner(how), NativeLearner(how)
    if not from_nothing:
        models = agreed(how, learnt(how, drawn(20, seed=seed)))
        learner.begin(models)
        fresh.begin(models)
    learner.learn(*drawn(40, seed=seed + 1).part(0, n))
    learner.restore()
    without = ("unused", "mixture", "_agreed", "_touched")
    assert state(learner, without=without) == state(fresh, without=without)
    # And again from there.
    stream = drawn(40, seed=seed + 2)
    for one in (learner, fresh):
        one.learn(*stream.part(0, 40))
    assert state(learner, without=without) == state(fresh, without=without)
    assert state(learner.learnt(), without=without) == state(fresh.learnt(), without=without)


# --- the model that serves rounds -----------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 4), st.integers(0, 6))
def test_the_compiled_way_says_what_the_model_of_rounds_says(seed, d, columns, n):
    rng = generator(seed, "serving")
    features, labels = tuple(f"x{j}" for j in range(d)), tuple(f"l{c}" for c in range(columns))
    X = rng.normal(size=(n, d)) * rng.choice([1.0, 1e6, np.nan, np.inf], size=(n, d), p=[0.7, 0.1, 0.1, 0.1])
    mean = np.where(rng.random(d) < 0.2, np.nan, rng.normal(size=d))
    registry = Registry(1, features, labels, mean, np.exp(rng.normal(size=d)))
    order = rng.permutation(d)
    batch = Batch(Span("p", 0, n), np.arange(n), tuple(features[j] for j in order), X[:, order], np.zeros(n), labels)
    serving = Serving(opening()[-1], registry, Softmax(), 1e-3 * rng.normal(size=(d + 1, columns)))
    said = NativeLearner(NativeSettings("linear")).predicted_by_rounds(serving, batch)
    np.testing.assert_allclose(said, serving.predictions(batch), rtol=1e-9, atol=1e-12)
    alone = [
        NativeLearner(NativeSettings("linear")).predicted_by_rounds(serving, batch.only(np.array([i])))
        for i in range(n)
    ]
    np.testing.assert_array_equal(said, np.concatenate([np.zeros((0, columns)), *alone]))


# --- merging -----------------------------------------------------------------------------------------------------


@FEATURES
@given(st.permutations(range(4)), st.lists(st.integers(0, 30), min_size=4, max_size=4))
@settings(max_examples=examples(12))
def test_the_order_of_the_clients_cannot_matter(features, order, records):
    how = NativeSettings(features)
    clients = [learnt(how, drawn(30, seed=seed), 0, n) for seed, n in enumerate(records)]
    models, change = merging.after(NativeState.none(how), clients, NAMES)
    turned, same = merging.after(NativeState.none(how), [clients[i] for i in order], NAMES)
    for name in ("features", "labels", "seen", "weights", "table", "chain", "steps", "second"):
        assert state(getattr(models, name)) == state(getattr(turned, name)), name
    assert state(change.cells) == state(same.cells)
    assert state(change.table) == state(same.table)
    # Plain sums, in the order of the clients' names: to rounding.
    np.testing.assert_allclose(models.norms, turned.norms, rtol=1e-12)
    np.testing.assert_allclose(models.moments.m2, turned.moments.m2, rtol=1e-9)


@FEATURES
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4))
@settings(max_examples=examples(12))
def test_nothing_moves_farther_than_the_client_that_moved_it_farthest(features, records):
    how = NativeSettings(features)
    clients = [learnt(how, drawn(30, seed=seed), 0, n) for seed, n in enumerate(records)]
    models, change = merging.after(NativeState.none(how), clients, NAMES)
    weights = [powers(client.steps.weights, client.steps.finer)[:, None] * client.weights for client in clients]
    farthest = np.max([np.abs(one).max(axis=(0, 2), initial=0.0) for one in weights], axis=0)
    # Rounding to a step goes farther by less than one in each column; what the last one gets makes up for the others.
    step = len(NAMES) * np.max([powers(client.steps.weights, client.steps.finer) for client in clients], axis=0)
    assert (np.abs(models.weights).max(axis=(0, 2), initial=0.0) <= farthest + step).all()
    for cell in change.cells[:: max(1, len(change.cells) // 20)].astype(int):
        kind = slice(0, 2) if cell < 25_600 else slice(2, 4)
        moved = [
            np.abs(
                powers(client.steps.table, client.steps.finer)[kind, None] * client.table[client.cells == cell]
            ).max(axis=(0, 2), initial=0.0)
            for client in clients
        ]
        step = len(NAMES) * np.max(
            [powers(client.steps.table, client.steps.finer)[kind] for client in clients], axis=0
        )
        assert (np.abs(models.table[cell]).max(axis=1) <= np.max(moved, axis=0) + step).all()


RENAMED = st.lists(st.sampled_from([None, (), (1, 0)]), min_size=2, max_size=4)


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
@given(RENAMED, st.integers(0, 5))
@settings(max_examples=examples(5))
def test_coordinator_and_clients_are_equal_to_the_last_bit_whole_or_by_changes(features, targets, renamed, seed):
    how = NativeSettings(features, targets=targets, seed=seed, neighbours=False)
    native, rng, labels = NativeOnlineModels(how), generator(seed, "rounds"), []
    models, clients = NativeState.none(how), {name: NativeAtClient(how) for name in ("c0", "c1", "whole")}
    for t, permutation in enumerate(renamed, 1):
        learnt_, stream = {}, drawn(90, seed=seed + t, targets=targets)
        X = np.column_stack([stream.X, rng.normal(size=90)])
        codes = stream.y + (t - 1) * (rng.random(90) < 0.1)  # with new labels
        for i, (name, client) in enumerate(clients.items()):
            rows = slice(30 * i, 30 * i + int(rng.integers(0, 30)))
            columns = (*stream.features, f"late{t}")  # and new features
            names = () if targets else ("a", "b", "c", *(f"new{k}" for k in range(5)))
            client.learner.learn(columns, X[rows], (stream.y if targets else codes)[rows], names)
            learnt_[name] = native.named(client.learnt(NAMED, name, measured=bool((t + i) % 2)), models)
            labels += [label for label in client.labels if label not in labels]
        models, change = native.after(
            models,
            learnt_,
            tuple(labels),
            renewal=None if permutation is None or len(labels) < 2 else Renewal(False, permutation),
            limits=NAMED,
        )
        for name, client in clients.items():
            published = native.published(models, t + 1, None if name == "whole" else change)
            client.take(messages.decode(messages.encode(published)))
            client.begin(t + 1, 1)
            np.testing.assert_array_equal(client.learner.table, models.table)
            without = ("table", "early", "far", "kept_back")
            assert state(client.learner._agreed, without=without) == state(models, without=without)


# --- mixtures ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99), st.booleans())
def test_weights_shares_and_probabilities_sum_to_one(experts, labels, seed, extreme):
    rng = generator(seed, "mixture")
    mixture = LabelMixture(experts)
    for _ in range(30):
        P = rng.dirichlet(np.full(labels, 0.05 if extreme else 1.0), experts)
        p = mixture.mixed(P)
        assert p.sum() == pytest.approx(1.0)
        assert (p > 0.0).all()
        mixture.learn(float(rng.integers(labels)))
        for weights in (mixture.mixing.best, mixture.mixing.outer):
            assert weights.sum() == pytest.approx(1.0)
            assert (weights >= 0.001 / len(weights)).all()
        assert mixture.shares.sum() == pytest.approx(1.0)
        assert (mixture.shares >= 0.0).all()


@given(st.integers(1, 6), st.integers(0, 99), st.sampled_from([1e-6, 1.0, 1e6]))
def test_a_mixture_of_targets_lies_between_weights_that_sum_to_one(experts, seed, scale):
    rng = generator(seed, "mixture")
    mixture = TargetMixture(experts)
    for _ in range(30):
        predicted = scale * rng.normal(size=experts)
        assert np.isfinite(mixture.mixed(predicted))
        mixture.learn(scale * float(rng.normal()))
        for weights in (mixture.mixing.best, mixture.mixing.outer):
            assert weights.sum() == pytest.approx(1.0)
            assert (weights > 0.0).all()
        assert mixture.shares.sum() == pytest.approx(1.0)


@given(st.integers(0, 99), st.sampled_from([1e-3, 1e3]))
@settings(max_examples=examples(20))
def test_mixing_targets_does_not_depend_on_their_unit(seed, unit):
    rng = generator(seed, "mixture")
    said, truth = rng.normal(size=(40, 3)), rng.normal(size=40)
    one, other = TargetMixture(3), TargetMixture(3)
    for x, y in zip(said, truth, strict=True):
        assert other.mixed(unit * x) == pytest.approx(unit * one.mixed(x))
        one.learn(float(y))
        other.learn(float(unit * y))


@given(st.integers(0, 20))
@settings(max_examples=examples(10))
def test_agreed_models_are_not_changed_by_those_who_go_on_from_them(seed):
    how = NativeSettings("auto")
    models = agreed(how, learnt(how, drawn(20, seed=seed)))
    before = state(models)
    learner = NativeLearner(how)
    learner.begin(models)
    learner.learn(*drawn(30, seed=seed + 1).part(0, 30))
    learner.learnt()
    learner.restore()
    assert state(models) == before
    merging.after(replace(models, table=models.table.copy()), [learner.learnt()], models.labels)
    assert state(models) == before
