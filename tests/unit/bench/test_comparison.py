"""Runs side by side, by hand-computed numbers, as tables and as a figure."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from streamfl.run.evaluation.result import Figures
from streamfl_benchmarks.comparison import over_seeds, paired, settings
from streamfl_benchmarks.figure import figure, smoothed
from streamfl_benchmarks.findings import Found, Local
from streamfl_benchmarks.markdown import tables
from streamfl_benchmarks.run import Run


def run(method: str, seed: int, accuracy: float, **changes: object) -> Run:
    told: dict[str, object] = {
        "stream": "covtype",
        "drift": "class-swap",
        "method": method,
        "seed": seed,
        "at": (3,),
        "condition": "plain",
        "clients": 2,
        "round_size": 10,
        "rounds": 6,
        "records": 120,
        "accuracy": Figures(prequential=accuracy, round_start=accuracy, post_update=accuracy, no_change=0.25),
        "loss": 0.2,
        "restarts": (),
        "detections": (None,),
        "false_alarms": 0,
        "seconds": 1.0,
    }
    return Run.model_validate(told | changes)


RUNS = [
    run("adaptive", 1, 0.70, detections=(0,), restarts=(Found(round=3, cause="glr"),)),
    run("adaptive", 2, 0.72, detections=(2,), restarts=(Found(round=5, cause="glr"), Found(round=6, cause="glr"))),
    run("fedavg", 1, 0.69, variant="eta=3"),
    run("fedavg", 2, 0.69, variant="eta=1"),
    run("paper", 2, 0.80),
]


def test_a_paired_interval_by_hand() -> None:
    # Differences -0.01 and -0.03: mean -0.02, standard deviation 0.01 sqrt(2), t(0.975, 1) = 12.706.
    found = paired([0.69, 0.69], [0.70, 0.72])
    assert found.mean == pytest.approx(-0.02)
    assert found.spread == pytest.approx(12.7062 * 0.01 * math.sqrt(2) / math.sqrt(2), rel=1e-4)
    assert over_seeds([0.5]).spread is None


def test_which_alarms_are_false_nobody_knows_of_a_recording() -> None:
    told = Found(round=3, cause="excess")
    found = settings([run("adaptive", 1, 0.7, drift="recorded", at=(), false_alarms=None, restarts=(told,))])
    assert found[0].lines[0].false_alarms is None
    assert "| 0 of 0 | - | - | 1.0 |" in tables(found)


def test_lines_fall_by_accuracy_and_are_paired_by_seed() -> None:
    (setting,) = settings(RUNS)
    assert [line.method for line in setting.lines] == ["paper", "adaptive", "fedavg"]
    paper, adaptive, fedavg = setting.lines
    assert paper.against is not None
    assert paper.against.mean == pytest.approx(0.08)  # against seed 2 alone
    assert adaptive.against is None
    assert (adaptive.delays, adaptive.drifts, adaptive.restarts) == ((0, 2), 2, 1.5)
    assert fedavg.variants == ("eta=1", "eta=3")
    assert setting.no_change == 0.25


def test_other_rounds_of_drift_are_another_setting() -> None:
    assert [len(s.runs) for s in settings([*RUNS, run("paper", 1, 0.5, at=(4,))])] == [5, 1]


def test_the_table_tells_what_was_found() -> None:
    text = tables(settings(RUNS))
    assert "| adaptive | 0.7100 ± 0.0141 |  | 0.2000 | 2 of 2 | 1.0 | 0.0 | 1.5 | 1.0 |" in text
    assert (
        "| fedavg (eta=1; eta=3) | 0.6900 ± 0.0000 | -0.0200 ± 0.1271 | 0.2000 | 0 of 2 | - | 0.0 | 0.0 | 1.0 |"
        in text
    )
    assert "NoChange: 0.2500" in text


def test_every_row_has_a_cell_for_every_heading() -> None:
    local = Local(precision=1.0, recall=None, affected=0.5, others=0.75)
    text = tables(settings([*RUNS, run("adaptive", 1, 0.6, drift="local", local=local)]))
    assert "| 1.000 | - | 0.500 | 0.750 |" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({row.count("|") for row in block.splitlines()}) == 1


def test_smoothing_looks_back_only_and_skips_what_is_not_there() -> None:
    assert smoothed(np.array([0.0, 0, 0, 0, 5, 0, 0, 0, 0, 0])).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]
    found = smoothed(np.array([np.nan, 2.0, np.nan, 4.0]), over=2)
    assert np.isnan(found[0])
    assert found[1:].tolist() == [2.0, 2.0, 4.0]


def test_the_figure_has_a_line_and_a_key_for_every_method_and_marks_the_drift() -> None:
    losses = {r.key: np.linspace(0.5, 0.1, 6) for r in RUNS}
    root = ElementTree.fromstring(figure(settings(RUNS), losses))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in root.iter(f"{space}text")]
    assert {"adaptive", "fedavg", "paper", "drift", "round"} <= set(texts)
    classes = [element.get("class") for element in root.iter(f"{space}path")]
    # One in the legend, one in the plot; ours is always the first style.
    assert [classes.count(f"line s{i}") for i in range(4)] == [2, 2, 2, 0]
    assert classes.count("foot") == 1
