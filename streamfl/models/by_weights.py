"""Models of others that are an array of weights, federated by its mean over the clients (FedAvg)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, Protocol

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import NAMED
from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.online.external.admission import unusable
from streamfl.online.external.increments import pooled
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported, ExportedTable
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.records import Batch, aligned

MOMENTS = ("count", "mean", "variance")

# The row and the column of the number of inputs.
INPUTS, MOST = "inputs", "most"


class WeightsModel(Protocol):
    """A model that streamfl federates by its weights: clients train it on each round's records, FedAvg averages it.

    A class need not derive from this one. For every round each client makes a model and sets its weights, so nothing
    else may decide what it learns: the same weights and records give the same weights. Draw with a fixed seed.

    Parameters
    ----------
    features
        The number of columns of X.
    labels
        The number of labels; 0 in regression.
    """

    def __init__(self, features: int, labels: int) -> None: ...

    def weights(self) -> FloatArray:
        """Return all weights: one or two axes, always of the same shape for the same features and labels.

        When a label comes later, what has the same place in the larger array is kept if it has two axes; with one
        axis the model begins again.
        """
        ...

    def set_weights(self, weights: FloatArray) -> None:
        """Continue from these weights."""
        ...

    def learn(self, X: FloatArray, y: FloatArray | IntArray) -> None:
        """Learn a block of records.

        Parameters
        ----------
        X
            Features, standardised by the mean and deviation over all clients; 0 where missing; shape (n, features).
        y
            The number of each record's label, from 0, or its target; shape (n,).
        """
        ...

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the probability of each label, shape (n, labels); in regression targets, shape (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class FederatedWeights:
    """`streamfl.protocol.external.interface.ExternalModel` for classes like `WeightsModel`.

    The features are those that clients have named when the model begins: after the first round, and at a restart.

    Raises
    ------
    UsageError
        The class does not do what `WeightsModel` says.
    """

    kind: type[WeightsModel]  # the class
    task: Task  # the task of the federation

    def __post_init__(self) -> None:
        """Try the class."""
        tried(self.kind, self.task)

    @property
    def name(self) -> str:
        """Return the name of the class."""
        return self.kind.__name__

    def check(self, labels: tuple[str, ...]) -> None:
        """Take any labels."""

    def initial(self, known: Exported | None = None) -> Exported:
        """Return the state of a model that has learnt nothing; its features, with their moments, are those known."""
        features = ExportedTable("moments", (), MOMENTS, np.zeros((0, 3)))
        return self._state(features if known is None else known.tables[self._path("features")], 0, np.zeros((0, 0)))

    def begin(self, agreed: ExternalState) -> "WeightsPass":
        """Return a model that continues from an agreed state."""
        return WeightsPass(self, agreed)

    def refusal(self, state: Exported, began: ExternalState | None = None) -> str | None:
        """Return why a state cannot be one of this model, or not of a client that began at an agreed state."""
        own = self.initial().tables
        if state.model != self.name or state.tables.keys() != own.keys():
            return f"it is not a state of {self.name}"
        if not all(table.is_like(own[path]) for path, table in state.tables.items()):
            return "a table is merged by another rule"
        if not 0 <= self.inputs(state) <= len(state.tables[self._path("features")].rows):
            return "it has more inputs than features"
        if began is None:
            return None
        begun = self.begun(began)
        expected = self.initial() if begun is None else self._state_of(state, *begun)
        paths = [self._path(name) for name in ("inputs", "weights")]
        same = all(_names(state.tables[path]) == _names(expected.tables[path]) for path in paths)
        inputs = self.inputs(state) == self.inputs(expected)
        return None if same and inputs else "its weights have another shape than the model"

    def inputs(self, state: Exported) -> int:
        """Return the number of features that the weights of a state are for; 0: it has none yet."""
        table = state.tables[self._path("inputs")]
        return int(table.values[0, 0]) if table.values.size else 0

    def features(self, state: Exported) -> ExportedTable:
        """Return the moments of the features that clients have named."""
        return state.tables[self._path("features")]

    def begun(self, agreed: ExternalState) -> tuple[int, WeightsModel] | None:
        """Return the number of inputs and the model of an agreed state; None until features and labels are known."""
        inputs = self.inputs(agreed.state) or min(len(self.features(agreed.state).rows), NAMED.features)
        labels = len(agreed.labels) if self.task == "classification" else 0
        if not inputs or labels == 1 or (self.task == "classification" and not labels):
            return None
        model = self.kind(inputs, labels)
        model.set_weights(_continued(agreed.state.tables[self._path("weights")].values, _array(model)))
        return inputs, model

    def state(self, features: ExportedTable, inputs: int, model: WeightsModel) -> Exported:
        """Return the state of a model."""
        return self._state(features, inputs, _folded(_array(model)))

    def _state_of(self, state: Exported, inputs: int, model: WeightsModel) -> Exported:
        return self.state(self.features(state), inputs, model)

    def _state(self, features: ExportedTable, inputs: int, weights: FloatArray) -> Exported:
        # New names are merged in the order of their text.
        rows, columns = [tuple(f"{i:05}" for i in range(size)) for size in weights.shape]
        tables = {
            "features": features,
            "inputs": ExportedTable.column("most", MOST, {INPUTS: inputs} if inputs else {}),
            "weights": ExportedTable("mean", rows, columns, weights),
        }
        return Exported(self.name, {self._path(name): table for name, table in tables.items()})

    def _path(self, table: str) -> str:
        return f"{self.name}.{table}"


class WeightsPass:
    """A model of weights at one client, during one round.

    It predicts as all clients agreed before the round, and learns the round's records as one block, so that where a
    log's batches end decides nothing. An exception of the model does not end the client: the records of the round
    count as unlearnt.

    Parameters
    ----------
    agreed
        The agreed state from which it begins.
    """

    def __init__(self, model: FederatedWeights, agreed: ExternalState) -> None:
        self._model, self._agreed = model, agreed
        self._begun = model.begun(agreed)
        self._batches: list[Batch] = []
        self._codes = {label: code for code, label in enumerate(agreed.labels)}
        self.records = 0
        self.failure = ""  # why what it learnt is of no use

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the agreed labels, then those that are new at this client; empty in regression."""
        return tuple(self._codes)

    def learn(self, batch: Batch) -> FloatArray:
        """Predict every record, and keep it for the end of the round."""
        answers = self.answer(batch)
        for code in np.unique(batch.y.astype(np.intp)) if batch.labels else ():
            self._codes.setdefault(batch.labels[code], len(self._codes))
        self._batches.append(batch)
        self.records += len(batch)
        if self._model.task == "regression":
            return answers[:, 0]
        return likeliest(answers)

    def answer(self, batch: Batch) -> FloatArray:
        """Return its present predictions: probabilities of `labels`, or targets."""
        regression = self._model.task == "regression"
        answers = np.zeros((len(batch), 1 if regression else len(self._codes)))
        if self._begun is None:
            return answers
        try:
            predicted = np.asarray(self._begun[1].predict(self._inputs([batch])), np.float64)
            known = predicted.reshape(len(batch), 1 if regression else len(self._agreed.labels))
        except Exception:  # another package's code may raise anything
            return answers
        answers[:, : known.shape[1]] = np.where(np.isfinite(known).all(axis=1, keepdims=True), known, 0.0)
        return answers

    def learnt(self) -> ExternalLearnt:
        """Return its state; without one if its numbers cannot be merged."""
        features = self._features()
        if self._begun is None:
            names = {**self._model.initial().tables, f"{self._model.name}.features": features}
            return self._sent(Exported(self._model.name, names), 0)
        model, y = self._model.begun(self._agreed), self._targets()
        known = y < len(self._agreed.labels) if self._model.task == "classification" else np.ones(len(y), np.bool_)
        if model is None or not known.any():
            return ExternalLearnt(None, self.records, self.records)
        inputs, learner = model
        try:
            learner.learn(self._inputs(self._batches)[known], y[known])
            state = self._model.state(features, inputs, learner)
        except Exception as error:  # another package's code may raise anything
            self.failure = f"{type(error).__name__}: {error}"
            return ExternalLearnt(None, self.records, self.records)
        return self._sent(state, int(known.sum()))

    def _sent(self, state: Exported, learnt: int) -> ExternalLearnt:
        wrong = unusable(state, self._agreed) or self._model.refusal(state, self._agreed)
        if wrong is not None:
            self.failure = f"what it learnt cannot be merged, because {wrong}"
            return ExternalLearnt(None, self.records, self.records)
        return ExternalLearnt(state, self.records, self.records - learnt)

    def _targets(self) -> FloatArray | IntArray:
        if self._model.task == "regression":
            return np.concatenate([np.zeros(0), *(batch.y for batch in self._batches)])
        codes = [self._places(batch)[batch.y.astype(np.intp)] for batch in self._batches]
        return np.concatenate([np.zeros(0, np.intp), *codes])

    def _places(self, batch: Batch) -> IntArray:
        """Return the number of each of a batch's labels; one that occurs in no record has none."""
        return np.array([self._codes.get(label, -1) for label in batch.labels], np.intp)

    def _inputs(self, batches: Sequence[Batch]) -> FloatArray:
        """Return records as the model takes them: in the order of the features, standardised, without gaps."""
        table, inputs = self._model.features(self._agreed.state), self._begun[0] if self._begun else 0
        _, mean, variance = table.values[:inputs].T
        X = _aligned(batches, table.rows[:inputs]) - mean
        X /= np.where(variance > 0.0, np.sqrt(variance), 1.0)
        return np.where(np.isfinite(X), X, 0.0)

    def _features(self) -> ExportedTable:
        """Return the moments of all features by now: the agreed ones, and those of the round's records."""
        agreed = self._model.features(self._agreed.state)
        own = {name for batch in self._batches for name in batch.features} - set(agreed.rows)
        rows = (*agreed.rows, *sorted(own))
        X = _aligned(self._batches, rows)
        present = np.isfinite(X)
        count = present.sum(axis=0)
        mean = np.where(present, X, 0.0).sum(axis=0) / np.maximum(count, 1)
        square = np.where(present, X - mean, 0.0) ** 2
        here = np.column_stack([count, mean, square.sum(axis=0) / np.maximum(count, 1)])
        before = agreed.aligned(rows, MOMENTS)
        return ExportedTable("moments", rows, MOMENTS, pooled(MOMENTS, [before, here], np.zeros_like(before)))


def tried(kind: type[WeightsModel], task: Task) -> None:
    """Try a class on six records, and check that it does what `WeightsModel` says.

    Raises
    ------
    UsageError
        It does not; the message says what it does instead.
    """
    labels = 3 if task == "classification" else 0
    X = np.array([[-1.0, 0.5], [0.0, -1.0], [1.0, 0.5], [-1.2, 0.0], [0.1, -0.9], [1.1, 0.3]])
    y: FloatArray | IntArray = np.array([0, 1, 2, 0, 1, 2]) if labels else X[:, 0]
    try:
        wrong = next((reason for reason, holds in _trial(kind, labels, X, y) if not holds), None)
    except Exception as error:  # another package's code may raise anything
        raise _refused(kind, f"it fails on six records made up for {task}: {error!r}; correct the class") from error
    if wrong is not None:
        raise _refused(kind, f"{wrong}; correct the class")


def _trial(
    kind: type[WeightsModel], labels: int, X: FloatArray, y: FloatArray | IntArray
) -> Iterator[tuple[str, bool]]:
    """Yield what must not be, and whether it is not."""
    made, again = kind(2, labels), kind(2, labels)
    first = np.array(made.weights())
    yield "weights() must return an array of one or two axes", first.ndim in {1, 2} and first.size > 0
    yield "weights() must return finite floats", first.dtype.kind == "f" and bool(np.isfinite(first).all())
    yield "two new models must have the same weights: draw with a fixed seed", np.array_equal(first, again.weights())
    made.learn(X.copy(), y.copy())
    after = np.array(made.weights())
    yield "learn() must leave finite weights, and left NaN or infinity", bool(np.isfinite(after).all())
    yield "learn() must not change the shape of the weights", after.shape == first.shape
    again.set_weights(first.copy())
    again.learn(X.copy(), y.copy())
    yield "the same weights and records must give the same weights", np.array_equal(after, again.weights())
    fresh = kind(2, labels)
    fresh.set_weights(after.copy())
    yield "weights() must return what set_weights() was given", np.array_equal(after, fresh.weights())
    shape, predicted = (len(X), labels) if labels else (len(X),), fresh.predict(X.copy())
    got = np.shape(predicted)
    yield f"predict() must return an array of shape {shape}, and returned {got}", got == shape
    finite = bool(np.isfinite(np.asarray(predicted, np.float64)).all())
    yield "predict() must return finite numbers, and returned NaN or infinity", finite


def _refused(kind: type[Any], reason: str) -> UsageError:
    return UsageError(f"model {kind.__name__} cannot be federated: {reason}")


def _array(model: WeightsModel) -> FloatArray:
    return np.array(model.weights(), np.float64)


def _folded(weights: FloatArray) -> FloatArray:
    """Return weights as a matrix: a long vector would have a name for each number.

    >>> _folded(np.arange(1.0, 6.0))
    array([[1., 2., 3.],
           [4., 5., 0.]])
    """
    if weights.ndim == 2:
        return weights
    columns = isqrt(len(weights) - 1) + 1
    rows = -(-len(weights) // columns)
    return np.pad(weights, (0, rows * columns - len(weights))).reshape(rows, columns)


def _continued(kept: FloatArray, fresh: FloatArray) -> FloatArray:
    """Return the weights that are kept, in the shape of fresh ones.

    >>> _continued(_folded(np.arange(1.0, 6.0)), np.zeros(5)), _continued(np.ones((1, 2)), np.zeros((1, 3)))
    (array([1., 2., 3., 4., 5.]), array([[1., 1., 0.]]))
    """
    if fresh.ndim == 1:
        return kept.ravel()[: len(fresh)] if kept.shape == _folded(fresh).shape else fresh
    rows, columns = np.minimum(kept.shape, fresh.shape)
    fresh[:rows, :columns] = kept[:rows, :columns]
    return fresh


def _aligned(batches: Sequence[Batch], names: tuple[str, ...]) -> FloatArray:
    """Return the records with columns of these names; NaN where a batch lacks one."""
    parts = [aligned(batch.X, batch.features, names) for batch in batches]
    return np.concatenate([np.zeros((0, len(names))), *parts])


def _names(table: ExportedTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return table.rows, table.columns
