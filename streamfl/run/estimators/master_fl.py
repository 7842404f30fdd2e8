"""River estimators that run a whole federation in one process, with drift handling and nothing to tune."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from river import base

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.error_quantiles import LEVELS
from streamfl.learning.model import Task
from streamfl.protocol.messages import LocalDrift, Restarted
from streamfl.protocol.records import LARGEST_TARGET
from streamfl.run.estimators import rows
from streamfl.run.estimators.embedded import EmbeddedFederation
from streamfl.run.estimators.labels import MOST_LABELS, MOST_WITH_FERNS, LearntLabels
from streamfl.run.estimators.saved import RecordPlace, SavedColumns, SavedEstimator
from streamfl.run.model_file import ServedModel
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.sampling import generator

if TYPE_CHECKING:
    from streamfl.models.by_weights import WeightsModel

FEATURES: tuple[str, ...] = get_args(LearningSettings.model_fields["features"].annotation)
OBJECTIVES: tuple[str, ...] = get_args(LearningSettings.model_fields["objective"].annotation)

# A record of weight w is learnt w times.
MOST_WEIGHT = 1000.0
NUMBER = int | float | np.integer | np.floating


class _MasterFL(base.Estimator):
    """The common part of classifier and regressor: parameters, and the embedded federation."""

    _task: Task

    def __init__(
        self,
        round_size: int = 100,
        features: str = "auto",
        neighbours: bool = True,
        client: str | None = None,
        detector: str | base.DriftDetector | base.BinaryDriftDetector = "excess",
        seed: int = 0,
        model: str | base.Estimator | type[WeightsModel] | None = None,
        last_answer: bool = True,
    ) -> None:
        self.round_size = round_size
        self.features = features
        self.neighbours = neighbours
        self.client = client
        self.detector = detector
        self.seed = seed
        self.model = model
        self.last_answer = last_answer
        self._check_parameters()
        self._rows = rows.Rows(without=client)
        options = {
            "features": features,
            "neighbours": _plain(neighbours),
            "last_answer": _plain(last_answer),
            "model": "auto" if model is None else model,
            **self._aim,
        }
        learning = LearningSettings.model_validate(options)
        learning.external_model(self._task)
        learning.check_objective(self._task)
        self._federation = EmbeddedFederation(
            self._task,
            round_size=int(round_size),
            learning=learning,
            profile=ProfileSettings(detector=self._detector_name),
            seed=int(seed),
            alone=client is None,
        )
        self._weighed = 0
        ferns = model is None and features in {"auto", "ferns"}
        self._labels = LearntLabels(MOST_WITH_FERNS if ferns else MOST_LABELS)
        self._restarted_before = 0

    def _check_parameters(self) -> None:
        for name, least in (("round_size", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is {value!r}: it must be a whole number, {least} or more")
        for name in ("neighbours", "last_answer"):
            if getattr(self, name) not in {True, False}:
                raise ValueError(f"{name} is {getattr(self, name)!r}: it must be True or False")
        if self.features not in FEATURES:
            raise ValueError(f"no features are called {self.features!r}: use one of {', '.join(FEATURES)}")
        if not (self.client is None or isinstance(self.client, str)):
            raise ValueError(f"client is {self.client!r}: give the name of a feature, or None")
        if not isinstance(self.detector, str | base.DriftDetector | base.BinaryDriftDetector):
            raise ValueError(  # noqa: TRY004
                f"detector is {self.detector!r}: give a name, such as 'excess', or a detector of river.drift"
            )

    @property
    def _aim(self) -> dict[str, Any]:
        """Return the settings that say what predictions are to be good at."""
        return {}

    @property
    def _detector_name(self) -> str:
        """Return the name of the detector; a detector object is described by its class and parameters."""
        if isinstance(self.detector, str):
            return self.detector
        # `river.drift` imports SciPy and scikit-learn, which takes as long as all else before the first record.
        from streamfl.models.river_drift import name_of  # noqa: PLC0415

        return name_of(self.detector)

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()

    @property
    def drift_detected(self) -> bool:
        """Whether the last call of `learn_one` or `learn_many` closed a round after which a new epoch began."""
        return self._federation.restarted > self._restarted_before

    @property
    def restarts(self) -> list[dict[str, Any]]:
        """The last 1000 restarts: round, cause, evidence, and the model that was chosen.

        `record` is the number of the record that closed the round of the alarm. `since_record` is the first record
        of the round to which the detector dates the change. Records are counted from 1 in the order learnt; a record
        of weight 3 counts three times. `since_record` is None if its round is more than 1000 rounds ago. `positions`
        has by client how many of its own records came before that round, or before the last 32 rounds if it is longer
        ago, and up to the alarm. `drift` is the round in which the same drift was first found, at other clients if it
        is earlier than `round`. `scores` has the mean score of each candidate: the least is chosen.
        `online_models_begin_again` says whether online models began again untrained.
        """
        federation = self._federation
        return [
            _found(restart, place)
            | {
                "cause": restart.cause,
                "chosen": restart.chosen,
                "scores": dict(restart.scores),
                "online_models_begin_again": restart.online_models_begin_again,
            }
            for restart, place in zip(federation.restarts, federation.places, strict=True)
        ]

    @property
    def local_drifts(self) -> list[dict[str, Any]]:
        """The last 1000 changes of clients that drifted, or were thought to, while the others did not.

        `clients` names them; `state` is `latched`, `branched`, `released`, `merged`, `returned` or `corrected`: see
        `streamfl.protocol.messages.LocalDrift`. The other keys are as in `restarts`.
        """
        federation = self._federation
        return [
            _found(drift, place) | {"state": drift.state}
            for drift, place in zip(federation.local_drifts, federation.local_places, strict=True)
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """Counts of rounds, clients, restarts and local drifts, and each model's share in the predictions.

        `asleep` lists the models without a share for a long time; they wake now and then. `unlearnt` counts the
        records that a model of others could not learn, `infinite` the infinite values, which count as missing.
        `unusable` counts by feature the values that are not what it holds, such as a text among numbers.
        """
        federation = self._federation
        return {
            "rounds": federation.rounds,
            "clients": len(federation.clients),
            "restarts": federation.restarted,
            "local_drifts": len(federation.local_drifts),
            "unlearnt": federation.unlearnt,
            "infinite": federation.infinite,
            "unusable": dict(self._rows.unusable),
            "serving": {name: round(share, 3) for name, share in federation.shares.items()},
            "asleep": federation.asleep,
        }

    # --- saving --------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the estimator to one safetensors file, from which `load` continues. Nothing is pickled.

        Raises
        ------
        UsageError
            The file cannot be written, or `model` was given as an object or class.
        """
        if not (self.model is None or isinstance(self.model, str)):
            raise UsageError(
                "an object or class given as model= cannot be saved: give it as text, river:NAME, or the name under "
                "which a package registers it"
            )
        SavedEstimator(
            kind=type(self).__name__,
            parameters={
                **{name: _plain(value) for name, value in self._get_params().items()},
                "detector": self._detector_name,
                **{name: prices for name, prices in self._aim.items() if name == "costs" and prices},  # by name
            },
            labels=tuple(self._labels.given[name] for name in self._labels.names),
            weighed=self._weighed,
            federation=self._federation.saved(),
            columns=SavedColumns.of(self._rows.columns, self._rows.unusable),
        ).save(Path(path))

    def served(self, *, own: bool = False) -> ServedModel:
        """Return what all clients have agreed on after the last closed round, as a model file has it.

        It can be saved for `streamfl predict`, explains a prediction (`explain`), and says which features matter
        (`importances`). Its labels are texts.

        Parameters
        ----------
        own
            Whether it also has what each client alone knows now, such as its nearest records: it then predicts a
            client's records as the client does when a round has just closed. Such a file tells of single records.

        Raises
        ------
        UsageError
            No round was closed, or `model` is not one of streamfl's own.

        Examples
        --------
        >>> from river.datasets import Phishing
        >>> estimator = MasterFLClassifier(features="rounds")
        >>> records = list(Phishing().take(500))
        >>> for x, y in records[:400]:
        ...     estimator.learn_one(x, y)
        >>> model = estimator.served()
        >>> x, y = zip(*records[400:])
        >>> list(model.importances(list(x), y))[0]
        'empty_server_form_handler'
        """
        columns = SavedColumns.of(self._rows.columns)
        units = {name: unit for name, unit in columns.numbers.items() if unit}
        names = {"categories": columns.categories, "units": units, "client_column": self.client or ""}
        return self._federation.served(columns.left_out, own=own, **names)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return an estimator saved by this version of streamfl or by 0.2.0.

        Raises
        ------
        UsageError
            The file is not a saved estimator, comes from a later version, or is damaged.
        """
        saved = SavedEstimator.load(Path(path), cls.__name__)
        try:
            return cls._of(saved)
        except Exception as error:  # a tampered file can raise anything
            raise UsageError(f"{path}: the file is damaged: {error}") from error

    @classmethod
    def _of(cls, saved: SavedEstimator) -> Self:
        model = cls(**saved.parameters)
        saved.check(targets=cls._task == "regression")
        model._labels.restore(saved.labels)
        model._weighed = saved.weighed
        model._federation.restore(saved.federation)
        columns = saved.columns or SavedColumns(numbers=dict.fromkeys(model._federation.features, ""))
        model._rows.columns, model._rows.unusable = columns.restored(), dict(columns.unusable)
        model._restarted_before = model._federation.restarted
        return model

    # --- records -------------------------------------------------------------------------------------------------

    def _times(self, w: float) -> int:
        """Return how often to learn a record of weight w: floor(w), plus 1 with probability w - floor(w)."""
        weight = _weight(w)
        whole = int(weight)
        if weight == whole:
            return whole
        self._weighed += 1
        return whole + int(generator(int(self.seed), "weight", self._weighed).random() < weight - whole)

    def _begin(self, clients: Sequence[str], features: tuple[str, ...]) -> None:
        """Begin a call that learns records of these clients; refuse too many clients or features."""
        self._federation.admit(clients, features)
        self._restarted_before = self._federation.restarted

    def _client_of(self, x: Any) -> str:
        if self.client is None:
            return self._federation.only_client
        self._expect_client(self.client in x)
        return rows.client_name(x.get(self.client))

    def _answer(self, x: Any) -> FloatArray:
        """Return the prediction for one record: see `EmbeddedFederation.answer`."""
        row = self._rows.row(x)
        prediction: FloatArray = self._federation.answer(self._client_of(x), row.features, row.X)[0]
        return prediction

    def _expect_client(self, is_there: bool) -> None:
        """Warn, once, if the first record has no client feature."""
        if not (is_there or self._federation.clients):
            warnings.warn(
                f"client={self.client!r}: the first record has no such feature; it goes to a client without a name",
                stacklevel=4,
            )

    def _parts(self, X: Any) -> tuple[rows.ManyRows, list[tuple[str, slice]]]:
        """Return records without the client column, and the runs of consecutive records of one client."""
        table = self._rows.many(X)
        self._expect_client(self.client is None or table.excluded is not None)
        nameless = "" if self.client is not None else self._federation.only_client
        excluded = table.excluded
        named = [nameless] * len(table.X) if excluded is None else [rows.client_name(name) for name in excluded]
        starts = [i for i in range(len(named)) if not i or named[i] != named[i - 1]]
        return table, [(named[a], slice(a, b)) for a, b in pairwise([*starts, len(named)])]


class MasterFLClassifier(_MasterFL, base.MiniBatchClassifier):
    """Classifier that runs a federation in one process: linear models and ferns that learn record by record.

    Each record goes to a client, which updates its copy of the shared models. When a round closes, the clients'
    updates are merged. A detector compares the loss on new records with the loss on held-out old ones. After an alarm
    the best of several candidates takes over, among them earlier and relabelled models. Features are standardised
    internally; scaling them before does no harm.

    Parameters
    ----------
    round_size
        Records per client between two merges. Drift is tested once a round.
    features
        `auto`: linear models and ferns (random binary features). `linear` or `ferns`: only these.
    neighbours
        Whether each client also uses nearest neighbours among its own last 1000 records.
    client
        The feature that names the client of a record; it is not learnt from. None: there is one client.
    detector
        `excess`, `conformal`, `glr`, `e-detector`, or a detector of `river.drift`, as an object or as text such as
        `river:ADWIN(delta=0.01)`. A River detector watches the mean loss of each round; a copy with the same
        parameters is used.
    seed
        Seed of all random draws: the same seed and records give the same predictions.
    model
        A model to federate in place of `features`, `neighbours` and `last_answer`: an estimator of River, or text
        such as `river:linear_model.SoftmaxRegression`; a class like `streamfl.models.by_weights.WeightsModel`, or the
        name under which a package registers one.
    last_answer
        Whether each client also has a model of its own, and uses the last label that it learnt. Turn it off if labels
        come late, and in runs that are shorter than the delay.
    objective
        What `predict_one` is to be good at: `accuracy`; `balanced`, the mean recall of the labels; `kappa`, agreement
        beyond chance; or `cost`, the price of wrong labels. It changes neither probabilities nor what is learnt.
        `balanced` and `kappa` decide by the labels of closed rounds.
    costs
        With the objective `cost`, the price of missing a record of a label, by label; that of any other is 1.

    References
    ----------
    Ganguly and Aggarwal, "Online Federated Learning via Non-Stationary Detection and Adaptation Amidst Concept
    Drift", 2022: rounds, detection and restart. Ozuysal et al. 2010: ferns. Herbster and Warmuth 1998: mixing.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamfl import MasterFLClassifier
    >>> model = MasterFLClassifier(seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 90.79%
    >>> model.summary["rounds"], model.drift_detected
    (12, False)
    """

    _task = "classification"

    def __init__(
        self,
        round_size: int = 100,
        features: str = "auto",
        neighbours: bool = True,
        client: str | None = None,
        detector: str | base.DriftDetector | base.BinaryDriftDetector = "excess",
        seed: int = 0,
        model: str | base.Estimator | type[WeightsModel] | None = None,
        last_answer: bool = True,
        objective: str = "accuracy",
        costs: Mapping[Any, float] | None = None,
    ) -> None:
        self.objective = objective
        self.costs = costs
        if objective not in OBJECTIVES:
            raise ValueError(f"no objective is called {objective!r}: use one of {', '.join(OBJECTIVES)}")
        super().__init__(round_size, features, neighbours, client, detector, seed, model, last_answer)

    @property
    def _aim(self) -> dict[str, Any]:
        if self.costs is not None and not isinstance(self.costs, Mapping):
            raise ValueError(f"costs is {self.costs!r}: it must have the price of each label, such as {{True: 20}}")
        prices = [(label, _plain(price)) for label, price in (self.costs or {}).items()]
        return {
            "objective": self.objective,
            "costs": {name: price for label, price in prices for name in _names(label)},
        }

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record `w` times; a fractional weight is rounded up or down at random, its mean being `w`."""
        encoded = self._labels.encode_one(y)
        row = self._rows.row(x)
        client, times = self._client_of(x), self._times(w)
        self._begin([client] if times else [], row.features)
        if times:
            self._rows.learn(row)
            self._labels.add(encoded)
        for repeated in range(times):
            learn = self._federation.repeat if repeated else self._federation.learn
            learn(client, row.features, row.X, encoded.codes, encoded.names)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of every label seen so far; an empty dict before the first."""
        return self._by_label(self._answer(x))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the label that `objective` chooses, the most probable by default; None before the first was seen."""
        name = self._federation.decided_one(self._answer(x))
        return None if name is None else self._labels.given[name]

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn records in order, as `learn_one` would; X is a data frame, or an array of shape (n, d)."""
        table, runs = self._parts(X)
        given = rows.column(y)
        self._federation.check_lengths(table.X, given)
        encoded = self._labels.encode(given)
        self._begin([client for client, _ in runs], table.features)
        self._rows.learn(table)
        self._labels.add(encoded)
        for client, part in runs:
            self._federation.learn(client, table.features, table.X[part], encoded.codes[part], encoded.names)

    def predict_proba_many(self, X: Any) -> Any:
        """Return one row of probabilities per record: a data frame if X is one, else an array.

        The columns of an array are the labels in order of first appearance.
        """
        table, P = self._probabilities(X)
        return table.table_like(P, [self._labels.given[name] for name in self._federation.labels])

    def predict_many(self, X: Any) -> Any:
        """Return the label of each record, as `predict_one` does: a series if X is a data frame, else an array.

        Before the first label was seen the series is empty, and the array holds None.
        """
        table, P = self._probabilities(X)
        known = P.shape[1] or table.frame is None
        return table.column_like(self._decided(P) if known else [])

    def _probabilities(self, X: Any) -> tuple[rows.ManyRows, FloatArray]:
        table, runs = self._parts(X)
        P = np.zeros((len(table.X), len(self._federation.labels)))
        for client, part in runs:
            P[part] = self._federation.answer(client, table.features, table.X[part])
        return table, P

    def _decided(self, P: FloatArray) -> list[Any]:
        """Return the label that answers each record; None where all probabilities are 0."""
        return [None if name is None else self._labels.given[name] for name in self._federation.decided(P)]

    def _by_label(self, p: FloatArray) -> dict[Any, float]:
        if not p.any():
            return {}
        shares = (p / p.sum()).tolist()
        return {self._labels.given[name]: share for name, share in zip(self._federation.labels, shares, strict=True)}


class MasterFLRegressor(_MasterFL, base.MiniBatchRegressor):
    """Regressor that runs a federation in one process: see `MasterFLClassifier`.

    Parameters
    ----------
    round_size, features, neighbours, client, detector, seed, model, last_answer
        As for `MasterFLClassifier`.
    quantiles
        Whether each client follows the quantiles of its errors, for `predict_quantiles_one`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamfl import MasterFLRegressor
    >>> evaluate.progressive_val_score(datasets.ChickWeights(), MasterFLRegressor(seed=1), metrics.MAE())
    MAE: 17.701156
    """

    _task = "regression"

    def __init__(
        self,
        round_size: int = 100,
        features: str = "auto",
        neighbours: bool = True,
        client: str | None = None,
        detector: str | base.DriftDetector | base.BinaryDriftDetector = "excess",
        seed: int = 0,
        model: str | base.Estimator | type[WeightsModel] | None = None,
        last_answer: bool = True,
        quantiles: bool = False,
    ) -> None:
        self.quantiles = quantiles
        if quantiles not in {True, False}:
            raise ValueError(f"quantiles is {quantiles!r}: it must be True or False")
        super().__init__(round_size, features, neighbours, client, detector, seed, model, last_answer)
        self._federation.follows_errors = bool(quantiles)

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn one record `w` times; a fractional weight is rounded up or down at random, its mean being `w`."""
        target = _target(y)
        row = self._rows.row(x)
        client, times = self._client_of(x), self._times(w)
        self._begin([client] if times else [], row.features)
        if times:
            self._rows.learn(row)
        for repeated in range(times):
            learn = self._federation.repeat if repeated else self._federation.learn
            learn(client, row.features, row.X, np.array([target]))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the predicted target; 0 before the first was seen."""
        return float(self._answer(x)[0])

    def predict_quantiles_one(self, x: dict[Any, Any]) -> dict[float, float]:
        """Return the quantiles 0.1, 0.5 and 0.9 of the target: an interval that shall hold four of five targets.

        They are the predicted target plus quantiles of the client's past errors: see `ErrorQuantiles`. The dict is
        empty before the client has learnt ten records.

        Raises
        ------
        UsageError
            The estimator was made without `quantiles=True`.

        Examples
        --------
        >>> from river.datasets import ChickWeights
        >>> model = MasterFLRegressor(features="linear", quantiles=True)
        >>> for x, y in ChickWeights():
        ...     model.learn_one(x, y)
        >>> found = model.predict_quantiles_one({"time": 4, "diet": 1})
        >>> {level: round(target, -1) for level, target in found.items()}
        {0.1: 60.0, 0.5: 130.0, 0.9: 220.0}
        """
        if not self.quantiles:
            raise UsageError("the estimator does not follow its errors: make it with quantiles=True")
        found = self._federation.quantiles(self._client_of(x), self.predict_one(x))
        return {} if found is None else dict(zip(LEVELS, found, strict=True))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn records in order, as `learn_one` would; X is a data frame, or an array of shape (n, d)."""
        table, runs = self._parts(X)
        given = rows.column(y)
        self._federation.check_lengths(table.X, given)
        targets = np.array([_target(value) for value in given])
        self._begin([client for client, _ in runs], table.features)
        self._rows.learn(table)
        for client, part in runs:
            self._federation.learn(client, table.features, table.X[part], targets[part])

    def predict_many(self, X: Any) -> Any:
        """Return the predicted target of each record: a series if X is a data frame, else an array."""
        table, runs = self._parts(X)
        predicted = np.zeros(len(table.X))
        for client, part in runs:
            predicted[part] = self._federation.answer(client, table.features, table.X[part])[:, 0]
        return table.column_like(predicted)


def _found(found: Restarted | LocalDrift, place: RecordPlace) -> dict[str, Any]:
    """Return what a restart and a local drift have in common, and their places among the records."""
    return {
        "record": place.record, "since_record": place.since, "round": found.round, "since": found.since,
        "clients": found.clients, "labels": found.labels, "statistic": found.statistic,
        "threshold": found.threshold, "positions": dict(found.positions), "drift": found.drift,
    }  # fmt: skip


def _target(y: Any) -> float:
    try:
        target = float(y)
    except (TypeError, ValueError, OverflowError):
        target = np.nan
    if not abs(target) <= LARGEST_TARGET:
        raise ValueError(f"a target is {rows.abridged(y)}: it must be a finite number, at most {LARGEST_TARGET:g}")
    return target


def _weight(w: Any) -> float:
    """Return a weight as a number.

    >>> _weight(2), _weight(np.float32(0.5))
    (2.0, 0.5)
    """
    if not isinstance(w, NUMBER) or not 0 <= w <= MOST_WEIGHT:
        raise ValueError(f"a weight is {rows.abridged(w)}: it must be a number from 0 to {MOST_WEIGHT:g}")
    return float(w)


def _names(label: Any) -> set[str]:
    """Return the names that a label may have: labels that are equal in Python are one.

    >>> sorted(_names(True)), _names("on")
    (['1', '1.0', 'True'], {'on'})
    """
    plain = _plain(label)
    equal = [kind(plain) for kind in (bool, int, float)] if isinstance(plain, int | float) else []
    return {str(plain), *(str(one) for one in equal if one == plain)}


def _plain(parameter: Any) -> Any:
    """Return a NumPy scalar as a plain Python value."""
    return parameter.item() if isinstance(parameter, np.generic) else parameter
