"""River estimators that hold others: pipelines, unions and products of steps, and one-vs-rest classifiers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from river import compose, multiclass

from streamfl.models.river_models.form import Form, Tables
from streamfl.protocol.external.keys import text_of
from streamfl.protocol.external.tables import ExportedTable

SEPARATORS: dict[type[Any], str] = {
    compose.Pipeline: " | ",
    compose.TransformerUnion: " + ",
    compose.TransformerProduct: " * ",
}


def steps_of(model: Any) -> Mapping[str, Any]:
    """Return the steps of a pipeline, union or product by name; empty for any other estimator."""
    if type(model) not in SEPARATORS:
        return {}
    steps: Mapping[str, Any] = model.steps if type(model) is compose.Pipeline else model.transformers
    return steps


def described(model: Any) -> str:
    """Return the classes of a model and its steps as text.

    >>> from river import linear_model, preprocessing
    >>> described((preprocessing.StandardScaler() + preprocessing.Normalizer()) | linear_model.PAClassifier())
    '(StandardScaler + Normalizer) | PAClassifier'
    """
    if type(model) is multiclass.OneVsRestClassifier:
        return f"OneVsRestClassifier({described(model.classifier)})"
    if type(model) not in SEPARATORS:
        return type(model).__name__
    parts = [
        f"({described(step)})" if type(step) in SEPARATORS else described(step) for step in steps_of(model).values()
    ]
    return SEPARATORS[type(model)].join(parts)


def walk(model: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every estimator of a model with its path, each after the estimator that holds it.

    The classifiers of a one-vs-rest classifier are looked up after it was yielded. So a caller can restore its labels
    first, and then gets the classifiers of these labels.

    >>> from river import linear_model, preprocessing
    >>> [path for path, _ in walk(preprocessing.StandardScaler() | linear_model.PAClassifier())]
    ['', 'StandardScaler', 'PAClassifier']
    """
    if not path and type(model) not in SEPARATORS:
        path = type(model).__name__
    yield path, model
    for name, step in steps_of(model).items():
        yield from walk(step, f"{path}/{name}" if path else name)
    if type(model) is multiclass.OneVsRestClassifier:
        for label, classifier in model.classifiers.items():
            yield from walk(classifier, f"{path}/{text_of(label)}")


def _label_tables(model: Any) -> Tables:
    labels = tuple(text_of(label) for label in model.classifiers)
    return {"labels": ExportedTable("sum", labels, (), np.zeros((len(labels), 0)))}


def _set_labels(model: Any, tables: Tables) -> None:
    """Set a classifier for every label; existing ones stay, with the state of their optimizers."""
    before = dict(model.classifiers)
    model.classifiers.clear()
    for label in tables["labels"].by_row():
        model.classifiers[label] = before[label] if label in before else model.classifier.clone()


FORMS: dict[type[Any], Form] = {
    **dict.fromkeys(SEPARATORS, Form()),
    multiclass.OneVsRestClassifier: Form(tables=_label_tables, restore=_set_labels),
}
