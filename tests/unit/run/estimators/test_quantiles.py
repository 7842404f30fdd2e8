"""A regressor tells the quantiles of a target, by its past errors."""

from pathlib import Path

import numpy as np
import pytest

from streamfl import MasterFLRegressor
from streamfl.errors import UsageError
from streamfl.sampling import generator


def estimator(**more):
    return MasterFLRegressor(**({"round_size": 20, "features": "linear", "quantiles": True} | more))


def records(n):
    """Return records of two sites, one of which has errors five times as large."""
    drawn = generator(0, "quantiles").normal(size=(n, 2)).tolist()
    return [({"x": x, "site": "ab"[i % 2]}, x + noise * (1.0, 5.0)[i % 2]) for i, (x, noise) in enumerate(drawn)]


def taught(model, pairs):
    for x, y in pairs:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize("features", ["linear", "rounds"])
def test_the_errors_are_those_of_what_was_predicted_before_each_record(features):
    model, pairs = estimator(features=features), [({"x": x["x"]}, y) for x, y in records(50)]
    expected = []
    for x, y in pairs:
        expected.append(y - model.predict_one(x))
        model.learn_one(x, y, w=2)
    assert model._federation._errors["c0"].errors == pytest.approx(tuple(expected), rel=1e-9, abs=1e-12)


def test_a_client_has_intervals_of_its_own():
    model = taught(estimator(client="site"), records(300))
    a, b = ([*model.predict_quantiles_one({"x": 0.0, "site": site}).values()] for site in "ab")
    assert b[2] - b[0] > 2.0 * (a[2] - a[0])
    assert model.predict_quantiles_one({"x": 0.0, "site": "new"}) == {}


def test_saved_and_loaded_they_are_the_same(tmp_path: Path):
    pairs = records(90)
    model = taught(estimator(client="site"), pairs[:50])
    model.save(tmp_path / "model")
    again = MasterFLRegressor.load(tmp_path / "model")
    for x, y in pairs[50:]:
        assert again.predict_quantiles_one(x) == model.predict_quantiles_one(x)
        taught(again, [(x, y)])
        taught(model, [(x, y)])


def test_many_at_once_teach_the_same_errors():
    pairs = records(60)
    X, y = np.array([[x["x"]] for x, _ in pairs]), [y for _, y in pairs]
    loop, many = estimator(last_answer=False), estimator(last_answer=False)
    taught(loop, [({"0": x["x"]}, y) for x, y in pairs])
    many.learn_many(X, y)
    assert many._federation._errors["c0"].errors == pytest.approx(loop._federation._errors["c0"].errors)


def test_nobody_who_has_not_asked_pays_for_them():
    model = taught(estimator(quantiles=False), records(30))
    assert model._federation._errors == {}
    with pytest.raises(UsageError, match="make it with quantiles=True"):
        model.predict_quantiles_one({"x": 1.0})
    with pytest.raises(ValueError, match="quantiles is 'yes'"):
        estimator(quantiles="yes")
