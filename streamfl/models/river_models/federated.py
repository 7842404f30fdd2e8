"""A River model that a federation learns."""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from river import base

from streamfl.core.arrays import FloatArray
from streamfl.core.between.external.admission import unusable
from streamfl.core.errors import PeerError, UsageError
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.external.tables import Exported
from streamfl.core.protocol.records import Batch
from streamfl.models.river_models.composites import described
from streamfl.models.river_models.kind import Kind, federable
from streamfl.models.river_models.river_pass import RiverPass
from streamfl.models.river_models.state import export, imported

Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False)
class FederatedRiverModel:
    """`streamfl.core.protocol.external.interface.ExternalModel` of River.

    Parameters
    ----------
    model
        A River estimator or pipeline, whether it has learnt or not: every client begins with an untrained clone.
    task
        What the federation learns.

    Raises
    ------
    UsageError
        It cannot be federated, or is for the other task; the message says why.

    Examples
    --------
    >>> from river import linear_model
    >>> from streamfl.core.protocol.records import Span
    >>> federated = FederatedRiverModel(linear_model.PAClassifier(), "classification")
    >>> begun = federated.begin(ExternalState(federated.initial(), ("no", "yes")))
    >>> X, y = np.array([[1.0], [-2.0], [3.0]]), np.array([1.0, 0.0, 1.0])
    >>> begun.learn(Batch(Span("p", 0, 3), np.arange(3), ("x",), X, y, ("no", "yes")))
    array([-1.,  1.,  1.])
    >>> begun.learnt().state.tables["PAClassifier.weights"].single()
    {'x': 1.0}
    """

    model: base.Estimator
    task: Task
    _kind: Kind = field(init=False)

    def __post_init__(self) -> None:
        """Check that it can be federated, and for this task."""
        kind = federable(self.model)
        if kind.task == "transformation":
            raise UsageError(f"{self.name} predicts nothing: end it in a classifier or a regressor")
        if kind.task != self.task:
            raise UsageError(f"{self.name} is for {kind.task}, and this is {self.task}: take another model")
        object.__setattr__(self, "_kind", kind)

    @property
    def name(self) -> str:
        """Return the classes that it is made of."""
        return described(self.model)

    def check(self, labels: tuple[str, ...]) -> None:
        """Refuse labels that are known beforehand to be too many.

        Raises
        ------
        UsageError
            It tells two labels apart, and there are more.
        """
        if self._kind.binary and len(labels) > 2:
            raise UsageError(
                f"{self.name} tells two labels apart, and there are {len(labels)}: take "
                "linear_model.SoftmaxRegression, or put it into multiclass.OneVsRestClassifier"
            )

    def initial(self) -> Exported:
        """Return the state of a model that has learnt nothing."""
        return export(self.model.clone())

    def begin(self, agreed: ExternalState) -> "FederatedRiverPass":
        """Return a model that goes on from an agreed state.

        An optimizer begins anew: were its state kept, a client that was killed and started again would go on in
        another way than if nothing had happened.
        """
        return FederatedRiverPass(self.model.clone(), self._kind, agreed)

    def refusal(self, state: Exported) -> str | None:
        """Return why a state cannot be put into this model, or None if it can."""
        try:
            imported(self.model.clone(), state)
        except (PeerError, UsageError) as error:
            return str(error)
        return None


class FederatedRiverPass:
    """A River model at one client, between two merges.

    What River raises for a record does not end the client. A record that cannot be learnt counts as unlearnt; what
    the steps before the one that failed have learnt of it stays. For one that cannot be predicted no label is served,
    or the target 0.

    Parameters
    ----------
    model
        A clone that is nobody else's.
    kind
        What it is.
    agreed
        Where it begins.
    """

    def __init__(self, model: base.Estimator, kind: Kind, agreed: ExternalState) -> None:
        self._kind = kind
        self._agreed = agreed
        self._pass = RiverPass(model, agreed.state)
        self._codes = {label: code for code, label in enumerate(agreed.labels)}
        # A model of two labels speaks of both from the start; of those that nobody has learnt it knows nothing.
        self._known = set(agreed.labels) if agreed.seen else set[str]()
        self.records = 0
        self._unlearnt = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the agreed labels and then those that it saw first; none for targets."""
        return tuple(self._codes)

    def learn(self, batch: Batch) -> FloatArray:
        """Predict every record, then learn it, in order."""
        served = np.empty(len(batch))
        for i, (x, y) in enumerate(zip(_dicts(batch), batch.y.tolist(), strict=True)):
            self.records += 1
            if self._kind.task == "regression":
                served[i] = self._target(x)
                self._unlearnt += not self._learns(x, y)
                continue
            label = batch.labels[int(y)]
            served[i] = _most_probable(self._probabilities(x))
            code = self._codes.setdefault(label, len(self._codes))
            if self._learns(x, self._named(label, code)):
                self._known.add(label)
            else:
                self._unlearnt += 1
        return served

    def answer(self, batch: Batch) -> FloatArray:
        """Return what it says of records now: probabilities of `labels`, or targets."""
        if self._kind.task == "regression":
            return np.array([self._target(x) for x in _dicts(batch)]).reshape(len(batch), 1)
        return np.array([self._probabilities(x) for x in _dicts(batch)]).reshape(len(batch), len(self._codes))

    def learnt(self) -> ExternalLearnt:
        """Return what it has learnt; nothing if its numbers cannot be merged, as after a step that was too long."""
        state = self._told() if self._unlearnt < self.records else None
        return ExternalLearnt(state, self.records, self.records if state is None else self._unlearnt)

    def _told(self) -> Exported | None:
        try:
            state = self._pass.export()
        except Exception:  # numbers that are complex, or too large to be whole
            return None
        return state if unusable(state, self._agreed) is None else None

    def _learns(self, x: Mapping[Hashable, float], y: Any) -> bool:
        """Learn a record, if River can."""
        if y is None:
            return False
        try:
            self._pass.learn_one(x, y)
        except Exception:  # whatever River says of it
            return False
        return True

    def _named(self, label: str, code: int) -> str | bool | None:
        """Return how the model knows a label; None if it does not: of two labels it knows the first two."""
        if not self._kind.binary:
            return label
        return bool(code) if code < 2 else None

    def _probabilities(self, x: Mapping[Hashable, float]) -> FloatArray:
        """Return the probability of each label, or zeros."""
        p = np.zeros(len(self._codes))
        for label, share in self._said(x).items():
            if label in self._known:
                p[self._codes[label]] = share
        return p if np.isfinite(p).all() else np.zeros(len(p))

    def _said(self, x: Mapping[Hashable, float]) -> dict[Any, float]:
        try:
            said = self._pass.predict_proba_one(x)
        except Exception:  # whatever River says of it
            return {}
        if not self._kind.binary:
            return said
        return {label: said[bool(code)] for label, code in self._codes.items() if code < 2}

    def _target(self, x: Mapping[Hashable, float]) -> float:
        try:
            target = float(self._pass.predict_one(x) or 0.0)
        except Exception:  # whatever River says of it
            return 0.0
        return target if math.isfinite(target) else 0.0


def _most_probable(p: FloatArray) -> float:
    return float(p.argmax()) if p.any() else -1.0


def _dicts(batch: Batch) -> Iterator[dict[Hashable, float]]:
    """Return each record as River takes it: without what is missing."""
    for row in batch.X.tolist():
        yield {name: value for name, value in zip(batch.features, row, strict=True) if not math.isnan(value)}
