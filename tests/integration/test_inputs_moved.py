"""Features that move while labels follow as before: announced by name, in replay as live, and nothing restarts."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from streamfl.learning.drift.input_baseline import InputBaseline
from streamfl.machines.coordinator.close.inputs import _moves, with_news
from streamfl.protocol.messages import FeatureMoved, InputsMoved, LocalDrift, RoundOpened
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings

ROUND, CLIENTS, SINCE = 12, 8, 80
ROUNDS = LearningSettings(features="rounds")


@cache
def run(
    *, pooled: bool = False, delay: int = 0, is_hard: bool = False, first: int = CLIENTS
) -> tuple[Replayed, list[InputsMoved], list[int]]:
    """Return a run in which a feature moves at round 80, its announcements, and the rounds that ask all clients.

    It is hard if labels are a matter of chance where that feature is low. Of all but the `first` clients it moves a
    round later.
    """
    rng = np.random.default_rng(3)
    n = ROUND * CLIENTS * 110
    X = rng.normal((60.0, 0.0, 5.0), (4.0, 1.0, 2.0), size=(n, 3))
    y = (X[:, 1] > 0.0).astype(np.float64)
    round_of, client = np.arange(n) // (ROUND * CLIENTS) + 1, np.arange(n) % CLIENTS
    X[round_of >= np.where(client < first, SINCE, SINCE + 1), 0] -= 14.0
    if is_hard:
        y = np.where(X[:, 0] < 53.0, rng.integers(2, size=n), y)
    table = Table("plant", ("heat", "tilt", "load"), X, y, ("a", "b"), np.arange(n))
    privacy = PrivacySettings(secure_aggregation="pooled") if pooled else PrivacySettings()
    settings = ReplaySettings(
        round_size=ROUND, learning=ROUNDS, privacy=privacy, label_delay=delay, measure=False, count_bytes=False
    )
    replay = Replay(table, deal(table, CLIENTS, "round-robin", 0), settings)
    told: list[InputsMoved] = []
    asked: dict[int, bool] = {}

    def observe(event: object) -> None:
        if isinstance(event, InputsMoved):
            told.append(event)
        if isinstance(event, RoundOpened):
            asked[event.round] = event.asks.measured is None

    replay.observe = observe
    return replay.run(), told, [t for t, everyone in asked.items() if everyone]


def test_a_feature_that_moves_is_announced_within_two_rounds_by_name_and_nothing_restarts():
    replayed, (found,), _ = run()
    (heat,) = found.moved
    assert (found.round, found.since, found.clients, found.drift) == (SINCE + 1, SINCE, (), 0)
    assert (heat.feature, heat.clients, heat.of_clients) == ("heat", (), CLIENTS)
    assert (heat.before, heat.after) == pytest.approx((60.0, 46.0), abs=1.0)
    assert replayed.result.restarts == replayed.result.local_drifts == ()
    assert [one.moved for one in replayed.result.inputs_moved] == [found.moved]
    assert sum(end - first for first, end in found.positions.values()) == 2 * ROUND * CLIENTS


def test_one_client_in_eight_sends_moments_except_after_something_seems_to_have_moved():
    assert run()[2] == [1, 2, 3, 4, SINCE + 1]


def test_it_is_announced_when_records_come_however_late_their_labels_are():
    """Their labels come 20 rounds later, so the records of round 80 come in round 60."""
    replayed, (found,), asked = run(delay=20 * ROUND)
    assert SINCE - 20 <= found.since <= found.round <= SINCE - 20 + 1
    assert [(one.feature, one.clients, one.of_clients) for one in found.moved] == [("heat", (), CLIENTS)]
    assert (found.times, found.positions) == (None, {})  # those of the round are of records before
    assert replayed.result.restarts == replayed.result.local_drifts == ()
    assert asked == [1, 2, 3, 4]  # nobody is asked for more: what is learnt does not depend on when records came


def test_an_alarm_that_an_announced_move_explains_is_not_announced_as_another():
    """Where heat is low nobody can predict, so the test alarms when the labels come: 20 rounds after the records."""
    replayed, (found,), _ = run(delay=20 * ROUND, is_hard=True)
    assert SINCE - 20 <= found.round <= SINCE - 20 + 1
    assert [(one.feature, one.clients) for one in found.moved] == [("heat", ())]
    assert replayed.result.restarts == replayed.result.local_drifts == ()


def test_a_move_that_explains_an_alarm_is_announced_once_although_others_show_it_a_round_later():
    """The alarm comes in round 80, in which one client sends moments; in round 81 all do, and show the move."""
    replayed, (found,), _ = run(is_hard=True)
    assert (found.round, found.cause) == (SINCE, "excess")
    assert [(one.feature, one.clients) for one in found.moved] == [("heat", ("c0",))]
    assert replayed.result.restarts == replayed.result.local_drifts == ()


def test_a_move_that_half_of_the_clients_show_is_announced_once_although_others_show_it_a_round_later():
    _, (found,), _ = run(delay=20 * ROUND, first=4)
    assert (found.round, found.moved[0].clients) == (SINCE - 20, ("c0", "c1", "c2", "c3"))


def test_features_that_vary_more_are_announced_once():
    """Not the same again, but if they vary more yet, or less."""
    found = {"epoch": 1, "since": SINCE, "statistic": 12.0, "threshold": 9.2, "cause": "excess"}
    told = InputsMoved(round=SINCE, spread=(1.0, 4.0), **found)
    known = InputBaseline().with_announced(SINCE, _moves(told), most=0)
    same, late = replace(told, round=SINCE + 36, spread=(1.2, 4.5)), replace(told, round=SINCE + 37)
    more, less = replace(told, round=SINCE + 36, spread=(2.0, 9.0)), replace(told, spread=(4.0, 1.0))
    assert with_news((told, same, late, more, less), known) == (late, more, less)
    heat = FeatureMoved("heat", 60.0, 46.0, (), CLIENTS, SINCE, 12.0)
    both = replace(told, moved=(heat,))
    assert with_news((both,), known) == (both,)
    assert with_news((both,), known.with_announced(SINCE, [heat], most=CLIENTS)) == ()


def test_a_drift_names_what_moved_with_it_although_that_was_announced_before():
    heat = FeatureMoved("heat", 60.0, 46.0, (), CLIENTS, SINCE, 12.0)
    found = {"round": SINCE, "epoch": 1, "since": SINCE, "statistic": 12.0, "threshold": 9.2, "moved": (heat,)}
    drift, inputs = LocalDrift(clients=("c0",), state="latched", **found), InputsMoved(**found)
    assert with_news((drift, inputs), InputBaseline().with_announced(SINCE - 1, [heat], most=CLIENTS)) == (drift,)
    assert with_news((drift, inputs), InputBaseline()) == (drift, inputs)


def test_of_a_total_of_all_clients_it_is_known_that_something_moved():
    """Each sends sums one round in eight, so it is found in the next of these."""
    _, (found,), _ = run(pooled=True)
    assert 0 <= found.round - SINCE <= 8
    assert [(one.feature, one.clients) for one in found.moved] == [("heat", ())]
    assert found.clients == ()
