"""Which River models can be federated, and for which task: the registry of River classes."""

from dataclasses import dataclass
from typing import Any, Literal

from river import base, compose, multiclass

from streamfl.errors import UsageError
from streamfl.models.river_models import composites, linear, naive_bayes, scalers, stateless
from streamfl.models.river_models.composites import described, steps_of
from streamfl.models.river_models.form import Form, Merging
from streamfl.models.river_models.refusals import refusal_of

FORMS: dict[type[Any], Form] = {
    **linear.FORMS,
    **naive_bayes.FORMS,
    **scalers.FORMS,
    **stateless.FORMS,
    **composites.FORMS,
}


@dataclass(frozen=True, slots=True)
class ModelKind:
    """The kind of a model that can be federated."""

    # The task; `transformation` if no last step predicts.
    task: Literal["classification", "regression", "transformation"]
    binary: bool  # whether it is a classifier of False and True only
    # How its state is merged: `mean` of weights, `sum` of counts and moments.
    merging: frozenset[Literal["mean", "sum"]]


def federable(model: base.Estimator) -> ModelKind:
    """Return the kind of a model, if the states of several clients can be merged.

    River's `SoftmaxRegression` has no intercept. Give it a constant feature, after the scaler that would make it 0:
    `preprocessing.StandardScaler() | feature_extraction.PolynomialExtender(degree=1, include_bias=True) |
    linear_model.SoftmaxRegression()`.

    Raises
    ------
    UsageError
        The model cannot be federated; the message says why, and what to take instead.

    Examples
    --------
    >>> from river import linear_model, preprocessing, tree
    >>> kind = federable(preprocessing.StandardScaler() | linear_model.LogisticRegression())
    >>> kind.task, kind.binary, sorted(kind.merging)
    ('classification', True, ['mean', 'sum'])
    >>> federable(tree.HoeffdingTreeClassifier())
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: HoeffdingTreeClassifier cannot be federated: ...
    """
    form = FORMS.get(type(model))
    if form is None:
        raise _refused(model, refusal_of(type(model)))
    if (obstacle := form.obstacle(model)) is not None:
        raise _refused(model, obstacle)
    if type(model) is multiclass.OneVsRestClassifier:  # River's isinstance looks at a pipeline's last step
        return _one_vs_rest(model)
    if type(model) in composites.SEPARATORS:
        return _composite(model)
    return ModelKind(_task(model), _binary(model), _merging(form.merging))


def _composite(model: Any) -> ModelKind:
    kinds = [federable(step) for step in steps_of(model).values()]
    if not kinds:
        raise _refused(model, "it has no steps")
    if any(kind.task != "transformation" for kind in (kinds[:-1] if type(model) is compose.Pipeline else kinds)):
        raise _refused(model, "only the last step of a pipeline may predict")
    merging = frozenset(name for kind in kinds for name in kind.merging)
    return ModelKind(kinds[-1].task, kinds[-1].binary, merging)


def _one_vs_rest(model: Any) -> ModelKind:
    kind = federable(model.classifier)
    if kind.task != "classification" or not kind.binary:
        name = described(model.classifier)
        raise _refused(
            model, f"{name} is not a classifier of two labels; if it handles more labels itself, use it alone"
        )
    return ModelKind("classification", False, kind.merging)


def _task(model: Any) -> Literal["classification", "regression", "transformation"]:
    match model:
        case base.Classifier():
            return "classification"
        case base.Regressor():
            return "regression"
    return "transformation"


def _binary(model: Any) -> bool:
    return isinstance(model, base.Classifier) and not model._multiclass


def _merging(merging: Merging) -> frozenset[Literal["mean", "sum"]]:
    return frozenset() if merging == "nothing" else frozenset((merging,))


def _refused(model: Any, reason: str) -> UsageError:
    return UsageError(f"{described(model)} cannot be federated: {reason}")
