# ruff: noqa: PLC0415 - libraries are imported where a method is made, see below.
"""The methods to compare, each with records in the form of its library.

Libraries are imported where a method is made: CapyMOA lives in an environment of its own, without streamfl and River.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from river_peers.dealing import CLIENT, Isolated, client_of

TREES, MANY_TREES = 10, 100
NEIGHBOURS_OF = 1000  # the records among which kNN looks: as many as a client of streamfl keeps
CLIENTS, ROUND = 4, 50  # of the variants with several clients

# The cheap ones first.
PEERS = (
    "no-change",
    "river-linear-0.01",
    "river-linear-0.1",
    "river-linear-ddm",
    "river-hat",
    "river-knn-1",
    "river-knn-3",
    "river-knn-10",
    "capymoa-arf",
    "capymoa-srp",
    "capymoa-srp-100",
    "capymoa-sgbt",
    "capymoa-sgbt-0.1",
    "capymoa-sgbt-0.3",
    "capymoa-sgbt-1",
    "river-arf",
    "river-srp",
    "river-arf-100",
)
OURS: dict[str, dict[str, Any]] = {
    "streamfl": {},
    "streamfl-no-neighbours": {"neighbours": False},
    "streamfl-linear": {"features": "linear"},
}
METHODS = (*OURS, *PEERS)

ONE, MERGED, ISOLATED = "one", f"merged-{CLIENTS}", f"isolated-{CLIENTS}"
VARIANTS = (ONE, MERGED, ISOLATED)


def variants(method: str) -> tuple[str, ...]:
    """Return the variants of a method; peers have one client only."""
    return VARIANTS if method in OURS else (ONE,)


@dataclass(frozen=True)
class Task:
    """What a learner knows before its first record."""

    features: tuple[str, ...]
    labels: int
    seed: int


@dataclass(frozen=True)
class Learner:
    """A method about to learn.

    Parameters
    ----------
    predict
        Takes a ready record; returns the number of a label, or None.
    learn
        Takes a ready record and its label's number.
    ready
        Takes the features of some records, shape (m, d), their labels' numbers, and the number of the first one;
        returns them in the form of its library. The time for this does not count.
    size
        Returns the bytes of the model.
    """

    predict: Callable[[Any], Any]
    learn: Callable[[Any, int], Any]
    ready: Callable[[npt.NDArray[np.float64], Sequence[int], int], list[Any]]
    size: Callable[[], int]


def make(method: str, variant: str, task: Task) -> Learner:
    """Return a fresh learner.

    Raises
    ------
    ImportError
        If its library is not installed here.
    """
    if method.startswith("capymoa"):
        return _capymoa(method, task)
    model = _ours(method, variant, task) if method in OURS else _peer(method, task)
    federated = CLIENTS if variant == MERGED else 0

    def ready(X: npt.NDArray[np.float64], y: Sequence[int], first: int) -> list[Any]:
        records: list[dict[str, Any]] = [dict(zip(task.features, row, strict=True)) for row in X.tolist()]
        if federated:
            for i, record in enumerate(records, first):
                record[CLIENT] = client_of(i, federated)
        return records

    return Learner(model.predict_one, model.learn_one, ready, lambda: len(pickle.dumps(model)))


class NoChange:
    """Repeats the last label."""

    def __init__(self) -> None:
        self.last: int | None = None

    def predict_one(self, x: object) -> int | None:
        return self.last

    def learn_one(self, x: object, y: int) -> None:
        self.last = y


def _ours(method: str, variant: str, task: Task) -> Any:
    from streamfl import MasterFLClassifier

    given = {**OURS[method], "seed": task.seed}
    if variant == ONE:
        return MasterFLClassifier(**given)
    if variant == MERGED:
        return MasterFLClassifier(**given, round_size=ROUND, client=CLIENT)
    return Isolated([MasterFLClassifier(**given, round_size=ROUND) for _ in range(CLIENTS)])


def _peer(method: str, task: Task) -> Any:
    if method == "no-change":
        return NoChange()
    from river import drift, ensemble, forest, tree

    if method.startswith("river-knn-"):
        return _neighbours(int(method.removeprefix("river-knn-")))
    match method:
        case "river-linear-0.01":
            return _linear(task, 0.01)
        case "river-linear-0.1":
            return _linear(task, 0.1)
        case "river-linear-ddm":
            return drift.DriftRetrainingClassifier(_linear(task, 0.1), drift.binary.DDM())
        case "river-hat":
            return tree.HoeffdingAdaptiveTreeClassifier(seed=task.seed)
        case "river-arf":
            return forest.ARFClassifier(n_models=TREES, seed=task.seed)
        case "river-arf-100":
            return forest.ARFClassifier(n_models=MANY_TREES, seed=task.seed)
        case "river-srp":
            return ensemble.SRPClassifier(n_models=TREES, seed=task.seed)
    raise ValueError(method)


def _linear(task: Task, rate: float) -> Any:
    from river import linear_model, optim, preprocessing

    from river_peers.intercept import Intercept

    if task.labels == 2:
        return preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(rate))
    return preprocessing.StandardScaler() | Intercept() | linear_model.SoftmaxRegression(optim.SGD(rate))


def _neighbours(k: int) -> Any:
    from river import neighbors, preprocessing

    among = neighbors.LazySearch(window_size=NEIGHBOURS_OF)
    return preprocessing.StandardScaler() | neighbors.KNNClassifier(n_neighbors=k, engine=among)


def _capymoa(method: str, task: Task) -> Learner:
    from capymoa.core import LabeledInstance
    from capymoa.stream import Schema

    names = [str(label) for label in range(task.labels)]
    schema = Schema.from_custom([*task.features, "label"], target="label", categories={"label": names})
    before = _java_heap()
    model = _of_capymoa(method, schema, task.seed)

    def ready(X: npt.NDArray[np.float64], y: Sequence[int], first: int) -> list[Any]:
        instances = [LabeledInstance.from_array(schema, row, label) for row, label in zip(X, y, strict=True)]
        for instance in instances:
            _ = instance.java_instance  # made when it is first asked for, and kept
        return instances

    return Learner(model.predict, lambda instance, _: model.train(instance), ready, lambda: _java_heap() - before)


def _of_capymoa(method: str, schema: Any, seed: int) -> Any:
    """Return a learner of CapyMOA; where its name says nothing else, its constants are CapyMOA's defaults."""
    from capymoa.classifier import (
        AdaptiveRandomForestClassifier,
        StreamingGradientBoostedTrees,
        StreamingRandomPatches,
    )

    match method:
        case "capymoa-arf":
            return AdaptiveRandomForestClassifier(schema, random_seed=seed, ensemble_size=TREES)
        case "capymoa-srp":
            return StreamingRandomPatches(schema, random_seed=seed, ensemble_size=TREES)
        case "capymoa-srp-100":
            return StreamingRandomPatches(schema, random_seed=seed, ensemble_size=MANY_TREES)
        case "capymoa-sgbt":
            return StreamingGradientBoostedTrees(schema, random_seed=seed)
        case "capymoa-sgbt-0.1" | "capymoa-sgbt-0.3" | "capymoa-sgbt-1":  # the default is 0.0125
            rate = float(method.rpartition("-")[2])
            return StreamingGradientBoostedTrees(schema, random_seed=seed, learning_rate=rate)
    raise ValueError(method)


def _java_heap() -> int:
    """Return the bytes that are alive in Java's heap: not all of CapyMOA can be serialised to be measured."""
    from java.lang import Runtime, System  # there once CapyMOA has started Java

    System.gc()
    runtime = Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())
