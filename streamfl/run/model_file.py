"""The incumbent as one file: safetensors with a JSON header and a format version, without a pickle."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, IntArray
from streamfl.errors import PeerError, UsageError
from streamfl.learning.model import Model, Task
from streamfl.machines.client.follower import Follower
from streamfl.machines.client.machine import Client
from streamfl.machines.client.usable import LARGEST_WEIGHT
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.models.importances import importances
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.online.native.private.part import OwnPart
from streamfl.online.native.served import ServedNative
from streamfl.plugins.models import MODELS, loss_of
from streamfl.protocol.fingerprint import fingerprint
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule
from streamfl.protocol.native.extremes import Extremes, are_sound, believed
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.records.clients_of_records import ClientsOfRecords
from streamfl.records.encoding import Encoding, columns_of
from streamfl.records.labels import LabelTexts
from streamfl.records.past_features import PastFeatures
from streamfl.records.values.cells import CellRules, Cells, listed, quoted, text
from streamfl.records.values.missing import Missing as MissingWords
from streamfl.records.values.time_features import TimeFeatures
from streamfl.run.saved.provenance import Provenance
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator
from streamfl.wire import codec, safe_file

FORMAT = 3

WHAT = "a streamfl model file"

# No records of clients that have models of their own.
NO_BRANCHES: Mapping[str, IntArray] = MappingProxyType({})
NO_PARTS: Mapping[str, OwnPart] = MappingProxyType({})

Missing = Literal["warn", "mean", "raise"]
Unknown = Literal["raise", "ignore"]


@dataclass(frozen=True)
class Explanation:
    """Why a model predicts what it predicts for one record."""

    predicted: str | float  # the label, or the target
    probability: float | None  # the probability of that label; None for a target

    # The linear experts' part: the sum over linear experts of their share times their output for the predicted label,
    # less their mean output over all labels; for a target, times their prediction. Linear experts are `rounds`, the
    # model that rounds train, `linear-..` and `whitened-..`. A score of 0 favours no label.
    score: float

    # What the constant 1, and each feature by name, adds to the score: intercept + sum(contributions) = score. A
    # feature at its mean, or missing, adds 0.
    intercept: float
    contributions: Mapping[str, float]

    # The approximate share of each expert in the prediction, by name; they sum to 1. What ferns say is in no
    # contribution: where they have most of the shares, contributions explain little.
    shares: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with everything that predictions need: the registry of features and labels, the scaler, the loss.

    Parameters
    ----------
    task
        `classification` or `regression`.
    loss
        The name of the model that was learnt with, see `streamfl.plugins.models`; it decides how outputs become
        predictions.
    registry
        Names, scaler and unit of targets.
    weights
        Shape (d + 1, columns).
    chain
        The digest of the online models.
    categories
        The values of each text column; value v of column c is the feature `c=v`.
    native
        The models that learn record by record and their mixture; None if there are none.
    branches
        The weights of the model of each client that has drifted alone, by client.
    branch_of
        The name of the branch of each of these clients, by client. Their records are answered with `native` as the
        clients of the branch mix it; without a name by the model of the branch alone.
    provenance
        Where the model comes from; None if it is not known.
    own_parts
        What clients alone know, by client: their records are predicted as they predict. The file of `--model-out` has
        none, a client's own file its own.
    label, left_out
        The label column, and the columns that were left out of training: both are ignored in records.
    client_column
        The column whose value v names a record's client, `v` or `column=v`; empty if no column does.
    clients
        All clients of the run, where some have drifted alone; empty if not known, as in the file of a scorer.
    time_features
        How the times of records become features; None: they do not.
    past
        Which features are made of the client's records before; None: none are. `streamfl predict` makes them for the
        records of a file; here they are columns as any other, `x[-1]`.
    decision
        Which label answers, by the probabilities of all.
    extremes
        The least and the largest target of the run: without `native` no prediction is farther beyond them than a
        tenth of their distance. Empty if they are not known, as in the file of a coordinator.

    Examples
    --------
    >>> registry = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
    >>> model = ServedModel("classification", "softmax", registry, np.array([[-1.0, 1.0], [0.0, 0.0]]))
    >>> model.predict(np.array([[2.0], [-2.0]]), ("x",))
    ['yes', 'no']
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    task: Task
    loss: str
    registry: Registry
    weights: FloatArray
    format: int = FORMAT
    chain: str = ""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    native: ServedNative | None = None
    branches: Mapping[str, FloatArray] = field(default_factory=dict)
    branch_of: Mapping[str, str] = field(default_factory=dict)
    own_parts: Mapping[str, OwnPart] = field(default_factory=dict)
    provenance: Provenance | None = None
    label: str = ""
    left_out: tuple[str, ...] = ()
    client_column: str = ""
    clients: tuple[str, ...] = ()
    missing_values: tuple[str, ...] = ()
    codes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    time_features: TimeFeatures | None = None
    past: PastFeatures | None = None
    decision: DecisionRule = LIKELIEST
    extremes: Extremes = ()

    @classmethod
    def of(
        cls,
        machine: Coordinator,
        learning: LearningSettings,
        own_parts: Mapping[str, OwnPart] = NO_PARTS,
        **names: Any,
    ) -> "ServedModel":
        """Return the model that a coordinator agrees on now, between two rounds.

        Parameters
        ----------
        own_parts
            What its clients alone know, by client.
        names
            How records become features: `ServedModel` has them.

        Raises
        ------
        PeerError
            No round has been opened.
        """
        settings, agreed, native = machine.settings, machine.state.online, None
        online = settings.learner.online
        if isinstance(online, NativeOnlineModels) and isinstance(agreed, NativeState):
            native = ServedNative.of(online.settings, agreed, own=bool(own_parts))
        registry, W = machine.serving()
        branches = machine.branches()
        return cls(
            task=settings.task,
            loss=learning.loss(settings.task),
            registry=registry,
            weights=W,
            chain=machine.state.online_digest,
            native=native,
            branches=branches,
            branch_of=machine.branch_of() if native is not None else {},
            decision=machine.decision,
            own_parts={} if native is None else dict(own_parts),
            clients=tuple(sorted(machine.state.members)) if branches else (),
            **names,
        )

    @classmethod
    def followed(cls, follower: Follower, learning: LearningSettings, task: Task, **names: Any) -> "ServedModel":
        """Return the model of a process that only follows the agreed models.

        Parameters
        ----------
        names
            How records become features: `ServedModel` has them.

        Raises
        ------
        PeerError
            No models were published yet.
        """
        serving, online, native = follower.serving(), follower.online, None
        if isinstance(online, NativeAtClient):
            native = ServedNative.of(online.settings, online.learner.agreed)
        groups = serving.opened.apart
        branches = {
            client: own.W
            for group in groups
            for client in group.clients
            if (own := follower.serving(client)) is not serving  # it has arrived
        }
        return cls(
            task=task,
            loss=learning.loss(task),
            registry=serving.registry,
            weights=serving.W,
            chain="" if native is None else native.agreed.chain,
            native=native,
            branches=branches,
            branch_of={} if native is None else {client: serving.opened.branch_of(client) for client in branches},
            decision=serving.opened.decision,
            **names,
        )

    @classmethod
    def at_client(cls, machine: Client, learning: LearningSettings, task: Task, **names: Any) -> "ServedModel | None":
        """Return the model of the open round at a client, with what it alone knows now; None before round 2."""
        serving, of_all, online = machine.serving(), machine.serving_all(), machine.online_models
        if serving is None or of_all is None or not isinstance(online, NativeAtClient):
            return None
        native = ServedNative.of(online.settings, online.learner.agreed, own=True)
        return cls(
            task=task,
            loss=learning.loss(task),
            registry=serving.registry,
            weights=of_all.W,
            chain=native.agreed.chain,
            native=native,
            branches={} if serving.opened.group_of(machine.name) is None else {machine.name: serving.W},
            branch_of={machine.name: serving.opened.branch_of(machine.name)},
            own_parts={machine.name: online.own_part()},
            decision=machine.decision,
            **names,
        )

    @property
    def sha256(self) -> str:
        """Return the fingerprint that a run reports as `model_sha256`."""
        return fingerprint(self.registry, self.weights, chain=self.chain)

    def save(self, path: str | Path) -> None:
        """Write the file; with `own_parts` only its owner may read it.

        Raises
        ------
        UsageError
            It cannot be written.
        """
        safe_file.write(Path(path), self, private=bool(self.own_parts))

    @classmethod
    def load(cls, path: str | Path) -> "ServedModel":
        """Read a file that `save` wrote.

        Raises
        ------
        UsageError
            It is not such a file, has a later format, or is damaged.
        """
        plain, arrays = safe_file.read(Path(path), WHAT, oldest=FORMAT, newest=FORMAT)
        try:
            model = codec.join(cls, plain, arrays)
        except PeerError as error:
            raise UsageError(f"{path}: not {WHAT}: {error}") from error
        if wrong := model._wrong():
            raise UsageError(f"{path}: not {WHAT}: it has {wrong}")
        return model

    def _wrong(self) -> str | None:
        """Return why no run can have made this model, or None."""
        registry, native = self.registry, self.native
        if wrong := registry.wrong:
            return wrong
        if self.loss not in MODELS.names() or loss_of(self.loss) is None:
            return f"the loss {quoted(self.loss)}, but it must be one of {', '.join(MODELS)}"
        if (self.model.link == "identity") != (self.task == "regression"):
            return f"the loss {self.loss}, which is not for {self.task}"
        shape = registry.rows, self.model.columns(len(self.labels))
        if any(W.shape != shape for W in (self.weights, *self.branches.values())):
            return "weights that do not fit its names"
        if not all(np.abs(W).max(initial=0.0) <= LARGEST_WEIGHT for W in (self.weights, *self.branches.values())):
            return "weights that are not finite, or far too large"
        if wrong := self.decision.wrong():
            return f"a rule of decision that is impossible: {wrong}"
        if not are_sound(self.extremes) or (self.extremes and self.task != "regression"):
            return "a least and a largest target that are impossible"
        if native is None:
            return None
        known = native.agreed.labels == self.labels[: len(native.agreed.labels)]
        if not known or native.settings.targets != (self.task == "regression"):
            return "online models for other labels"
        return native.wrong() or next(filter(None, map(native.wrong_part, self.own_parts.values())), None)

    @cached_property
    def model(self) -> Model:
        """Return the model of linear outputs."""
        model: Model = MODELS[self.loss]()
        return model

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels, in the order of the columns of `predict_proba`; empty in regression."""
        return self.registry.labels

    @cached_property
    def encoding(self) -> Encoding:
        """Return how records become features."""
        others = frozenset({self.label, self.client_column, *self.left_out})
        rules = self.missing_values, self.codes, self.units, self.time_features
        return Encoding(self.registry.features, self.categories, others, *rules)

    def predict(
        self,
        X: Any,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "warn",
        unknown: Unknown = "raise",
        client: str | None = None,
    ) -> list[str] | list[float]:
        """Return the label, or the target, of each record.

        Parameters
        ----------
        X
            Records: rows of shape (n, d) with the names of their columns in `features`; a list of dicts, in which a
            value of an inner dict is named with a dot; or a data frame of pandas or polars. NaN, None and infinity
            are missing values, which count as the mean. A column of texts is encoded as in training: a value that
            was not seen there has none of its features.
        features
            The names of the columns of rows, in any order; None for dicts and data frames.
        missing
            `warn`: warn about columns of the model that X lacks, and use their means. `mean`: use them without a
            warning. `raise`: refuse X.
        unknown
            `raise`: refuse names that the model does not know; the label and the columns that were left out of
            training are known. `ignore`: do not use these columns.
        client
            The client of all records, `east` or `site=east`. None: `client_column` names each record's, if there is
            one; without it they are of the only client in `own_parts`, and a model with `branches`, or with several
            `own_parts`, warns.

        Raises
        ------
        UsageError
            A value is not a number, a shape does not match the names, or names are refused.
        """
        return self.decided(self.predictions(*self._encoded(X, features, missing, unknown, client)))

    def predict_proba(
        self,
        X: Any,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "warn",
        unknown: Unknown = "raise",
        client: str | None = None,
    ) -> FloatArray:
        """Return the probability of each label, shape (n, labels), in the order of `labels`.

        Raises
        ------
        UsageError
            As in `predict`; or the model predicts targets.

        Examples
        --------
        >>> registry = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
        >>> model = ServedModel("classification", "softmax", registry, np.array([[0.0, 1.0], [0.0, 0.0]]))
        >>> model.predict_proba([{"x": 0.0}, {"x": np.log(3.0)}])
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
        """
        if self.task == "regression":
            raise UsageError("the model predicts targets, which have no probabilities; call predict")
        return self.predictions(*self._encoded(X, features, missing, unknown, client))

    def decided(self, predictions: FloatArray) -> list[str] | list[float]:
        """Return the label that answers, see `decision`, or the target, of each row of predictions."""
        if self.task == "regression":
            targets: list[float] = predictions[:, 0].tolist()
            return targets
        return self.named(self.codes_decided(predictions))

    def named(self, codes: IntArray) -> list[str]:
        """Return the labels with some indices."""
        return [self.labels[code] for code in codes.tolist()]

    def codes_decided(self, predictions: FloatArray) -> IntArray:
        """Return the index of the label that answers, 0 for targets, of each row of predictions."""
        if self.task == "regression":
            return np.zeros(len(predictions), np.intp)
        return self.decision.label_indices(predictions, self.labels).astype(np.intp)

    def explain(
        self,
        record: Mapping[str, Any],
        *,
        missing: Missing = "warn",
        unknown: Unknown = "raise",
        client: str | None = None,
    ) -> Explanation:
        """Return why the model predicts what it predicts for a record: see `Explanation`.

        Raises
        ------
        UsageError
            As in `predict`.

        Examples
        --------
        >>> registry = Registry(1, ("x", "y"), ("no", "yes"), np.array([1.0, 0.0]), np.array([2.0, 1.0]))
        >>> model = ServedModel(
        ...     "classification", "softmax", registry, np.array([[-1.0, 1.0], [0.5, 0.0], [0.0, 0.2]])
        ... )
        >>> why = model.explain({"x": 5.0, "y": 1.0})
        >>> why.predicted, round(why.score, 2), round(why.intercept, 2), why.contributions, why.shares
        ('yes', 1.85, 0.1, {'x': 2.0, 'y': -0.25}, {'rounds': 1.0})
        """
        if not isinstance(record, Mapping):
            raise UsageError("explain takes one record, a dict of its values by name")
        features, X, by_branch = self._encoded([record], None, missing, unknown, client)
        predictions = self.predictions(features, X, by_branch)
        best, whose = int(self.codes_decided(predictions)[0]), next(iter(by_branch), "")
        W, native = self._models_of(whose)
        shares, parts = {"rounds": 1.0}, {"rounds": self._linear_by_rounds(features, X, W)}
        if native is not None:
            shares = native.shares(self.branch_of.get(whose, ""), self.own_parts.get(whose))
            added = native.contributions(features, X[0])
            names = ("", *native.agreed.features)
            parts |= {expert: dict(zip(names, part, strict=True)) for expert, part in added.items()}
        total = dict.fromkeys(("", *self.registry.features), 0.0)
        for expert, part in parts.items():
            for name, outputs in part.items():
                of_label = float(outputs[0] if self.task == "regression" else outputs[best] - outputs.mean())
                total[name] = total.get(name, 0.0) + shares[expert] * of_label
        intercept = total.pop("")
        return Explanation(
            predicted=self.decided(predictions)[0],
            probability=float(predictions[0, best]) if self.task == "classification" else None,
            score=intercept + sum(total.values()),
            intercept=intercept,
            contributions=total,
            shares=shares,
        )

    def importances(
        self, X: Any, truth: Sequence[Any], features: Sequence[str] | None = None, *, seed: int = 0
    ) -> dict[str, float]:
        """Return by column how much worse the model predicts when the column's values change places among records.

        It is the accuracy that is lost, or by how much the mean absolute error rises: the mean of five exchanges.
        Take recent records that the model has not learnt. The first column matters most.

        Parameters
        ----------
        X, features, truth, seed
            Records, as in `predict`, with their labels or targets; and the seed of the exchanges.

        Raises
        ------
        UsageError
            As in `predict`; or there are fewer than two records, or not a label or target for each: the error says
            which is none. Labels and targets are read as those of records.

        Examples
        --------
        >>> registry = Registry(1, ("x", "y"), ("no", "yes"), np.zeros(2), np.ones(2))
        >>> records = [{"x": float(x), "y": float(y)} for x in (-1, 1) for y in range(20)]
        >>> model = ServedModel("classification", "softmax", registry, np.diag([-1.0, 0.0, 0.0])[:, :2])
        >>> model.importances(records, ["no"] * 20 + ["yes"] * 20)
        {'x': 0.52, 'y': 0.0}
        """
        names, encoded, by_branch = self._encoded(X, features, "warn", "raise", None)
        if len(truth) != len(encoded) or len(encoded) < 2:
            raise UsageError(
                f"{len(encoded)} records and {len(truth)} truths: give two records or more, and the truth of each"
            )
        right = self._read(truth)

        def quality(records: FloatArray) -> float:
            predicted = np.array(self.decided(self.predictions(names, records, by_branch)))
            wrong = np.abs(predicted - right) if self.task == "regression" else predicted != right
            return -float(wrong.mean())

        return importances(quality, encoded, self.encoding.by_column(names), generator(seed, "importances"))

    def _read(self, truth: Sequence[Any]) -> npt.NDArray[Any]:
        """Return targets, or labels as this model names them, read by the rule for those of records."""
        cells = [cell.item() if isinstance(cell, np.generic) else cell for cell in truth]
        texts = LabelTexts(reading=CellRules(MissingWords.of(self.missing_values)).keeping(self.labels))
        codes, wrong = texts.add(cells)
        values = texts.values()
        if not wrong and self.task == "regression":
            odd = np.flatnonzero(np.isnan(values[codes])).tolist()
            wrong = {i: f"{quoted(cells[i])} is not a number" for i in odd}
        if wrong:
            raise UsageError(f"truth {min(wrong)}: {wrong[min(wrong)]}; leave its record out")
        if self.task == "regression":
            return values[codes]
        own = {text(label, texts.reading): label for label in self.labels}
        return np.array([own.get(name, name) for name in texts.codes])[codes]

    def _linear_by_rounds(self, features: tuple[str, ...], X: FloatArray, W: FloatArray) -> dict[str, FloatArray]:
        """Return what each feature, and the constant 1 (named ""), adds to the outputs of the model of rounds."""
        target = self.registry.target
        added = self.registry.design([_batch(features, X)])[0][:, None] * W
        if self.loss == "logistic":
            added = np.hstack([-0.5 * added, 0.5 * added])  # one column, the difference of two
        elif self.task == "regression":
            added *= target.scale
            added[-1] += target.centre
        return dict(zip((*self.registry.features, ""), added, strict=True))

    @cached_property
    def clients_of_records(self) -> ClientsOfRecords:
        """Return what finds the client of a record, where clients have models of their own."""
        apart = tuple(dict.fromkeys((*self.branches, *self.own_parts)))
        only = next(iter(self.own_parts)) if len(self.own_parts) == 1 else None
        return ClientsOfRecords(self.client_column, self.clients, apart, only)

    def with_client(self, given: Mapping[str, Cells], n: int, client: str | None) -> Mapping[str, Cells]:
        """Return the columns of n records of one client, with the column that names it if they lack that.

        >>> registry = Registry(1, ("x", "site=east"), ("no", "yes"), np.zeros(2), np.ones(2))
        >>> model = ServedModel(
        ...     "classification", "softmax", registry, np.zeros((3, 2)), client_column="site",
        ...     categories={"site": ("east",)},
        ... )
        >>> model.with_client({"x": [1.0, 2.0]}, 2, "site=east")
        {'x': [1.0, 2.0], 'site': ['east', 'east']}
        """
        column = self.client_column
        if not client or column not in self.encoding.lacking(tuple(given)):
            return given
        return {**given, column: [client.removeprefix(f"{column}=")] * n}

    def predictions(
        self, features: tuple[str, ...], X: FloatArray, by_branch: Mapping[str, IntArray] = NO_BRANCHES
    ) -> FloatArray:
        """Return predictions of records; it may be called by several threads at once.

        Parameters
        ----------
        features, X
            Features of `encoding`, and their values, shape (n, features).
        by_branch
            The records of clients that have models of their own, as `clients_of_records.rows` returns them.

        Returns
        -------
        Probabilities, shape (n, labels), or targets, shape (n, 1).
        """
        if sum(map(len, by_branch.values())) < len(X):
            predictions = self._predictions_of("", features, X)
        else:
            predictions = np.empty((len(X), len(self.labels) or 1))
        for client, rows in by_branch.items():
            predictions[rows] = self._predictions_of(client, features, X[rows])
        return predictions

    def _predictions_of(self, client: str, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return the predictions of records of a client that has models of its own; "": of all others."""
        W, native = self._models_of(client)
        rounds = self._by_rounds(features, X, W)
        if native is None:
            return rounds.clip(*self._believed)
        known = len(native.agreed.labels) or 1
        predictions = np.zeros(rounds.shape)
        predictions[:, :known] = native.predictions(
            features, X, rounds, self.branch_of.get(client, ""), self.own_parts.get(client)
        )
        return predictions

    @cached_property
    def _believed(self) -> FloatArray:
        """Return the least and the largest target that is believed, shape (2,)."""
        return believed(self.extremes if self.native is None else self.native.agreed.extremes)

    def _models_of(self, client: str) -> tuple[FloatArray, ServedNative | None]:
        """Return the model of rounds of a client with models of its own, or "" of all others, and what mixes it."""
        W = self.branches.get(client, self.weights)
        named = not client or client in self.branch_of or client in self.own_parts
        mixes = self.native is not None and self.native.agreed.seen and named
        return W, self.native if mixes else None

    def _by_rounds(self, features: tuple[str, ...], X: FloatArray, W: FloatArray) -> FloatArray:
        """Return the predictions of a model that rounds train."""
        model, target = self.model, self.registry.target
        outputs = self.registry.design([_batch(features, X)]) @ W
        if self.task == "regression":
            return (model.predict(outputs) * target.scale + target.centre)[:, None]
        known = model.probabilities(outputs)[:, : len(self.labels)]  # logistic always returns two
        shares: FloatArray = known / known.sum(axis=1, keepdims=True)
        return shares

    def _encoded(
        self,
        records: Any,
        features: Sequence[str] | None,
        missing: Missing,
        unknown: Unknown,
        client: str | None,
    ) -> tuple[tuple[str, ...], FloatArray, dict[str, IntArray]]:
        given, n = columns_of(records, features)
        if not n:
            return self.registry.features, np.zeros((0, len(self.registry.features))), {}
        columns = self.with_client(given, n, client)
        if lacking := self.check_names(tuple(columns), missing, unknown):
            warnings.warn(f'{lacking}; say missing="mean" if this is intended', stacklevel=3)
        if unnamed := self.clients_of_records.warning(columns, client):
            remedy = '; say client=, or client="" if they are of none of these' if client is None else ""
            warnings.warn(unnamed + remedy, stacklevel=3)
        names, X, odd = self.encoding.encoded(columns)
        for name, wrong in odd.items():
            i = min(wrong)
            kind = "times" if name in self.encoding.times else "numbers"
            what = f"{len(wrong)} of {n} cells are not {kind} and count as missing"
            warnings.warn(f"column {quoted(name)}: {what}; the first one, of record {i}: {wrong[i]}", stacklevel=3)
        return names, X, self.clients_of_records.rows(columns, n, client)

    def check_names(
        self, given: tuple[str, ...], missing: Missing = "warn", unknown: Unknown = "raise", *, flags: bool = False
    ) -> str:
        """Return a warning about columns that records lack, or an empty text.

        Parameters
        ----------
        flags
            Whether remedies are named as flags of the command line.

        Raises
        ------
        UsageError
            Names are refused: see `predict`.
        """
        encoding, known = self.encoding, listed(self.encoding.columns)
        others, lacking = encoding.unknown(given), encoding.lacking(given)
        if len(lacking) == len(encoding.columns):
            raise UsageError(f"the model knows none of these features; it knows {known}")
        if others and unknown == "raise":
            remedy = "leave them out, or " + ("add --unknown ignore" if flags else 'say unknown="ignore"')
            raise UsageError(f"the model does not know {listed(others)}; it knows {known}; {remedy}")
        if lacking and missing == "raise":
            remedy = "add them, or " + ("leave --missing-columns refuse out" if flags else 'say missing="mean"')
            raise UsageError(f"{listed(lacking)} of the model's features are missing; {remedy}")
        what = f"{listed(lacking)} of the model's features are missing and count as their means"
        return what if lacking and missing == "warn" else ""


def _batch(features: tuple[str, ...], X: FloatArray) -> Batch:
    return Batch(Span("", 0, len(X)), np.arange(len(X)), features, X, np.zeros(len(X)))
