"""`streamfl bench drift` as its user runs it, and what the project stands for: ahead of the best constant FedAvg."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl_benchmarks.run_file import read

SWAPS = ("--stream", "covtype", "--drift", "class-swap", "--at", "65,120", "--rounds", "150", "--round-size", "100")
FIELDS = {"stream", "drift", "method", "seed", "at", "accuracy", "restarts", "detections", "false_alarms", "seconds"}


def bench(*arguments: object) -> Result:
    ended = CliRunner().invoke(cli, ["bench", "drift", *map(str, arguments)])
    if isinstance(ended.exception, UsageError):
        raise ended.exception
    assert ended.exit_code == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("bench")
    written = ("--json", folder / "runs.json", "--figure", folder / "loss.svg", "--markdown", folder / "table.md")
    ended = bench(*SWAPS, "--seeds", "1,2", "--method", "adaptive,fedavg,paper", "--jobs", "2", *written)
    return folder, ended


def runs(folder: Path) -> list[dict[str, Any]]:
    return [dict(kept.run) for kept in read(folder / "runs.json")]


@pytest.mark.full
def test_adaptive_is_ahead_of_the_best_constant_and_that_of_the_paper(compared: tuple[Path, Result]) -> None:
    accuracy = {(r["method"], r["seed"]): r["accuracy"]["prequential"] for r in runs(compared[0])}
    for seed in (1, 2):
        assert accuracy["adaptive", seed] > accuracy["fedavg", seed] > accuracy["paper", seed]


@pytest.mark.full
def test_adaptive_finds_both_swaps_and_nothing_else(compared: tuple[Path, Result]) -> None:
    for told in runs(compared[0]):
        if told["method"] == "adaptive":
            assert all(delay is not None for delay in told["detections"])
            assert told["false_alarms"] == 0


@pytest.mark.full
def test_what_is_written_is_what_was_promised(compared: tuple[Path, Result]) -> None:
    folder, ended = compared
    told = runs(folder)
    assert len(told) == 6
    assert all(set(run) >= FIELDS for run in told)
    assert {run["variant"] for run in told if run["method"] != "fedavg"} == {""}
    # All methods have the same records, so the same NoChange.
    assert len({(run["seed"], run["records"], run["accuracy"]["no_change"]) for run in told}) == 2
    assert (folder / "table.md").read_text() == ended.stdout
    assert all(f"| {method} " in ended.stdout for method in ("adaptive", "fedavg", "paper"))
    assert (folder / "loss.svg").read_text().startswith("<svg")
    assert "seed 2: paper" in ended.stderr


@pytest.mark.full
def test_a_second_call_runs_nothing_again(compared: tuple[Path, Result]) -> None:
    folder, first = compared
    before = (folder / "runs.json").stat().st_mtime_ns
    again = bench(*SWAPS, "--seeds", "1,2", "--method", "adaptive,fedavg,paper", "--json", folder / "runs.json")
    assert again.stdout == first.stdout
    assert (folder / "runs.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "sgd"), "--method sgd: unknown; take some of adaptive"),
        (("--method", "paper", "--data", "nowhere"), "--data nowhere: no such directory"),
        (("--method", "paper", "--stream", "mnist"), "add --data DIR"),
        (("--method", "paper", "--at", "501"), "--at 501: the run ends with round 500"),
        (("--method", "paper", "--at", "soon"), "--at soon: not a list of whole numbers"),
        (("--method", "paper", "--json", "nowhere/x.json"), "cannot be written there"),
        (("--method", "paper", "--l2", "nan"), "--l2 nan: a penalty is a number"),
        (("--method", "paper", "--l2", "inf"), "--l2 inf: a penalty is a number"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    never: Callable[..., None] = lambda *_, **__: pytest.fail("it ran")  # noqa: E731
    monkeypatch.setattr("streamfl_benchmarks.drift.run_all", never)
    with pytest.raises(UsageError, match=said):
        bench(*arguments)
