"""River models by name: an expression of River's classes, which is parsed and never evaluated."""

import ast
import difflib
import importlib
import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

from river import base

from streamfl.errors import UsageError
from streamfl.models import RIVER
from streamfl.models.river_models.kind import FORMS, federable
from streamfl.models.river_models.refusals import refusal_of

# The operators of expressions. A union copies its parts, so nothing is shared.
OPERATORS: dict[type[ast.operator], str] = {ast.BitOr: "|", ast.Add: "+"}

# Modules that an expression may name besides those of estimators: classes that models take as parameters.
PARAMETERS = ("optim", "optim.losses", "optim.schedulers", "optim.initializers")

# How many similar names are suggested for one that does not exist.
NEAR = 3


def given(model: object) -> base.Estimator:
    """Return the model that is given as an object of River's or as an expression, if it can be federated.

    Raises
    ------
    UsageError
        It is neither, or it cannot be federated.

    >>> print(given("river:linear_model.LogisticRegression"))
    LogisticRegression
    """
    if isinstance(model, str):
        return named(model)
    if not isinstance(model, base.Estimator):
        raise UsageError(f"no model is called {model!r}: give one of River's, or the name of one")
    federable(model)
    return model


def named(spec: str) -> base.Estimator:
    """Return the model that an expression names, if it can be federated.

    Classes are named as in River, with their module. `|` joins steps to a pipeline, `+` transformers to a union, and
    parentheses hold parameters: numbers, text, lists of them, or other classes. A class without parentheses has
    River's defaults. The expression is parsed, not evaluated: it can name only River's own public classes.

    Parameters
    ----------
    spec
        The expression, such as
        `river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optimizer=optim.SGD(0.1))`.

    Raises
    ------
    UsageError
        It is not such an expression, River has no such class, or the model cannot be federated.

    Examples
    --------
    >>> print(named("river:preprocessing.StandardScaler|linear_model.LogisticRegression(l2=0.01)"))
    StandardScaler | LogisticRegression
    >>> named("river:linear_model.SoftMax")
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: river:linear_model.SoftMax: River has no linear_model.SoftMax; near it ...
    """
    try:
        model = _made(ast.parse(spec.removeprefix(RIVER).strip(), mode="eval").body, spec)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refused(spec, "not an expression; name classes as in preprocessing.StandardScaler|...") from error
    if not isinstance(model, base.Estimator):
        raise _refused(spec, "it names no model")
    federable(model)
    return model


def _made(node: ast.expr, spec: str) -> Any:
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return _joined(_made(left, spec), OPERATORS[type(op)], _made(right, spec), spec)
        case ast.Call(func, positional, keywords) if all(keyword.arg for keyword in keywords):
            given = [_made(argument, spec) for argument in positional]
            return _built(_class(func, spec), given, {str(k.arg): _made(k.value, spec) for k in keywords}, spec)
        case ast.Attribute() | ast.Name():
            return _built(_class(node, spec), [], {}, spec)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise _refused(spec, f"{ast.unparse(node)} is neither a class nor a plain value") from error


def _joined(left: Any, operator: str, right: Any, spec: str) -> Any:
    for side in (left, right):
        if not isinstance(side, base.Estimator):
            raise _refused(spec, f"only models and transformers are joined by {operator}, and {side!r} is neither")
    try:
        return left | right if operator == "|" else left + right
    except (TypeError, ValueError) as error:
        raise _refused(spec, f"{left} {operator} {right}: {error}") from error


def _built(kind: type[Any], positional: list[Any], keywords: dict[str, Any], spec: str) -> Any:
    try:
        return kind(*positional, **keywords)
    except Exception as error:  # River's constructors raise what they like
        raise _refused(spec, f"{kind.__name__} cannot be made with these parameters: {error}") from error


def _class(node: ast.expr, spec: str) -> type[Any]:
    """Return the class with a dotted name, if models with it can be federated."""
    name, known = ast.unparse(node), _classes()
    if name not in known:
        raise _refused(spec, f"River has no {name}; near it are {', '.join(_near(name, known))}")
    kind = known[name]
    if issubclass(kind, base.Estimator) and kind not in FORMS:
        raise _refused(spec, f"{name} cannot be federated: {refusal_of(kind)}")
    return kind


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names most similar to one, compared without their modules.

    >>> _near("LogisticRegresion", ["optim.SGD", "linear_model.LinearRegression", "linear_model.LogisticRegression"])
    ['linear_model.LogisticRegression', 'linear_model.LinearRegression', 'optim.SGD']
    """
    last = {key: key.rpartition(".")[2].lower() for key in known}
    wanted = name.rpartition(".")[2].lower()
    return sorted(last, key=lambda key: -difflib.SequenceMatcher(None, wanted, last[key]).ratio())[:NEAR]


@cache
def _classes() -> dict[str, type[Any]]:
    """Return River's public estimators, optimizers, losses, schedules and initializers by their dotted names."""
    everything = importlib.import_module("river.api")  # takes a second, so only when a name is looked up
    classes = {}
    for module_name in (*everything.__all__, *PARAMETERS):
        module = importlib.import_module(f"river.{module_name}")
        kinds = (base.Base,) if module_name in PARAMETERS else (base.Estimator,)
        for name in getattr(module, "__all__", ()):
            kind = getattr(module, name, None)
            if inspect.isclass(kind) and issubclass(kind, kinds) and not inspect.isabstract(kind):
                classes[f"{module_name}.{name}"] = kind
    return {name: kind for name, kind in classes.items() if kind is not base.Estimator}


def _refused(spec: str, reason: str) -> UsageError:
    return UsageError(f"{spec}: {reason}")
