"""What a client learns between rounds, record by record, and what it tells of it when the round ends."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray, IntArray
from streamfl.core.moments import Moments
from streamfl.core.online.ferns import FERNS, TOUCHED, Ferns
from streamfl.core.online.mixture import LabelMixture, TargetMixture
from streamfl.core.online.models import OnlineModels
from streamfl.core.online.neighbours import Neighbours
from streamfl.core.online.rungs import WHITENED, OnlineSettings
from streamfl.core.online.running_scaler import RunningScaler

# Records that the running mean of a squared norm reaches back.
WINDOW = 10_000

# The part of their mean that is added to second moments; records for which their inverse is kept.
RIDGE, REFRESH = 0.1, 32

DEPTH_COUNT = TOUCHED // FERNS

_WHITENED = np.array(WHITENED)

Table = npt.NDArray[np.float32]
F = TypeVar("F", np.float32, np.float64)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a client's records of one round did to the agreed models; arrays as in `OnlineModels`.

    Parameters
    ----------
    features, labels
        The agreed names and then those that it saw first.
    records
        How many.
    moments
        Of their features.
    norms
        Their mean squared norms.
    second
        The sum of z z^T.
    weights
        The difference of the linear weights.
    cells, visits, table
        The rows of the table that were touched, how often, and the difference there.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    features: tuple[str, ...]
    labels: tuple[str, ...]
    records: int
    moments: Moments
    norms: FloatArray
    second: FloatArray
    weights: FloatArray
    cells: FloatArray
    visits: FloatArray
    table: FloatArray


class Said(NamedTuple):
    """What is said of one record: its cells' rows, what the models say by column, the mixture, and the expert."""

    rows: Table
    by_model: FloatArray
    mixed: Any
    other: FloatArray | None


class Foreseen(NamedTuple):
    """The record that was predicted last: to learn it, nothing of that need be done again."""

    features: tuple[str, ...]
    values: bytes
    z: FloatArray
    cells: IntArray
    said: Said


@dataclass
class OnlineLearner:
    """The agreed models as one client goes on from them.

    Parameters
    ----------
    settings
        Which models.

    Examples
    --------
    >>> learner = OnlineLearner(OnlineSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 1, 0, 1])
    >>> learner.learn(("x",), X, y, ("a", "b"))
    array([-1.,  0.,  1.,  1.])
    >>> learner.labels, learner.predicted(("x",), np.array([[1.0]])).round(2)
    (('a', 'b'), array([[0.32, 0.68]]))
    """

    settings: OnlineSettings
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    mixture: LabelMixture | TargetMixture = field(init=False)
    near: Neighbours | None = field(init=False)
    records: int = 0
    _codes: dict[str, int] = field(init=False)
    _ferns: Ferns = field(init=False)
    _scaler: RunningScaler = field(init=False)
    _agreed: OnlineModels = field(init=False)
    _weights: FloatArray = field(init=False)
    _table: Table = field(init=False)
    _second: FloatArray = field(init=False)
    _inverse: FloatArray | None = None
    _norms: FloatArray = field(init=False)
    _norm_sums: FloatArray = field(init=False)
    _visits: IntArray = field(init=False)
    _touched: list[IntArray] = field(default_factory=list)
    _originals: list[Table] = field(default_factory=list)
    _inputs: FloatArray = field(init=False)
    _norm_of_model: IntArray = field(init=False)
    _foreseen: Foreseen | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        experts = len(settings.experts)
        self.mixture = TargetMixture(experts) if settings.targets else LabelMixture(experts)
        self.near = Neighbours() if settings.neighbours else None
        self._ferns = Ferns(settings.seed)
        # A fern's linear part sees half the features: its cells are to lead.
        self._inputs = np.ones(len(settings.names))
        self._inputs[settings.ferns] = 0.5
        # Linear models see the features, ferns their cells and half the features.
        self._norm_of_model = np.zeros(len(settings.rates), np.int64)
        self._norm_of_model[settings.ferns] = 1
        self._visits = np.zeros(settings.table_rows, np.int64)
        nothing = OnlineModels.none(settings)
        self._table = nothing.table.astype(np.float32)
        self.begin(nothing)

    # --- rounds --------------------------------------------------------------------------------------------------

    def begin(self, agreed: OnlineModels, cells: IntArray | None = None) -> None:
        """Go on from agreed models; what was learnt since the last ones is theirs by now, or lost.

        Parameters
        ----------
        agreed
            The models.
        cells
            The rows of the table that `agreed.table` holds: those that changed since the agreed models of before.
            None: it holds all.
        """
        self._foreseen = None
        self._change_table(agreed.table, cells)
        if agreed.features[: len(self._ferns.features)] != self._ferns.features:
            self._ferns = Ferns(self.settings.seed)
        if self.settings.has_ferns and agreed.features != self._ferns.features:
            self._ferns = self._ferns.over(agreed.features)
        self._agreed = agreed
        self.features, self.labels = agreed.features, agreed.labels
        self._codes = {label: code for code, label in enumerate(agreed.labels)}
        self._scaler = RunningScaler.of(agreed.moments, agreed.features)
        self._weights = agreed.weights.copy()
        self._second, self._inverse = agreed.second.copy(), None
        self._norms, self._norm_sums = agreed.norms.copy(), np.zeros(2)
        self.records = 0
        self._tell_neighbours()

    def remember(self, near: Neighbours | None) -> None:
        """Take over the last records of a learner that was saved."""
        self.near = near
        if near is not None:
            near.over(self.features, self.labels)

    def restore(self) -> None:
        """Go back to the agreed models."""
        self.begin(replace(self._agreed, table=self._agreed.table[:0]), np.zeros(0, np.int64))

    def _change_table(self, rows: FloatArray, cells: IntArray | None) -> None:
        """Undo this round's changes, and write the rows that `cells` names, or all."""
        touched, before = self._before()
        self._visits[touched] = 0
        self._touched, self._originals = [], []
        if cells is None:
            self._table = rows.astype(np.float32)
            return
        self._table[touched] = before
        # A label that only this client has seen, in a round that did not count, has no column any more.
        self._table = np.ascontiguousarray(_wide(self._table[..., : rows.shape[-1]], rows.shape[-1]))
        self._table[cells] = rows[: len(cells)]  # none, to go back to the agreed models

    def _before(self) -> tuple[IntArray, Table]:
        """Return the rows of the table that this round touched, and what they held."""
        if not self._touched:
            return np.zeros(0, np.int64), np.zeros((0, *self._table.shape[1:]), np.float32)
        columns = self._table.shape[-1]
        return np.concatenate(self._touched), np.concatenate([_wide(x, columns) for x in self._originals])

    def learnt(self) -> Learnt:
        """Return what the records since `begin` did."""
        agreed = self._agreed
        start = agreed.grown(self.features[len(agreed.features) :], self.labels[len(agreed.labels) :], table=False)
        cells, before = self._before()
        return Learnt(
            features=self.features,
            labels=self.labels,
            records=self.records,
            moments=self._scaler.moments(self.features, since=agreed.moments),
            norms=self._norm_sums / max(1, self.records),
            second=self._second - start.second,
            weights=self._weights - start.weights,
            cells=cells.astype(np.float64),
            visits=self._visits[cells].astype(np.float64),
            table=(self._table[cells] - before).astype(np.float64),
        )

    # --- records -------------------------------------------------------------------------------------------------

    def learn(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        y: FloatArray,
        labels: tuple[str, ...] = (),
        others: FloatArray | None = None,
    ) -> FloatArray:
        """Predict every record, then learn it, in order.

        Parameters
        ----------
        features, X
            Names, and values, shape (n, d); NaN is a missing one. A feature begins with its first value.
        y, labels
            Label indices in `labels`, or targets; shape (n,).
        others
            What one more expert says of each record: probabilities of the first labels of this learner, shape
            (n, labels), or targets, shape (n, 1). None: nothing.

        Returns
        -------
        The predicted label indices in this learner's `labels` as they are afterwards (-1 before any label), or
        targets; shape (n,).
        """
        served = np.empty(len(X))
        if self.foresees(features, X) and self._foreseen is not None:
            self._scaler.count_in(self._aligned(features, X))
            z, touched, said = self._foreseen.z, self._foreseen.cells, self._foreseen.said
            served[0] = self._learn_one(z, touched, y[0], labels, said)
            return served
        for rows in self._parts_by_features(features, X):
            first = self._served_first(features, X, others, rows.start)
            self._take_in(features, X[rows.start])
            Z = self._scaler.scaled(self._aligned(features, X[rows]))
            cells = self._cells(Z)
            Z = np.hstack([np.ones((len(Z), 1)), Z])
            for i, z, touched in zip(range(len(X))[rows], Z, cells, strict=True):
                said = self._said(z, touched, None if others is None else others[i])
                served[i] = self._learn_one(z, touched, y[i], labels, said)
            served[rows.start] = served[rows.start] if first is None else first
        return served

    def _served_first(
        self, features: tuple[str, ...], X: FloatArray, others: FloatArray | None, i: int
    ) -> float | None:
        """Return what is served of a record that brings features, which nobody asked for it can know of yet."""
        if not self._new(features, X[i]):
            return None
        said = self.predicted(features, X[i : i + 1], None if others is None else others[i : i + 1])[0]
        if self.settings.targets:
            return float(said[0])
        return float(said.argmax()) if self.labels else -1.0

    def predicted(self, features: tuple[str, ...], X: FloatArray, others: FloatArray | None = None) -> FloatArray:
        """Return what it says of records now: probabilities, shape (n, labels), or targets, shape (n, 1)."""
        self._foreseen = None  # the mixture learns of what it mixed last
        Z = self._scaler.scaled(self._aligned(features, X), count=False)
        cells = self._cells(Z)
        Z = np.hstack([np.ones((len(Z), 1)), Z])
        said = np.zeros((len(X), self._weights.shape[-1]))
        if said.size:
            for i, (z, touched) in enumerate(zip(Z, cells, strict=True)):
                one = self._said(z, touched, None if others is None else others[i])
                said[i] = one.mixed
            if len(X) == 1 and not self._new(features, X[0]):
                self._foreseen = Foreseen(features, X.tobytes(), z, touched, one)
        return said

    def foresees(self, features: tuple[str, ...], X: FloatArray) -> bool:
        """Tell whether the record to be learnt is the one that was predicted last, with nothing learnt since."""
        last = self._foreseen
        return last is not None and len(X) == 1 and last.features == features and last.values == X.tobytes()

    def _learn_one(self, z: FloatArray, cells: IntArray, truth: float, labels: tuple[str, ...], said: Said) -> float:
        self._foreseen = None
        if self.settings.targets:
            served, errors = float(said.mixed), said.by_model - truth
        else:
            served = float(said.mixed.argmax()) if self.labels else -1.0
            code = self._codes.get(labels[int(truth)])
            if code is None:
                code = self._append(labels[int(truth)])
                said = self._said(z, cells, said.other)
            truth, errors = code, said.by_model
            errors[:, code] -= 1.0
        self.mixture.learn(truth)
        self._step(z, cells, said.rows, errors)
        if self.near is not None:
            self.near.learn(z[1:], truth)
        return served

    def _cells(self, Z: FloatArray) -> IntArray:
        return self._ferns.cells(Z) if self.settings.has_ferns else np.zeros((len(Z), 0), np.int64)

    # --- one record ----------------------------------------------------------------------------------------------

    def _said(self, z: FloatArray, cells: IntArray, other: FloatArray | None) -> Said:
        """Return what the models say, by model and column, and what the mixture says of all experts."""
        rows = self._table[cells]
        if not self._weights.shape[-1]:
            return Said(rows, self._weights[0], np.zeros(0), other)  # before any label
        outputs = self._outputs(z, rows)
        if self.settings.targets:
            local = [] if self.near is None else [self.near.targets(z[1:])]
            more = outputs[:, 0].mean(keepdims=True) if other is None else other
            return Said(rows, outputs, self.mixture.mixed(np.concatenate([outputs[:, 0], *local, more])), other)
        P = _softmax(outputs)
        columns = P.shape[1]
        local = [] if self.near is None else [self.near.probabilities(z[1:])]
        more = np.full((1, columns), 0.0 if other is not None else 1.0 / columns)
        if other is not None:
            more[0, : len(other)] = other  # a label of this round is news to it
        return Said(rows, P, self.mixture.mixed(np.concatenate([P, *local, more])), other)

    def _outputs(self, z: FloatArray, rows: Table) -> FloatArray:
        """Return the outputs of the models, shape (models, columns)."""
        models, columns = self._weights.shape[1:]
        outputs: FloatArray = (z @ self._weights.reshape(len(z), -1)).reshape(models, columns)
        outputs *= self._inputs[:, None]
        if len(rows):
            ferns = rows.reshape(DEPTH_COUNT, FERNS, -1).sum(axis=1, dtype=np.float64)
            outputs[self.settings.ferns] += ferns.reshape(-1, columns)
        return outputs

    def _step(self, z: FloatArray, cells: IntArray, rows: Table, errors: FloatArray) -> None:
        """Take every model's step; `errors` are the derivatives of the losses by the outputs."""
        settings, models = self.settings, len(errors)
        square = float(z @ z)
        squares = np.array([square, FERNS + 0.25 * square])
        self.records += 1
        self._norm_sums += squares
        self._norms += (squares - self._norms) / min(self._agreed.seen + self.records, WINDOW)
        at = self._norm_of_model
        norms, of_record = self._norms[at], squares[at]
        normalised = settings.normalised
        errors[normalised] *= (settings.rates / (norms + 0.5 * settings.rates * of_record))[:, None]
        if len(cells):
            self._touch(cells, rows)
            step = errors[settings.ferns].reshape(DEPTH_COUNT, 1, -1)
            self._table[cells] = (rows.reshape(DEPTH_COUNT, FERNS, -1) - step).reshape(rows.shape)
        weights = self._weights.reshape(len(z), -1)
        errors *= self._inputs[:, None]
        split = normalised.stop * errors.shape[1]
        weights[:, :split] -= np.outer(z, errors[normalised])
        if normalised.stop < models:
            along = self._whitened(z)
            errors[normalised.stop :] *= (_WHITENED / (1.0 + 0.5 * _WHITENED * float(z @ along)))[:, None]
            weights[:, split:] -= np.outer(along, errors[normalised.stop :])

    def _whitened(self, z: FloatArray) -> FloatArray:
        """Return A^-1 z, A the mean of z z^T and a ridge; A is as it was a few records ago."""
        self._second += np.outer(z, z)
        seen = self._agreed.seen + self.records
        if self._inverse is None or seen % REFRESH == 0:
            A = self._second / seen
            self._inverse = np.linalg.inv(A + RIDGE * np.trace(A) / len(A) * np.eye(len(A)))
        along: FloatArray = self._inverse @ z
        return along

    def _touch(self, cells: IntArray, rows: Table) -> None:
        """Note what cells held before their first change of the round, and that they are visited."""
        first = self._visits[cells] == 0
        if first.any():
            self._touched.append(cells[first])
            self._originals.append(rows[first])
        self._visits[cells] += 1

    # --- names ---------------------------------------------------------------------------------------------------

    def _parts_by_features(self, features: tuple[str, ...], X: FloatArray) -> list[slice]:
        """Return runs of records between which no feature has its first value."""
        if features == self.features or not len(X):
            return [slice(0, len(X))] if len(X) else []
        known = set(self.features)
        new = [j for j, name in enumerate(features) if name not in known]
        firsts = {j: int(np.flatnonzero(there)[0]) for j in new if (there := ~np.isnan(X[:, j])).any()}
        starts = sorted({0, *firsts.values()})
        return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(X)], strict=True)]

    def _new(self, features: tuple[str, ...], x: FloatArray) -> tuple[str, ...]:
        """Return the features that have their first value in a record."""
        if features == self.features:
            return ()
        known = set(self.features)
        values = zip(features, x, strict=True)
        return tuple(sorted(name for name, value in values if name not in known and not math.isnan(value)))

    def _take_in(self, features: tuple[str, ...], x: FloatArray) -> None:
        """Take in the features that have their first value in a record."""
        new = self._new(features, x)
        if new:
            self.features = (*self.features, *new)
            self._scaler.grown(len(new))
            self._weights = np.pad(self._weights, ((0, len(new)), (0, 0), (0, 0)))
            self._second = np.pad(self._second, (0, len(new))) if self._second.size else self._second
            self._inverse = None
            if self.settings.has_ferns:
                self._ferns = self._ferns.over(self.features)
            self._tell_neighbours()

    def _aligned(self, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        if features == self.features:
            return X
        at = {name: j for j, name in enumerate(features)}
        columns = [at.get(name, len(features)) for name in self.features]
        return np.column_stack([X, np.full(len(X), np.nan)])[:, columns]

    def _append(self, label: str) -> int:
        self.labels = (*self.labels, label)
        self._codes[label] = len(self._codes)
        columns = len(self.labels)
        self._weights = _wide(self._weights, columns)
        self._table = _wide(self._table, columns)
        self._tell_neighbours()
        return columns - 1

    def _tell_neighbours(self) -> None:
        if self.near is not None:
            self.near.over(self.features, self.labels)


def _softmax(outputs: FloatArray) -> FloatArray:
    p: FloatArray = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def _wide(array: npt.NDArray[F], columns: int) -> npt.NDArray[F]:
    """Return an array with zeros for more columns in its last axis."""
    more = columns - array.shape[-1]
    return np.concatenate([array, np.zeros((*array.shape[:-1], more), array.dtype)], axis=-1) if more else array
