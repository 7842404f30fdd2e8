"""The command: what has finished is not run again, and what cannot be run stops nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import on_river
from river_peers.results import Results
from streamfl_benchmarks import run_file

pytestmark = pytest.mark.process


def call(path: Path, *more: str) -> str:
    told = CliRunner().invoke(
        on_river.main,
        ["--json", str(path), "--streams", "phishing", *(more if "--size" in more else ("--size", "40", *more))],
        catch_exceptions=False,
    )
    assert told.exit_code == 0
    return told.stdout


@pytest.mark.full
def test_a_call_goes_on_where_another_stopped(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    told = call(path, "--methods", "no-change")
    assert told.startswith("1 runs\nphishing ")
    told = call(path, "--methods", "no-change,river-linear-0.1,capymoa-arf")
    assert told.startswith("2 runs\nphishing ")
    assert "capymoa-arf: left out; --capymoa-python names" in told
    before = Results.read(path)
    assert [(run.method, run.records, run.silent) for run in before.runs.values()] == [
        ("no-change", 40, 1),
        ("river-linear-0.1", 40, 0),
    ]
    told = call(path, "--methods", "no-change,river-linear-0.1")
    assert told == "0 runs\n"
    told = call(path, "--methods", "no-change", "--size", "125")  # other records
    assert told.startswith("1 runs\nphishing ")
    told = call(path, "--methods", "no-change,river-linear-0.1", "--again", "no-change")
    assert told.startswith("1 runs\nphishing ")
    after = Results.read(path)
    assert {key: after.right(key).tolist() for key in before.runs} == {
        key: before.right(key).tolist() for key in before.runs
    }


def test_a_method_that_is_not_known_is_named(tmp_path: Path) -> None:
    told = CliRunner().invoke(on_river.main, ["--json", str(tmp_path / "runs.json"), "--methods", "forest"])
    assert "--methods forest: unknown" in str(told.exception)


def test_runs_of_this_process_are_those_of_processes_of_their_own_and_are_kept(tmp_path: Path) -> None:
    methods, kept = ("--methods", "no-change,river-linear-0.1,capymoa-sgbt"), tmp_path / "kept.json.gz"
    call(tmp_path / "apart.json", *methods)
    told = call(tmp_path / "here.json", *methods, "--here", "--runs", str(kept))
    assert "capymoa-sgbt: left out; --capymoa-python names" in told  # this process does not have it
    apart, here = (Results.read(tmp_path / name) for name in ("apart.json", "here.json"))
    assert len(apart.runs) == 2
    assert {key: apart.right(key).tolist() for key in apart.runs} == {
        key: here.right(key).tolist() for key in here.runs
    }
    rows = [one.run for one in run_file.read(kept)]
    assert [(row["method"], row["records"], row["ahead"]) for row in rows] == [
        ("no-change", 40, None),
        ("river-linear-0.1", 40, None),
    ]


def test_a_peer_is_added_without_runs_of_the_others(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json.gz"
    both = ("--here", "--variants", "one", "--runs", str(kept))
    call(tmp_path / "first.json", "--methods", "streamfl-linear,no-change,river-linear-0.1", *both)
    call(tmp_path / "second.json", "--methods", "river-hat", *both)
    assert methods(kept) == {"streamfl-linear", "no-change", "river-linear-0.1", "river-hat"}
    call(tmp_path / "first.json", "--methods", "streamfl,no-change", *both)
    call(tmp_path / "third.json", "--methods", "streamfl,river-hat", *both)
    assert methods(kept) == {"streamfl", "streamfl-linear", "no-change", "river-linear-0.1", "river-hat"}


def test_streams_have_one_order_however_they_were_made(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json.gz"
    for stream in ("sea", "phishing"):
        call(
            tmp_path / f"{stream}.json", "--streams", stream, "--methods", "no-change", "--here", "--runs", str(kept)
        )
    assert list(dict.fromkeys(one.run["stream"] for one in run_file.read(kept))) == ["phishing", "sea"]


def methods(kept: Path) -> set[str]:
    return {one.run["method"] for one in run_file.read(kept)}
