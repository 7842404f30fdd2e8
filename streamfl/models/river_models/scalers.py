"""River's scalers: moments and extremes of all records, merged with the weights that depend on them."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

from river import preprocessing

from streamfl.models.river_models.form import Form, Tables
from streamfl.protocol.external.tables import ExportedTable, Rule


def _windowed(model: Any) -> str | None:
    if model.window_size is None:
        return None
    return "clients' records have no common order, so their last windows cannot be merged: leave out window_size"


def _standard_tables(model: Any) -> Tables:
    seen = {feature: count for feature, count in model.counts.items() if count}
    if not model.with_std:
        rows = {feature: (count, model.means[feature]) for feature, count in seen.items()}
        return {"moments": ExportedTable.of("moments", rows, ("count", "mean"))}
    # A constant column may have a variance of -4e-16 in River, whose root is a complex number.
    full = {feature: (count, model.means[feature], max(model.vars[feature], 0.0)) for feature, count in seen.items()}
    return {"moments": ExportedTable.of("moments", full, ("count", "mean", "variance"))}


def _set_standard(model: Any, tables: Tables) -> None:
    for known in (model.counts, model.means, model.vars):
        known.clear()
    for feature, (count, mean, *variance) in tables["moments"].by_row().items():
        model.counts[feature], model.means[feature] = int(count), mean
        if variance:
            model.vars[feature] = variance[0]


def _min_max_tables(model: Any) -> Tables:
    return {"least": _extremes("least", model.min, math.inf), "most": _extremes("most", model.max, -math.inf)}


def _set_min_max(model: Any, tables: Tables) -> None:
    _set_extremes(model.min, tables["least"])
    _set_extremes(model.max, tables["most"])


def _max_abs_tables(model: Any) -> Tables:
    return {"most": _extremes("most", model.abs_max, 0.0)}


def _set_max_abs(model: Any, tables: Tables) -> None:
    _set_extremes(model.abs_max, tables["most"])


def _extremes(rule: Rule, extremes: Mapping[Hashable, Any], untaught: float) -> ExportedTable:
    """Return each feature's extreme, without features that were only looked up: River stores these as well."""
    return ExportedTable.column(rule, rule, {f: e.get() for f, e in extremes.items() if e.get() != untaught})


def _set_extremes(extremes: Any, table: ExportedTable) -> None:
    extremes.clear()
    for feature, value in table.single().items():
        extremes[feature].update(value)


FORMS: dict[type[Any], Form] = {
    preprocessing.StandardScaler: Form("sum", _standard_tables, _set_standard, _windowed),
    preprocessing.MinMaxScaler: Form("sum", _min_max_tables, _set_min_max, _windowed),
    preprocessing.MaxAbsScaler: Form("sum", _max_abs_tables, _set_max_abs, _windowed),
}
