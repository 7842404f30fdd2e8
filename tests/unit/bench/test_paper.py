"""The paper's table next to ours: by hand, and by its command in a small size, which continues its file."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from streamfl.errors import UsageError
from streamfl.run.evaluation.result import Figures
from streamfl_benchmarks import methods, run_file
from streamfl_benchmarks.paper import DRAWN, METHODS, plan, table
from streamfl_benchmarks.paper_command import paper
from streamfl_benchmarks.run import Run

SMALL = ["--clients", "2", "--round-size", "8", "--rounds", "66", "--jobs", "1"]


def run(method: str, drift: str, seed: int, after: float, before: float) -> Run:
    return Run(
        stream="covtype",
        drift=drift,
        method=method,
        seed=seed,
        at=(65,),
        condition="plain",
        clients=20,
        round_size=100,
        rounds=500,
        records=10,
        accuracy=Figures(prequential=before, round_start=before, post_update=after, no_change=0.4),
        loss=0.1,
        restarts=(),
        detections=(None,),
        false_alarms=0,
        seconds=1.0,
    )


def test_the_table_by_hand() -> None:
    runs = [
        run("paper", "class-introduction", 1, 0.6, 0.5),
        run("paper", "class-introduction", 2, 0.7, 0.6),
        run("paper", "class-swap", 1, 0.5, 0.4),
        run("adaptive", "class-swap", 1, 0.725, 0.716),
        run("newton", "class-swap", 1, 0.9, 0.9),
    ]
    assert table(runs).splitlines() == [
        "| method (seeds) | covtype, introduction | covtype, swap |",
        "| --- | --- | --- |",
        "| **Master-FL, FedAvg**: the paper | **0.874** | **0.852** |",
        "| as printed, from scratch (2 / 1) | 0.650, 0.550 | 0.500, 0.400 |",
        "| **not in the paper** |  |  |",
        "| profile `adaptive`, with nothing to set (0 / 1) |  | 0.725, 0.716 |",
    ]


def test_all_that_it_runs_is_known_and_the_figure_shows_some_of_it(tmp_path: Path) -> None:
    methods.check(METHODS)
    assert set(DRAWN) < set(METHODS)
    (tmp_path / "mnist.npz").touch()
    assert plan(None).streams == ("covtype",)
    assert plan(tmp_path).streams == ("covtype", "mnist")
    assert (plan(None).clients, plan(None).round_size, plan(None).rounds) == (20, 1000, 500)


@pytest.mark.full
def test_the_command_makes_table_and_figure_and_continues_its_file(tmp_path: Path) -> None:
    kept, drawn = tmp_path / "paper.json", tmp_path / "paper.svg"
    arguments = [*SMALL, "--json", str(kept), "--method"]
    first = CliRunner().invoke(paper, [*arguments, "fednova-sqrt"])
    assert first.exit_code == 0, first.output
    assert "step 1/sqrt(T) (1)" in first.stdout
    assert "adaptive" not in first.stdout
    whole = [*arguments, "fednova-sqrt,adaptive", "--figure", str(drawn), "--markdown", str(tmp_path / "paper.md")]
    second = CliRunner().invoke(paper, whole)
    assert "fednova-sqrt" not in second.stderr
    assert second.stdout == (tmp_path / "paper.md").read_text()
    assert set(first.stdout.splitlines()) <= set(second.stdout.splitlines())
    texts = [e.text for e in ElementTree.fromstring(drawn.read_text()).iter("{http://www.w3.org/2000/svg}text")]
    assert "adaptive" in texts
    before = kept.read_bytes()
    assert CliRunner().invoke(paper, whole).stdout == second.stdout
    assert kept.read_bytes() == before
    run_file.write(
        kept, [one._replace(origin=one.origin.model_copy(update={"digest": "other"})) for one in run_file.read(kept)]
    )
    assert "fednova-sqrt" not in CliRunner().invoke(paper, [*arguments, "fednova-sqrt"]).stderr
    assert "fednova-sqrt" in CliRunner().invoke(paper, [*arguments, "fednova-sqrt", "--renew"]).stderr


def test_the_command_refuses_a_place_that_cannot_be_written_before_it_runs(tmp_path: Path) -> None:
    found = CliRunner().invoke(paper, [*SMALL, "--json", str(tmp_path / "no" / "f.json")])
    assert isinstance(found.exception, UsageError)
    assert list(tmp_path.iterdir()) == []
