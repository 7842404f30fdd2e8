"""`streamfl.replay` and `streamfl.read`: what the command does, from Python."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import streamfl
from streamfl.cli.main import cli
from streamfl.errors import UsageError
from streamfl.records.files.readers import read

API = Path(__file__).parents[2] / "docs" / "api.md"

OPTIONS = {"label": "state", "split": "column:site", "features": "rounds", "round_size": 10, "time": "at"}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 400))
    states = np.where(a + b > 0.0, "hot", "cold")
    at = [f"2026-03-01T{i // 60:02}:{i % 60:02}:00" for i in range(400)]
    return pl.DataFrame({"at": at, "site": [f"s{i % 2}" for i in range(400)], "a": a, "b": b, "state": states})


@pytest.fixture(scope="module")
def run(frame: pl.DataFrame) -> "streamfl.cli.python.Run":
    return streamfl.replay(frame, **OPTIONS)


def lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if not line.startswith(("time", "json", "report", "round "))]


def test_a_data_frame_is_replayed_as_the_command_replays_its_file(frame, run, tmp_path):
    frame.write_csv(tmp_path / "f.csv")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    written = [f"--json={tmp_path / 'r.json'}", "--per-round", f"--report={tmp_path / 'r.html'}"]
    ran = CliRunner().invoke(cli, ["replay", str(tmp_path / "f.csv"), *flags, *written], env={"COLUMNS": "120"})
    assert ran.exit_code == 0, ran.output
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["model_sha256"] == run.result.model_sha256
    assert found["per_round"] == [dict(row) for row in run.rounds().iter_rows(named=True)]
    assert found["by_client"]["clients"] == run.clients().to_dicts()
    assert [line.replace("f.csv", "data frame") for line in lines(ran.stderr)] == lines(str(run))
    again = streamfl.replay(tmp_path / "f.csv", **OPTIONS)
    assert len(again.report()) == pytest.approx(len((tmp_path / "r.html").read_text()), abs=20)  # it says the rate


def test_a_plot_has_accuracy_beside_no_change_and_says_what_it_needs(run):
    drawn = Mock()
    assert run.plot(drawn) is drawn
    ((rounds, accuracy), _), ((_, no_change), _) = drawn.plot.call_args_list
    assert (rounds, accuracy) == (list(range(1, 21)), run.rounds()["accuracy"].to_list())
    assert no_change == run.rounds()["no_change"].to_list()
    assert drawn.axvline.call_count == len(run.result.restarts)
    if find_spec("matplotlib") is None:
        with pytest.raises(UsageError, match="pip install matplotlib, or see report"):
            run.plot()


def test_a_notebook_shows_the_report(run):
    shown = run._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "&lt;html" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label": "stat"}, "the data frame: no column 'stat'; the columns are .*; correct --label"),
        ({"label": "state", "gamma": 2}, "Invalid value for '--gamma': 2.0 is not in the range"),
        ({"label": "state", "split": "column:plant"}, "no column 'plant'"),
        ({"label": "state", "clints": 3}, "there is no option clints; did you mean clients\\?"),
        ({"label": "state", "page": "8080"}, "there is no option page"),
        ({"label": "state", "profile": "paper", "detector": "glr"}, "--detector works only with profile adaptive"),
    ],
)
def test_what_the_command_refuses_is_an_exception_with_its_sentence(frame, options, said):
    with pytest.raises(UsageError, match=said):
        streamfl.replay(frame, **options)


@pytest.mark.process
def test_a_table_is_read_by_the_rules_of_files(frame, tmp_path):
    frame.write_parquet(tmp_path / "f.parquet")
    tables = [
        streamfl.read(frame, label="state", time="at", drop=["site"]),
        read(frame, label="state", time="at", drop=["site"]),
        streamfl.read(str(tmp_path / "f.parquet"), label="state", time="at", drop=["site"]),
    ]
    for table in tables:
        assert (table.features, table.labels, table.times[0]) == (("a", "b"), ("cold", "hot"), 1772323200.0)
        np.testing.assert_array_equal(table.X, tables[0].X)
    with pytest.raises(UsageError, match="the data frame: it is empty"):
        streamfl.read(frame.clear())
    with pytest.raises(UsageError, match="list cannot be read: give a path, or a data frame of polars"):
        streamfl.read([1, 2])


def test_the_example_of_the_page_runs_and_gives_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = re.findall(r"```python\n(.*?)```", API.read_text(), re.DOTALL)
    assert len(pages) == 2
    shared: dict[str, object] = {}
    for line in "".join(pages).splitlines():
        call, _, shown = line.partition("  # ")
        if shown:
            assert str(eval(call, shared)) == shown  # the page's own code
        else:
            exec(line, shared)
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "model.safetensors").exists()


def test_the_names_of_the_package_are_on_the_page_of_python():
    page = API.read_text()
    assert [name for name in streamfl.__all__ if name[0] != "_" and f"streamfl.{name}" not in page] == []
