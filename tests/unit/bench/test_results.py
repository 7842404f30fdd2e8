"""Runs on disk: kept, found again, refused when they are something else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from streamfl.errors import UsageError
from streamfl_benchmarks import methods
from streamfl_benchmarks.drawn import DrawnStream
from streamfl_benchmarks.drift import Job, Plan, run_all
from streamfl_benchmarks.features import prepared
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.records import Drawn
from streamfl_benchmarks.results import Results

STREAM = DrawnStream("covtype", "class-swap", (4,), clients=2, round_size=20, rounds=6)


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return Drawn.of(STREAM, prepared("covtype", None))


def test_a_run_is_found_again_as_it_was(tmp_path: Path, drawn: Drawn) -> None:
    finished = methods.run("fedavg-glr", drawn)
    results = Results.read(tmp_path / "runs.json")
    results.add(finished, losses=True)
    again = Results.read(tmp_path / "runs.json")
    assert list(again.runs.values()) == [finished.run]
    assert again.has(finished.run.key, losses=True)
    assert np.array_equal(again.losses[finished.run.key], finished.losses)
    assert {path.name for path in tmp_path.iterdir()} == {"runs.json", "runs.rounds.npz"}


def test_without_the_losses_a_run_is_there_but_not_for_a_figure(tmp_path: Path, drawn: Drawn) -> None:
    finished = methods.run("fedavg-sqrt", drawn)
    results = Results(tmp_path / "runs.json")
    results.add(finished, losses=True)
    results.add(finished, losses=False)
    assert {path.name for path in tmp_path.iterdir()} == {"runs.json"}
    for now in (results, Results.read(tmp_path / "runs.json")):
        assert now.has(finished.run.key, losses=False)
        assert not now.has(finished.run.key, losses=True)


def test_a_run_that_is_kept_is_not_run_again(tmp_path: Path, drawn: Drawn) -> None:
    results = Results(tmp_path / "runs.json")
    results.add(methods.run("fedavg-sqrt", drawn), losses=False)
    # A directory that is not there would fail the run, were there one to make.
    found = run_all([Job(STREAM, "fedavg-sqrt", Path("/nowhere"))], results, Console(quiet=True), processes=7)
    assert [run.method for run in found] == ["fedavg-sqrt"]


def test_a_run_is_made_again_if_other_code_has_made_it_and_that_is_asked_for(tmp_path: Path, drawn: Drawn) -> None:
    path = tmp_path / "runs.json"
    results = Results(path)
    finished = methods.run("fedavg-sqrt", drawn)
    key = finished.run.key
    results.add(finished, losses=False)
    assert Results.read(path, renew=True).has(key, losses=False)
    results.origin = results.origin.model_copy(update={"digest": "0" * 64})
    results.add(finished, losses=False)
    assert Results.read(path).has(key, losses=False)
    again = Results.read(path, renew=True)
    assert not again.has(key, losses=False)
    again.add(finished, losses=False)
    assert again.has(key, losses=False)


def test_a_run_that_is_made_again_has_the_constants_that_it_had(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs.json", renew=True)
    plan = Plan(("covtype",), ("class-swap",), ("fedavg",), at=(4,), clients=2, round_size=20, rounds=6)
    (job,) = plan.jobs()
    one = replace(job, variant="eta=0.1").run()
    assert one.run.variant == "eta=0.1"
    results.origin = results.origin.model_copy(update={"digest": "0" * 64})
    results.add(one, losses=False)
    results.origin = Origin.now("drift")
    (again,) = run_all([job], results, Console(quiet=True), processes=1)
    assert again.model_copy(update={"seconds": 0.0}) == one.run.model_copy(update={"seconds": 0.0})
    assert job.run().run.variant != "eta=0.1"  # the grid has a better one
    assert replace(job, variant="eta=7").run().run.variant == job.run().run.variant  # no longer in the grid


@pytest.mark.parametrize("text", ["", "7", "{}", "[1]", '{"runs": 3}', '[{"stream": "covtype"}]'])
def test_a_file_that_holds_no_runs_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="holds no runs"):
        Results.read(path)


def test_damaged_losses_are_refused(tmp_path: Path, drawn: Drawn) -> None:
    Results(tmp_path / "runs.json").add(methods.run("fedavg-sqrt", drawn), losses=True)
    (tmp_path / "runs.rounds.npz").write_bytes(b"PK nothing")
    with pytest.raises(UsageError, match="damaged"):
        Results.read(tmp_path / "runs.json")


def test_a_plan_is_every_combination_and_each_has_a_key_of_its_own() -> None:
    plan = Plan(("covtype",), ("class-swap", "none"), ("paper", "fedavg"), ("plain", "skew"), (1, 2), rounds=100)
    jobs = plan.jobs()
    assert len(jobs) == len({job.key for job in jobs}) == 16
    assert {job.stream.at for job in jobs} == {(65,), ()}
    other = replace(plan, at=(3,), drifts=("class-swap",)).jobs()
    assert not {job.key for job in other} & {job.key for job in jobs}


def test_of_a_recording_a_plan_has_as_many_rounds_as_there_are_and_no_alarm_is_false() -> None:
    # 1250 records, 100 a round: the thirteenth has half of that.
    plan = Plan(("river:Phishing",), ("recorded",), ("fedavg-sqrt",), clients=4, round_size=25)
    (job,) = plan.jobs()
    assert (job.stream.rounds, job.stream.at) == (13, ())
    assert replace(plan, rounds=7).jobs()[0].stream.rounds == 7
    found = job.run().run
    assert (found.records, found.false_alarms) == (1250, None)
