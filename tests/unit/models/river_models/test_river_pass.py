"""A client's pass over its records: labels of any kind, what stays local, and whole federations of passes."""

from typing import Any

import numpy as np
import pytest
from river import compose, feature_extraction, linear_model, multiclass, naive_bayes, optim, preprocessing
from river_streams import BINARY, MANY, TARGETS

from streamfl.errors import UsageError
from streamfl.models.river_models import Exported, RiverPass, export, imported, merged

lm, pre, nb = linear_model, preprocessing, naive_bayes


def test_a_pass_learns_what_the_model_would():
    model = pre.StandardScaler() | lm.LogisticRegression()
    alone, over = model.clone(), RiverPass(model)
    for x, y in BINARY[:80]:
        assert over.predict_one(x) == alone.predict_one(x)
        assert over.predict_proba_one(x) == alone.predict_proba_one(x)
        alone.learn_one(x, y)
        over.learn_one(x, y)
    assert over.export().tables["LogisticRegression.weights"].single() == alone["LogisticRegression"].weights
    assert not model["LogisticRegression"].weights


def test_a_pass_begins_at_its_base():
    base = RiverPass(lm.PAClassifier())
    base.learn_one({"x": 2.0}, True)
    over = RiverPass(lm.PAClassifier(), base.export())
    over.learn_one({"y": 4.0}, False)
    # The loss is 1 + 0.25 by the intercept of the base, and the squared norm 16.
    assert over.export().tables["PAClassifier.weights"].single() == {"x": 0.5, "y": -1.25 / 4.0}
    assert base.export().tables["PAClassifier.weights"].single() == {"x": 0.5}


@pytest.mark.parametrize(
    ("labels", "down", "up"),
    [
        (None, False, True),
        (None, np.bool_(False), np.bool_(True)),
        (None, 0, 1),
        (None, "0", "1"),
        (None, "False", "True"),
        (("down", "up"), "down", "up"),
        ((1, 0), 1, 0),
        ((-1, 1), np.int64(-1), np.int64(1)),
    ],
)
def test_two_labels_of_any_kind_are_learnt_alike(labels: Any, down: Any, up: Any):
    over = RiverPass(lm.PAClassifier(), labels=labels)
    over.learn_one({"x": 2.0}, up)
    assert over.export().tables["PAClassifier.weights"].single() == {"x": 0.5}
    false, true = labels or (False, True)
    assert (over.predict_one({"x": -2.0}), over.predict_one({"x": 2.0})) == (false, true)
    assert set(over.predict_proba_one({"x": 2.0})) == {false, true}


@pytest.mark.parametrize("labels", [None, ("down", "up")])
def test_a_third_label_is_refused_with_what_to_take(labels: Any):
    over = RiverPass(lm.PAClassifier(), labels=labels)
    before = over.export()
    with pytest.raises(
        UsageError, match=r"'left' is neither of the labels .*take linear_model\.SoftmaxRegression or multi"
    ):
        over.learn_one({"x": 2.0}, "left")
    assert over.export().tables["PAClassifier.weights"].rows == before.tables["PAClassifier.weights"].rows


@pytest.mark.parametrize("labels", [["up", 3, True], [np.str_("up"), np.int64(3), np.bool_(True)]])
def test_several_labels_are_kept_as_they_are(labels: list[Any]):
    over = RiverPass(nb.GaussianNB())
    assert over.predict_one({"x": 0.0}) is None
    assert over.predict_proba_one({"x": 0.0}) == {}
    for i in range(30):
        over.learn_one({"x": 10.0 * (i % 3) + 0.1 * (i % 2)}, labels[i % 3])
    found = [over.predict_one({"x": 10.0 * i}) for i in range(3)]
    assert found == ["up", 3, True]
    assert [type(label) for label in found] == [str, int, bool]
    assert [type(label) for label in over.predict_proba_one({"x": 0.0})] == [str, int, bool]


def test_a_target_that_is_no_number_is_refused():
    over = RiverPass(lm.PARegressor())
    for x, y in TARGETS[:50]:
        over.learn_one(x, str(y))
    assert type(over.predict_one({"a": 1.0})) is float
    with pytest.raises(UsageError, match="'much' is not a number"):
        over.learn_one({"a": 1.0}, "much")
    with pytest.raises(UsageError, match="PARegressor is a regressor: it gives no probabilities"):
        over.predict_proba_one({"a": 1.0})


def test_records_and_predictions_leave_no_trace():
    over = RiverPass(compose.Renamer({"a": "z"}) | pre.MinMaxScaler() | lm.SoftmaxRegression())
    x = {"a": 1.0, "b": 2.0}
    over.learn_one(x, "up")
    before = over.export()
    over.predict_one(x)
    over.predict_one({**x, "unseen": 1.0})
    over.predict_proba_one(x)
    assert x == {"a": 1.0, "b": 2.0}
    assert {path: table.by_row() for path, table in over.export().tables.items()} == {
        path: table.by_row() for path, table in before.tables.items()
    }


@pytest.mark.parametrize(
    ("model", "labels", "reason"),
    [
        (pre.StandardScaler(), None, "predicts nothing; add a classifier or a regressor at its end"),
        (nb.GaussianNB(), (0, 1), "only a binary classifier takes labels"),
        (lm.PARegressor(), (0, 1), "only a binary classifier takes labels"),
        (lm.PAClassifier(), (1, True), "they must differ"),
    ],
)
def test_what_cannot_be_passed_over_is_refused(model: Any, labels: Any, reason: str):
    with pytest.raises(UsageError, match=reason):
        RiverPass(model, labels=labels)


def test_an_optimizers_state_stays_or_is_reset_as_the_client_wants():
    first = RiverPass(lm.LinearRegression(optim.Adam()))
    for x, y in TARGETS[:20]:
        first.learn_one(x, y)
    kept = RiverPass(first.model, first.export())
    reset = RiverPass(first.model.clone(), first.export())
    assert (kept.model.optimizer.n_iterations, reset.model.optimizer.n_iterations) == (20, 0)
    for x, y in TARGETS[20:40]:
        first.learn_one(x, y)
        kept.learn_one(x, y)
    assert kept.model.weights == first.model.weights


def test_the_optimizer_of_every_label_stays():
    model = multiclass.OneVsRestClassifier(lm.LogisticRegression(optim.Adam()))
    first = RiverPass(model)
    for x, y in MANY[:20]:
        first.learn_one(x, y)
    kept, reset = RiverPass(first.model, first.export()), RiverPass(model, first.export())
    for x, y in MANY[20:40]:
        for over in (first, kept, reset):
            over.learn_one(x, y)
    found = [over.predict_proba_one({"a": 1.0, "b": 3.0}) for over in (first, kept, reset)]
    assert found[0] == found[1] != found[2]


def federated(model: Any, stream: Any, clients: int, each: int) -> tuple[Exported, float]:
    """Return what clients with rounds of some records have learnt, and how many records were predicted right."""
    base, right = export(model), []
    for start in range(0, len(stream), clients * each):
        passes = [RiverPass(model, base) for _ in range(clients)]
        for i, (x, y) in enumerate(stream[start : start + clients * each]):
            right.append(passes[i % clients].predict_one(x) == y)
            passes[i % clients].learn_one(x, y)
        base = merged([(client.export(), float(each)) for client in passes], base)
    return base, float(np.mean(right))


def test_a_federation_of_counts_is_the_model_of_all_records():
    pool = nb.GaussianNB()
    for x, y in MANY:
        pool.learn_one(x, y)
    base, _ = federated(nb.GaussianNB(), MANY, 4, 10)
    found = imported(nb.GaussianNB(), base)
    for x, _ in MANY:
        assert found.predict_proba_one(x) == pytest.approx(pool.predict_proba_one(x), rel=0, abs=1e-13)


@pytest.mark.parametrize(
    "model",
    [
        # Most records are in the middle, which takes an intercept.
        pre.StandardScaler()
        | feature_extraction.PolynomialExtender(degree=1, include_bias=True)
        | lm.SoftmaxRegression(optim.SGD(0.1)),
        pre.StandardScaler()
        | multiclass.OneVsRestClassifier(lm.LogisticRegression(optim.SGD(0.1), intercept_lr=0.1)),
    ],
    ids=str,
)
def test_a_federation_of_weights_learns(model: Any):
    labels = [y for _, y in MANY]
    most = max(labels.count(label) for label in set(labels)) / len(labels)
    assert federated(model, 4 * MANY, 4, 10)[1] > most + 0.15
