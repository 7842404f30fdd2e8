"""What exports hold, by hand; merged models against those of the pool; what does not fit is refused."""

import math
from typing import Any

import numpy as np
import pytest
from river import compose, feature_extraction, linear_model, multiclass, naive_bayes, optim, preprocessing
from river_streams import COUNTS, MANY, Stream

from streamfl.errors import PeerError, UsageError
from streamfl.models.river_models import Exported, export, federable, imported, merged
from streamfl.models.river_models import ExportedTable as Table
from streamfl.wire import codec

lm, pre, nb = linear_model, preprocessing, naive_bayes


def learnt(model: Any, stream: Stream) -> Any:
    for x, y in stream:
        model.learn_one(dict(x), y)
    return model


def test_what_a_scaler_and_weights_are_exported_as():
    model = pre.StandardScaler() | lm.LinearRegression(optim.SGD(0.5), intercept_lr=0.25)
    learnt(model, [({"x": 1.0}, 0.0), ({"x": 3.0}, 1.0)])
    # The second record is z = 1 under mean 2 and variance 1; the slope of the squared loss is 2 (0 - 1).
    tables = export(model).tables
    np.testing.assert_array_equal(tables["StandardScaler.moments"].values, [[2.0, 2.0, 1.0]])
    assert tables["LinearRegression.weights"].single() == {"x": 1.0}
    assert tables["LinearRegression.intercept"].single() == {"intercept": 0.5}


def test_what_gaussians_are_exported_as():
    model = learnt(nb.GaussianNB(), [({"x": 1.0}, True), ({"x": 3.0}, True), ({"x": 5.0, 7: 0.0}, False)])
    tables = export(model).tables
    assert tables["GaussianNB.classes"].single() == {True: 2.0, False: 1.0}
    assert tables["GaussianNB.moments"].by_row() == {
        (True, "x"): [2.0, 2.0, 2.0],
        (False, "x"): [1.0, 5.0, 0.0],
        (False, 7): [1.0, 0.0, 0.0],
    }


def test_a_classifier_a_label_has_its_own_tables():
    model = multiclass.OneVsRestClassifier(lm.PAClassifier())
    learnt(model, [({"x": 2.0}, "up"), ({"x": 2.0}, 3)])
    tables = export(model).tables
    assert list(tables["OneVsRestClassifier.labels"].by_row()) == ["up", 3]
    assert tables["OneVsRestClassifier/#3.weights"].single() == {"x": 0.5}


def test_a_negative_variance_of_river_is_0():
    scaler = pre.StandardScaler()
    scaler.counts["x"], scaler.means["x"], scaler.vars["x"] = 10, 0.1, -4e-16
    again = imported(scaler.clone(), export(scaler))
    assert again.transform_one({"x": 0.2}) == {"x": 0.0}


@pytest.mark.parametrize("make", [nb.GaussianNB, nb.MultinomialNB, nb.BernoulliNB, nb.ComplementNB])
def test_naive_bayes_merged_is_the_model_of_all_records(make):
    pool, base = learnt(make(), COUNTS[:120]), learnt(make(), COUNTS[:30])
    parts = []
    for client in range(3):
        model = learnt(imported(make(), export(base)), COUNTS[30 + client : 120 : 3])
        parts.append((export(model), 1.0))
    found = imported(make(), merged(parts, export(base)))
    for path, table in export(pool).tables.items():
        again = export(found).tables[path].aligned(table.rows, table.columns)
        np.testing.assert_allclose(again, table.values, rtol=1e-14, atol=1e-14)
    for x, _ in COUNTS[120:]:
        p, expected = found.predict_proba_one(x), pool.predict_proba_one(x)
        assert p == pytest.approx(expected, rel=0, abs=1e-13)


def test_a_scaler_merged_with_the_weights_serves_clients_of_different_scales():
    """Two clients that differ in the place of a feature: weights belong to the scale that they were learnt on."""
    near = [(x, y == "high") for x, y in MANY[:120]]
    far = [({**x, "a": x["a"] + 50.0}, y == "high") for x, y in MANY[:120] if "a" in x]
    model = pre.StandardScaler() | lm.LogisticRegression()
    parts = [(export(learnt(model.clone(), records)), float(len(records))) for records in (near, far)]
    together = imported(model, merged(parts, export(model)))
    a = [x["a"] for x, _ in near + far if "a" in x]
    assert together["StandardScaler"].means["a"] == pytest.approx(np.mean(a), rel=1e-12)
    assert together["StandardScaler"].vars["a"] == pytest.approx(np.var(a), rel=1e-12)


def test_a_constant_feature_is_the_intercept_that_softmax_lacks():
    records = [({"x": 1.0 + 0.1 * (i % 3)}, "no" if i % 4 else "yes") for i in range(400)]
    bare = lm.SoftmaxRegression(optim.SGD(0.5))
    extended = feature_extraction.PolynomialExtender(degree=1, include_bias=True) | lm.SoftmaxRegression(
        optim.SGD(0.5)
    )
    at_0 = [learnt(model, records).predict_proba_one({"x": 0.0})["yes"] for model in (bare, extended)]
    assert at_0[0] == 0.5
    assert at_0[1] < 0.4


def exported(model: Any, **tables: Table) -> Exported:
    known = export(model)
    return Exported(known.model, {**known.tables, **tables})


def test_an_export_of_another_model_is_refused():
    with pytest.raises(UsageError, match="an export of PAClassifier cannot be loaded into PARegressor"):
        imported(lm.PARegressor(), export(lm.PAClassifier()))
    one = pre.StandardScaler() + pre.MinMaxScaler()
    with pytest.raises(UsageError, match=r"an export of StandardScaler \+ MinMaxScaler cannot be loaded into MinMax"):
        imported(pre.MinMaxScaler(), export(one))


@pytest.mark.parametrize(
    ("model", "tables", "reason"),
    [
        (lm.PAClassifier(), {"PAClassifier.more": Table.column("mean", "w", {})}, "it has no PAClassifier.more"),
        (
            lm.PAClassifier(),
            {"PAClassifier.weights": Table.column("sum", "weight", {})},
            "no PAClassifier.weights that is merged by mean",
        ),
        (
            lm.PAClassifier(),
            {"PAClassifier.weights": Table.of("mean", {"x": (1.0, 2.0)}, ("v", "w"))},
            "not the tables of PAClassifier",
        ),
        (
            lm.PAClassifier(),
            {"PAClassifier.intercept": Table.column("mean", "weight", {})},
            "not the tables of PAClassifier",
        ),
        (
            lm.SoftmaxRegression(),
            {"SoftmaxRegression.weights": Table("mean", ("x",), ("#1", "#true"), np.ones((1, 2)))},
            "True and 1 are the same key",
        ),
        (
            nb.GaussianNB(),
            {"GaussianNB.moments": Table.of("moments", {"x": (1.0, 1.0, 0.0)}, ("count", "mean", "m2"))},
            "not the tables of GaussianNB",
        ),
        (
            pre.StandardScaler(),
            {"StandardScaler.moments": Table.of("moments", {"x": (math.inf, 1, 0)}, ("count", "mean", "variance"))},
            "not the tables of StandardScaler",
        ),
        (
            multiclass.OneVsRestClassifier(lm.PAClassifier()),
            {"OneVsRestClassifier.labels": Table("sum", ("up",), (), np.zeros((1, 0)))},
            "no OneVsRestClassifier/up.weights",
        ),
    ],
)
def test_a_broken_export_is_refused(model: Any, tables: dict[str, Table], reason: str):
    with pytest.raises(PeerError, match=reason):
        imported(model, exported(model, **tables))


def test_a_missing_table_is_refused():
    known = export(nb.GaussianNB())
    with pytest.raises(PeerError, match=r"no GaussianNB\.moments"):
        imported(nb.GaussianNB(), Exported(known.model, {"GaussianNB.classes": known.tables["GaussianNB.classes"]}))


def test_bytes_whose_names_and_numbers_differ_are_refused():
    data = codec.encode(export(learnt(lm.PAClassifier(), [({"x": 2.0}, True)])))
    assert b'\\"x\\"' in data
    with pytest.raises(PeerError, match="rows"):
        codec.decode(Exported, data.replace(b'[\\"x\\"]', b"[     ]"))


class Bent(lm.LogisticRegression):
    """A subclass may keep more than its parent."""


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Bent(), "Bent cannot be federated: streamfl does not know what it learns"),
        (pre.StandardScaler() | Bent(), "Bent cannot be federated"),
        (pre.StandardScaler(window_size=9) | lm.PAClassifier(), "StandardScaler cannot be .* leave out window_size"),
        (pre.MinMaxScaler(window_size=9), "leave out window_size"),
        (pre.MaxAbsScaler(window_size=9), "leave out window_size"),
        (pre.FeatureHasher(), "give a seed"),
        (pre.OneHotEncoder(), "give drop_zeros=True, or categories"),
        (pre.OrdinalEncoder(), "give categories"),
        (multiclass.OneVsRestClassifier(nb.GaussianNB()), "GaussianNB is not a classifier of two labels"),
        (multiclass.OneVsRestClassifier(lm.LinearRegression()), "LinearRegression is not a classifier of two labels"),
        (multiclass.OneVsRestClassifier(lm.LogisticRegression(optim.FTRLProximal())), "take optim.SGD"),
        (lm.PAClassifier() | lm.PAClassifier(), "only the last step of a pipeline may predict"),
        (pre.StandardScaler() + lm.PAClassifier(), "only the last step of a pipeline may predict"),
        (compose.Pipeline(), "it has no steps"),
    ],
)
def test_what_cannot_be_federated_is_refused_with_a_reason(model: Any, reason: str):
    for function in (federable, export):
        with pytest.raises(UsageError, match=reason):
            function(model)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (lm.PAClassifier(), ("classification", True, {"mean"})),
        (lm.PARegressor(), ("regression", False, {"mean"})),
        (nb.GaussianNB(), ("classification", False, {"sum"})),
        (pre.MinMaxScaler() | lm.SoftmaxRegression(), ("classification", False, {"mean", "sum"})),
        (pre.Normalizer() | multiclass.OneVsRestClassifier(lm.Perceptron()), ("classification", False, {"mean"})),
        (pre.Normalizer() + pre.StandardScaler(), ("transformation", False, {"sum"})),
        (pre.OneHotEncoder(categories={"a": {1}}), ("transformation", False, set())),
    ],
)
def test_the_kind_tells_what_a_model_is_for(model: Any, kind: tuple[str, bool, set[str]]):
    found = federable(model)
    assert (found.task, found.binary, found.merging) == kind
