"""Streams whose inputs alone move have no restart; drift of y given x next to it is found in its round.

Not in the three rounds after an alarm that the inputs explain, or after records have become easier: as after a
restart, held-out records are gathered.
"""

from functools import cache

import numpy as np
import pytest

from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.report.changes import moved_sentence
from streamfl.run.settings import LearningSettings

ROUNDS, CLIENTS, RECORDS = 60, 10, 50


@cache
def run(moves: str, *, swapped: int | None = None) -> Result:
    """Return a run of ten features and three labels.

    No linear model explains them, unless two labels are swapped from a round on, or easy and hard records take turns.
    """
    rng = np.random.default_rng(1102)
    t = np.repeat(np.arange(ROUNDS), CLIENTS * RECORDS)
    W, X = rng.normal(size=(10, 3)), rng.normal(size=(len(t), 10))
    if moves == "weather":
        mean = np.zeros((ROUNDS, 10))
        for i in range(1, ROUNDS):
            mean[i] = 0.95 * mean[i - 1] + 0.31 * rng.normal(size=10)
        X += mean[t]
    elif moves == "easy and hard":
        X *= np.where(t // 12 % 2 == 0, 2.0, 0.5)[:, None]
    elif moves == "bursts":
        X *= np.where((t % 15 >= 12) & (rng.random(len(t)) < 0.3), 4.0, 1.0)[:, None]
    else:
        X[:, :4] += np.sin(2.0 * np.pi * t / 24.0)[:, None]
    logits = X @ W
    if swapped is None and moves != "easy and hard":
        x = np.clip(X, -4.0, 4.0)
        lacking = np.stack([2.0 * x[:, 0] * x[:, 1], x[:, 2] ** 2 - 1.0, x[:, 3] * x[:, 4]], axis=1)
        logits = 0.5 * logits + 1.5 * lacking
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    if swapped is not None:
        y = np.where(t + 1 >= swapped, np.array([1, 0, 2])[y], y)
    table = Table("made", tuple(f"x{j}" for j in range(10)), X, y.astype(float), ("a", "b", "c"), np.arange(len(y)))
    client = np.tile(np.repeat(np.arange(CLIENTS), RECORDS), ROUNDS)
    logs = {f"c{i}": Log(rows := np.flatnonzero(client == i), table.y[rows]) for i in range(CLIENTS)}
    learning = LearningSettings(features="rounds")
    settings = ReplaySettings(round_size=RECORDS, learning=learning, measure=False, count_bytes=False)
    return Replay(table, logs, settings).run().result


@pytest.mark.parametrize("moves", ["weather", "day and night", "easy and hard"])
def test_inputs_alone_restart_nothing_and_are_announced_as_what_they_are(moves: str) -> None:
    result = run(moves)
    assert result.restarts == result.local_drifts == ()
    explained = [found for found in result.inputs_moved if found.cause == "excess"]
    assert explained
    assert all(found.statistic >= found.threshold and found.epoch == 1 for found in explained)
    assert all(found.spread if moves == "easy and hard" else found.moved for found in explained)


def test_features_that_vary_less_are_announced_with_their_deviation_before_and_after() -> None:
    """From rounds 13 and 37 on records are four times as near to the middle; from 25 and 49 on as far as before.

    What begins again in round 37 was announced 24 rounds ago.
    """
    (found,) = [found for found in run("easy and hard").inputs_moved if found.cause]
    assert found.round == 13
    assert found.spread == pytest.approx((1.0, 0.25), rel=0.02)
    assert "features vary 0.25 times as much as before" in moved_sentence(found)


def test_bursts_alone_restart_nothing() -> None:
    result = run("bursts")
    assert result.restarts == result.local_drifts == ()


@pytest.mark.parametrize(("moves", "swapped"), [("weather", 51), ("day and night", 51), ("easy and hard", 43)])
def test_two_labels_that_are_swapped_meanwhile_are_found_in_that_round(moves: str, swapped: int) -> None:
    (restart,) = run(moves, swapped=swapped).restarts
    assert (restart.round, restart.since, restart.chosen) == (swapped, swapped, "relabelled")
