"""Every River model that can be federated: its state through bytes into another one; all others say why not."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import base, compose, feature_extraction, linear_model, multiclass, naive_bayes, optim, preprocessing
from river_streams import BINARY, COUNTS, MANY, TARGETS, Stream, outputs

from streamfl.errors import UsageError
from streamfl.models.river_models import Exported, export, federable, imported
from streamfl.models.river_models.kind import FORMS
from streamfl.models.river_models.refusals import CLASSES, MODULES
from streamfl.wire import codec

lm, pre, nb = linear_model, preprocessing, naive_bayes

# Each builds a model that has learnt nothing, with the records that it is for. Optimizers without a state.
PLAIN: dict[str, tuple[Callable[[], Any], Stream]] = {
    "LogisticRegression": (lm.LogisticRegression, BINARY),
    "LogisticRegression-l2": (lambda: lm.LogisticRegression(optim.SGD(0.1), l2=0.01, intercept_init=0.5), BINARY),
    "LogisticRegression-initial": (
        lambda: lm.LogisticRegression(initializer=optim.initializers.Constant(0.3), intercept_lr=0.1),
        BINARY,
    ),
    "SoftmaxRegression": (lambda: lm.SoftmaxRegression(optim.SGD(0.1), l2=0.01), MANY),
    "LinearRegression": (lm.LinearRegression, TARGETS),
    "Perceptron": (lm.Perceptron, BINARY),
    "PAClassifier": (lambda: lm.PAClassifier(C=0.1), BINARY),
    "PARegressor": (lambda: lm.PARegressor(mode=2, learn_intercept=False), TARGETS),
    "ALMAClassifier": (lm.ALMAClassifier, BINARY),
    "GaussianNB": (nb.GaussianNB, MANY),
    "MultinomialNB": (lambda: nb.MultinomialNB(alpha=0.5), COUNTS),
    "BernoulliNB": (lambda: nb.BernoulliNB(true_threshold=1), COUNTS),
    "ComplementNB": (nb.ComplementNB, COUNTS),
    "OneVsRest": (lambda: multiclass.OneVsRestClassifier(lm.LogisticRegression()), MANY),
    "OneVsRest-Perceptron": (lambda: multiclass.OneVsRestClassifier(lm.Perceptron()), MANY),
    "OneVsRest-PA": (lambda: multiclass.OneVsRestClassifier(lm.PAClassifier()), MANY),
    "OneVsRest-ALMA": (lambda: multiclass.OneVsRestClassifier(lm.ALMAClassifier()), MANY),
    "OneVsRest-pipeline": (
        lambda: multiclass.OneVsRestClassifier(pre.StandardScaler() | lm.LogisticRegression()),
        MANY,
    ),
    "scaled OneVsRest": (
        lambda: pre.StandardScaler() | multiclass.OneVsRestClassifier(lm.LogisticRegression()),
        MANY,
    ),
    "StandardScaler": (lambda: pre.StandardScaler() | lm.SoftmaxRegression(), MANY),
    "StandardScaler-centred": (lambda: pre.StandardScaler(with_std=False) | lm.LinearRegression(), TARGETS),
    "MinMaxScaler": (lambda: pre.MinMaxScaler() | lm.LogisticRegression(), BINARY),
    "MaxAbsScaler": (lambda: pre.MaxAbsScaler() | lm.PARegressor(), TARGETS),
    "constant feature": (
        lambda: (
            pre.StandardScaler()
            | feature_extraction.PolynomialExtender(degree=1, include_bias=True)
            | lm.SoftmaxRegression()
        ),
        MANY,
    ),
    "union": (
        lambda: (
            (compose.Discard("b") | pre.StandardScaler()) + (pre.MinMaxScaler() | compose.Suffixer("_unit"))
            | nb.GaussianNB()
        ),
        MANY,
    ),
    "product": (
        lambda: (
            (pre.StandardScaler() | compose.Prefixer("p_")) * (pre.MaxAbsScaler() | compose.Prefixer("q_"))
            | lm.LogisticRegression()
        ),
        BINARY,
    ),
    "function": (lambda: compose.FuncTransformer(with_square) | lm.PAClassifier(), BINARY),
    "Normalizer": (lambda: pre.Normalizer() | lm.PAClassifier(), BINARY),
    "twice the same step": (lambda: pre.MaxAbsScaler() | pre.MaxAbsScaler() | lm.LinearRegression(), TARGETS),
    "stateless": (
        lambda: (
            compose.Renamer({"a": "z"})
            | compose.SelectType(int, float)
            | pre.Binarizer()
            | pre.FeatureHasher(n_features=8, seed=1)
            | nb.BernoulliNB()
        ),
        MANY,
    ),
    "words": (
        lambda: (
            compose.FuncTransformer(as_text)
            | feature_extraction.BagOfWords(on="text", ngram_range=(1, 2))
            | nb.MultinomialNB()
        ),
        MANY,
    ),
    "values": (
        lambda: (
            compose.FuncTransformer(as_values)
            | pre.OneHotEncoder(drop_zeros=True) + pre.OrdinalEncoder(categories={"a": {"up": 1, "down": 2}, "b": {}})
            | lm.SoftmaxRegression()
        ),
        MANY,
    ),
}

OPTIMIZERS = {
    name: kind
    for name in optim.__all__
    if inspect.isclass(kind := getattr(optim, name)) and issubclass(kind, optim.base.Optimizer)
    if not inspect.isabstract(kind) and kind is not optim.base.Optimizer
}
LOSING = {"Averager", "FTRLProximal"}
TAKEN = {
    lm.LogisticRegression: BINARY,
    lm.LinearRegression: TARGETS,
    lm.SoftmaxRegression: MANY,
}


def with_square(x: dict[str, float]) -> dict[str, float]:
    return x | {"square": x.get("a", 0.0) ** 2}


def as_text(x: dict[str, float]) -> dict[str, str]:
    return {"text": " ".join(f"{name}{name}" if value < 0 else f"{name}b" for name, value in x.items())}


def as_values(x: dict[str, float]) -> dict[str, str]:
    return {name: "up" if x.get(name, 0.0) > 0 else "down" for name in ("a", "b")}


def learnt(model: Any, stream: Stream, first: int, last: int) -> Any:
    for x, y in stream[first:last]:
        model.learn_one(dict(x), y)
    return model


def same(found: Exported, expected: Exported) -> None:
    assert found.model == expected.model
    assert list(found.tables) == list(expected.tables)
    for path, table in expected.tables.items():
        again = found.tables[path]
        assert (again.rule, again.rows, again.columns) == (table.rule, table.rows, table.columns)
        np.testing.assert_array_equal(again.values, table.values)


plain = pytest.mark.parametrize("name", PLAIN)


@plain
@pytest.mark.parametrize("records", [0, 1, 60])
def test_an_import_of_the_export_goes_on_exactly_like_the_model(name: str, records: int) -> None:
    make, stream = PLAIN[name]
    model = learnt(make(), stream, 0, records)
    exported = codec.decode(Exported, codec.encode(export(model)))
    same(exported, export(model))
    again = imported(model.clone(), exported)
    same(export(again), exported)
    assert outputs(again, stream[100:]) == outputs(model, stream[100:])
    learnt(model, stream, 60, 100)
    learnt(again, stream, 60, 100)
    assert outputs(again, stream[100:]) == outputs(model, stream[100:])
    assert outputs(model, stream[100:]) != outputs(make(), stream[100:])


@plain
def test_an_import_replaces_what_was_learnt_and_shares_nothing(name: str) -> None:
    make, stream = PLAIN[name]
    one, other = learnt(make(), stream, 0, 50), learnt(make(), stream, 50, 100)
    other.learn_one({**stream[0][0], "d": 1.0}, stream[0][1])
    before, expected = outputs(other, stream[100:]), outputs(one, stream[100:])
    again = imported(other, export(one))
    same(export(again), export(one))
    assert outputs(again, stream[100:]) == expected
    learnt(again, stream, 50, 90)
    assert outputs(other, stream[100:]) == before
    assert outputs(one, stream[100:]) == expected


@plain
def test_predicting_leaves_the_export_as_it_is(name: str) -> None:
    make, stream = PLAIN[name]
    model = learnt(make(), stream, 0, 50)
    before = export(model)
    outputs(model, [({**x, "unseen": 1.0}, y) for x, y in stream[50:] if "values" not in name])
    same(export(model), before)


@pytest.mark.parametrize("optimizer", sorted(set(OPTIMIZERS) - LOSING))
@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: kind.__name__)
def test_an_optimizers_state_stays_with_the_model_that_is_imported_into(kind: type[Any], optimizer: str) -> None:
    # Newton of River's regressions looks for every feature that it ever saw in every record.
    stream = [(dict.fromkeys("abc", 0.0) | x, y) for x, y in TAKEN[kind]]
    model = learnt(kind(OPTIMIZERS[optimizer]()), stream, 0, 60)
    kept, reset = imported(model, export(model)), imported(model.clone(), export(model))
    assert outputs(reset, stream[100:]) == outputs(model, stream[100:])
    learnt(model, stream, 60, 100)
    assert outputs(learnt(kept, stream, 60, 100), stream[100:]) == outputs(model, stream[100:])
    stateless = optimizer == "SGD"
    assert (outputs(learnt(reset, stream, 60, 100), stream[100:]) == outputs(model, stream[100:])) == stateless


@pytest.mark.parametrize("optimizer", sorted(LOSING))
@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: kind.__name__)
def test_an_optimizer_that_overwrites_merged_weights_is_refused(kind: type[Any], optimizer: str) -> None:
    made = optim.Averager(optim.SGD()) if optimizer == "Averager" else OPTIMIZERS[optimizer]()
    with pytest.raises(UsageError, match=f"optim.{optimizer} computes the weights from its own sums.*take optim.SGD"):
        federable(pre.StandardScaler() | kind(made))


def estimators() -> dict[str, type[Any]]:
    """Return every public estimator of River by its dotted name."""
    found = {}
    for module in importlib.import_module("river.api").__all__:
        members = vars(importlib.import_module(f"river.{module}"))
        for name in members.get("__all__", ()):
            kind = members.get(name)
            if inspect.isclass(kind) and issubclass(kind, base.Estimator) and not inspect.isabstract(kind):
                found[f"{module}.{name}"] = kind
    del found["base.Estimator"]
    return found


@pytest.mark.parametrize("name", estimators())
def test_every_estimator_of_river_is_known_or_refused_with_a_reason_of_its_own(name: str) -> None:
    kind = estimators()[name]
    module = name.partition(".")[0]
    reasons = {CLASSES.get(name), MODULES.get(module)} - {None}
    assert (kind in FORMS) != bool(reasons)
    if kind not in FORMS:
        example = kind.__new__(kind)  # refused by its class alone, whatever its parameters
        with pytest.raises(UsageError) as refused:
            federable(example)
        assert any(str(refused.value).endswith(f"cannot be federated: {reason}") for reason in reasons)


def test_every_reason_is_of_something_that_river_has() -> None:
    there = estimators()
    assert set(CLASSES) <= set(there)
    optional = {"compat"}  # there only where scikit-learn is
    assert set(MODULES) - optional <= {name.partition(".")[0] for name in there}


def test_every_form_of_a_river_model_is_tried_in_these_tests() -> None:
    tried = set()
    for make, _ in PLAIN.values():
        tried |= {type(estimator) for estimator in parts_of(make())}
    assert tried >= set(FORMS) - {compose.Select}


def parts_of(model: Any) -> list[Any]:
    held = [*getattr(model, "steps", {}).values(), *getattr(model, "transformers", {}).values()]
    held += [model.classifier] if type(model) is multiclass.OneVsRestClassifier else []
    return [model, *(part for step in held for part in parts_of(step))]
