"""An estimator fed record by record predicts what the replay of the same records serves, and drifts with it.

So it does where labels come late. In a replay a label comes N records of its client later. With K clients in turn
that is `simulate_qa` with a delay of K (N - 1) + 1 records of the stream: all labels of a round come before the next
record of any client.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from river.stream import simulate_qa
from suites.parameters import full

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.sampling import generator

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


def replayed(
    table: Table, features: str, *, clients: int = 3, delay: int = 0, last_answer: bool = True
) -> tuple[Replayed, dict[int, Any], dict[int, int]]:
    """Return a replay, what it served of each record, and in which round."""
    logs = deal(table, clients, "round-robin", 0)
    learning = LearningSettings.model_validate({"features": features, "last_answer": last_answer})
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

    settings = ReplaySettings(round_size=ROUND, min_records=1, seed=1, learning=learning, label_delay=delay)
    return Replay(table, logs, settings, observe).run(), served, rounds


def fed(model: Any, table: Table, *, clients: int = 3, delay: int | None = None) -> list[Any]:
    """Return what an estimator predicts of each record before its label comes; records are dealt in turn.

    With 0 clients no record names one, and the estimator is alone.
    """
    names = sorted(deal(table, clients, "round-robin", 0)) if clients else []

    def records() -> Iterator[tuple[dict[str, Any], Any]]:
        for i, (x, y) in enumerate(zip(table.X.tolist(), table.y.tolist(), strict=True)):
            record = dict(zip(NAMES, x, strict=True)) | ({"client": names[i % clients]} if names else {})
            yield record, table.labels[int(y)] if table.labels else y

    predicted: list[Any] = [None] * len(table)
    for i, x, y in simulate_qa(records(), None, delay):
        if y is None:
            predicted[i] = model.predict_one(x)
        else:
            model.learn_one(x, y)
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


@pytest.mark.parametrize("targets", [False, True])
def test_one_client_alone_predicts_as_in_a_replay_of_one(targets):
    table = stream(ROUND * 12 + 7, targets=targets, at=None if targets else ROUND * 8)
    model = (MasterFLRegressor if targets else MasterFLClassifier)(round_size=ROUND, seed=1)
    run, served, rounds = replayed(table, "auto", clients=1)
    predicted = fed(model, table, clients=0)
    compared = comparable("auto", rounds)
    told = [predicted[i] for i in compared]
    assert told == (pytest.approx if targets else list)([served[i] for i in compared])
    assert [r["round"] for r in model.restarts] == [r.round for r in run.result.restarts]
    assert bool(model.restarts) is not targets
    assert run.result.bytes is None  # nothing is sent


# --- labels that come late -------------------------------------------------------------------------------------


def answered_alike(features: str, clients: int, delay: int, records: int) -> range:
    """Return the records of which both serve what the same model says.

    Before a client has learnt anything the estimator says what the first client knows, and a replay nothing. Before
    the first round closes the estimator says what it has seen most, and a replay of rounds says nothing.
    """
    return range(clients * (ROUND + delay - 1 if features == "rounds" else delay), records)


@pytest.mark.parametrize("delay", [full(1), 2, full(7), full(45)])
@pytest.mark.parametrize("clients", [full(1), 3])
@pytest.mark.parametrize("features", ["auto", "rounds"])
@pytest.mark.parametrize("targets", [False, True])
def test_an_estimator_under_simulate_qa_predicts_as_a_replay_with_the_same_delay(targets, features, clients, delay):
    n = clients * ROUND * 10 + 7
    table = stream(n, targets=targets, at=None if targets else clients * ROUND * 6)
    kind = MasterFLRegressor if targets else MasterFLClassifier
    named = None if clients == 1 else "client"
    model = kind(round_size=ROUND, features=features, client=named, seed=1, last_answer=False)
    run, served, _ = replayed(table, features, clients=clients, delay=delay, last_answer=False)
    predicted = fed(model, table, clients=clients if named else 0, delay=clients * (delay - 1) + 1)
    compared = answered_alike(features, clients, delay, n)
    assert sorted(served) == list(range(n))
    told = [predicted[i] for i in compared]
    assert told == (pytest.approx if targets else list)([served[i] for i in compared])
    if not targets:
        assert [r["round"] for r in model.restarts] == [r.round for r in run.result.restarts]
        assert model.restarts
