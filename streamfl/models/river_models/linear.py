"""River's linear models: their weights are averaged.

The state of an optimizer (moments, sums of squares, the number of steps), and the sums of an L1 penalty, are not
weights: they stay with the client's estimator.
"""

from typing import Any

from river import linear_model, optim, utils

from streamfl.models.river_models.form import Form, Tables
from streamfl.protocol.external.tables import ExportedTable


def _obstacle(model: Any) -> str | None:
    """Refuse optimizers that compute the weights from sums of their own, and would overwrite merged weights."""
    first = getattr(model, "initializer", None)
    if isinstance(first, optim.initializers.Normal) and first.seed is None:
        return "its first weights are drawn at random, others at every client: give optim.initializers.Normal a seed"
    if isinstance(model.optimizer, (optim.FTRLProximal, optim.Averager)):
        name = type(model.optimizer).__name__
        return (
            f"optim.{name} computes the weights from its own sums, so it would discard merged ones: "
            "take optim.SGD or optim.Adam"
        )
    return None


def _glm_tables(model: Any) -> Tables:
    return {
        "weights": ExportedTable.column("mean", "weight", model.weights),
        "intercept": ExportedTable.column("mean", "weight", {"intercept": model.intercept}),
    }


def _set_glm(model: Any, tables: Tables) -> None:
    model._weights = utils.VectorDict(tables["weights"].single())  # `weights` is a copy
    model.intercept = tables["intercept"].single()["intercept"]


def _softmax_tables(model: Any) -> Tables:
    return {"weights": ExportedTable.grid("mean", model.weights)}


def _set_softmax(model: Any, tables: Tables) -> None:
    model.weights.clear()
    for label, weights in tables["weights"].by_column().items():
        model.weights[label].update(weights)


def _pa_tables(model: Any) -> Tables:
    return {
        "weights": ExportedTable.column("mean", "weight", model.weights),
        "intercept": ExportedTable.column("mean", "weight", {"intercept": model.intercept}),
    }


def _set_pa(model: Any, tables: Tables) -> None:
    model.weights.clear()
    model.weights.update(tables["weights"].single())
    model.intercept = tables["intercept"].single()["intercept"]


def _alma_tables(model: Any) -> Tables:
    # k sets the step and the margin; the merged model has made the mean number of steps.
    return {
        "weights": ExportedTable.column("mean", "weight", model.w),
        "steps": ExportedTable.column("mean", "steps", {"k": model.k}),
    }


def _set_alma(model: Any, tables: Tables) -> None:
    model.w.clear()
    model.w.update(tables["weights"].single())
    model.k = tables["steps"].single()["k"]


_GLM = Form("mean", _glm_tables, _set_glm, _obstacle)
_PA = Form("mean", _pa_tables, _set_pa)

FORMS: dict[type[Any], Form] = {
    linear_model.LogisticRegression: _GLM,
    linear_model.LinearRegression: _GLM,
    linear_model.Perceptron: _GLM,
    linear_model.SoftmaxRegression: Form("mean", _softmax_tables, _set_softmax, _obstacle),
    linear_model.PAClassifier: _PA,
    linear_model.PARegressor: _PA,
    linear_model.ALMAClassifier: Form("mean", _alma_tables, _set_alma),
}
