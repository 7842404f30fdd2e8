"""A sensor that sticks at its mean at one client is announced, in replay as live, and nothing restarts."""

from functools import cache

import numpy as np

from streamfl.protocol.messages import InputsStuck
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.page.report import render
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.report.explain import explained
from streamfl.run.settings import LearningSettings

ROUND, CLIENTS, SINCE, ROUNDS = 12, 4, 90, 114


@cache
def run(*, delay: int = 0) -> tuple[Replayed, list[InputsStuck]]:
    """Return a run in which the heat of client 2 sticks at its mean from round 90 on, and its announcements.

    Each client also has a setpoint of its own, a flag that is seldom 1, and a number that is the same for all.
    """
    rng = np.random.default_rng(3)
    n = ROUND * CLIENTS * ROUNDS
    client, t = np.arange(n) % CLIENTS, np.arange(n) // (ROUND * CLIENTS) + 1
    noise = rng.normal((60.0, 0.0, 5.0), (4.0, 1.0, 2.0), size=(n, 3))
    setpoint, flag, model = 100.0 * client + 50.0 * (t > 60), rng.random(n) < 0.01, np.full(n, 7.25)
    X = np.column_stack([noise, setpoint, flag, model])
    y = (X[:, 1] > 0.0).astype(np.float64)
    X[(client == 2) & (t >= SINCE), 0] = 60.0
    names = ("heat", "tilt", "load", "setpoint", "door", "model")
    table = Table("plant", names, X, y, ("a", "b"), np.arange(n))
    learning = LearningSettings(features="linear")
    settings = ReplaySettings(
        round_size=ROUND, learning=learning, label_delay=delay, measure=False, count_bytes=False
    )
    replay = Replay(table, deal(table, CLIENTS, "round-robin", 0), settings)
    told: list[InputsStuck] = []
    replay.observe = lambda event: told.append(event) if isinstance(event, InputsStuck) else None
    return replay.run(), told


def test_a_sensor_that_sticks_at_its_mean_is_announced_with_its_client_and_nothing_restarts():
    """One client of four sends moments each round, so five descriptions take twenty rounds."""
    replayed, (found,) = run()
    assert [(one.feature, one.client, one.value, one.since) for one in found.stuck] == [("heat", "c2", 60.0, SINCE)]
    assert (found.clients, found.since, found.round) == (("c2",), SINCE, SINCE + 20)
    assert found.statistic >= found.threshold
    assert list(found.positions) == ["c2"]
    assert replayed.result.restarts == replayed.result.local_drifts == ()


def test_views_of_a_result_say_it_in_a_sentence():
    result = run()[0].result
    where = f"Since round {SINCE}, heat has repeated 60 at client c2 (found in round {SINCE + 20})"
    told = f"{where}; its sensor may be stuck."
    assert told in explained(result) and explained(result, SINCE + 20)[1:2] == [told]
    assert told in render(result, title="plant")


def test_it_is_announced_when_records_come_however_late_their_labels_are():
    """Their labels come 20 rounds later; clients describe all records in each round, so three or four are enough."""
    _, (found,) = run(delay=20 * ROUND)
    assert [(one.feature, one.client, one.value) for one in found.stuck] == [("heat", "c2", 60.0)]
    assert SINCE - 20 <= found.since <= found.round <= SINCE - 20 + 5
    assert (found.times, found.positions) == (None, {})  # those of the round are of records before
