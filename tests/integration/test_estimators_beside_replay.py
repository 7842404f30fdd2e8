"""An estimator fed record by record predicts what the replay of the same records serves, and drifts with it."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.core.protocol.decisions import Predicted
from streamfl.core.sampling import generator
from streamfl.replay import Replay, Replayed, ReplaySettings
from streamfl.settings import LearningSettings
from streamfl.streams.dealing import deal
from streamfl.streams.table import Table

ROUND = 20
NAMES = ("a", "b", "late")


def stream(n: int, *, targets: bool = False, at: int | None = None) -> Table:
    """Return records with missing values, a feature and a label that come late, and classes exchanged at a record."""
    rng = generator(0, "beside")
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 1.0] + np.outer(y, [3.0, 40.0, 2.0]) + [0.0, 500.0, 0.0]
    X[: n // 4, 2] = np.nan
    X[rng.random((n, 3)) < 0.05] = np.nan
    third = (np.arange(n) > n // 3) & (rng.random(n) < 0.05)
    X[third] = [9.0, 300.0, -5.0]
    if at is not None:
        y = np.where(np.arange(n) >= at, 1 - y, y)
    labels = np.where(third, 2, y).astype(np.float64)
    if targets:
        return Table("beside", NAMES, X, 3.0 * labels + rng.normal(size=n), (), np.arange(n))
    return Table("beside", NAMES, X, labels, ("no", "yes", "z"), np.arange(n))


def replayed(table: Table, features: str) -> tuple[Replayed, dict[int, Any], dict[int, int]]:
    """Return a replay with three clients, what it served of each record, and in which round."""
    logs = deal(table, 3, "round-robin", 0)
    learning = LearningSettings.model_validate({"features": features})
    seen: dict[str, int] = defaultdict(int)
    served: dict[int, Any] = {}
    rounds: dict[int, int] = {}

    def observe(event: Any) -> None:
        if isinstance(event, Predicted):
            rows = logs[event.client].rows[seen[event.client] :][: len(event.truth)]
            seen[event.client] += len(event.truth)
            for row, code in zip(rows.tolist(), event.served.tolist(), strict=True):
                served[row] = (event.labels[int(code)] if code >= 0 else None) if event.labels else code
                rounds[row] = event.round

    settings = ReplaySettings(round_size=ROUND, least=1, seed=1, learning=learning)
    return Replay(table, logs, settings, observe).run(), served, rounds


def fed(model: Any, table: Table) -> list[Any]:
    """Return what an estimator predicts of each record before it learns it; records are dealt in turn."""
    clients = sorted(deal(table, 3, "round-robin", 0))
    predicted = []
    for i, (x, y) in enumerate(zip(table.X.tolist(), table.y.tolist(), strict=True)):
        record = dict(zip(NAMES, x, strict=True)) | {"client": clients[i % 3]}
        predicted.append(model.predict_one(record))
        model.learn_one(record, table.labels[int(y)] if table.labels else y)
    return predicted


def comparable(features: str, rounds: dict[int, int]) -> list[int]:
    """Return the records of which both serve what the same model says.

    Of a client's very first record the estimator says what the first client knows, and a replay nothing. In round 1 a
    replay of rounds is served by a model that has learnt nothing and says the first label; the estimator says none.
    """
    return [i for i in sorted(rounds) if (rounds[i] > 1 if features == "rounds" else i > 2)]


@pytest.mark.parametrize("features", ["auto", "linear", "rounds"])
def test_labels_are_predicted_as_in_a_replay(features):
    table = stream(3 * ROUND * 14 + 7, at=3 * ROUND * 10)
    model = MasterFLClassifier(round_size=ROUND, features=features, client="client", seed=1)
    run, served, rounds = replayed(table, features)
    predicted = fed(model, table)
    compared = comparable(features, rounds)
    assert len(compared) >= 3 * ROUND * 13
    assert [predicted[i] for i in compared] == [served[i] for i in compared]
    told = [(r["round"], r["chosen"], r["labels"], r["statistic"]) for r in model.restarts]
    assert told == [(r.round, r.chosen, r.labels, r.statistic) for r in run.result.restarts[: len(told)]]
    assert told
    assert model.summary["rounds"] == 14


@pytest.mark.parametrize("features", ["auto", "linear", "rounds"])
def test_targets_are_predicted_as_in_a_replay(features):
    table = stream(3 * ROUND * 8 + 2, targets=True)
    model = MasterFLRegressor(round_size=ROUND, features=features, client="client", seed=1)
    _, served, rounds = replayed(table, features)
    predicted = fed(model, table)
    compared = comparable(features, rounds)
    assert [predicted[i] for i in compared] == pytest.approx([served[i] for i in compared], rel=1e-9)
