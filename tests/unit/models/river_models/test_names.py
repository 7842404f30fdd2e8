"""Models by name: what can be said, and what is told to whoever mistypes."""

import pytest
from river import linear_model, optim

from streamfl.errors import UsageError
from streamfl.models.river_models import named


@pytest.mark.parametrize(
    ("spec", "made"),
    [
        ("river:linear_model.SoftmaxRegression", "SoftmaxRegression"),
        ("river:preprocessing.StandardScaler|linear_model.LogisticRegression", "StandardScaler | LogisticRegression"),
        ("river: preprocessing.StandardScaler() | naive_bayes.GaussianNB ", "StandardScaler | GaussianNB"),
        (
            "river:preprocessing.MaxAbsScaler + preprocessing.Normalizer | linear_model.PARegressor",
            "MaxAbsScaler + Normalizer | PARegressor",
        ),
        (
            "river:(compose.Select('a', 'b')|preprocessing.MinMaxScaler)+compose.Discard('a')|naive_bayes.GaussianNB",
            "['a', 'b'] | MinMaxScaler + ~['a'] | GaussianNB",
        ),
        ("river:multiclass.OneVsRestClassifier(linear_model.Perceptron)", "OneVsRestClassifier(Perceptron)"),
    ],
)
def test_an_expression_names_a_model(spec: str, made: str):
    assert str(named(spec)) == made


def test_parameters_are_numbers_and_other_classes():
    model = named(
        "river:linear_model.LogisticRegression(optim.Adam(lr=optim.schedulers.InverseScaling(0.5)),"
        "loss=optim.losses.Hinge, l2=1e-3, intercept_init=-2)"
    )
    assert isinstance(model, linear_model.LogisticRegression)
    assert isinstance(model.optimizer, optim.Adam)
    assert model.optimizer.lr.get(3) == 0.25
    assert isinstance(model.loss, optim.losses.Hinge)
    assert (model.l2, model.intercept) == (1e-3, -2)


def test_every_call_makes_another_model():
    one, other = (named("river:linear_model.PAClassifier") for _ in range(2))
    one.learn_one({"x": 1.0}, True)
    assert not other.weights


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("river:", "not an expression"),
        ("river:linear_model.", "not an expression"),
        ("river:" + "(" * 500, "not an expression"),
        ("river:" + "|".join(["preprocessing.Normalizer"] * 3000), "not an expression"),
        (
            "river:linear_model.LogisticRegresion",
            "River has no linear_model.LogisticRegresion; near it are linear_model.Log",
        ),
        ("river:softmaxregression", "near it are linear_model.SoftmaxRegression, "),
        ("river:scaling.StandardScaler|linear_model.PAClassifier", "near it are preprocessing.StandardScaler, "),
        ("river:linear_model.PAClassifier(k=1)", "PAClassifier cannot be made with these parameters: .*'k'"),
        ("river:linear_model.PAClassifier(mode=7)", "PAClassifier cannot be made with these parameters"),
        ("river:linear_model.LogisticRegression(l1=1.0, l2=1.0)", "LogisticRegression cannot be made with these"),
        ("river:linear_model.PAClassifier(**{'C': 1})", "is neither a class nor a plain value"),
        ("river:linear_model.PAClassifier(C=2*3)", r"2 \* 3 is neither a class nor a plain value"),
        ("river:linear_model.PAClassifier(C=1|2)", "only models and transformers are joined by |, and 1 is neither"),
        ("river:preprocessing.Normalizer|1", "only models and transformers are joined by |, and 1 is neither"),
        ("river:optim.SGD", "it names no model"),
        ("river:'x'", "it names no model"),
        ("river:lambda: 0", "is neither a class nor a plain value"),
        ("river:__import__('os').getcwd()", "River has no __import__"),
        ("river:linear_model.PAClassifier.__init__", "River has no linear_model.PAClassifier.__init__"),
        ("river:linear_model.base.functools", "River has no linear_model.base.functools"),
        ("river:datasets.Elec2", "River has no datasets.Elec2"),
        ("river:forest.ARFClassifier", "forest.ARFClassifier cannot be federated: trees grown on different records"),
        (
            "river:ensemble.BaggingClassifier(linear_model.PAClassifier)",
            "ensemble.BaggingClassifier cannot be federated",
        ),
        ("river:ensemble.BaggingClassifier", "ensemble.BaggingClassifier cannot be federated"),
        ("river:preprocessing.OneHotEncoder|linear_model.PAClassifier", "give drop_zeros=True"),
        ("river:linear_model.LogisticRegression(optim.FTRLProximal)", "take optim.SGD"),
    ],
)
def test_what_names_no_model_is_refused_with_a_reason(spec: str, reason: str):
    with pytest.raises(UsageError, match=reason):
        named(spec)
