"""A model that is federated by its weights: how it begins, what it learns of a round, and what is refused."""

from typing import Any

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.models.by_weights import FederatedWeights
from streamfl.online.external.agreed import agreed_after
from streamfl.online.external.online_models import ExternalOnlineModels
from streamfl.protocol.external.state import ExternalState
from streamfl.protocol.records import Batch, Span

NAMES = tuple("abcdefghijkl")  # more than ten: rows are merged in the order of their names
X = np.random.default_rng(0).normal(size=(40, len(NAMES)))
Y = np.arange(40) % 3.0


class Softmax:
    """Weights of shape (features + 1, labels)."""

    def __init__(self, features: int, labels: int):
        self.W = np.zeros((features + 1, labels))

    def weights(self):
        return self.W

    def set_weights(self, weights):
        self.W = np.array(weights)

    def predict(self, X):
        p = np.exp(np.column_stack([X, np.ones(len(X))]) @ self.W)
        return p / p.sum(axis=1, keepdims=True)

    def learn(self, X, y):
        Z = np.column_stack([X, np.ones(len(X))])
        self.W = self.W - Z.T @ (self.predict(X) - np.eye(self.W.shape[1])[y]) / len(y)


class Vector(Softmax):
    """The same as one vector."""

    def weights(self):
        return self.W.ravel()

    def set_weights(self, weights):
        self.W = np.reshape(weights, self.W.shape)


class Line(Softmax):
    """A regression."""

    def __init__(self, features: int, labels: int):
        self.W = np.zeros(features)

    def predict(self, X):
        return X @ self.W

    def learn(self, X, y):
        self.W = self.W + X.T @ (y - X @ self.W) / len(y)


def batch(rows: slice, names: tuple[str, ...] = NAMES, labels: tuple[str, ...] = ("u", "v", "w")) -> Batch:
    columns = [NAMES.index(name) for name in names]
    at = np.arange(len(X))[rows]
    return Batch(
        Span("p", int(at[0]), int(at[-1]) + 1), at, names, X[rows][:, columns], Y[rows] % len(labels), labels
    )


def learnt(model: FederatedWeights, agreed: ExternalState, *batches: Batch) -> Any:
    begun = model.begin(agreed)
    for part in batches:
        begun.learn(part)
    return begun.learnt()


def begun(
    kind: type[Any] = Softmax, labels: tuple[str, ...] = ("u", "v", "w")
) -> tuple[FederatedWeights, ExternalState]:
    """Return a model and the agreed state after the first round, in which its features became known."""
    model = FederatedWeights(kind, "classification")
    untrained = ExternalState(model.initial(), labels)
    return model, agreed_after(untrained, [learnt(model, untrained, batch(slice(0, 20), labels=labels))], labels)


def weights(state: ExternalState) -> Any:
    return next(table.values for path, table in state.state.tables.items() if path.endswith(".weights"))


def standardised(rows: slice, known: int = 20) -> Any:
    """Return records by the mean and deviation of the first ones, which are known before the round."""
    return (X[rows] - X[:known].mean(axis=0)) / X[:known].std(axis=0)


@pytest.mark.parametrize("kind", [Softmax, Vector])
def test_the_agreed_weights_are_the_mean_of_what_each_client_learns_of_a_round(kind):
    model, agreed = begun(kind)
    parts = [slice(20, 30), slice(30, 40)]
    after = agreed_after(agreed, [learnt(model, agreed, batch(rows)) for rows in parts], agreed.labels)
    by_hand = []
    for rows in parts:
        alone = Softmax(len(NAMES), 3)
        alone.learn(standardised(rows), Y[rows].astype(int))
        by_hand.append(alone.W)
    inputs, found = model.begun(after)
    assert inputs == len(NAMES)
    np.testing.assert_allclose(found.W, np.mean(by_hand, axis=0), rtol=1e-9)


def test_records_are_predicted_by_what_was_agreed_before_their_round():
    model, agreed = begun()
    agreed = agreed_after(agreed, [learnt(model, agreed, batch(slice(20, 30)))], agreed.labels)
    over = model.begin(agreed)
    expected = model.begun(agreed)[1].predict(standardised(slice(30, 40), 30))
    assert over.learn(batch(slice(30, 35))).tolist() == expected[:5].argmax(axis=1).tolist()
    np.testing.assert_allclose(over.answer(batch(slice(30, 40))), expected)


def test_where_batches_end_decides_nothing():
    model, agreed = begun()
    one = learnt(model, agreed, batch(slice(20, 40)))
    many = learnt(model, agreed, *(batch(slice(i, i + 1)) for i in range(20, 40)))
    assert [t.values.tobytes() for t in one.state.tables.values()] == [
        t.values.tobytes() for t in many.state.tables.values()
    ]


def test_a_missing_value_counts_as_the_mean_and_a_feature_that_comes_later_waits_for_a_restart():
    model, agreed = begun()
    fewer = learnt(model, agreed, batch(slice(20, 30), NAMES[:-1]))
    assert weights(ExternalState(fewer.state))[-2].tolist() == [0.0, 0.0, 0.0]
    untrained = ExternalState(model.initial(), ("u", "v", "w"))
    first = agreed_after(untrained, [learnt(model, untrained, batch(slice(0, 20), NAMES[:4]))], ("u", "v", "w"))
    later = agreed_after(first, [learnt(model, first, batch(slice(20, 40)))], ("u", "v", "w"))
    assert model.begun(later)[0] == 4
    again = ExternalState(ExternalOnlineModels(model).model.initial(later.state), later.labels)
    assert (model.begun(again)[0], weights(again).size) == (len(NAMES), 0)


@pytest.mark.parametrize(("kind", "kept"), [(Softmax, True), (Vector, False)])
def test_a_label_that_comes_later_keeps_what_was_learnt_if_labels_have_an_axis(kind, kept):
    model, agreed = begun(kind, ("u", "v"))
    agreed = agreed_after(agreed, [learnt(model, agreed, batch(slice(20, 40), labels=("u", "v")))], ("u", "v"))
    W = model.begun(agreed)[1].W
    assert W.any()
    wider = ExternalState(agreed.state, ("u", "v", "w"), agreed.seen)
    expected = np.column_stack([W, np.zeros(len(W))]) if kept else np.zeros((len(W), 3))
    np.testing.assert_array_equal(model.begun(wider)[1].W, expected)
    assert learnt(model, wider, batch(slice(0, 20))).unlearnt == 0


def test_a_state_that_no_client_can_have_learnt_is_refused():
    model, agreed = begun()
    good = learnt(model, agreed, batch(slice(20, 40))).state
    assert model.refusal(good, agreed) is None
    wider = FederatedWeights(Softmax, "classification").state(model.features(good), 12, Softmax(12, 4))
    fewer = model.state(model.features(good), 11, Softmax(11, 3))
    more = model.state(model.features(good), 13, Softmax(13, 3))
    for wrong in (wider, fewer, more, model.initial(), FederatedWeights(Vector, "classification").initial()):
        assert model.refusal(wrong, agreed)


def test_targets_are_learnt():
    model = FederatedWeights(Line, "regression")
    state = ExternalState(model.initial())
    for start in (0, 20):
        rows = slice(start, start + 20)
        data = Batch(Span("p", start, start + 20), np.arange(start, start + 20), NAMES, X[rows], X[rows, 0])
        state = agreed_after(state, [learnt(model, state, data)], ())
    assert model.begin(state).answer(data)[:, 0] == pytest.approx(
        model.begun(state)[1].predict(standardised(rows, 40))
    )
    assert np.corrcoef(model.begin(state).learn(data), X[rows, 0])[0, 1] > 0.5


def test_an_exception_of_the_model_costs_the_records_of_a_round_and_no_client():
    class Fails(Softmax):
        def learn(self, X, y):
            if len(X) > 6:
                raise ArithmeticError("singular")
            super().learn(X, y)

    model, agreed = begun(Fails)
    found = learnt(model, agreed, batch(slice(20, 40)))
    assert (found.state, found.unlearnt) == (None, 20)


class Random(Softmax):
    def __init__(self, features: int, labels: int):
        self.W = np.random.default_rng().normal(size=(features, labels))


class Remembers(Softmax):
    steps = 0

    def learn(self, X, y):
        type(self).steps += 1
        self.W = self.W + type(self).steps


class Whole(Softmax):
    def weights(self):
        return self.W.astype(int)


class Grows(Softmax):
    def learn(self, X, y):
        self.W = np.ones((7, 7))


class Codes(Softmax):
    def learn(self, X, y):
        pass

    def predict(self, X):
        return np.zeros(len(X))


class Deaf(Softmax):
    def set_weights(self, weights):
        pass

    def learn(self, X, y):
        self.W = np.ones_like(self.W)


class Diverges(Softmax):
    def learn(self, X, y):
        self.W = self.W * np.nan


class Undefined(Codes):
    def predict(self, X):
        return np.full((len(X), self.W.shape[1]), np.nan)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Diverges, "learn\\(\\) must leave finite weights, and left NaN or infinity"),
        (Undefined, "predict\\(\\) must return finite numbers, and returned NaN or infinity"),
        (Random, "two new models must have the same weights: draw with a fixed seed"),
        (Remembers, "the same weights and records must give the same weights"),
        (Whole, "weights\\(\\) must return finite floats"),
        (Grows, "learn\\(\\) must not change the shape"),
        (Codes, "predict\\(\\) must return an array of shape \\(6, 3\\), and returned \\(6,\\)"),
        (Deaf, "weights\\(\\) must return what set_weights\\(\\) was given"),
        (Line, "it fails on six records made up for classification|must return an array of shape"),
    ],
)
def test_a_class_that_cannot_be_federated_is_refused_with_what_it_does(kind, reason):
    with pytest.raises(UsageError, match=f"model {kind.__name__} cannot be federated: .*{reason}"):
        FederatedWeights(kind, "classification")
