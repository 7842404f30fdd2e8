"""A replay in which one drift reaches a client with fewer records in an earlier round than the others."""

import json
from functools import cache

import numpy as np

from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.page.report import render
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.report.display import local_text, restart_text
from streamfl.run.report.story import story
from streamfl.run.settings import LearningSettings

# Client c0 has 400 of 8,400 records, its drift in round 11 (found in 13); c1 to c5 have 1,600, and it in round 41.
COUNTS, SIZE = (400, 1600, 1600, 1600, 1600, 1600), 20
MIDDLE = sum(COUNTS) // 2


@cache
def replayed(*, timed: bool, alone: bool = False) -> Result:
    """Return the result; the labels change half way, of all clients or of c0 alone."""
    rng = np.random.default_rng(3)
    owners = np.tile(np.repeat(np.arange(6), (1, 4, 4, 4, 4, 4)), 400)
    n = len(owners)
    X = rng.normal(size=(n, 3))
    y = (X @ rng.normal(size=(3, 3)) + 0.2 * rng.normal(size=(n, 3))).argmax(axis=1)
    drifted = (np.arange(n) >= MIDDLE) & ((owners == 0) | (not alone))
    y = np.where(drifted, (y + 1) % 3, y).astype(np.float64)
    times = 1.7e9 + np.arange(n) if timed else np.empty(0)
    table = Table("drawn", tuple("abc"), X, y, ("0", "1", "2"), np.arange(n), times=times)
    rows = {f"c{i}": np.flatnonzero(owners == i) for i in range(6)}
    settings = ReplaySettings(SIZE, learning=LearningSettings(features="rounds"))
    return Replay(table, {name: Log(own, y[own]) for name, own in rows.items()}, settings).run().result


def test_a_drift_that_reaches_clients_in_different_rounds_is_one_drift_by_the_rows_of_a_file() -> None:
    result = replayed(timed=False)
    latched = result.local_drifts[0]
    assert (latched.state, latched.clients, latched.drift, latched.behind) == ("latched", ("c0",), 13, 5)
    assert [drift.clients for drift in result.local_drifts if drift.state == "corrected"] == [("c0",)]
    assert [restart.drift for restart in result.restarts] == [13]
    (restart,) = result.restarts
    assert (latched.since, restart.since) == (11, 41)
    assert (latched.positions, restart.positions["c1"]) == ({"c0": (200, 260)}, (800, 820))
    assert restart.rows is not None
    assert latched.rows is not None
    assert abs(restart.rows[0] - MIDDLE) <= 21  # the rows of one record of c0
    assert abs(latched.rows[0] - MIDDLE) <= 21
    assert (restart.time, restart.since_time) == (None, None)


def test_a_drift_that_reaches_clients_in_different_rounds_is_one_drift_by_the_times_of_records() -> None:
    rows, result = replayed(timed=False), replayed(timed=True)
    assert [drift.drift for drift in result.local_drifts] == [drift.drift for drift in rows.local_drifts]
    (restart,) = result.restarts
    assert restart.rows is None
    assert restart.since_time is not None
    assert "2023-11-14T23:22" <= restart.since_time <= "2023-11-14T23:24"  # MIDDLE seconds after 1.7e9
    assert result.model_sha256 == rows.model_sha256


def test_story_page_and_log_report_a_drift_that_reaches_clients_in_different_rounds_as_one() -> None:
    result = replayed(timed=False)
    told = [sentence.text for sentence in story(result, [])]
    (sentence,) = [text for text in told if text.startswith("One drift began at the same time")]
    assert "reached clients in different rounds: c0 in round 13, " in sentence
    assert "in round 41" in sentence
    assert "c0 from 200" in sentence
    assert not any("but only at client" in text for text in told)
    assert "One drift began at the same time" in render(result, title="Replay")
    corrected = next(drift for drift in result.local_drifts if drift.state == "corrected")
    assert local_text(corrected) == (
        "round 41  not a local drift: c0 did not drift alone; "
        "other clients have the same drift, first reported in round 13"
    )
    assert ", the same drift as in round 13: " in restart_text(result.restarts[0])
    assert "; 5 other clients had no records of that time yet" in local_text(result.local_drifts[0])
    plain = json.loads(result.model_dump_json())
    assert plain["restarts"][0]["drift"] == plain["local_drifts"][0]["drift"] == 13


def test_a_client_that_drifts_alone_stays_local() -> None:
    result = replayed(timed=False, alone=True)
    assert {client for drift in result.local_drifts for client in drift.clients} == {"c0"}
    assert {drift.drift for drift in result.local_drifts} == {13}
    assert "corrected" not in {drift.state for drift in result.local_drifts}
    assert result.restarts == ()
    assert any("but only at client c0" in sentence.text for sentence in story(result, []))
