"""A River model that is federated: what it sees of records, what it says, and how each client begins a round."""

from typing import Any

import numpy as np
import pytest
from river import feature_extraction, linear_model, multiclass, naive_bayes, optim, preprocessing, tree

from streamfl.errors import UsageError
from streamfl.models.river_models import FederatedRiverModel, RiverPass, export
from streamfl.protocol.external.state import ExternalState
from streamfl.protocol.records import Batch, Span

NAN = float("nan")


def batch(X: list[list[float]], y: list[float], labels: tuple[str, ...] = ("no", "yes")) -> Batch:
    n = len(y)
    features = tuple("abc"[: len(X[0])])
    return Batch(Span("p", 0, n), np.arange(n), features, np.array(X), np.array(y), labels)


def begun(model: Any, labels: tuple[str, ...] = ("no", "yes"), seen: int = 0) -> Any:
    model_ = FederatedRiverModel(model, "classification")
    return model_.begin(ExternalState(model_.initial(), labels, seen))


def test_a_missing_value_is_no_feature():
    over = begun(linear_model.PAClassifier())
    over.learn(batch([[NAN, 2.0]], [1.0]))
    assert over.learnt().state.tables["PAClassifier.weights"].single() == {"b": 0.5}


def test_a_federated_river_model_predicts_only_labels_that_somebody_has_learnt():
    records = batch([[1.0], [-2.0], [3.0]], [1.0, 0.0, 1.0])
    over = begun(linear_model.PAClassifier())
    assert over.learn(records).tolist() == [-1.0, 1.0, 1.0]
    # After the first record weight and intercept are 1, and -2 is on the other side.
    assert begun(linear_model.PAClassifier(), seen=5).learn(records).tolist() == [0.0, 0.0, 1.0]
    assert begun(linear_model.PAClassifier()).answer(records).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("model", [linear_model.PAClassifier(), naive_bayes.GaussianNB()])
def test_probabilities_are_those_of_the_model_by_label(model):
    X, y = [[1.0], [-2.0], [3.0], [-1.0]], [1.0, 0.0, 1.0, 0.0]
    over = begun(model)
    over.learn(batch(X, y))
    binary = isinstance(model, linear_model.PAClassifier)
    alone = RiverPass(model, labels=("no", "yes") if binary else None)
    for (x,), code in zip(X, y, strict=True):
        alone.learn_one({"a": x}, ("no", "yes")[int(code)])
    said = alone.predict_proba_one({"a": 0.7})
    assert over.answer(batch([[0.7]], [0.0])).tolist() == [[said["no"], said["yes"]]]


def test_the_first_agreed_label_is_false_whatever_came_first():
    weights = []
    for labels in (("no", "yes"), ("yes", "no")):
        over = begun(linear_model.PAClassifier(), labels)
        over.learn(batch([[1.0]], [1.0]))
        weights.append(over.learnt().state.tables["PAClassifier.weights"].single()["a"])
    assert weights == [1.0, -1.0]


def test_a_label_that_is_seen_first_follows_the_agreed_ones():
    over = begun(naive_bayes.GaussianNB(), ("yes",))
    served = over.learn(batch([[1.0], [1.0]], [0.0, 0.0]))
    assert (over.labels, served.tolist()) == (("yes", "no"), [-1.0, 1.0])


def test_every_round_begins_with_a_new_optimizer():
    model = linear_model.LogisticRegression(optim.Adam(0.1))
    model_ = FederatedRiverModel(model, "classification")
    records = batch([[1.0], [-2.0]], [1.0, 0.0])
    first = model_.begin(ExternalState(model_.initial(), ("no", "yes")))
    first.learn(records)
    learnt = first.learnt().state
    again = model_.begin(ExternalState(learnt, ("no", "yes"), 2))
    again.learn(records)
    by_hand = RiverPass(model.clone(), learnt)
    for x, y in (({"a": 1.0}, True), ({"a": -2.0}, False)):
        by_hand.learn_one(x, y)
    assert again.learnt().state.tables["LogisticRegression.weights"].single() == by_hand.model.weights


def test_a_model_that_has_learnt_begins_untrained():
    model = linear_model.PAClassifier()
    model.learn_one({"a": 1.0}, True)
    assert FederatedRiverModel(model, "classification").initial().tables["PAClassifier.weights"].rows == ()
    assert export(model).tables["PAClassifier.weights"].rows == ("a",)


class Unwilling(preprocessing.StandardScaler):
    """Refuses negative values."""

    def learn_one(self, x: dict[Any, Any]) -> None:
        if min(x.values()) < 0:
            raise ValueError("negative")
        super().learn_one(x)


def test_a_record_that_river_cannot_learn_counts_as_unlearnt(monkeypatch):
    from streamfl.models.river_models import kind

    monkeypatch.setitem(kind.FORMS, Unwilling, kind.FORMS[preprocessing.StandardScaler])
    over = begun(Unwilling() | naive_bayes.GaussianNB())
    over.learn(batch([[1.0], [-1.0], [3.0]], [1.0, 0.0, 0.0]))
    learnt = over.learnt()
    assert (learnt.records, learnt.unlearnt) == (3, 1)
    assert learnt.state.tables["Unwilling.moments"].values.tolist() == [[2.0, 2.0, 1.0]]
    only = begun(Unwilling() | naive_bayes.GaussianNB())
    only.learn(batch([[-1.0]], [1.0]))
    assert (only.learnt().state, only.learnt().unlearnt) == (None, 1)


def test_targets_are_predicted_from_the_first_record_on():
    model_ = FederatedRiverModel(linear_model.PARegressor(eps=0.0), "regression")
    over = model_.begin(ExternalState(model_.initial()))
    records = batch([[1.0], [1.0]], [3.0, 3.0], labels=())
    # A step is at most 1, of the weight and of the intercept.
    assert over.learn(records).tolist() == [0.0, 2.0]
    assert over.answer(records).shape == (2, 1)
    assert over.labels == ()


@pytest.mark.parametrize(
    ("model", "task", "reason"),
    [
        (tree.HoeffdingTreeClassifier(), "classification", "trees grown on different records have no mean"),
        (linear_model.LinearRegression(), "classification", "is for regression, but the task is classification"),
        (naive_bayes.GaussianNB(), "regression", "is for classification, but the task is regression"),
        (preprocessing.StandardScaler(), "classification", "predicts nothing"),
        (
            linear_model.LogisticRegression(initializer=optim.initializers.Normal()),
            "classification",
            "first weights are drawn at random",
        ),
    ],
)
def test_a_river_model_that_cannot_be_federated_is_refused(model, task, reason):
    with pytest.raises(UsageError, match=reason):
        FederatedRiverModel(model, task)


def test_three_labels_are_too_many_for_a_model_of_two():
    two, more = linear_model.LogisticRegression(), multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    FederatedRiverModel(two, "classification").check(("a", "b"))
    FederatedRiverModel(more, "classification").check(("a", "b", "c"))
    with pytest.raises(
        UsageError, match="LogisticRegression distinguishes two labels, but there are 3: take linear_mod"
    ):
        FederatedRiverModel(two, "classification").check(("a", "b", "c"))


def test_a_federated_river_model_is_named_after_its_classes():
    bias = feature_extraction.PolynomialExtender(degree=1, include_bias=True)
    model_ = FederatedRiverModel(
        preprocessing.StandardScaler() | bias | linear_model.SoftmaxRegression(), "classification"
    )
    assert model_.name == "StandardScaler | PolynomialExtender | SoftmaxRegression"
