"""No record is predicted by a model that has learnt a later record of anybody, at any rates of the clients."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from suites.parameters import full

from streamfl.cli.main import cli
from streamfl.protocol.decisions import Predicted
from streamfl.protocol.messages import RoundClosed
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.order import keeps_order, row_times, usual_period
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

ROUNDS = LearningSettings(features="rounds")


def stream(seed: int, *, timed: bool = False, records: int = 400, clients: int = 5) -> tuple[Table, dict[str, Log]]:
    """Return a table whose clients have records at rates of their own, which change on the way."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.full(clients, 0.5), size=4)
    owner = np.concatenate([rng.choice(clients, records // 4, p=p) for p in rates])
    y = rng.integers(0, 2, records).astype(np.float64)
    X = (rng.normal(size=(records, 2)) + y[:, None]).astype(np.float32)
    times = np.cumsum(rng.exponential(60.0, records)) + 1.7e9 if timed else np.zeros(0)
    table = Table("t", ("a", "b"), X, y, ("u", "v"), np.arange(records), times=times)
    rows = {f"c{i}": np.flatnonzero(owner == i) for i in range(clients)}
    return table, {name: Log(rows[name], y[rows[name]]) for name in rows}


def ahead(replay: Replay) -> tuple[int, list[int]]:
    """Run it; return how many later records any model had learnt, counted row by row, and the rows predicted."""
    learnt: list[int] = []
    predicted: list[int] = []
    most = 0

    def observe(event):
        nonlocal most
        match event:
            case RoundClosed():
                learnt.extend(row for accepted in event.accepted for row in rows(accepted.spans))
            case Predicted():
                now = rows(event.spans)
                assert len(now) == len(event.truth)
                predicted.extend(now)
                most = max([most, *(sum(row > before for row in learnt) for before in now)])

    def rows(spans):
        each = [(replay.logs[span.partition], span) for span in spans]
        good = [log.rows[log.good_before(span.start) : log.good_before(span.end)] for log, span in each]
        return [int(row) for rows in good for row in rows]

    replay.observe = observe
    result = replay.run().result
    assert result.ahead == most
    assert len(predicted) == result.accepted + result.answered
    return most, predicted


def by_time(table: Table, logs: dict[str, Log], **settings) -> Replay:
    period = usual_period(logs, row_times(table, logs), 10, 10_000)
    return Replay(table, logs, ReplaySettings(10, interval=period, **({"learning": ROUNDS} | settings)))


@pytest.mark.parametrize("seed", [1, 2, *map(full, range(3, 15))])
def test_no_record_is_predicted_by_a_model_that_has_learnt_a_later_one(seed):
    table, logs = stream(seed, timed=seed % 2 == 1)
    assert not keeps_order(logs, row_times(table, logs), 10)
    most, predicted = ahead(by_time(table, logs))
    assert most == 0
    assert sorted(predicted) == list(range(len(table)))  # each record once, the last ones of every client, too


def test_nor_by_one_that_learns_record_by_record():
    table, logs = stream(5, records=300)
    replay = by_time(table, logs, learning=LearningSettings(features="linear"))
    most, predicted = ahead(replay)
    assert most == 0
    assert sorted(predicted) == list(range(len(table)))


def test_rounds_of_as_many_records_of_each_client_look_ahead_and_the_result_says_how_far():
    table, logs = stream(2)
    most, _ = ahead(Replay(table, logs, ReplaySettings(10, learning=ROUNDS)))
    assert most > 100


@pytest.mark.parametrize("clients", [1, 4, 7])
def test_where_rates_are_equal_rounds_of_equal_numbers_keep_the_order(clients):
    table, _ = stream(3)
    logs = deal(table, clients, "round-robin", 0)
    at = row_times(table, logs)
    assert all(keeps_order(logs, at, size) for size in (1, 10, 33))
    most, predicted = ahead(Replay(table, logs, ReplaySettings(10, learning=ROUNDS)))
    assert (most, sorted(predicted)) == (0, list(range(len(table))))


def test_a_bad_record_in_a_file_that_is_dealt_in_turn_does_not_change_its_rounds():
    table, _ = stream(3)
    kept = np.delete(np.arange(400), [17, 18, 130])
    bad = tuple(Rejection(row, "no label") for row in (17, 18, 130))
    damaged = Table("t", table.features, table.X[kept], table.y[kept], table.labels, kept, rejected=bad)
    logs = deal(damaged, 4, "round-robin", 0)
    assert keeps_order(logs, row_times(damaged, logs), 10)
    assert ahead(Replay(damaged, logs, ReplaySettings(10, learning=ROUNDS)))[0] < 40


def test_clients_one_after_another_are_not_taken_for_clients_in_turn():
    table, _ = stream(3)
    logs = {"c0": Log(np.arange(200), table.y[:200]), "c1": Log(np.arange(200, 400), table.y[200:])}
    assert not keeps_order(logs, row_times(table, logs), 10)


def test_times_that_run_backwards_are_not_the_order_of_a_file():
    table, logs = stream(4, timed=True)
    assert row_times(table, logs) is table.times
    backwards = Table("t", table.features, table.X, table.y, table.labels, table.places, times=table.times[::-1])
    assert row_times(backwards, logs).tolist() == table.places.tolist()


@pytest.mark.parametrize("times", [np.repeat(np.arange(4.0) * 86400.0, 100), np.append(np.arange(399.0), 1e12)])
def test_neither_many_records_of_one_time_nor_a_false_clock_spoil_the_length_of_a_period(times):
    _, logs = stream(4)
    period = usual_period(logs, times, 10, 10_000)
    assert period in {86400.0, 50.0}


def test_replay_closes_rounds_by_time_where_rates_differ_and_says_so(tmp_path):
    table, logs = stream(6)
    path, told = tmp_path / "stream.csv", tmp_path / "told.json"
    owner = {int(row): name for name, log in logs.items() for row in log.rows}
    lines = [f"{a},{b},{owner[i]},{'uv'[int(y)]}" for i, ((a, b), y) in enumerate(zip(table.X, table.y, strict=True))]
    path.write_text("\n".join(["a,b,site,label", *lines]) + "\n")
    words = ["replay", str(path), "--split", "column:site", "--features", "rounds", "--json", str(told)]
    done = CliRunner().invoke(cli, words)
    assert "a round takes those of 50 rows of the file" in done.output
    assert "--time" not in done.output
    result = json.loads(told.read_text())
    assert result["ahead"] == 0
    assert result["records"] == result["accepted"] + result["pending"]
    assert 0 < result["answered"] == result["pending"]


def test_a_file_that_has_one_client_after_another_makes_replay_ask_for_times(tmp_path):
    path = tmp_path / "stream.csv"
    lines = [f"{i % 7},{'abc'[i // 100]},{'uv'[i % 2]}" for i in range(300)]
    path.write_text("\n".join(["a,site,label", *lines]) + "\n")
    done = CliRunner().invoke(cli, ["replay", str(path), "--split", "column:site", "--features", "rounds"])
    assert "name the column of times with --time" in done.output.replace("\n", " ")


@pytest.mark.parametrize("delay", [3, 40])
def test_labels_that_come_later_change_no_model_and_no_answer_looks_ahead(delay):
    table, logs = stream(7)
    at_once, later = by_time(table, logs).run(), by_time(table, logs, label_delay=delay).run()
    assert later.result.model_sha256 == at_once.result.model_sha256
    assert (later.result.ahead, at_once.result.ahead) == (0, 0)


def test_records_whose_labels_come_later_are_not_all_answered_before_anything_is_learnt():
    table, logs = stream(7)
    result = by_time(table, logs, label_delay=3).run().result
    assert result.unanswered < len(table) // 4


# --- a record's own truth ----------------------------------------------------------------------------------------


def predictions(
    y: np.ndarray, row: int, learning: LearningSettings, labels: tuple[str, ...] = ()
) -> list[float | str]:
    """Return what is predicted of a row, as it was served and by the model at the start of its round."""
    X = np.random.default_rng(8).normal(size=(len(y), 2)).astype(np.float32)
    table = Table("t", ("a", "b"), X, y, labels, np.arange(len(y)))
    replay, found = Replay(table, deal(table, 2, "round-robin", 0), ReplaySettings(10, learning=learning)), []

    def observe(event):
        if isinstance(event, Predicted):
            ((client, start, end),) = [(span.partition, span.start, span.end) for span in event.spans]
            told = replay.logs[client].rows[start:end].tolist()
            if row in told:
                both = [event.served[told.index(row)], event.at_start[told.index(row)]]
                named = (*event.labels, "none")  # -1 is no prediction
                found.extend(named[int(code)] for code in both) if labels else found.extend(both)

    replay.observe = observe
    replay.run()
    return found


@pytest.mark.parametrize(
    "learning", [ROUNDS, LearningSettings(features="linear"), LearningSettings(features="rounds", local_batch=4)]
)
@pytest.mark.parametrize("row", [0, 4, 61])  # in the first round, and in a later one
def test_what_is_predicted_of_a_record_does_not_depend_on_its_own_target(row, learning):
    y = 50.0 + 10.0 * np.random.default_rng(7).normal(size=100)
    low, high = (predictions(np.where(np.arange(100) == row, target, y), row, learning) for target in (10.0, 90.0))
    assert len(low) == 2
    assert low == high


@pytest.mark.parametrize("learning", [ROUNDS, LearningSettings(features="linear")])
@pytest.mark.parametrize("row", [0, 4, 61])
def test_nor_on_its_own_label(row, learning):
    y = np.random.default_rng(7).integers(0, 3, 100).astype(float)
    told = [
        predictions(np.where(np.arange(100) == row, code, y), row, learning, ("u", "v", "w")) for code in range(3)
    ]
    assert len(told[0]) == 2
    assert told[0] == told[1] == told[2]


def test_before_anything_is_agreed_the_last_label_is_predicted():
    y = np.array([1.0, 1.0, 2.0, 2.0, 0.0] * 20)
    assert [predictions(y, row, ROUNDS, ("u", "v", "w"))[1] for row in (0, 2, 4, 6)] == ["none", "v", "w", "u"]
