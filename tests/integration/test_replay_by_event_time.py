"""`replay --interval`: rounds by the times at which records were measured."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.records.files.readers import read
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

MINUTES = 12


@pytest.fixture
def stream(tmp_path):
    """Write a record every second for twelve minutes, but only one in ten in the sixth and seventh, to a file."""
    rng = np.random.default_rng(3)
    path = tmp_path / "stream.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["at", "x", "label"])
        for second in range(60 * MINUTES):
            if second // 60 in {5, 6} and second % 10:
                continue
            y = int(rng.integers(0, 2))
            rows.writerow([f"2026-03-01T10:{second // 60:02d}:{second % 60:02d}Z", round(rng.normal() + 2 * y, 3), y])
    return path


def run(tmp_path, *words: str) -> tuple[int, dict]:
    result = tmp_path / "result.json"
    words = ("replay", *words, "--features", "rounds", "--clients", "2", "--json", str(result))
    ended = CliRunner().invoke(cli, words)
    if isinstance(ended.exception, UsageError):
        raise ended.exception
    return ended.exit_code, json.loads(result.read_text()) if ended.exit_code == 0 else {}


@pytest.mark.parametrize("min_records", [1, 5])
def test_a_round_takes_the_records_of_a_minute(stream, min_records):
    table = read(str(stream), time="at")
    settings = ReplaySettings(interval=60.0, min_records=min_records, learning=LearningSettings(features="rounds"))
    replay = Replay(table, deal(table, 2, "round-robin", 0), settings)
    assert replay.horizon == MINUTES
    replayed = replay.run()
    per_round = [line.records for line in replayed.rounds]
    # Three records a client and minute are fewer than five: they wait for those of the minute after.
    slow = [6, 6] if min_records == 1 else [12]
    assert per_round == [60] * 5 + slow + [60] * 5
    assert replayed.result.records == replayed.result.accepted == sum(per_round)


def test_a_replay_by_event_time_needs_times_and_no_other_size_of_rounds(stream, tmp_path):
    with pytest.raises(UsageError, match="--time"):
        run(tmp_path, str(stream), "--drop", "at", "--interval", "60")
    with pytest.raises(UsageError, match="--round-size"):
        run(tmp_path, str(stream), "--time", "at", "--interval", "60", "--round-size", "20")
    assert run(tmp_path, str(stream), "--time", "at", "--interval", "0")[0] == 2


def test_a_replay_by_event_time_takes_delayed_labels(stream, tmp_path):
    words = [str(stream), "--time", "at", "--interval", "60", "--min-records", "1"]
    _, without = run(tmp_path, *words)
    code, result = run(tmp_path, *words, "--label-delay", "20")
    assert code == 0
    assert result["model_sha256"] == without["model_sha256"]
    assert result["accuracy"]["prequential"] < without["accuracy"]["prequential"]
