"""Streams whose inputs alone move have no restart; drift of y given x next to it is found in its round.

Not in the three rounds after an alarm that the inputs explain: as after a restart, held-out records are gathered.
"""

from functools import cache

import numpy as np
import pytest

from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

ROUNDS, CLIENTS, RECORDS, SWAPPED = 60, 10, 50, 51


@cache
def run(moves: str, *, swapped: bool = False) -> Result:
    """Return a run of ten features and three labels; no linear model explains them, unless they are swapped."""
    rng = np.random.default_rng(1102)
    t = np.repeat(np.arange(ROUNDS), CLIENTS * RECORDS)
    W, X = rng.normal(size=(10, 3)), rng.normal(size=(len(t), 10))
    if moves == "weather":
        mean = np.zeros((ROUNDS, 10))
        for i in range(1, ROUNDS):
            mean[i] = 0.95 * mean[i - 1] + 0.31 * rng.normal(size=10)
        X += mean[t]
    else:
        X[:, :4] += np.sin(2.0 * np.pi * t / 24.0)[:, None]
    logits = X @ W
    if not swapped:
        x = np.clip(X, -4.0, 4.0)
        lacking = np.stack([2.0 * x[:, 0] * x[:, 1], x[:, 2] ** 2 - 1.0, x[:, 3] * x[:, 4]], axis=1)
        logits = 0.5 * logits + 1.5 * lacking
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if swapped:
        y = np.where(t + 1 >= SWAPPED, np.array([1, 0, 2])[y], y)
    table = Table("made", tuple(f"x{j}" for j in range(10)), X, y.astype(float), ("a", "b", "c"), np.arange(len(y)))
    client = np.tile(np.repeat(np.arange(CLIENTS), RECORDS), ROUNDS)
    logs = {f"c{i}": Log(rows := np.flatnonzero(client == i), table.y[rows]) for i in range(CLIENTS)}
    learning = LearningSettings(features="rounds")
    settings = ReplaySettings(round_size=RECORDS, learning=learning, measure=False, count_bytes=False)
    return Replay(table, logs, settings).run().result


@pytest.mark.parametrize("moves", ["weather", "day and night"])
def test_inputs_alone_restart_nothing_and_are_announced_as_what_they_are(moves: str) -> None:
    result = run(moves)
    assert result.restarts == result.local_drifts == ()
    explained = [found for found in result.inputs_moved if found.cause == "excess"]
    assert explained
    assert all(found.moved and found.statistic >= found.threshold and found.epoch == 1 for found in explained)


@pytest.mark.parametrize("moves", ["weather", "day and night"])
def test_two_labels_that_are_swapped_meanwhile_are_found_in_that_round(moves: str) -> None:
    (restart,) = run(moves, swapped=True).restarts
    assert (restart.round, restart.since, restart.chosen) == (SWAPPED, SWAPPED, "relabelled")
