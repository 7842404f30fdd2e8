"""A River model as the external model of a federation."""

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from river import base

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError, UsageError
from streamfl.learning.model import Task
from streamfl.models.river_models.composites import described
from streamfl.models.river_models.kind import ModelKind, federable
from streamfl.models.river_models.river_pass import RiverPass
from streamfl.models.river_models.state import export, imported
from streamfl.online.external.admission import unusable
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.records import Batch


@dataclass(frozen=True, eq=False)
class FederatedRiverModel:
    """`streamfl.protocol.external.interface.ExternalModel` for River.

    Raises
    ------
    UsageError
        The model cannot be federated, or is for the other task.

    Examples
    --------
    >>> from river import linear_model
    >>> from streamfl.protocol.records import Span
    >>> federated = FederatedRiverModel(linear_model.PAClassifier(), "classification")
    >>> begun = federated.begin(ExternalState(federated.initial(), ("no", "yes")))
    >>> X, y = np.array([[1.0], [-2.0], [3.0]]), np.array([1.0, 0.0, 1.0])
    >>> begun.learn(Batch(Span("p", 0, 3), np.arange(3), ("x",), X, y, ("no", "yes")))
    array([-1.,  1.,  1.])
    >>> begun.learnt().state.tables["PAClassifier.weights"].single()
    {'x': 1.0}
    """

    # A River estimator or pipeline, trained or not: every client begins with an untrained clone.
    model: base.Estimator
    task: Task  # the task of the federation
    _kind: ModelKind = field(init=False)

    def __post_init__(self) -> None:
        """Check that it can be federated, and for this task."""
        kind = federable(self.model)
        if kind.task == "transformation":
            raise UsageError(f"{self.name} predicts nothing; add a classifier or a regressor at its end")
        if kind.task != self.task:
            raise UsageError(f"{self.name} is for {kind.task}, but the task is {self.task}; take another model")
        object.__setattr__(self, "_kind", kind)

    @property
    def name(self) -> str:
        """Return the classes of the model and its steps."""
        return described(self.model)

    def check(self, labels: tuple[str, ...]) -> None:
        """Check labels that are known beforehand.

        Raises
        ------
        UsageError
            The model is binary, and there are more than two.
        """
        if self._kind.binary and len(labels) > 2:
            raise UsageError(
                f"{self.name} distinguishes two labels, but there are {len(labels)}: take "
                "linear_model.SoftmaxRegression, or put it into multiclass.OneVsRestClassifier"
            )

    def initial(self, known: Exported | None = None) -> Exported:
        """Return the state of a model that has learnt nothing."""
        return export(self.model.clone())

    def begin(self, agreed: ExternalState) -> "FederatedRiverPass":
        """Return a model that continues from an agreed state.

        Its optimizer begins again: with a kept state, a client that was killed and restarted would continue in
        another way than one that was not.
        """
        return FederatedRiverPass(self.model.clone(), self._kind, agreed)

    def refusal(self, state: Exported, began: ExternalState | None = None) -> str | None:
        """Return why a state cannot be loaded into this model, or None if it can."""
        try:
            imported(self.model.clone(), state)
        except (PeerError, UsageError) as error:
            return str(error)
        return None


class FederatedRiverPass:
    """A River model at one client, during one round.

    An exception of River does not end the client. A record that cannot be learnt counts as unlearnt; pipeline steps
    before the one that failed keep what they learnt from it. For a record that cannot be predicted, no label is
    served, or the target 0.
    """

    def __init__(self, model: base.Estimator, kind: ModelKind, agreed: ExternalState) -> None:
        self._kind = kind
        self._agreed = agreed
        self._pass = RiverPass(model, agreed.state)
        self._codes = {label: code for code, label in enumerate(agreed.labels)}
        # A binary model gives probabilities of both labels from the start; labels never learnt are left out.
        self._known = set(agreed.labels) if agreed.seen else set[str]()
        self.records = 0
        self._unlearnt = 0
        self.failure = ""  # why a record, or what was learnt, is of no use

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the agreed labels, then those that are new at this client; empty in regression."""
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
            served[i] = likeliest(self._probabilities(x)[None])[0]
            code = self._codes.setdefault(label, len(self._codes))
            if self._learns(x, self._named(label, code)):
                self._known.add(label)
            else:
                self._unlearnt += 1
        return served

    def answer(self, batch: Batch) -> FloatArray:
        """Return its present predictions: probabilities of `labels`, or targets."""
        if self._kind.task == "regression":
            return np.array([self._target(x) for x in _dicts(batch)]).reshape(len(batch), 1)
        return np.array([self._probabilities(x) for x in _dicts(batch)]).reshape(len(batch), len(self._codes))

    def learnt(self) -> ExternalLearnt:
        """Return its state, or none if its numbers cannot be merged, as after a step that was too long."""
        state = self._exported() if self._unlearnt < self.records else None
        return ExternalLearnt(state, self.records, self.records if state is None else self._unlearnt)

    def _exported(self) -> Exported | None:
        try:
            state = self._pass.export()
        except Exception as error:  # complex numbers, or numbers too large for an integer
            self.failure = f"{type(error).__name__}: {error}"
            return None
        wrong = unusable(state, self._agreed)
        if wrong is not None:
            self.failure = f"what it learnt cannot be merged, because {wrong}"
        return state if wrong is None else None

    def _learns(self, x: Mapping[Hashable, float], y: Any) -> bool:
        """Learn a record; tell whether River could."""
        if y is None:
            self.failure = "it distinguishes two labels, and there are more"
            return False
        try:
            self._pass.learn_one(x, y)
        except Exception as error:  # River raises what it likes
            self.failure = f"{type(error).__name__}: {error}"
            return False
        return True

    def _named(self, label: str, code: int) -> str | bool | None:
        """Return a label as the model takes it; None for a third label of a binary model."""
        if not self._kind.binary:
            return label
        return bool(code) if code < 2 else None

    def _probabilities(self, x: Mapping[Hashable, float]) -> FloatArray:
        """Return the probability of each label, or zeros."""
        p = np.zeros(len(self._codes))
        for label, share in self._predicted(x).items():
            if label in self._known:
                p[self._codes[label]] = share
        return p if np.isfinite(p).all() else np.zeros(len(p))

    def _predicted(self, x: Mapping[Hashable, float]) -> dict[Any, float]:
        try:
            p = self._pass.predict_proba_one(x)
        except Exception:  # River raises what it likes
            return {}
        if not self._kind.binary:
            return p
        return {label: p[bool(code)] for label, code in self._codes.items() if code < 2}

    def _target(self, x: Mapping[Hashable, float]) -> float:
        try:
            target = float(self._pass.predict_one(x) or 0.0)
        except Exception:  # River raises what it likes
            return 0.0
        return target if math.isfinite(target) else 0.0


def _dicts(batch: Batch) -> Iterator[dict[Hashable, float]]:
    """Yield each record as River takes it: a dict without missing values."""
    for row in batch.X.tolist():
        yield {name: value for name, value in zip(batch.features, row, strict=True) if not math.isnan(value)}
