"""River estimators that run a whole federation inside: nothing to tune, and drift is dealt with."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from river import base

from streamfl.core.arrays import FloatArray
from streamfl.core.errors import UsageError
from streamfl.core.protocol.records import LARGEST_TARGET
from streamfl.core.sampling import generator
from streamfl.estimators import rows
from streamfl.estimators.embedded import EmbeddedFederation, Task
from streamfl.estimators.labels import MOST_LABELS, MOST_WITH_FERNS, Labels
from streamfl.estimators.saved import SavedEstimator
from streamfl.models.river_drift import name_of
from streamfl.settings import LearningSettings, ProfileSettings

FEATURES: tuple[str, ...] = get_args(LearningSettings.model_fields["features"].annotation)

# A weight is so many repetitions of a record.
MOST_WEIGHT = 1000.0


class _MasterFL(base.Estimator):
    """What classifier and regressor share: their parameters, and the federation inside."""

    _task: Task

    def __init__(
        self,
        round_size: int = 100,
        features: str = "auto",
        neighbours: bool = True,
        client: str | None = None,
        detector: str | base.DriftDetector | base.BinaryDriftDetector = "excess",
        seed: int = 0,
        model: str | base.Estimator | None = None,
    ) -> None:
        self.round_size = round_size
        self.features = features
        self.neighbours = neighbours
        self.client = client
        self.detector = detector
        self.seed = seed
        self.model = model
        self._check_parameters()
        self._rows = rows.Rows(without=client)
        learns = {"features": features, "neighbours": _plain(neighbours), "model": "auto" if model is None else model}
        learning = LearningSettings.model_validate(learns)
        learning.river_model(self._task)
        self._federation = EmbeddedFederation(
            self._task,
            round_size=int(round_size),
            learning=learning,
            profile=ProfileSettings(detector=self._detector_name),
            seed=int(seed),
        )
        self._weighed = 0
        ferns = model is None and features in {"auto", "ferns"}
        self._known = Labels(MOST_WITH_FERNS if ferns else MOST_LABELS)
        self._restarted_before = 0

    def _check_parameters(self) -> None:
        for name, least in (("round_size", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} is {value!r}: it must be a whole number, {least} or more")
        if self.neighbours not in {True, False}:
            raise ValueError(f"neighbours is {self.neighbours!r}: it must be True or False")
        if self.features not in FEATURES:
            raise ValueError(f"no features are called {self.features!r}: take one of {', '.join(FEATURES)}")
        if not (self.client is None or isinstance(self.client, str)):
            raise ValueError(f"client is {self.client!r}: give the name of a feature, or None")
        if not isinstance(self.detector, str | base.DriftDetector | base.BinaryDriftDetector):
            raise ValueError(  # noqa: TRY004
                f"detector is {self.detector!r}: give a name, such as 'excess', or a detector of river.drift"
            )

    @property
    def _detector_name(self) -> str:
        """Return the name of the detector; one that is given as an object is built anew from its parameters."""
        return self.detector if isinstance(self.detector, str) else name_of(self.detector)

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

        `record` is the record with which it came, `since_record` the first of the round since which the world has
        changed: counted from 1, in the order learnt, one of weight 3 three times. None where it is not known: of
        restarts in files of earlier versions, and where that round is more than 1000 rounds ago.
        """
        federation = self._federation
        return [
            {
                "record": place.record, "since_record": place.since, "round": r.round, "cause": r.cause,
                "chosen": r.chosen, "since": r.since, "clients": r.clients, "labels": r.labels,
                "statistic": r.statistic, "threshold": r.threshold,
            }
            for r, place in zip(federation.restarts, federation.places, strict=True)
        ]  # fmt: skip

    @property
    def summary(self) -> dict[str, Any]:
        """Rounds, clients, restarts, local drifts, and what part each model has in what is served.

        `asleep` are those that had no part in it for long; they wake now and then. `unlearnt` are the records that a
        model of River could not learn, `infinite` the values learnt that were infinite: they count as missing.
        """
        federation = self._federation
        return {
            "rounds": federation.rounds,
            "clients": len(federation.clients),
            "restarts": federation.restarted,
            "local_drifts": len(federation.local_drifts),
            "unlearnt": federation.unlearnt,
            "infinite": federation.infinite,
            "serving": {name: round(share, 3) for name, share in federation.shares.items()},
            "asleep": federation.asleep,
        }

    # --- saving --------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything to one file, from which `load` goes on: a safetensors file, never a pickle.

        Raises
        ------
        UsageError
            It cannot be written, or federates a model of River that was not given as text.
        """
        if isinstance(self.model, base.Estimator):
            raise UsageError("an estimator given as model= cannot be saved: give it as text, river:NAME")
        SavedEstimator(
            kind=type(self).__name__,
            parameters={
                **{name: _plain(value) for name, value in self._get_params().items()},
                "detector": self._detector_name,
            },
            labels=tuple(self._known.given[name] for name in self._known.names),
            weighed=self._weighed,
            federation=self._federation.saved(),
        ).save(Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the estimator that was saved to a file, by this or an earlier version of streamfl.

        Raises
        ------
        UsageError
            It is no such file, one of a later version, or damaged.
        """
        saved = SavedEstimator.load(Path(path), cls.__name__)
        try:
            return cls._of(saved)
        except Exception as error:  # a file that was tampered with may break anything
            raise UsageError(f"{path}: the file is damaged: {error}") from error

    @classmethod
    def _of(cls, saved: SavedEstimator) -> Self:
        model = cls(**saved.parameters)
        saved.check(targets=cls._task == "regression")
        model._known.restore(saved.ordered_labels())
        model._weighed = saved.weighed
        model._federation.restore(saved.federation)
        model._restarted_before = model._federation.restarted
        return model

    # --- records -------------------------------------------------------------------------------------------------

    def _times(self, w: float) -> int:
        """Return how often a record of weight w is learnt: its whole part, and once more by chance for the rest."""
        weight = _weight(w)
        whole = int(weight)
        if weight == whole:
            return whole
        self._weighed += 1
        return whole + int(generator(int(self.seed), "weight", self._weighed).random() < weight - whole)

    def _begin(self, clients: Iterable[str]) -> None:
        """Begin a call that teaches clients, unless they are too many."""
        self._federation.admit(clients)
        self._restarted_before = self._federation.restarted

    def _client_of(self, x: Any) -> str:
        if self.client is None:
            return ""
        self._expect_client(self.client in x)
        return rows.client_name(x.get(self.client))

    def _expect_client(self, is_there: bool) -> None:
        """Warn, once, if the first records do not name their client at all."""
        if not (is_there or self._federation.clients):
            warnings.warn(
                f"client={self.client!r}: the first record has no such feature, so it is of a client without a name",
                stacklevel=4,
            )

    def _parts(self, X: Any) -> tuple[rows.ManyRows, list[tuple[str, slice]]]:
        """Return records without the client's column, and the runs of those of one client."""
        table = rows.table(X, without=self.client)
        self._expect_client(self.client is None or table.apart is not None)
        named = [""] * len(table.X) if table.apart is None else [rows.client_name(name) for name in table.apart]
        starts = [i for i in range(len(named)) if not i or named[i] != named[i - 1]]
        return table, [(named[a], slice(a, b)) for a, b in pairwise([*starts, len(named)])]


class MasterFLClassifier(_MasterFL, base.MiniBatchClassifier):
    """Learns labels by a federation inside one process: linear models and ferns that learn record by record.

    Records go to clients, each of which learns them one by one from agreed models on. When a round closes, what they
    learnt is merged; a detector compares new records with old ones held back, and at a drift the best of several
    models, old ones and relabelled ones among them, takes over. Features are standardised inside; scaling them before
    does no harm.

    Parameters
    ----------
    round_size
        Records a client between two merges. With one client a round is when drift is looked for.
    features
        `auto`: linear models, and ferns (random binary features). `linear` or `ferns`: only these.
    neighbours
        Whether each client also asks its own last 1000 records.
    client
        The feature that names the client of a record; it is not learnt from. None: there is one client.
    detector
        `excess`, `glr`, `e-detector`, `river:NAME` for one of `river.drift`, such as `river:ADWIN(delta=0.01)`, or
        such a detector itself: one with its parameters watches the mean loss of rounds.
    seed
        Of everything that is drawn: the same seed and records give the same predictions.
    model
        A model of River that is federated in place of `features` and `neighbours`: an estimator, or text such as
        `river:linear_model.SoftmaxRegression`.

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
    Accuracy: 90.55%
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
        model: str | base.Estimator | None = None,
    ) -> None:
        super().__init__(round_size, features, neighbours, client, detector, seed, model)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one record; a weight that is not whole counts as the next or the last whole one, by chance."""
        coded = self._known.coded([y])
        features, X = self._rows.row(x)
        client, times = self._client_of(x), self._times(w)
        self._begin([client] if times else [])
        if times:
            self._known.note(coded)
        for _ in range(times):
            self._federation.learn(client, features, X, coded.codes, coded.names)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of every label seen so far; nothing before any."""
        features, X = self._rows.row(x)
        return self._told(self._federation.answer(self._client_of(x), features, X)[0])

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the most probable label; None before any was seen."""
        features, X = self._rows.row(x)
        return self._most_probable(self._federation.answer(self._client_of(x), features, X)[0])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn records in order, as `learn_one` would; X is a data frame, or an array of shape (n, d)."""
        table, runs = self._parts(X)
        given = rows.column(y)
        self._federation.one_each(table.X, given)
        coded = self._known.coded(given)
        self._begin(client for client, _ in runs)
        self._known.note(coded)
        for client, part in runs:
            self._federation.learn(client, table.features, table.X[part], coded.codes[part], coded.names)

    def predict_proba_many(self, X: Any) -> Any:
        """Return a row of probabilities for each record: a data frame if X is one, else an array.

        The columns of an array are the labels in the order in which they were first seen.
        """
        table, P = self._probabilities(X)
        return table.table_like(P, [self._known.given[name] for name in self._federation.labels])

    def predict_many(self, X: Any) -> Any:
        """Return the most probable label of each record: a series if X is a data frame, else an array.

        Before any label was seen the series is empty, and the array holds None.
        """
        table, P = self._probabilities(X)
        known = P.shape[1] or table.frame is None
        return table.column_like([self._most_probable(p) for p in P] if known else [])

    def _probabilities(self, X: Any) -> tuple[rows.ManyRows, FloatArray]:
        table, runs = self._parts(X)
        P = np.zeros((len(table.X), len(self._federation.labels)))
        for client, part in runs:
            P[part] = self._federation.answer(client, table.features, table.X[part])
        return table, P

    def _most_probable(self, p: FloatArray) -> Any:
        """Return the label of the largest probability, the first of equals; None where nothing is known."""
        code = int(p.argmax()) if len(p) else -1
        return self._known.given[self._federation.labels[code]] if code >= 0 and p[code] > 0.0 else None

    def _told(self, p: FloatArray) -> dict[Any, float]:
        if not p.any():
            return {}
        shares = (p / p.sum()).tolist()
        return {self._known.given[name]: share for name, share in zip(self._federation.labels, shares, strict=True)}


class MasterFLRegressor(_MasterFL, base.MiniBatchRegressor):
    """Predicts numbers by a federation inside one process: see `MasterFLClassifier`.

    Parameters
    ----------
    round_size, features, neighbours, client, detector, seed, model
        As of `MasterFLClassifier`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from streamfl import MasterFLRegressor
    >>> evaluate.progressive_val_score(datasets.ChickWeights(), MasterFLRegressor(seed=1), metrics.MAE())
    MAE: 17.058502
    """

    _task = "regression"

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn one record; a weight that is not whole counts as the next or the last whole one, by chance."""
        target = _target(y)
        features, X = self._rows.row(x)
        client, times = self._client_of(x), self._times(w)
        self._begin([client] if times else [])
        for _ in range(times):
            self._federation.learn(client, features, X, np.array([target]))

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the predicted target; 0 before any was seen."""
        features, X = self._rows.row(x)
        return float(self._federation.answer(self._client_of(x), features, X)[0, 0])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn records in order, as `learn_one` would; X is a data frame, or an array of shape (n, d)."""
        table, runs = self._parts(X)
        given = rows.column(y)
        self._federation.one_each(table.X, given)
        targets = np.array([_target(value) for value in given])
        self._begin(client for client, _ in runs)
        for client, part in runs:
            self._federation.learn(client, table.features, table.X[part], targets[part])

    def predict_many(self, X: Any) -> Any:
        """Return the predicted target of each record: a series if X is a data frame, else an array."""
        table, runs = self._parts(X)
        predicted = np.zeros(len(table.X))
        for client, part in runs:
            predicted[part] = self._federation.answer(client, table.features, table.X[part])[:, 0]
        return table.column_like(predicted)


def _target(y: Any) -> float:
    try:
        target = float(y)
    except (TypeError, ValueError, OverflowError):
        target = np.nan
    if not abs(target) <= LARGEST_TARGET:
        raise ValueError(f"a target is {rows.short(y)}: it must be a finite number, at most {LARGEST_TARGET:g}")
    return target


def _weight(w: Any) -> float:
    """Return a weight as a number.

    >>> _weight(2), _weight(np.float32(0.5))
    (2.0, 0.5)
    """
    if not isinstance(w, int | float | np.integer | np.floating) or not 0 <= w <= MOST_WEIGHT:
        raise ValueError(
            f"a weight is {rows.short(w)}: it must be a number from 0 to {MOST_WEIGHT:g}, as it repeats a record"
        )
    return float(w)


def _plain(parameter: Any) -> Any:
    """Return a scalar of NumPy as Python's own."""
    return parameter.item() if isinstance(parameter, np.generic) else parameter
