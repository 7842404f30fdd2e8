"""A client's pass with a River model over the records of a round, one at a time."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from river import base

from streamfl.errors import UsageError
from streamfl.models.river_models.kind import federable
from streamfl.models.river_models.state import export, imported
from streamfl.protocol.external.tables import Exported

Label = str | int | float | bool

# The two labels of a binary model by default, and the labels that are read as these.
FALSE_AND_TRUE: tuple[Label, Label] = (False, True)
READ_AS: dict[Hashable, bool] = {False: False, True: True, "False": False, "True": True, "0": False, "1": True}


class RiverPass:
    """A River model between two merges: it begins at the base, learns record by record, and exports its state.

    Parameters
    ----------
    model
        A River model, of which a copy learns. State that is not federated, such as that of an optimizer, is copied
        from it: pass the `model` of the last pass to keep that state, a clone to reset it.
    base
        The export from which all clients begin; by default that of the model.
    labels
        For a binary classifier: the label that is False and the one that is True, in this order at every client. By
        default labels are booleans, 0 and 1, or the same as text.

    Attributes
    ----------
    model
        The copy.

    Raises
    ------
    UsageError
        The model cannot be federated or does not predict, or the base belongs to another model.
    PeerError
        The base is invalid.

    Examples
    --------
    >>> from river import linear_model
    >>> round_ = RiverPass(linear_model.PAClassifier(), labels=("down", "up"))
    >>> for x, y in [({"x": 1.0}, "up"), ({"x": -2.0}, "down")]:
    ...     before = round_.predict_one(x)
    ...     round_.learn_one(x, y)
    >>> before, round_.predict_one({"x": 0.5})
    ('down', 'up')
    >>> round_.export().tables["PAClassifier.weights"].single()
    {'x': 1.0}
    """

    def __init__(
        self, model: base.Estimator, base: Exported | None = None, *, labels: tuple[Label, Label] | None = None
    ) -> None:
        self._kind = federable(model)
        if self._kind.task == "transformation":
            raise UsageError(f"{model} predicts nothing; add a classifier or a regressor at its end")
        if labels is not None and (not self._kind.binary or len(set(labels)) != 2):
            raise UsageError(f"labels={labels}: only a binary classifier takes labels, and they must differ")
        self._labels = labels
        self.model: Any = imported(model, export(model) if base is None else base)

    def predict_one(self, x: Mapping[Hashable, Any]) -> Label | None:
        """Return the label or target that the model predicts; None while it knows no label."""
        predicted = self.model.predict_one(dict(x))
        if self._kind.binary and predicted is not None:
            return self._names[bool(predicted)]
        plain: Label | None = _plain(predicted)
        return plain

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[Label, float]:
        """Return the probability of each label that the model knows.

        Raises
        ------
        UsageError
            It is a regressor.
        """
        if self._kind.task == "regression":
            raise UsageError(f"{self.model} is a regressor: it gives no probabilities")
        p = self.model.predict_proba_one(dict(x))
        if self._kind.binary:
            return {self._names[bool(label)]: float(share) for label, share in p.items()}
        return {_plain(label): float(share) for label, share in p.items()}

    def learn_one(self, x: Mapping[Hashable, Any], y: Label) -> None:
        """Learn a record. An exception of River is passed on.

        Raises
        ------
        UsageError
            The label is neither of the two, or a regressor's target is not a number.
        """
        self.model.learn_one(dict(x), self._target(y))

    def export(self) -> Exported:
        """Return the state of the model, which includes the base."""
        return export(self.model)

    @property
    def _names(self) -> tuple[Label, Label]:
        return self._labels or FALSE_AND_TRUE

    def _target(self, y: Label) -> Label:
        if self._kind.task == "regression":
            return _number(y)
        return self._truth(y) if self._kind.binary else y

    def _truth(self, y: Label) -> bool:
        known = READ_AS if self._labels is None else {self._labels[0]: False, self._labels[1]: True}
        if y not in known:
            names = " and ".join(repr(name) for name in self._names)
            raise UsageError(
                f"{y!r} is neither of the labels {names}: give the two with labels=(false, true), and for more take "
                "linear_model.SoftmaxRegression or multiclass.OneVsRestClassifier"
            )
        return known[y]


def _number(y: Label) -> float:
    try:
        return float(y)
    except ValueError as error:
        raise UsageError(f"{y!r} is not a number: a regressor needs numeric targets") from error


def _plain(value: Any) -> Any:
    """Return a Python value for a NumPy scalar."""
    return value.item() if isinstance(value, np.generic) else value
