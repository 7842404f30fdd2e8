"""The state of a River model out of it, as plain arrays, and into another one."""

import copy
from typing import TypeVar

from river import base

from streamfl.core.errors import PeerError, UsageError
from streamfl.core.protocol.external.tables import Exported, ExportedTable
from streamfl.models.river_models.composites import described, walk
from streamfl.models.river_models.kind import FORMS, federable

Model = TypeVar("Model", bound=base.Estimator)


def export(model: base.Estimator) -> Exported:
    """Return all that is federated of a model: weights, counts, moments, extremes, labels.

    What an optimizer keeps, the number of its steps (which a schedule of rates follows), and the sums of an L1
    penalty are not exported.

    Raises
    ------
    UsageError
        It cannot be federated, or a feature or label is neither text nor number.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.PAClassifier()
    >>> model.learn_one({"x": 2.0}, True)
    >>> exported = export(model)
    >>> {path: table.single() for path, table in exported.tables.items()}
    {'PAClassifier.weights': {'x': 0.5}, 'PAClassifier.intercept': {'intercept': 0.25}}
    """
    federable(model)
    tables: dict[str, ExportedTable] = {}
    for path, estimator in walk(model):
        for name, table in FORMS[type(estimator)].tables(estimator).items():
            tables[f"{path}.{name}"] = table
    return Exported(described(model), tables)


def imported(model: Model, exported: Exported) -> Model:
    """Return a copy of a model with the state of an export.

    What is not exported is the model's own: of a fresh clone that is a fresh start, so that an optimizer's state
    stays with its client or is reset, as whoever calls wants. Apart from it, `imported(model.clone(), export(model))`
    goes on exactly like `model`.

    Raises
    ------
    UsageError
        The export is of another model.
    PeerError
        It is not as an export of this model must be: names are missing, or there are too many.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.PAClassifier()
    >>> model.learn_one({"x": 2.0}, True)
    >>> imported(model.clone(), export(model)).weights
    defaultdict(<class 'float'>, {'x': 0.5})
    """
    federable(model)
    if described(model) != exported.model:
        raise UsageError(f"an export of {exported.model} cannot be put into {described(model)}")
    restored = copy.deepcopy(model)
    left = dict(exported.tables)
    for path, estimator in walk(restored):
        _restore(estimator, path, left)
    if left:
        raise PeerError(f"not an export of {exported.model}: it has no {min(left)}")
    return restored


def _restore(estimator: base.Estimator, path: str, left: dict[str, ExportedTable]) -> None:
    """Put the tables of a path into an estimator, and take them from those that are left."""
    form = FORMS[type(estimator)]
    tables = {}
    for name, own in form.tables(estimator).items():
        table = left.pop(f"{path}.{name}", None)
        if table is None or not table.is_like(own):
            raise PeerError(f"no {path}.{name} that is merged by {own.rule}")
        tables[name] = table
    try:
        form.restore(estimator, tables)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise PeerError(f"not the tables of {path}: {error}") from error
