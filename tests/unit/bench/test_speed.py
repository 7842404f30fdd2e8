"""`streamfl bench speed`: ratios of interleaved pairs by a clock that is given, and work that is really done."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl_benchmarks import speed


def test_ratios_are_of_pairs_and_figures_are_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "RECORDS", 5)
    # A pair reads the clock three times: federations take 2, 4 and 1 seconds, P 1 each.
    readings = iter([0, 2, 3, 10, 14, 15, 20, 21, 22] * 2)
    paper, adaptive = speed.speeds(runs=3, rounds=2, clock=lambda: float(next(readings)))
    assert (paper.profile, adaptive.profile) == ("paper", "adaptive")
    for one in (paper, adaptive):
        assert (one.ratio, one.least, one.largest) == (0.5, 0.25, 1.0)
        assert (one.ours, one.plain) == (20 * 2 / 2.0, 20 * 2 / 1.0)
        assert one.peak_mb > 0.0


def test_the_plain_loop_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "RECORDS", 50)
    table = speed.gaussian(8)
    first, second = speed.plain(table, 2, 8)
    np.testing.assert_array_equal(first, second)
    Z = np.hstack([(table.X - table.X.mean(axis=0)) / table.X.std(axis=0), np.ones((len(table.X), 1))])
    assert ((Z @ first).argmax(axis=1) == table.y).mean() > 0.5


def test_the_command_tells_both_profiles_and_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "RECORDS", 5)
    ended = CliRunner().invoke(
        cli, ["bench", "speed", "--runs", "1", "--rounds", "2", "--json", str(tmp_path / "s.json")]
    )
    assert ended.exit_code == 0, ended.output
    assert [line.split(",")[0] for line in ended.stdout.splitlines()] == ["paper", "adaptive"]
    assert [one["live"] for one in json.loads((tmp_path / "s.json").read_text())] == [1, 5]
