"""What a client learns online: names that come late, rounds that do not count, and what is told of it."""

from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, Stream, agreed, drawn, exact, learnt, state
from unit.machines.script import opening

from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.learning.serving import Serving
from streamfl.models import Softmax
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import KINDS, ROWS, NativeSettings
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

FEATURES = pytest.mark.parametrize("features", ["linear", "ferns", "auto"])

# A client's own goes on through rounds that do not count; of the agreed table only what changed is kept.
OWN = ("mixture", "near", "own", "last", "_agreed")

NEWS = Stream(
    np.array([[1.0, 500.0, np.nan], [-2.0, np.nan, 4.0], [0.5, 480.0, -3.0]]),
    np.array([0.0, 1.0, 0.0]),
    ("x", "y", "late"),
    ("z", "a"),
)


@FEATURES
@pytest.mark.parametrize("from_nothing", [True, False])
def test_restore_undoes_all_that_a_round_did_to_the_models(features, from_nothing):
    settings = NativeSettings(features)
    learner, stream = NativeLearner(settings), drawn()
    if not from_nothing:
        learner.begin(agreed(settings, learnt(settings, stream, 0, 30)))
    before = state(learner, without=OWN)
    learner.learn(*stream.part(30, 60))
    learner.learn(*NEWS.part(0, 3))
    assert {"z", "c"} < set(learner.labels)
    assert "late" in learner.features
    learner.restore()
    assert state(learner, without=OWN) == before


# --- asking ------------------------------------------------------------------------------------------------------


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
def test_predicting_changes_no_model(features, targets):
    settings = NativeSettings(features, targets=targets)
    stream, learner = drawn(targets=targets), NativeLearner(settings)
    asked = drawn(20, seed=9, targets=targets)
    for start in (0, 20, 40):
        before = state(learner)
        first = learner.predicted(asked.features, asked.X)
        np.testing.assert_array_equal(learner.predicted(asked.features, asked.X), first)
        assert state(learner) == before
        learner.learn(*stream.part(start, start + 20))


def test_what_is_said_first_of_labels_is_nothing_and_of_targets_0():
    X = np.array([[1.0], [2.0]])
    assert NativeLearner(NativeSettings("linear")).predicted(("x",), X).shape == (2, 0)
    assert NativeLearner(NativeSettings("linear", targets=True)).predicted(("x",), X).tolist() == [[0.0], [0.0]]


@FEATURES
def test_answers_are_what_learning_serves(features):
    stream = drawn()
    asked, learns = NativeLearner(NativeSettings(features)), NativeLearner(NativeSettings(features))
    asked.learn(*stream.part(0, 30))
    served = likeliest(learns.learn(*stream.part(0, 60)))[30:]
    for i in range(30, 60):
        said = asked.predicted(stream.features, stream.X[i : i + 1])
        assert said.sum() == pytest.approx(1.0)
        assert (said >= 0.0).all()
        assert said[0].argmax() == served[i - 30]
        asked.learn(*stream.part(i, i + 1))


def test_the_order_of_columns_changes_no_bit_and_unknown_ones_are_not_looked_at():
    stream = drawn()
    turned = Stream(np.hstack([stream.X[:, ::-1], stream.X]), stream.y, ("y", "x", "u", "v"))
    one, other = NativeLearner(NativeSettings("auto")), NativeLearner(NativeSettings("auto"))
    one.learn(*stream.part(0, 60))
    other.learn(("y", "x"), turned.X[:, :2], turned.y, turned.labels)
    assert state(one) == state(other)
    np.testing.assert_array_equal(
        one.predicted(stream.features, stream.X), other.predicted(turned.features, turned.X)
    )


@FEATURES
def test_learning_no_records_changes_no_model(features):
    learner = NativeLearner(NativeSettings(features))
    before = state(learner)
    assert learner.learn(("x",), np.zeros((0, 1)), np.zeros(0), ("a",)).shape == (0, 0)
    assert state(learner) == before


# --- names that come late ----------------------------------------------------------------------------------------


@FEATURES
def test_a_feature_begins_with_its_first_value(features):
    stream = drawn(missing=0.0)
    late = stream.X.copy()
    late[:30, 1] = np.nan
    one, other = NativeLearner(NativeSettings(features)), NativeLearner(NativeSettings(features))
    one.learn(("x",), stream.X[:30, :1], stream.y[:30], stream.labels)
    other.learn(stream.features, late[:30], stream.y[:30], stream.labels)
    assert one.features == other.features == ("x",)
    assert state(one) == state(other)
    served = one.learn(stream.features, stream.X[30:], stream.y[30:], stream.labels)
    assert one.features == ("x", "y")
    whole = NativeLearner(NativeSettings(features))
    np.testing.assert_array_equal(whole.learn(stream.features, late, stream.y, stream.labels)[30:], served)
    assert state(one) == state(whole)


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
def test_what_is_served_of_a_record_that_brings_a_feature_is_what_was_answered_before(features, targets):
    settings = NativeSettings(features, targets=targets)
    stream = drawn(60, targets=targets, missing=0.0)
    wide = ("late", *stream.features), np.column_stack([np.where(np.arange(60) < 30, np.nan, 3.0), stream.X])
    asked, served = NativeLearner(settings), NativeLearner(settings)
    asked.learn(*stream.part(0, 30))
    said = asked.predicted(wide[0], wide[1][30:31])[0]
    expected = said[0] if targets else said.argmax()
    found = served.learn(*wide, stream.y, stream.labels)[30]
    assert (found[0] if targets else found.argmax()) == expected
    assert asked.features == stream.features


def test_features_with_their_first_value_in_one_record_are_in_the_order_of_their_names():
    learner = NativeLearner(NativeSettings("linear"))
    X = np.array([[np.nan, 1.0, np.nan, np.nan], [2.0, 1.0, 3.0, np.nan]])
    learner.learn(("z", "m", "a", "never"), X, np.zeros(2), ("a",))
    assert learner.features == ("m", "a", "z")


@FEATURES
def test_a_label_that_comes_late_begins_with_no_weight(features):
    stream = drawn(missing=0.0)
    learner, without = NativeLearner(NativeSettings(features)), NativeLearner(NativeSettings(features))
    served = likeliest(learner.learn(*stream.part(0, 60)))
    first = int(np.flatnonzero(stream.y == 2.0)[0])
    assert len(learner.labels) == 3
    assert 2.0 not in served[: first + 1]
    without.learn(*stream.part(0, first))
    names = stream.features, stream.X[first : first + 1]
    two = without.predicted(*names)
    without.learn(*names, np.array([0.0]), ("c",))
    three = without.predicted(*names)
    assert (two.shape, three.shape) == ((1, 2), (1, 3))
    assert three[0, 2] > 1 / 3


def test_labels_count_in_the_order_in_which_they_came():
    learner = NativeLearner(NativeSettings("linear"))
    X = np.zeros((4, 0))
    assert likeliest(learner.learn((), X, np.array([2.0, 2.0, 0.0, 2.0]), ("a", "b", "c"))).tolist() == [
        -1.0,
        0.0,
        0.0,
        1.0,
    ]
    assert learner.labels == ("c", "a")


# --- another expert ----------------------------------------------------------------------------------------------


def test_what_serves_rounds_is_mixed_in_and_a_label_that_it_does_not_know_has_no_chance_there():
    y = generator(0, "labels").integers(0, 2, 200).astype(np.float64)  # which the features say nothing of
    y[100] = 2.0
    stream = replace(drawn(200, missing=0.0), y=y)
    settings = NativeSettings("linear", neighbours=False)
    models = agreed(settings, learnt(settings, drawn(90, seed=4, missing=0.0), 0, 30), labels=("a", "b"))
    knowing, alone = NativeLearner(settings), NativeLearner(settings)
    told = np.where(y[:, None] == [0.0, 1.0], 0.9, 0.1)
    served = {}
    for name, one, others in (("knowing", knowing, told), ("alone", alone, None)):
        one.begin(models)
        codes = [one.labels.index(label) if label in one.labels else 2 for label in ("a", "b", "c")]
        said = likeliest(one.learn(*stream.part(0, 200), others))
        served[name] = np.mean(said == np.array(codes)[y.astype(int)])
        assert one.labels == ("a", "b", "c")
    assert served["knowing"] > served["alone"] + 0.2
    rounds = settings.experts.index("rounds")
    assert knowing.mixture.shares[rounds] > 0.5
    assert alone.mixture.shares[rounds] < 0.4
    # It counts in answers too.
    x = stream.features, stream.X[:1]
    for code in (0, 1):
        sure = np.eye(2)[[code]]
        assert knowing.predicted(*x, sure)[0, code] > alone.predicted(*x)[0, code]


def test_of_targets_the_mean_of_the_models_stands_in_for_what_serves_rounds():
    settings = NativeSettings("linear", neighbours=False, targets=True)
    stream = drawn(100, targets=True)
    knowing, alone = NativeLearner(settings), NativeLearner(settings)
    errors = [
        np.abs(one.learn(*stream.part(0, 100), others)[:, 0] - stream.y)[50:].mean()
        for one, others in ((knowing, stream.y[:, None] + 0.01), (alone, None))
    ]
    assert errors[0] < 0.5 * errors[1]


# --- rounds ------------------------------------------------------------------------------------------------------


@FEATURES
def test_a_change_of_the_models_does_what_the_whole_state_does(features):
    settings = NativeSettings(features)
    learner, whole = NativeLearner(settings), NativeLearner(settings)
    before = agreed(settings, learnt(settings, drawn(20)))
    learner.begin(before)
    stream = drawn(seed=1)
    learner.learn(*stream.part(0, 30))
    other = NativeLearner(settings)
    other.begin(before)
    other.learn(*stream.part(30, 60))
    parts = [learner.learnt(), other.learnt()]
    after, change = merging.after(replace(before, table=before.table.copy()), parts, ("a", "b", "c"))
    learner.begin(*learner.following(change))
    whole.begin(after)
    np.testing.assert_array_equal(learner.table, whole.table)
    assert state(learner, without=OWN) == state(whole, without=OWN)
    assert learner.records == 0
    # The table apart, of which only the rows that changed are kept, and what the coordinator alone needs.
    without = ("table", "early", "far", "kept_back")
    assert state(learner._agreed, without=without) == state(after, without=without)
    assert state(learner._agreed.steps) != state(before.steps)


@FEATURES
def test_a_change_can_be_taken_again_after_an_interruption_also_once_steps_are_agreed(features):
    settings = NativeSettings(features)
    models, (one, other) = NativeOnlineModels(settings), (NativeLearner(settings), NativeLearner(settings))
    before, stream = NativeState.none(settings), drawn(90)
    for t in range(3):
        for learner, at in ((one, 30 * t), (other, 30 * t + 15)):
            learner.learn(*stream.part(at, at + 15))
        parts = [models.named(learner.as_sent(learner.learnt()), before) for learner in (one, other)]
        before, change = merging.after(before, parts, ("a", "b", "c"))
        following, cells = one.following(change)
        one._table.begin(cells, following.table, following.chain)  # and then it was interrupted
        for learner in (one, other):
            learner.begin(*learner.following(change))
        assert state(one.agreed) == state(other.agreed)
        assert one.agreed.moments.features == before.features


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
def test_a_change_leaves_a_client_what_is_its_own(features, targets):
    settings, stream = NativeSettings(features, targets=targets), drawn(60, targets=targets)
    one, whole, models = NativeLearner(settings), NativeLearner(settings), NativeState.none(settings)
    for start in (0, 20, 40):  # in the second round labels are new, in all of them records
        for learner in (one, whole):
            learner.learn(*stream.part(start, start + 20))
        labels = () if targets else tuple(sorted(one.labels))
        models, change = merging.after(models, [one.learnt()], labels, settings=settings)
        one.begin(*one.following(change))
        whole.begin(replace(models, table=models.table.copy()))
        assert state(one, without=["_agreed"]) == state(whole, without=["_agreed"])
    assert one.near.seen == 60
    if not targets:
        assert one.last.state().counts.sum() > 40.0


def test_a_change_that_does_not_fit_leaves_everything_as_it_is():
    settings, stream = NativeSettings("auto"), drawn(40)
    learner = NativeLearner(settings)
    learner.learn(*stream.part(0, 20))
    _, change = merging.after(NativeState.none(settings), [learner.learnt()], LABELS)
    learner.begin(*learner.following(change))
    learner.learn(*stream.part(20, 40))
    before = state(learner)
    with pytest.raises(PeerError, match="changes of agreed models do not fit them"):
        learner.following(replace(change, cells=change.cells[::-1].copy()))
    with pytest.raises(PeerError, match="changes of agreed models do not fit the ones before"):
        learner.following(replace(change, features=(), labels=(), second=np.zeros((3, 3))))
    assert state(learner) == before


@FEATURES
def test_a_learner_that_learnt_nothing_sends_no_difference(features):
    settings = NativeSettings(features)
    learner = NativeLearner(settings)
    learner.begin(agreed(settings, learnt(settings, drawn())))
    nothing = learner.learnt("c0", 2)
    assert (nothing.records, nothing.labels, nothing.features) == (0, ("a", "b", "c"), ("x", "y"))
    assert not nothing.weights.any()
    assert not nothing.second.any()
    assert (len(nothing.cells), nothing.norms.tolist(), nothing.moments.count.tolist()) == (0, [0.0, 0.0], [0.0, 0.0])
    assert nothing.count.tolist() == [0.0, 0.0]


@FEATURES
def test_a_learner_sends_the_difference_to_the_agreed_models(features):
    settings = NativeSettings(features)
    models = agreed(settings, learnt(settings, drawn()), labels=("a", "b", "c"))
    learner = NativeLearner(settings)
    learner.begin(models)
    learner.learn(*NEWS.part(0, 3))
    part = exact(learner)
    assert (part.labels, part.features, part.records) == (("a", "b", "c", "z"), ("x", "y", "late"), 3)
    grown = models.grown(("late",), ("z",))
    np.testing.assert_allclose(grown.weights + part.weights, learner._models.weights)
    table = grown.table.copy()
    table[part.cells.astype(int)] += part.table
    np.testing.assert_allclose(table, learner.table, atol=1e-6)
    assert part.moments.count.tolist() == part.count.tolist() == [3.0, 2.0, 2.0]
    assert part.moments.mean == pytest.approx([-0.5 / 3, 490.0, 0.5])


# --- predicted, then learnt --------------------------------------------------------------------------------------


@FEATURES
@pytest.mark.parametrize("targets", [False, True])
def test_records_that_were_predicted_before_are_learnt_to_the_same_bits(features, targets):
    settings = NativeSettings(features, targets=targets)
    stream = drawn(60, targets=targets, missing=0.3)
    asked, silent = NativeLearner(settings), NativeLearner(settings)
    for i in range(60):
        x = stream.features, stream.X[i : i + 1]
        others = None if i % 3 else np.array([[0.2, 0.8][: 1 if targets else 2]])
        known = others if targets or len(asked.labels) >= 2 else None
        asked.predicted(*x, known)
        served = [one.learn(*stream.part(i, i + 1), known) for one in (asked, silent)]
        np.testing.assert_array_equal(*served)
    assert state(asked, without=["_last_prediction"]) == state(silent, without=["_last_prediction"])


def test_a_new_label_is_predicted_again_by_every_expert():
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn(("x",), np.array([[1.0], [2.0]]), np.array([0.0, 1.0]), ("a", "b"))
    x = ("x",), np.array([[3.0]])
    learner.predicted(*x)
    assert learner.has_predicted(*x, np.array([1.0]), ("a", "b", "c"))
    assert not learner.has_predicted(*x, np.array([2.0]), ("a", "b", "c"))


def test_a_feature_that_is_new_is_taken_in_though_the_record_was_predicted():
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn(("x",), np.array([[1.0], [2.0]]), np.array([0.0, 1.0]), ("a", "b"))
    new = ("x", "new"), np.array([[3.0, 5.0]])
    learner.predicted(*new)
    learner.learn(*new, np.array([0.0]), ("a", "b"))
    assert learner.features == ("x", "new")


ASKED_BETWEEN = {
    "another record": lambda one: one.predicted(("x", "y"), np.array([[0.1, 480.0]])),
    "several records": lambda one: one.predicted(("x", "y"), np.array([[0.1, 480.0], [3.0, 520.0]])),
    "no record": lambda one: one.predicted(("x", "y"), np.zeros((0, 2))),
    "a record learnt": lambda one: one.learn(*drawn(3, seed=5).part(0, 3)),
    "a new round": lambda one: one.restore(),
}


@pytest.mark.parametrize("between", ASKED_BETWEEN.values(), ids=ASKED_BETWEEN)
@pytest.mark.parametrize("targets", [False, True])
def test_what_happens_between_predicting_and_learning_a_record_leaves_no_trace(between, targets):
    if targets and between is ASKED_BETWEEN["a record learnt"]:
        between = lambda one: one.learn(*drawn(3, seed=5, targets=True).part(0, 3))  # noqa: E731
    settings = NativeSettings("auto", targets=targets)
    stream = drawn(40, targets=targets)
    asked, silent = NativeLearner(settings), NativeLearner(settings)
    for one in (asked, silent):
        one.learn(*stream.part(0, 30))
    asked.predicted(stream.features, stream.X[30:31])
    for one in (asked, silent):
        between(one)
        one.learn(*stream.part(30, 31))
    assert state(asked) == state(silent)


# --- what does not fit -------------------------------------------------------------------------------------------

MISFITS = {
    "weights of fewer features": lambda m: replace(m, weights=m.weights[:-1]),
    "weights of fewer labels": lambda m: replace(m, weights=m.weights[..., :-1].copy()),
    "second moments of fewer features": lambda m: replace(m, second=m.second[:-1, :-1].copy()),
    "a table of fewer labels": lambda m: replace(m, table=m.table[..., :-1].copy()),
    "a table of fewer cells": lambda m: replace(m, table=m.table[:-1]),
    "one norm": lambda m: replace(m, norms=m.norms[:1]),
}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS)
def test_agreed_models_that_do_not_fit_their_names_are_refused_and_nothing_changes(misfit):
    settings = NativeSettings("auto")
    learner = NativeLearner(settings)
    learner.learn(*drawn(20).part(0, 20))
    before = state(learner)
    with pytest.raises(PeerError, match="do not fit their names"):
        learner.begin(misfit(agreed(settings, learnt(settings, drawn(20)))))
    assert state(learner) == before


DAMAGES = {
    "a code that no label has": lambda near: near.y.__setitem__(0, 7.0),
    "a code that is no number": lambda near: near.y.__setitem__(0, np.nan),
    "fewer records than there is room for": lambda near: setattr(near, "y", near.y[:-1]),
    "a feature kept where none is": lambda near: near._features.update(x=5),
    "two labels kept as one": lambda near: near._labels.update(a=1),
    "fewer records than none": lambda near: setattr(near, "seen", -1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_last_records_that_are_damaged_are_refused(damage):
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn(*drawn(20).part(0, 20))
    saved = learner.near
    fresh = NativeLearner(NativeSettings("linear"))
    fresh.remember(saved)
    damage(saved)
    with pytest.raises(PeerError, match="the file is damaged"):
        NativeLearner(NativeSettings("linear")).remember(saved)


def test_a_memory_that_the_settings_do_not_have_or_without_labels_is_refused():
    learner = NativeLearner(NativeSettings("linear"))
    learner.learn(*drawn(20).part(0, 20))
    with pytest.raises(PeerError, match="the file is damaged"):
        NativeLearner(NativeSettings("linear", neighbours=False)).remember(learner.near)
    learner.near._labels.clear()
    with pytest.raises(PeerError, match="the file is damaged"):
        NativeLearner(NativeSettings("linear")).remember(learner.near)


def test_moments_that_do_not_fit_their_names_are_refused():
    settings = NativeSettings("auto")
    models = agreed(settings, learnt(settings, drawn(20)))
    short = replace(models, moments=replace(models.moments, mean=models.moments.mean[:1]))
    for misfit in (short, replace(models, seen=-1)):
        with pytest.raises(PeerError, match="do not fit their names"):
            NativeLearner(settings).begin(misfit)


@pytest.mark.parametrize("interrupted", ["_models", "_scaler", "features"])
def test_a_learner_that_was_interrupted_says_so_and_touches_no_other_memory(interrupted):
    learner = NativeLearner(NativeSettings("auto"))
    learner.learn(*drawn(20).part(0, 20))
    before = getattr(learner, interrupted)
    learner.learn(*NEWS.part(0, 3))
    setattr(learner, interrupted, before)  # as if it had not come to this
    learner._table.changes.arguments = None
    with pytest.raises(BrokenInvariantError, match="interrupted, or another thread"):
        learner.learn(("x", "y"), np.zeros((1, 2)), np.zeros(1), ("z", "a"))


def test_neighbours_that_were_interrupted_have_taken_in_nothing(monkeypatch):
    learner = NativeLearner(NativeSettings("auto"))
    learner.learn(*drawn(20).part(0, 20))
    assert learner.near is not None
    before = state(learner.near)

    def fails(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(np, "asfortranarray", fails)
        learner.near.over(("x", "y", "late"), ("a", "b", "c"))
    assert state(learner.near) == before


@pytest.mark.parametrize("cells", [[-1], [10**9], [0, ROWS]])
def test_rows_that_the_table_has_not_are_refused(cells):
    settings = NativeSettings("ferns")
    models = agreed(settings, learnt(settings, drawn(20)))
    with pytest.raises(PeerError, match="do not fit their names"):
        NativeLearner(settings).begin(replace(models, table=models.table[: len(cells)]), np.array(cells))


def test_records_of_another_width_are_not_handed_to_the_model_of_rounds():
    registry = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
    serving = Serving(opening()[-1], registry, Softmax(), np.ones((2, 2)))
    batch = Batch(Span("p", 0, 1), np.arange(1), ("x",), np.ones((1, 3)), np.zeros(1))
    with pytest.raises(BrokenInvariantError, match="do not fit"):
        NativeLearner(NativeSettings("linear")).predicted_by_rounds(serving, batch)


@pytest.mark.parametrize("damage", [{"mean": np.zeros(2)}, {"scale": np.ones(0)}])
def test_a_registry_that_does_not_fit_its_names_is_not_handed_to_loops(damage):
    registry = replace(Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1)), **damage)
    batch = Batch(Span("p", 0, 1), np.arange(1), ("x",), np.ones((1, 1)), np.zeros(1))
    with pytest.raises(PeerError, match="does not fit its features"):
        NativeLearner(NativeSettings("linear")).predicted_by_rounds(
            Serving(opening()[-1], registry, Softmax(), np.ones((2, 2))), batch
        )


def test_coarser_numbers_are_of_the_same_draws_and_right_on_average():
    settings = NativeSettings("auto")
    learner = NativeLearner(settings)
    learner.learn(*drawn(40).part(0, 40))
    whole = exact(learner)
    plain, coarse, again = (learner.learnt("c0", 1, coarser=coarser) for coarser in (0, 4, 4))
    assert state(coarse) == state(again)
    assert len(coarse.cells) < 0.5 * len(plain.cells)
    told = {"weights", "cells", "visits", "table", "coarser"}
    assert state(coarse, without=told) == state(plain, without=told)  # the steps of the next round are the same
    step = 16.0 * np.ldexp(1.0, np.array(plain.steps.weights) - plain.steps.finer)[:, None]
    assert (np.abs(step * coarse.weights - whole.weights) < step).all()
    mean = np.mean([learner.learnt("c0", t, coarser=4).weights for t in range(400)], axis=0)
    # A number is off by at most a step of deviation 1/2; of 400 the mean by 1/40.
    np.testing.assert_allclose(mean, whole.weights / step, atol=0.13)


def test_large_differences_are_told_in_steps_in_which_they_can_be_added_up():
    settings = NativeSettings("auto", targets=True)
    stream, parts, whole, changes = drawn(40, targets=True), [], [], []
    for factor in (1.0, 2.0**40):
        learner = NativeLearner(settings)
        learner.learn(stream.features, stream.X, factor * stream.y)
        parts.append(learner.learnt())
        whole.append(exact(learner))
        changes.append(
            np.ldexp(1.0, np.array(parts[-1].steps.weights) - parts[-1].steps.finer)[:, None] * parts[-1].weights
        )
    plain, large = parts
    assert np.subtract(large.steps.weights, plain.steps.weights).tolist() == [40] * len(settings.names)
    assert np.subtract(large.steps.table, plain.steps.table).tolist() == [40] * KINDS
    for part, change, difference in zip(parts, changes, whole, strict=True):
        assert max(np.abs(part.weights).max(), np.abs(part.table).max()) <= 1024.0
        step = np.ldexp(1.0, np.array(part.steps.weights) - part.steps.finer)[:, None]
        assert (np.abs(change - difference.weights) < step).all()
    np.testing.assert_allclose(whole[1].weights, 2.0**40 * whole[0].weights, rtol=1e-3)
    both, _ = merging.after(NativeState.none(settings), [plain, large], ())
    one, _ = merging.after(NativeState.none(settings), [large, plain], ())
    np.testing.assert_array_equal(both.weights, one.weights)
    step = np.ldexp(1.0, np.array(large.steps.weights) - large.steps.finer)[:, None]
    assert (np.abs(both.weights - 0.5 * (changes[0] + changes[1])) < step).all()


def test_records_that_do_not_fit_one_another_are_not_learnt():
    stream, learner = drawn(20), NativeLearner(NativeSettings("auto"))
    learner.learn(*stream.part(0, 20))
    with pytest.raises(BrokenInvariantError, match="do not fit"):
        learner.learn(stream.features, stream.X, stream.y[:5], stream.labels)


# --- what lies far out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e4, 1e9, 1e38, 1e155])
@pytest.mark.parametrize("at", [0, 4, 9, 300])
def test_one_target_far_out_is_soon_forgotten(far, at):
    rng = generator(0, "outlier")
    X = rng.normal(size=(1000, 2))
    clean = 2.0 * X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=1000)
    y = clean.copy()
    y[at] = far
    served = NativeLearner(NativeSettings("auto", targets=True)).learn(("a", "b"), X, y)[:, 0]
    error = np.abs(served - clean)
    assert error[at + 100 : at + 200].mean() < 0.4
    assert error[700:].mean() < 0.15


@pytest.mark.parametrize("sentinel", [-9999.0, 1e6, 3.4e38])
@pytest.mark.parametrize("at", [0, 4, 9, 1000])
def test_one_value_far_out_does_not_hide_what_its_feature_says(sentinel, at):
    X = generator(0, "spike").normal(size=(2000, 2))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0.0).astype(float)
    X[at, 0] = sentinel
    learner = NativeLearner(NativeSettings("auto"))
    served = likeliest(learner.learn(("a", "b"), X, y, ("no", "yes")))
    right = np.array(learner.labels)[served.astype(int)] == np.array(["no", "yes"])[y.astype(int)]
    assert right[500:1000].mean() > 0.95
    assert right[1001:].mean() > 0.95


@pytest.mark.parametrize("every", [40, 100])
def test_a_sentinel_now_and_then_does_not_hide_what_its_feature_says(every):
    X = generator(0, "spike").normal(size=(3000, 2))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0.0).astype(float)
    X[::every, 0] = -9999.0
    learner = NativeLearner(NativeSettings("auto"))
    served = likeliest(learner.learn(("a", "b"), X, y, ("no", "yes")))
    right = np.array(learner.labels)[served.astype(int)] == np.array(["no", "yes"])[y.astype(int)]
    right[::every] = True  # what is not told cannot be known
    assert right[1000:].mean() > 0.95


@pytest.mark.parametrize("jump", [30.0, 1e3, 1e6])
def test_a_sensor_that_is_set_anew_is_understood_after_a_few_records(jump):
    X = generator(0, "spike").normal(size=(2000, 2))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0.0).astype(float)
    X[1000:, 0] += jump
    learner = NativeLearner(NativeSettings("auto"))
    served = likeliest(learner.learn(("a", "b"), X, y, ("no", "yes")))
    right = np.array(learner.labels)[served.astype(int)] == np.array(["no", "yes"])[y.astype(int)]
    assert right[1050:].mean() > 0.95
    told = learner.learnt()
    assert told.again == ("a",)
    assert told.moments.mean[0] == pytest.approx(jump, abs=0.2)


def test_a_sensor_that_is_set_anew_at_all_clients_is_scaled_anew_in_the_next_round_too():
    settings = NativeSettings("linear")
    learners = [NativeLearner(settings) for _ in range(2)]
    rng, models = generator(0, "moves"), NativeState.none(settings)
    for t in range(4):
        for learner in learners:
            X = rng.normal(size=(50, 1)) + (1e6 if t >= 2 else 0.0)
            learner.learn(("a",), X, np.zeros(50), ("no",))
        models, change = merging.after(models, [learner.learnt() for learner in learners], ("no",))
        for learner in learners:
            learner.begin(*learner.following(change))
        assert models.moments.mean[0] == pytest.approx(1e6 if t >= 2 else 0.0, abs=0.5)
        assert 0.7 < np.sqrt(models.moments.variance[0]) < 1.3


def arrays(inside):
    """Yield all arrays of a tuple of tuples."""
    for part in inside:
        if isinstance(part, tuple):
            yield from arrays(part)
        elif isinstance(part, np.ndarray):
            yield part


@pytest.mark.parametrize("targets", [False, True])
def test_loops_are_compiled_for_one_layout_of_arrays_whatever_names_come(targets):
    learner, draws = NativeLearner(NativeSettings("auto", targets=targets)), np.random.default_rng(0)
    labels = () if targets else ("b", "a", "c")
    for names in (("x",), ("x", "u"), ("a", "u", "x")):
        y = draws.normal(size=20) if targets else draws.integers(len(names), size=20).astype(float)
        learner.learn(names, draws.normal(size=(20, len(names))), y, labels)
        found = list(arrays(learner._kept_arguments().inside))
        assert len(found) > 40
        assert all(one.flags.c_contiguous and one.flags.writeable for one in found)
