"""MasterFLClassifier and MasterFLRegressor as River's users meet them."""

import copy
import importlib
import pickle
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from native_streams import drawn, state
from river import drift, evaluate, metrics
from suites.parameters import full
from unit.run.estimators.test_rows import NA, frame_of, packages

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.errors import BrokenInvariantError, UsageError
from streamfl.machines.client.machine import Client
from streamfl.online.native.learner import NativeLearner
from streamfl.run.estimators.embedded import EmbeddedFederation
from streamfl.sampling import generator

pytestmark = pytest.mark.compiles

SITES = ("north", "south", "east")


def records(n=60, *, seed=0, missing=0.1, targets=False):
    """Return pairs of a dict and a label or target; each record is of one of three sites, in runs."""
    stream = drawn(n, seed=seed, missing=missing, targets=targets)
    rng = generator(seed, "sites")
    sites = np.repeat(rng.integers(0, 3, n), rng.integers(1, 5, n))[:n]
    pairs = []
    for x, y, site in zip(stream.X.tolist(), stream.y, sites, strict=True):
        told = {"x": x[0], "y": x[1], "site": SITES[site]}
        pairs.append((told, float(y) if targets else "abc"[int(y)]))
    return pairs


def without_site(pairs):
    return [({name: value for name, value in x.items() if name != "site"}, y) for x, y in pairs]


def taught(model, pairs):
    for x, y in pairs:
        model.learn_one(x, y)
    return model


def said(model, pairs):
    """Return what a model says of records, to the last bit."""
    if isinstance(model, MasterFLRegressor):
        return [model.predict_one(x) for x, _ in pairs]
    return [model.predict_proba_one(x) for x, _ in pairs]


def close(one, other):
    """Tell that two models say the same, up to how a matrix product of many rows is added up."""
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-12)


def classifier(**more):
    return MasterFLClassifier(**({"round_size": 10, "features": "linear"} | more))


def regressor(**more):
    return MasterFLRegressor(**({"round_size": 10, "features": "linear"} | more))


BOTH = pytest.mark.parametrize(
    ("make", "targets"), [(classifier, False), (regressor, True)], ids=["labels", "targets"]
)


# --- many at once ------------------------------------------------------------------------------------------------


def columns(pairs, names=("x", "y", "site")):
    return {name: [x[name] for x, _ in pairs] for name in names}


@BOTH
@pytest.mark.parametrize("features", ["linear", "auto", "rounds"])
def test_learning_an_array_is_a_loop_over_its_rows(make, targets, features):
    pairs = without_site(records(60, targets=targets))
    X = np.array([[x["x"], x["y"]] for x, _ in pairs])
    numbered = [({"0": x["x"], "1": x["y"]}, y) for x, y in pairs]
    # Of several records asked at once only the first is next after the last answer.
    loop, many = (make(features=features, last_answer=False) for _ in range(2))
    taught(loop, numbered)
    for start, end in ((0, 1), (1, 13), (13, 13), (13, 55), (55, 60)):
        many.learn_many(X[start:end], [y for _, y in pairs[start:end]])
    assert many.summary["rounds"] == loop.summary["rounds"] == 6
    fresh = records(20, seed=7, targets=targets)
    asked = [({"0": x["x"], "1": x["y"]}, y) for x, y in fresh]
    close(said(many, asked), said(loop, asked))
    found = many.predict_many(np.array([list(x.values()) for x, _ in asked]))
    expected = [loop.predict_one(x) for x, _ in asked]
    if targets:
        assert found == pytest.approx(expected)
    else:
        assert found.tolist() == expected
        P = many.predict_proba_many(np.array([list(x.values()) for x, _ in asked]))
        names = many._federation.labels
        close([dict(zip(names, p, strict=True)) for p in P.tolist()], said(loop, asked))


@BOTH
@pytest.mark.parametrize("package", packages())
@pytest.mark.parametrize("client", [None, "site"])
def test_learning_a_data_frame_is_a_loop_over_its_rows(make, targets, package, client):
    pairs = records(60, targets=targets)
    names = ("x", "y") if client is None else ("x", "site", "y")
    pairs = [({name: x[name] for name in names}, y) for x, y in pairs]
    loop, many = (make(client=client, last_answer=False) for _ in range(2))
    taught(loop, pairs)
    for start, end in ((0, 7), (7, 60)):
        y = dataframe_column(package, [y for _, y in pairs[start:end]])
        many.learn_many(frame_of(package, columns(pairs[start:end], names)), y)
    assert many.summary == loop.summary
    assert many.summary["clients"] == (1 if client is None else 3)
    close(said(many, pairs), said(loop, pairs))
    asked = frame_of(package, columns(pairs, names))
    found = many.predict_many(asked)
    assert type(found).__module__.partition(".")[0] == package
    assert list_of(found) == [pytest.approx(loop.predict_one(x)) for x, _ in pairs]
    if not targets:
        P = many.predict_proba_many(asked)
        for name in ("a", "b", "c"):
            assert list_of(P[name]) == pytest.approx([loop.predict_proba_one(x)[name] for x, _ in pairs])


def dataframe_column(package, values):
    module = importlib.import_module(package)
    return module.chunked_array([values]) if package == "pyarrow" else module.Series(values)


def list_of(series):
    return series.to_pylist() if hasattr(series, "to_pylist") else list(series)


def test_the_clients_of_an_array_are_named_by_one_of_its_columns():
    rng = generator(0, "array")
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 2, 40)])
    y = (X[:, 0] > 0).tolist()
    many, loop = classifier(client="1"), classifier(client="1")
    many.learn_many(X, y)
    taught(loop, [({"0": a, "1": b}, label) for (a, b), label in zip(X.tolist(), y, strict=True)])
    assert many.summary == loop.summary
    assert sorted(many._federation.clients) == ["0", "1"]
    assert many.predict_many(X).tolist() == [loop.predict_one({"0": a, "1": b}) for a, b in X.tolist()]


@pytest.mark.parametrize("package", packages())
def test_before_any_label_many_predictions_are_none_at_all(package):
    assert classifier().predict_many(np.zeros((2, 1))).tolist() == [None, None]
    assert classifier().predict_proba_many(np.zeros((2, 1))).shape == (2, 0)
    assert list_of(classifier().predict_many(frame_of(package, {"x": [1.0, 2.0]}))) == []
    assert list_of(regressor().predict_many(frame_of(package, {"x": [1.0, 2.0]}))) == [0.0, 0.0]
    assert regressor().predict_many(np.zeros((2, 1))).tolist() == [0.0, 0.0]


def test_learning_no_records_changes_no_estimator():
    model = classifier()
    model.learn_many(np.zeros((0, 2)), [])
    assert (model.summary["clients"], model.predict_one({"x": 1.0})) == (0, None)


@BOTH
@pytest.mark.parametrize("more", [5, 2000, -5, -10])
def test_one_label_or_target_a_record_is_needed_and_nothing_is_learnt_otherwise(make, targets, more):
    model, asked = make(), records(10, targets=targets)
    y = [1.0, 2.0] * 2000 if targets else ["a", "b"] * 2000
    model.learn_many(np.eye(10), y[:10])
    before = said(model, without_site(asked))
    kind = "targets" if targets else "labels"
    for given in (y[: 10 + more], np.array(y[: 10 + more])):
        with pytest.raises(ValueError, match=f"10 records but {10 + more} {kind}: give one for each record"):
            model.learn_many(np.eye(10), given)
    assert said(model, without_site(asked)) == before
    assert model._federation._learnt_in_round == 0
    model.learn_many(np.eye(10), y[:10])
    assert model.summary["rounds"] == 2


def test_labels_of_a_call_that_was_refused_are_not_known():
    model = classifier()
    model.learn_one({"0": 1.0}, "a")
    with pytest.raises(ValueError, match="one for each"):
        model.learn_many(np.zeros((1, 1)), ["b", "c"])
    with pytest.raises(ValueError, match="a record is a list"):
        model.learn_one([1.0], "d")
    assert model._labels.names == ("a",)


@BOTH
@pytest.mark.parametrize("features", ["linear", "auto", "rounds"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_learnt_an_array_goes_on_to_the_last_bit_when_saved_or_pickled(tmp_path, make, targets, features, order):
    rng = generator(3, "array")
    X = np.array(rng.normal(size=(90, 3)), order=order)
    y = X[:, 0] + X[:, 1] if targets else np.where(X[:, 0] + X[:, 1] > 0, "a", "b")
    model = make(features=features, round_size=20)
    model.learn_many(X[:35], y[:35])
    model.save(tmp_path / "model")
    twins = [type(model).load(tmp_path / "model"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for start in range(35, 90, 5):
        for one in (model, *twins):
            one.learn_many(X[start : start + 5], y[start : start + 5])
        told = model.predict_many(X) if targets else model.predict_proba_many(X)
        for twin in twins:
            assert (twin.predict_many(X) if targets else twin.predict_proba_many(X)).tobytes() == told.tobytes()


# --- weights -----------------------------------------------------------------------------------------------------


@BOTH
def test_a_weight_of_two_is_the_record_twice_and_of_0_not_at_all(make, targets):
    pairs = without_site(records(30, targets=targets))
    weighed, repeated = make(last_answer=False), make(last_answer=False)
    for i, (x, y) in enumerate(pairs):
        weighed.learn_one(x, y, w=(2.0, 0.0, 1, 0)[i % 4])
        for _ in range((2, 0, 1, 0)[i % 4]):
            repeated.learn_one(x, y)
    assert said(weighed, pairs) == said(repeated, pairs)


def test_a_label_that_had_no_weight_is_not_known():
    model = classifier()
    model.learn_one({"x": 1.0}, "a")
    model.learn_one({"x": 1.0}, "b", w=0.0)
    assert model.predict_proba_one({"x": 1.0}) == {"a": 1.0}


@BOTH
@pytest.mark.parametrize("w", [float("nan"), float("inf"), None, "2", -1.0, -0.5, 1001, 10**400, 1j])
def test_a_weight_is_a_number_from_0_to_1000(make, targets, w):
    model = make()
    with pytest.raises(ValueError, match=r"a weight is .*: it must be a number from 0 to 1000"):
        model.learn_one({"x": 1.0}, 1.0, w=w)
    assert (model.summary["clients"], model._labels.names) == (0, ())


@pytest.mark.parametrize("label", [None, np.nan, np.datetime64("NaT"), NA()])
def test_a_missing_label_is_refused_with_what_to_do(label):
    with pytest.raises(ValueError, match=r"a label is .*: leave out records without a label"):
        classifier().learn_one({"x": 1.0}, label)


def test_a_large_weight_is_so_many_records():
    model = regressor(round_size=500)
    model.learn_one({"x": 1.0}, 1.0, w=np.int64(1000))
    assert model.summary["rounds"] == 2


def test_half_a_weight_is_learnt_half_the_time_the_same_with_the_same_seed():
    def learnt(seed, w=0.5):
        model = regressor(seed=seed, round_size=10**6)
        for i in range(400):
            model.learn_one({"x": float(i % 7)}, 1.0, w=w)
        return model._federation._learnt_in_round

    assert 150 < learnt(0) < 250
    assert learnt(0) == learnt(0)
    assert learnt(0) != learnt(1)
    assert 950 < learnt(0, w=2.5) < 1050


def test_a_repetition_by_weight_is_not_a_record_after_another():
    def chances(weight):
        model, rng = classifier(round_size=50), generator(8, "weights")
        for _ in range(150):
            label = "ab"[int(rng.integers(2))]
            model.learn_one({"x": float(rng.normal())}, label, w=weight)
        return model._federation._native("c0").last.state().counts.sum(axis=1)

    np.testing.assert_array_equal(chances(4), chances(1))  # labels follow one another as without repetitions


# --- labels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [(True, False), (np.bool_(True), np.bool_(False)), (1, 2), (np.int64(1), np.int64(2)), ("a", "b"), (1.5, 2.5)],
)
def test_labels_come_back_as_they_were_given(labels):
    model = classifier()
    for i in range(40):  # nothing follows from the label before
        model.learn_one({"x": float(i // 2 % 2)}, labels[i // 2 % 2])
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    assert [model.predict_one({"x": float(i)}) for i in (0, 1)] == plain
    assert list(model.predict_proba_one({"x": 0.0})) == plain
    assert type(model.predict_one({"x": 0.0})) is type(plain[0])


def test_before_the_first_round_closes_the_model_of_rounds_predicts_the_most_frequent_label_so_far():
    model, told = MasterFLClassifier(features="rounds"), []
    for y in "abbbacc":
        told.append(model.predict_one({"x": 1.0}))
        model.learn_one({"x": 1.0}, y)
    assert told == [None, "a", "a", "b", "b", "b", "b"]


def test_numpys_truth_and_pythons_are_one_label():
    model = classifier()
    for i in range(20):
        model.learn_one({"x": float(i % 2)}, np.bool_(i % 2) if i % 4 < 2 else bool(i % 2))
    assert set(model.predict_proba_one({"x": 1.0})) == {True, False}


@pytest.mark.parametrize(("one", "other"), [(1, "1"), ("True", True), ("1.5", 1.5)])
def test_labels_with_the_same_name_are_refused(one, other):
    model = classifier()
    model.learn_one({"x": 1.0}, one)
    before = model.predict_proba_one({"x": 1.0})
    with pytest.raises(ValueError, match="use one kind of label"):
        model.learn_one({"x": 1.0}, other)
    with pytest.raises(ValueError, match="use one kind of label"):
        model.learn_many(np.array([[1.0], [2.0]]), [one, other])
    assert model.predict_proba_one({"x": 1.0}) == before


@pytest.mark.parametrize("first", [True, 1, 1.0])
def test_labels_that_are_equal_are_one_the_one_seen_first(first):
    model = classifier()
    for i, label in enumerate([first, False, True, 1, 1.0, 0, np.float32(1.0), np.int8(0)] * 4):
        model.learn_one({"x": float(i % 2)}, label)
    model.learn_many(np.zeros((3, 1)), np.array([1.0, 0.0, 1.0]))
    told = model.predict_proba_one({"x": 1.0})
    assert [repr(label) for label in told] == [repr(first), "False"]
    assert sum(told.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("label", [None, float("nan"), np.nan, b"x", (1, 2), [1], {}, object, 1j, np.array("a")])
def test_what_is_no_label_is_refused_and_nothing_is_learnt(label):
    model = classifier()
    with pytest.raises(ValueError, match=r"a label is .*(leave out records|it must be a bool, an int)"):
        model.learn_one({"x": 1.0}, label)
    with pytest.raises(ValueError, match="a label is"):
        model.learn_many(np.zeros((2, 1)), ["a", label])
    assert (model.summary["clients"], model._labels.names) == (0, ())


def test_labels_in_a_matrix_are_refused_by_its_shape():
    with pytest.raises(ValueError, match=r"their shape is \(2, 1\)"):
        classifier().learn_many(np.zeros((2, 1)), np.array([["a"], ["b"]]))


@pytest.mark.parametrize(
    ("features", "most", "hint"),
    [
        ("auto", 250, "MasterFLRegressor.*linear"),
        ("ferns", 250, "MasterFLRegressor.*linear"),
        ("linear", 1000, "MasterFLRegressor$"),
    ],
)
def test_too_many_labels_are_taken_for_targets(features, most, hint):
    model = classifier(features=features, round_size=10**6)
    model.learn_one({"0": 1.0}, "first")
    with pytest.raises(ValueError, match=rf"more than {most} labels: if they are amounts.*{hint}"):
        model.learn_many(np.zeros((most, 1)), [0.5 * i for i in range(most)])
    assert model.predict_proba_one({"0": 1.0}) == {"first": 1.0}
    assert (model._federation._learnt_in_round, model._labels.names) == (1, ("first",))
    for i in range(most - 1):
        model._labels.add(model._labels.encode([i]))
    with pytest.raises(ValueError, match=f"more than {most} labels"):
        model.learn_one({"0": 1.0}, "one more")
    model.learn_one({"0": 1.0}, "first")


def test_every_label_seen_is_named_at_once_also_one_that_only_another_client_saw():
    model = classifier(client="site")
    model.learn_one({"x": 0.0, "site": "north"}, "a")
    assert model.predict_proba_one({"x": 0.0, "site": "north"}) == {"a": 1.0}
    model.learn_one({"x": 1.0, "site": "south"}, "b")
    for site in ("north", "south", "nobody"):
        p = model.predict_proba_one({"x": 1.0, "site": site})
        assert list(p) == ["a", "b"]
        assert sum(p.values()) == pytest.approx(1.0)
        assert min(p.values()) >= 0.0


# --- features ----------------------------------------------------------------------------------------------------


@BOTH
def test_what_is_missing_may_be_none_or_nan(make, targets):
    pairs = without_site(records(40, targets=targets, missing=0.4))
    none = [({k: None if np.isnan(v) else v for k, v in x.items()}, y) for x, y in pairs]
    one, other = taught(make(), pairs), taught(make(), none)
    assert said(one, pairs) == said(other, none)
    close(said(one, [({}, None)]), said(other, [({}, None)]))


def test_records_without_features_and_features_without_a_value_are_learnt():
    model = classifier(features="auto")
    for x, y in (({}, "a"), ({"x": None}, "b"), ({}, "b"), ({"x": 1.0}, "b"), ({"z": 2.0}, "a")):
        model.learn_one(x, y)
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
    assert model.predict_one({}) in {"a", "b"}


def test_a_feature_that_emerges_is_learnt_though_every_record_is_predicted_first():
    model, rng = classifier(round_size=10**6), generator(0, "emerging")
    right = []
    for i in range(300):
        y = int(rng.integers(0, 2))
        x = {"noise": float(rng.normal())} | ({"tells": y + 0.1 * float(rng.normal())} if i >= 100 else {})
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    assert np.mean(right[20:100]) < 0.75
    assert np.mean(right[150:]) > 0.95


def test_a_record_is_copied():
    x = {"x": 1.0}
    model = taught(classifier(), [(x, "a"), ({"x": 2.0}, "b")])
    expected = model.predict_proba_one({"x": 3.0})
    x["x"] = 99.0
    assert model.predict_proba_one({"x": 3.0}) == expected


@pytest.mark.parametrize("y", [float("nan"), float("inf"), None, "much", 10**400, 1.1e30, -1e200, [1.0], 1j])
def test_a_target_must_be_a_finite_number(y):
    model = regressor()
    with pytest.raises(ValueError, match=r"a target is .*: it must be a finite number, at most 1e\+30"):
        model.learn_one({"x": 1.0}, y)
    with pytest.raises(ValueError, match="a target is"):
        model.learn_many(np.array([[1.0], [2.0]]), [1.0, y])
    assert model.predict_one({"x": 1.0}) == 0.0


# --- clients -----------------------------------------------------------------------------------------------------


def test_clients_of_very_unequal_rates_close_rounds_together():
    model = classifier(client="site")
    pairs = [({**x, "site": "busy" if i % 20 else "idle"}, y) for i, (x, y) in enumerate(records(400))]
    taught(model, pairs)
    # Twenty records a round, on average ten a client.
    assert model.summary["rounds"] == 20
    state = model._federation.state
    assert state is not None
    assert {name: member.read for name, member in state.members.items()} == {"busy": 380, "idle": 20}
    # The idle one knows what the busy one has learnt.
    probe = records(100, seed=4, missing=0.0)
    right = {s: np.mean([model.predict_one({**x, "site": s}) == y for x, y in probe]) for s in ("busy", "idle")}
    assert min(right.values()) > 0.65


def test_a_client_that_appears_late_answers_at_once_and_takes_part_from_the_next_round_on():
    model = classifier(client="site")
    pairs = records(85, missing=0.0)
    early = [({**x, "site": "early"}, y) for x, y in pairs]
    taught(model, early[:45])
    late = {**pairs[50][0], "site": "late"}
    # Nobody knows it yet: the first client answers.
    assert model.predict_proba_one(late) == model.predict_proba_one({**late, "site": "early"})
    assert model.summary["clients"] == 1
    model.learn_one(late, pairs[50][1])
    assert model.summary["clients"] == 2
    assert sum(model.predict_proba_one(late).values()) == pytest.approx(1.0)
    state = model._federation.state
    assert state is not None
    assert set(state.members) == {"early"}
    for x, y in pairs[51:65]:
        model.learn_one({**x, "site": "late"}, y)
    state = model._federation.state
    assert {name: member.read for name, member in state.members.items()} == {"early": 45, "late": 15}
    # From agreed models on it knows what the early one was taught.
    probe = [({**x, "site": "late"}, y) for x, y in records(100, seed=4, missing=0.0)]
    assert np.mean([model.predict_one(x) == y for x, y in probe]) > 0.65


def test_more_than_a_hundred_clients_are_refused_by_the_name_of_the_last():
    model = classifier(client="id", round_size=10**6)
    for i in range(100):
        model.learn_one({"x": 1.0, "id": i}, "a")
    with pytest.raises(ValueError, match="more than 100 clients: does '100' come from a feature that names clients"):
        model.learn_one({"x": 1.0, "id": 100}, "a")
    model.learn_one({"x": 1.0, "id": 99}, "a")
    assert model.summary["clients"] == 100


def test_records_without_a_client_go_to_one_that_has_no_name():
    model = classifier(client="site")
    model.learn_one({"x": 1.0, "site": ""}, "a")
    model.learn_one({"x": 1.0}, "a")
    assert model._federation.clients == ("",)


def test_a_client_is_the_same_in_a_frame_with_a_missing_one_as_in_dicts():
    model = classifier(client="site", round_size=10**6)
    model.learn_many(frame_of("polars", {"x": [1.0, 2.0, 3.0], "site": [1.0, None, float("nan")]}), ["a", "b", "a"])
    for site in (1, 1.0, np.int64(1), None, float("nan")):
        model.learn_one({"x": 1.0, "site": site}, "a")
    assert model._federation.clients == ("1", "")


def test_too_many_clients_of_a_call_are_refused_before_any_is_taught():
    model = classifier(client="1", round_size=10**6)
    X = np.column_stack([np.zeros(101), np.arange(101)])
    with pytest.raises(ValueError, match="more than 100 clients: does '100' come from"):
        model.learn_many(X, ["a"] * 101)
    assert (model.summary["clients"], model._labels.names) == (0, ())


# --- rounds and drift --------------------------------------------------------------------------------------------


def swapped(n, at, *, seed=0):
    rng = generator(seed, "swap")
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + 3.0 * y[:, None]
    y = np.where(np.arange(n) >= at, 1 - y, y)
    return [({"a": a, "b": b}, ("no", "yes")[int(label)]) for (a, b), label in zip(X.tolist(), y, strict=True)]


def test_a_swap_of_classes_is_detected_and_told_in_the_call_that_closed_the_round():
    model, detected = classifier(round_size=50, seed=1), []
    for i, (x, y) in enumerate(swapped(800, 500)):
        model.learn_one(x, y)
        if model.drift_detected:
            detected.append(i)
    assert len(detected) == len(model.restarts) == model.summary["restarts"] == 1
    (restart,) = model.restarts
    assert detected == [50 * restart["round"] - 1]
    assert 11 <= restart["round"] <= 13
    assert (restart["cause"], restart["chosen"]) == ("excess", "relabelled")
    assert restart["statistic"] > restart["threshold"]
    # Counted from 1: the record with which it came, and the first of the round since which the classes are swapped.
    assert restart["record"] == detected[0] + 1
    assert restart["since_record"] == 50 * (restart["since"] - 1) + 1
    assert restart["positions"] == {"c0": (50 * (restart["since"] - 1), detected[0] + 1)}
    assert restart["drift"] == restart["round"]


def test_the_records_of_a_restart_are_counted_through_clients_weights_and_files(tmp_path):
    pairs = swapped(800, 500)
    model = classifier(round_size=25, client="site", seed=1)
    for i, (x, y) in enumerate(pairs):
        if i == 300:
            model.save(tmp_path / "halfway")
            model = MasterFLClassifier.load(tmp_path / "halfway")
        model.learn_one({**x, "site": "ab"[i % 2]}, y, w=2 if i < 100 else 1)
        if model.drift_detected:
            break
    (restart,) = model.restarts
    assert restart["record"] == i + 1 + 100  # the first hundred count twice
    assert restart["since_record"] == 50 * (restart["since"] - 1) + 1
    assert 500 < restart["since_record"] <= restart["record"] + 1


def test_a_site_that_drifts_alone_is_told_with_its_records(tmp_path):
    rng = np.random.default_rng(2)
    model = classifier(round_size=30, client="site", features="rounds", seed=1)
    for i in range(30 * 40 * 6):
        site, y = i % 6, int(rng.integers(2))
        x = {"a": rng.normal() + 2.0 * y, "site": f"s{site}"}
        model.learn_one(x, 1 - y if site == 2 and i >= 30 * 20 * 6 else y)
    first = model.local_drifts[0]
    assert (first["clients"], first["state"], model.restarts) == (("s2",), "latched", [])
    # A round closes when each site has 30 records, here every 180.
    assert first["since_record"] == 180 * (first["since"] - 1) + 1
    assert first["record"] == 180 * first["round"]
    assert 20 <= first["since"] <= first["round"] < 30
    assert first["positions"]["s2"] == (30 * (first["since"] - 1), 30 * first["round"])
    model.save(tmp_path / "saved")
    assert MasterFLClassifier.load(tmp_path / "saved").local_drifts == model.local_drifts


def test_where_rounds_began_is_known_of_the_last_thousand():
    federation = EmbeddedFederation("classification")
    for t in range(1, 3001):
        federation._note_start(t)
    assert sorted(federation._starts) == list(range(2001, 3001))


def test_a_detector_of_river_may_be_given_itself_and_says_what_its_name_says(tmp_path):
    def restarts(detector):
        model = classifier(round_size=20, features="rounds", detector=detector, seed=1)
        for x, y in swapped(1000, 500):
            model.learn_one(x, y)
        return model, model.restarts

    model, told = restarts(drift.PageHinkley(threshold=0.3))
    assert told == restarts("river:PageHinkley(threshold=0.3)")[1]
    assert [restart["cause"] for restart in told] == ["PageHinkley(threshold=0.3)"]
    assert isinstance(model.clone().detector, drift.PageHinkley)
    model.save(tmp_path / "file")
    loaded = MasterFLClassifier.load(tmp_path / "file")
    assert (loaded.detector, loaded.restarts) == ("river:PageHinkley(threshold=0.3)", told)


def test_learning_many_tells_of_a_drift_in_any_of_its_rounds():
    pairs = swapped(800, 500)
    X, y = np.array([list(x.values()) for x, _ in pairs]), [y for _, y in pairs]
    model = classifier(round_size=50, seed=1)
    model.learn_many(X[:500], y[:500])
    assert not model.drift_detected
    model.learn_many(X[500:], y[500:])
    assert model.drift_detected
    model.learn_many(X[:0], y[:0])
    assert not model.drift_detected


def closing(monkeypatch, model, restarting):
    """Let a federation restart in some of its rounds, counted from 1."""
    federation = model._federation
    close_round, closed = federation._close_round, []

    def closes():
        close_round()
        closed.append(1)
        if len(closed) in restarting:
            federation.restarted += 1

    monkeypatch.setattr(federation, "_close_round", closes)


def test_a_drift_in_the_first_of_a_records_repetitions_is_told(monkeypatch):
    model = classifier(round_size=2)
    closing(monkeypatch, model, {1})
    model.learn_one({"x": 1.0}, "a", w=5)
    assert model.drift_detected
    model.learn_one({"x": 1.0}, "a", w=0)
    assert not model.drift_detected


def test_restarts_are_told_after_more_than_are_remembered():
    model = classifier(round_size=20)
    federation = model._federation
    federation.restarts.extend([None] * 2000)
    federation.restarted = 2000
    assert len(federation.restarts) == 1000
    assert model.summary["restarts"] == 2000
    model.learn_one({"x": 1.0}, "a")
    assert not model.drift_detected
    federation.restarted += 1
    assert model.drift_detected


def test_the_shares_of_an_estimators_experts_sum_to_one():
    model = taught(classifier(features="auto"), without_site(records(40)))
    serving = model.summary["serving"]
    assert set(serving) == {
        "linear-10", "fern-8-0.3", "fern-8-10", "fern-24-0.3", "fern-24-10", "whitened-0.01", "whitened-0.1",
        "neighbours-100", "neighbours-1000", "rounds", "last-answer", "own",
    }  # fmt: skip
    assert sum(serving.values()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"round_size": 0}, "round_size is 0: it must be a whole number, 1 or more"),
        ({"round_size": 2.5}, "round_size is 2.5: it must be a whole number"),
        ({"neighbours": 3}, "neighbours is 3: it must be True or False"),
        ({"round_size": 10.0}, "round_size is 10.0"),
        ({"round_size": True}, "round_size is True"),
        ({"round_size": "10"}, "round_size is '10'"),
        ({"seed": -1}, "seed is -1: it must be a whole number, 0 or more"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"seed": None}, "seed is None"),
        ({"features": "all"}, "^no features are called 'all': use one of auto, linear, ferns, rounds$"),
        ({"features": ["auto"]}, "no features are called"),
    ],
)
def test_an_estimator_refuses_impossible_parameters_at_once(more, message):
    for kind in (MasterFLClassifier, MasterFLRegressor):
        with pytest.raises(ValueError, match=message):
            kind(**more)


@pytest.mark.parametrize("detector", ["none", "river:X"])
def test_a_detector_that_is_not_there_is_refused(detector):
    with pytest.raises(UsageError, match="detector"):
        MasterFLClassifier(detector=detector)


@BOTH
def test_parameters_of_an_estimator_may_be_numbers_of_numpy(tmp_path, make, targets):
    numpy = {"round_size": np.int64(10), "seed": np.int32(3), "neighbours": np.bool_(False)}
    pairs = without_site(records(30, targets=targets))
    one, other = taught(make(**numpy), pairs), taught(make(round_size=10, seed=3, neighbours=False), pairs)
    assert said(one, pairs) == said(other, pairs)
    one.save(tmp_path / "model")
    again = type(one).load(tmp_path / "model")
    assert said(again, pairs) == said(one, pairs)
    assert again._get_params() == other._get_params()


# --- copies ------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("features", ["linear", "auto", "rounds"])
@pytest.mark.parametrize("at", [7, 20, 33])
def test_pickling_in_the_middle_of_a_round_goes_on_identically(make, targets, features, at):
    pairs = records(60, targets=targets)
    model = taught(make(features=features, client="site"), pairs[:at])
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for twin in twins:
        assert said(twin, pairs) == said(model, pairs)
    taught(model, pairs[at:])
    for twin in twins:
        taught(twin, pairs[at:])
        assert said(twin, pairs) == said(model, pairs)
        assert twin.summary == model.summary


@BOTH
def test_a_clone_is_untrained_and_shares_nothing(make, targets):
    pairs = records(40, targets=targets)
    model = taught(make(client="site", seed=3), pairs)
    clone = model.clone()
    assert repr(clone) == repr(model)
    assert clone._get_params() == model._get_params()
    assert clone.summary["clients"] == 0
    assert clone.predict_one(pairs[0][0]) == (0.0 if targets else None)
    before = said(model, pairs)
    taught(clone, pairs[:25])
    assert said(model, pairs) == before


@BOTH
@pytest.mark.parametrize("features", ["linear", "auto", "rounds"])
def test_predicting_leaves_the_state_alone(make, targets, features):
    pairs, asked = records(60, targets=targets), records(9, seed=5, targets=targets)
    curious, silent = make(features=features, client="site"), make(features=features, client="site")
    frame = frame_of("polars", columns(asked))
    for i, (x, y) in enumerate(pairs):
        curious.predict_one(asked[i % 9][0])
        curious.predict_one({"new": 1.0, "site": "nobody"})
        curious.predict_many(frame)
        if not targets:
            curious.predict_proba_one(x)
        curious.predict_one(x)
        for model in (curious, silent):
            model.learn_one(x, y)
    assert said(curious, asked) == said(silent, asked)
    assert curious.summary == silent.summary
    assert kept(curious) == kept(silent)


def kept(model) -> Any:
    """Return all that the coordinator and the clients hold of online models."""
    federation = model._federation
    clients = {name: node.machine.online_models for name, node in federation._clients.items()}
    return state(federation.state), state(clients, without=["_last_prediction"])


def test_the_same_seed_gives_the_same_predictions_and_another_seed_other_ferns():
    pairs = without_site(records(60))
    one, same, another = (taught(classifier(features="ferns", seed=seed), pairs) for seed in (1, 1, 2))
    assert said(one, pairs) == said(same, pairs) != said(another, pairs)


def test_estimators_learn_labels_and_targets_of_a_simple_stream():
    pairs = without_site(records(600, missing=0.0))
    assert evaluate.progressive_val_score(pairs, classifier(), metrics.Accuracy()).get() > 0.78
    targets = without_site(records(600, missing=0.0, targets=True))
    assert evaluate.progressive_val_score(targets, regressor(), metrics.MAE()).get() < 1.4


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**20, 2.0**40, 2.0**83])
def test_targets_of_any_size_are_learnt_alike_and_close_rounds(scale):
    # Steps are powers of two, and so are the scales: all rounding is alike.
    X = generator(0, "sizes").normal(size=(400, 3))
    y = X @ [1.0, 2.0, -1.0] + 3.0
    plain, scaled = regressor(features="auto", round_size=50), regressor(features="auto", round_size=50)
    plain.learn_many(X, y)
    scaled.learn_many(X, scale * y)
    assert scaled.summary["rounds"] == plain.summary["rounds"] == 8
    np.testing.assert_allclose(scaled.predict_many(X) / scale, plain.predict_many(X), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1e6, 1e12, 1e25])
def test_targets_of_any_size_are_learnt_well_whatever_they_are_rounded_to(scale):
    X = generator(0, "sizes").normal(size=(400, 3))
    y = X @ [1.0, 2.0, -1.0] + 3.0
    model = regressor(features="auto", round_size=50)
    model.learn_many(X, scale * y)
    assert model.summary["rounds"] == 8
    assert np.abs(model.predict_many(X) / scale - y).mean() < 0.05


@pytest.mark.parametrize("far", [1e6, 1e12, 1e30])
def test_one_target_far_out_is_soon_forgotten(far):
    X = generator(0, "sizes").normal(size=(1500, 3))
    y = X @ [1.0, 2.0, -1.0] + 3.0
    told = y.copy()
    told[120] = far
    model = regressor(features="auto", round_size=50)
    model.learn_many(X, told)
    assert model.summary["rounds"] == 30
    assert np.abs(model.predict_many(X) - y)[1000:].mean() < 0.1


@pytest.mark.parametrize("size", [1e9, 1e28])
def test_large_targets_after_a_round_of_zeros_are_learnt_too(size):
    X = generator(0, "sizes").normal(size=(600, 3))
    y = np.where(np.arange(600) < 50, 0.0, size * (X[:, 0] + 2.0))
    model = regressor(round_size=50)
    model.learn_many(X, y)
    assert model.summary["rounds"] == 12
    assert np.abs(model.predict_many(X[50:]) - y[50:]).mean() < 0.1 * np.abs(y).std()


def test_learning_that_was_damaged_is_no_silent_end_of_rounds():
    model = classifier(round_size=10)
    model.learn_many(np.arange(15.0)[:, None], ["a", "b", "a"] * 5)
    online = model._federation._clients["c0"].machine.online_models
    online.learner._models.second[0, 0] += 9.0  # as if a record had been learnt, and not been counted
    with pytest.raises(BrokenInvariantError, match=r"the estimator cannot learn any more.*second moments"):
        model.learn_many(np.arange(15.0)[:, None], ["a", "b", "a"] * 5)
    refuses(model)


def refuses(model: MasterFLClassifier) -> None:
    """An estimator whose lesson was broken off says so whatever is asked, and what to do."""
    for ask in (
        lambda: model.learn_one({"0": 1.0}, "a"),
        lambda: model.learn_many(np.ones((1, 1)), ["a"]),
        lambda: model.predict_one({"0": 1.0}),
        lambda: model.predict_proba_many(np.ones((1, 1))),
        lambda: model.save("nowhere"),
    ):
        with pytest.raises(UsageError, match=r"interrupted by an error, or another thread.*last saved file"):
            ask()


@pytest.mark.parametrize(
    "place", [EmbeddedFederation._add_labels, EmbeddedFederation._close_round, Client.learn_early]
)
def test_a_lesson_that_was_broken_off_is_no_silent_end_of_rounds(place, monkeypatch):
    model, broken = classifier(round_size=10), MemoryError("no room")
    model.learn_many(np.arange(9.0)[:, None], ["a", "b", "a"] * 3)
    owner = Client if place is Client.learn_early else EmbeddedFederation

    def breaks(*parts: object) -> None:
        raise broken

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(owner, place.__name__, breaks)
        model.learn_one({"0": 1.0}, "c")
    refuses(model)


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise KeyboardInterrupt, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_waits_until_the_lesson_is_over_and_nothing_is_lost(monkeypatch):
    stream = drawn(400, missing=0.0)
    labels = stream.y.astype(int).tolist()
    one, two = classifier(round_size=50), classifier(round_size=50)
    one.learn_many(stream.X, labels)
    close, at, pressed = EmbeddedFederation._close_round, 0, 0

    def press(federation: EmbeddedFederation) -> None:
        signal.raise_signal(signal.SIGINT)
        close(federation)

    monkeypatch.setattr(EmbeddedFederation, "_close_round", press)
    while at < 400:
        before = two._federation.rounds * 50
        assert before == at
        try:
            two.learn_many(stream.X[at:], labels[at:])
        except KeyboardInterrupt:
            pressed += 1
        at = two._federation.rounds * 50
    assert pressed == 8
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    for x in stream.X[:20]:
        told = {str(j): value for j, value in enumerate(x.tolist())}
        assert two.predict_proba_one(told) == one.predict_proba_one(told)


@pytest.mark.usefixtures("interruptible")
def test_in_another_thread_learning_leaves_signals_alone():
    model = classifier(round_size=10)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(model.learn_many, np.arange(15.0)[:, None], ["a", "b", "a"] * 5).result()
    assert model.summary["rounds"] == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("make", [classifier, regressor])
def test_what_is_compiled_is_loaded_before_any_record_waits_for_it(make, monkeypatch):
    loaded = []

    def load(learner: NativeLearner) -> None:
        loaded.append(learner)

    monkeypatch.setattr(NativeLearner, "_load", load)
    make()
    assert len(loaded) == 1


def test_a_copy_between_asking_and_learning_goes_on_to_the_same_bit():
    stream = drawn(60)
    model = classifier(features="auto")
    model.learn_many(stream.X[:40], stream.y[:40].astype(int))
    x = {"0": 1.0, "1": 400.0}
    model.predict_one(x)
    again = copy.deepcopy(model)
    for one in (model, again):
        one.learn_one(x, 1)
    assert again.predict_proba_one(x) == model.predict_proba_one(x)


# --- what is refused before anything is learnt --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "what"),
    [
        ({"caf\udce9": 1.0}, "a", "feature's name"),
        ({"x": 1.0}, "\ud800", "label"),
        ({"site": "\udfff"}, "a", "client"),
        ({"wind": "\ud800"}, "a", "feature"),
    ],
)
def test_half_a_surrogate_pair_is_refused_and_nothing_is_lost(x, y, what):
    model = taught(classifier(round_size=5, client="site"), records(17))
    before = said(model, records(3))
    with pytest.raises(ValueError, match=f"{what}.* half a surrogate pair"):
        model.learn_one(x, y)
    assert said(model, records(3)) == before
    taught(model, records(60))
    assert model.summary["rounds"] > 3


def test_more_features_than_can_be_learnt_are_refused_and_nothing_is_lost(monkeypatch, tmp_path):
    monkeypatch.setattr("streamfl.run.estimators.embedded.MOST_ONLINE_FEATURES", 4)
    model = taught(classifier(round_size=5, client="site"), records(17))
    model.learn_one({"x": 1.0, "z": 2.0}, "a")
    model.save(tmp_path / "model")
    for one in (model, type(model).load(tmp_path / "model")):
        before = said(one, records(3))
        with pytest.raises(ValueError, match=r"more than 4 features.*FeatureHasher"):
            one.learn_one({"u": 1.0, "v": 2.0}, "a")
        assert said(one, records(3)) == before
        one.learn_one({"x": 1.0, "u": 2.0}, "a")


def test_a_client_that_the_first_record_does_not_name_is_warned_of():
    model = classifier(client="siet")
    with pytest.warns(UserWarning, match="client='siet': the first record has no such feature"):
        model.learn_one({"x": 1.0, "site": 3}, "a")
    with pytest.warns(UserWarning, match="client='4': the first record has no such feature"):
        classifier(client="4").learn_many(np.ones((2, 4)), ["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one({"x": 1.0, "site": 3}, "a")
        classifier(client="3").learn_many(np.ones((2, 4)), ["a", "b"])
        classifier(client="site").learn_one({"site": None}, "a")


@pytest.mark.parametrize(("name", "value"), [("client", 0), ("detector", None)])
def test_parameters_of_another_kind_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name} is {value}: give "):
        MasterFLClassifier(**{name: value})


def test_times_in_a_data_frame_are_left_out():
    frame = pl.DataFrame({"x": [1.0, 2.0], "at": [datetime(2026, 1, 1), datetime(2026, 1, 2)]})
    model = classifier()
    with pytest.warns(UserWarning, match="feature 'at' looks like a time and is left out: streamfl.TimeEncoder"):
        model.learn_many(frame, pl.Series(["a", "b"]))
    assert model._federation.features == {"x"}


# --- first values and sensors set anew, however short the rounds -------------------------------------------------


def share_right(round_size: int, features: str, *, first: float | None = None, moves: float = 0.0) -> float:
    """Return how often the sign of one feature is told in the last 200 of 1000 records; it moves after 400."""
    model, rng, right = MasterFLClassifier(round_size=round_size, features=features), generator(1, "values"), []
    for i in range(1000):
        value = float(rng.normal())
        x = {"a": value + (moves if i >= 400 else 0.0)}
        if first is not None and i == 3:
            x["a"] = first
        right.append(model.predict_one(x) == (value > 0))
        model.learn_one(x, value > 0)
    return float(np.mean(right[800:]))


@pytest.mark.parametrize("round_size", [full(1), full(3), full(7), 50])
def test_a_glitch_among_the_first_values_does_not_last(round_size):
    assert share_right(round_size, "linear", first=1e9) > 0.92


@pytest.mark.parametrize("round_size", [full(1), full(3), 7])
def test_a_glitch_among_the_first_values_does_not_last_in_a_model_of_rounds(round_size):
    assert share_right(round_size, "rounds", first=1e9) > 0.92


@pytest.mark.parametrize("round_size", [full(1), full(3), full(7), 50])
def test_a_sensor_that_is_set_anew_is_learnt_anew(round_size):
    assert share_right(round_size, "linear", moves=1000.0) > 0.95


# --- infinity ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MasterFLClassifier, MasterFLRegressor])
def test_infinity_counts_as_missing_and_is_counted(estimator, tmp_path):
    pairs = without_site(records(40, missing=0.0, targets=estimator is MasterFLRegressor))
    odd = [({**x, "x": float("inf"), "y": -np.inf} if i % 5 == 1 else x, y) for i, (x, y) in enumerate(pairs)]
    gaps = [({**x, "x": None, "y": float("nan")} if i % 5 == 1 else x, y) for i, (x, y) in enumerate(pairs)]
    one, other = (taught(estimator(round_size=10, features="linear"), told) for told in (odd, gaps))
    assert said(one, odd) == said(other, gaps)
    assert (one.summary["infinite"], other.summary["infinite"]) == (16, 0)
    one.save(tmp_path / "model")
    assert estimator.load(tmp_path / "model").summary["infinite"] == 16
    many = estimator(round_size=10, features="linear")
    X = np.array([[x["x"], x["y"]] for x, _ in odd])
    many.learn_many(X, [y for _, y in odd])
    assert (many.summary["infinite"], int(np.isinf(X).sum())) == (16, 16)


def test_names_of_any_length_are_learnt():
    # A live federation takes 256 bytes a name; in one process nobody else could send them.
    word, label = "word " * 100, "label " * 100
    model = MasterFLClassifier(round_size=4, features="rounds", seed=1)
    for i in range(12):
        model.learn_one({word: float(i % 2)}, label if i % 2 else "other")
    assert model.summary["rounds"] == 3
    assert model.predict_one({word: 1.0}) == label
