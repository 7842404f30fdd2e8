"""Tables of a plant, of made runs: with 300 machines before and after these were measured, and of answers."""

from pathlib import Path

from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.pages.made import Made
from streamfl_benchmarks.run_file import Kept, write

ORIGIN = Origin(command="made", machine="one", date="2026-01-02", version="0.1.0", code=("a.py",), digest="0" * 64)
PLANT = {
    "seed": 1,
    "minutes": 10.0,
    "rate": 100.0,
    "written": {"readings": 59_700, "broken": 300, "results": 59_104},
    "first results": {"alone": 35.0},
    "closed": [20.0, 30.0, 40.0, 51.0],
    "rounds": 55,
    "learnt": 59_104,
    "learnt twice": 0,
    "rejected": 0,
    "dead letters": {"not JSON": 300},
    "clients": 301,
    "accuracy": 0.66414,
    "NoChange": 0.3726,
    "by machine": {"m00": 0.9},
    "by machine alone": {},
    "drifts": [
        {"after": 51.0, "round": 4, "kind": "latched", "clients": ["m07"], "moved": [], "cause": ""},
        {"after": 52.0, "round": 5, "kind": "latched", "clients": ["m11"], "moved": [], "cause": ""},
    ],
    "killed": [[60.0, "coordinator"], [120.0, "a"]],
    "used": [
        [60.0, {"coordinator": [100.0, 2.0], "a": [200.0, 6.0], "b": [190.0, 5.0]}],
        [600.0, {"coordinator": [140.4, 56.0], "a": [300.0, 276.0], "b": [290.0, 221.0]}],
    ],
}


def made(folder: Path, template: str, name: str, *runs: dict[str, object]) -> str:
    if runs:
        write(folder / f"{name}.json.gz", [Kept(ORIGIN, run) for run in runs])
    return Made(folder).text(template)


def test_before_300_machines_were_measured_the_page_says_so(tmp_path: Path) -> None:
    assert made(tmp_path, "plant-300", "plant_300") == "We have not run this yet."


def test_the_table_of_300_machines_has_no_learner_alone(tmp_path: Path) -> None:
    assert made(tmp_path, "plant-300", "plant_300", PLANT).splitlines() == [
        "| of 301 machines, for 10 minutes | |",
        "| --- | --- |",
        "| readings a second | 100 |",
        "| parts whose result was written; learnt; learnt twice; rejected | 59,104; 59,104; 0; 0 |",
        "| readings that are no JSON; dead letters | 300; 300 |",
        "| rounds; kills | 55; 2, and all processes once |",
        "| accuracy; of NoChange | 0.6641; 0.3726 |",
        "| one machine's results are inverted | drifted alone in round 2 after the first result |",
        "| false announcements | 1 |",
        "| coordinator: part of a core from minute 1 on; MB at the end | 10%; 140 |",
        "| first host: part of a core from minute 1 on; MB at the end | 50%; 300 |",
        "| second host: part of a core from minute 1 on; MB at the end | 40%; 290 |",
    ]


def test_quantiles_of_answers_are_means_over_repeats(tmp_path: Path) -> None:
    first = {"rate": 20.0, "readings": 600, "answers": 599, "p50": 0.25, "p90": 0.5, "p99": 1.0, "most": 2.0}
    first |= {"cores": [0.0, 0.25, 0.5], "load": 1.0}
    second = first | {"p50": 0.75, "most": 4.0, "cores": [0.5, 0.25, 1.0], "load": 2.0}
    runs = [{"seed": seed, **run} for seed, run in enumerate((first, second), 1)]
    (row,) = made(tmp_path, "plant-answers", "plant_answers", *runs).splitlines()[2:]
    assert row == "| 20 | 1,200; 1,198 | 0.50 | 0.50 | 1.00 | 3.00 | 0.25; 0.25; 0.75 | 1.5 | 2 |"
