"""River's naive Bayes: counts and moments are added, so that the merged model is the model of all records."""

from collections.abc import Hashable, Mapping
from typing import Any

from river import naive_bayes

from streamfl.models.river_models.form import Form, Tables
from streamfl.protocol.external.tables import ExportedTable


def _counted(counts: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """Return counts as integers where they are whole; frequencies may be fractions."""
    return {key: int(count) if float(count).is_integer() else count for key, count in counts.items()}


def _gaussian_tables(model: Any) -> Tables:
    moments: dict[Hashable, tuple[float, ...]] = {
        (label, feature): (gaussian._var.mean.n, gaussian._var.mean._mean, gaussian._var._S)
        for label, gaussians in model.gaussians.items()
        for feature, gaussian in gaussians.items()
    }
    return {
        "classes": ExportedTable.column("sum", "count", model.class_counts),
        "moments": ExportedTable.of("moments", moments, ("count", "mean", "m2")),
    }


def _set_gaussian(model: Any, tables: Tables) -> None:
    _set_counts(model.class_counts, tables["classes"].single())
    model.gaussians.clear()
    for (label, feature), (count, mean, m2) in tables["moments"].by_row().items():
        variance = model.gaussians[label][feature]._var  # `_from_state` would divide and multiply
        variance.mean.n, variance.mean._mean, variance._S = count, mean, m2


def _bernoulli_tables(model: Any) -> Tables:
    return {
        "classes": ExportedTable.column("sum", "count", model.class_counts),
        "features": _by_feature(model),
    }


def _set_bernoulli(model: Any, tables: Tables) -> None:
    _set_counts(model.class_counts, tables["classes"].single())
    _set_by_feature(model, tables["features"])


def _multinomial_tables(model: Any) -> Tables:
    return {**_bernoulli_tables(model), "totals": ExportedTable.column("sum", "total", model.class_totals)}


def _set_multinomial(model: Any, tables: Tables) -> None:
    _set_bernoulli(model, tables)
    _set_counts(model.class_totals, tables["totals"].single())


def _complement_tables(model: Any) -> Tables:
    return {
        **_multinomial_tables(model),
        "feature_totals": ExportedTable.column("sum", "total", model.feature_totals),
    }


def _set_complement(model: Any, tables: Tables) -> None:
    _set_multinomial(model, tables)
    _set_counts(model.feature_totals, tables["feature_totals"].single())


def _by_feature(model: Any) -> ExportedTable:
    """Return the count, or the sum, of each feature with each label: a row for each feature."""
    labels = list(model.class_counts)
    rows = {
        feature: tuple(counts.get(label, 0) for label in labels) for feature, counts in model.feature_counts.items()
    }
    return ExportedTable.of("sum", rows, ExportedTable.column("sum", "count", model.class_counts).rows)


def _set_by_feature(model: Any, table: ExportedTable) -> None:
    labels = list(table.by_column())
    model.feature_counts.clear()
    for feature, counts in table.by_row().items():
        model.feature_counts[feature].update(_counted(dict(zip(labels, counts, strict=True))))


def _set_counts(counter: Any, counts: Mapping[Hashable, float]) -> None:
    counter.clear()
    counter.update(_counted(counts))


FORMS: dict[type[Any], Form] = {
    naive_bayes.GaussianNB: Form("sum", _gaussian_tables, _set_gaussian),
    naive_bayes.BernoulliNB: Form("sum", _bernoulli_tables, _set_bernoulli),
    naive_bayes.MultinomialNB: Form("sum", _multinomial_tables, _set_multinomial),
    naive_bayes.ComplementNB: Form("sum", _complement_tables, _set_complement),
}
