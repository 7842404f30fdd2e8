"""Exports the state of a River model as named arrays, and imports it into another one."""

import copy
from typing import TypeVar

from river import base

from streamfl.errors import PeerError, UsageError
from streamfl.models.river_models.composites import described, walk
from streamfl.models.river_models.kind import FORMS, federable
from streamfl.protocol.external.tables import Exported, ExportedTable

Model = TypeVar("Model", bound=base.Estimator)


def export(model: base.Estimator) -> Exported:
    """Return the state of a model that is federated: weights, counts, moments, extremes, labels.

    The state of an optimizer, the number of its steps (which a schedule of rates follows), and the sums of an L1
    penalty are not exported.

    Raises
    ------
    UsageError
        The model cannot be federated, or a feature or label is neither text nor a number.

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

    State that is not exported comes from `model`: pass a clone to reset an optimizer, or the model itself to keep its
    state. Apart from that state, `imported(model.clone(), export(model))` continues exactly like `model`.

    Raises
    ------
    UsageError
        The export belongs to another model.
    PeerError
        It is not a valid export of this model: tables are missing, or there are too many.

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
        raise UsageError(f"an export of {exported.model} cannot be loaded into {described(model)}")
    restored = copy.deepcopy(model)
    left = dict(exported.tables)
    for path, estimator in walk(restored):
        _restore(estimator, path, left)
    if left:
        raise PeerError(f"not an export of {exported.model}: it has no {min(left)}")
    return restored


def _restore(estimator: base.Estimator, path: str, left: dict[str, ExportedTable]) -> None:
    """Restore an estimator from the tables of its path, and remove these from `left`."""
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
