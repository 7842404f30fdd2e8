"""The command line as a person uses it: what it prints, what it writes, and how it ends."""

import csv
import io
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import FloatRange, Group, IntRange
from click.testing import CliRunner
from suites.parameters import full

from streamfl.__main__ import main as program
from streamfl.cli.main import cli, main
from streamfl.errors import UsageError
from streamfl.run.model_file import ServedModel

KEYS = (
    "streamfl source label left_out seed profile records accepted held_out rejected pending answered ahead"
    " infinite rounds"
    " clients seconds records_per_second bytes {} loss by_client {} restarts local_drifts changes inputs_moved"
    " inputs_stuck notices promotions serving model_sha256 per_round"
)
CLASSIFICATION = KEYS.format("accuracy kappa", "by_class").split()
REGRESSION = KEYS.format("mae rmse r2 interval", "").split()
FOUND = ("round", "time", "epoch", "statistic", "threshold", "since", "labels", "since_time", "rows", "positions")
RESTARTED = (
    *FOUND,
    "known_since",
    "drift",
    "moved",
    "cause",
    "chosen",
    "clients",
    "scores",
    "clients_better",
    "renamed",
    "online_models_begin_again",
)
FIGURES = ["prequential", "round_start", "post_update", "no_change", "model_file", "own_file", "last_rounds"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)  # type: ignore[no-any-return]


Command = Callable[..., Ended]


@pytest.fixture
def streamfl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `streamfl ...` in this process, through the entry point that turns errors into exit codes."""

    def command(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["streamfl", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        assert isinstance(code, int)
        return Ended(code, told.out, told.err)

    return command


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """Write 600 records of two classes, as a CSV file with text labels."""
    rng = np.random.default_rng(3)
    rows = ["width,height,kind"]
    for _ in range(600):
        y = int(rng.integers(0, 2))
        width, height = rng.normal(size=2) + 3 * y
        rows.append(f"{width:.6f},{1000 * height:.6f},{('round', 'square')[y]}")
    path = tmp_path / "blobs.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def line(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    a = rng.normal(size=600)
    rows = [f"{x:.6f},{3.0 * x + 7.0 + 0.1 * e:.6f}" for x, e in zip(a, rng.normal(size=600), strict=True)]
    path = tmp_path / "line.csv"
    path.write_text("\n".join(["a,target", *rows]) + "\n")
    return path


# --- demo ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["rounds", full("auto")])
def test_demo_prints_its_result_and_nothing_else_to_standard_output(features: str, streamfl: Command):
    ended = streamfl("demo", "--features", features, "--json", "-", "--seed", 1)
    assert ended.code == 0
    result = ended.json
    assert list(result) == CLASSIFICATION
    assert list(result["accuracy"]) == FIGURES
    assert list(result["kappa"]) == ["cohen", "temporal"]
    assert list(result["loss"]) == ["prequential"]
    assert (result["source"], result["seed"], result["profile"]) == ("covtype", 1, "adaptive")
    assert (result["clients"], result["records"], result["rounds"]) == (20, 92962, 104)
    assert result["records"] == result["accepted"] + result["rejected"] + result["pending"]
    assert tuple(result["restarts"][0]) == RESTARTED
    assert [30 <= result["restarts"][0]["round"] <= 33, len(result["restarts"])] == [True, 3]
    assert [restarted["epoch"] for restarted in result["restarts"]] == [2, 3, 4]
    assert re.fullmatch("[0-9a-f]{64}", result["model_sha256"])
    assert result["per_round"] == []
    assert "drift imposed: class-swap" in ended.err
    assert "read 92,962 = accepted 92,962 + rejected 0 + pending 0" in ended.err


def test_demo_of_profile_paper_says_that_it_cannot_fire(streamfl: Command):
    ended = streamfl("demo", "--profile", "paper", "--json", "-")
    assert "profile paper: Tests 1 and 2 cannot fire at T = 104" in ended.err
    assert (ended.json["profile"], ended.json["restarts"]) == ("paper", [])


# --- replay and what it writes ---------------------------------------------------------------------------------


def test_a_replay_of_classes_reports_every_figure_and_round(streamfl: Command, blobs: Path):
    ended = streamfl("replay", blobs, "--clients", 3, "--round-size", 10, "--json", "-", "--per-round")
    assert ended.code == 0
    result = ended.json
    assert list(result) == CLASSIFICATION
    assert (result["source"], result["records"], result["rounds"], result["clients"]) == ("blobs.csv", 600, 20, 3)
    assert result["accuracy"]["prequential"] > 0.9
    lines = result["per_round"]
    assert [told["round"] for told in lines] == list(range(1, 21))
    assert {told["records"] for told in lines} == {30}
    assert all(0.0 <= told["loss"] <= 1.0 and told["mae"] is None for told in lines)
    assert np.mean([told["accuracy"] for told in lines]) == pytest.approx(result["accuracy"]["prequential"])
    assert np.mean([told["loss"] for told in lines]) == pytest.approx(result["loss"]["prequential"])


def test_a_replay_of_a_target_reports_every_figure_and_round(streamfl: Command, line: Path):
    ended = streamfl("replay", line, "--clients", 3, "--round-size", 10, "--json", "-", "--per-round")
    result = ended.json
    assert list(result) == REGRESSION
    assert list(result["mae"]) == list(result["rmse"]) == FIGURES
    assert result["mae"]["prequential"] < 0.5 * result["mae"]["no_change"]
    assert 0.5 < result["r2"] <= 1.0
    assert list(result["interval"]) == ["records", "coverage", "width"]
    assert all(told["accuracy"] is None and told["mae"] >= 0.0 for told in result["per_round"])
    assert np.mean([told["mae"] for told in result["per_round"]]) == pytest.approx(result["mae"]["prequential"])


def test_the_json_file_has_what_standard_output_has(streamfl: Command, blobs: Path, tmp_path: Path):
    to = tmp_path / "result.json"
    assert streamfl("replay", blobs, "--json", to).out == ""
    printed = streamfl("replay", blobs, "--json", "-").json
    written = json.loads(to.read_text())
    for timed in ("seconds", "records_per_second"):
        assert written.pop(timed) >= 0
        printed.pop(timed)
    assert written == printed


@pytest.mark.parametrize("of", ["blobs", "line"])
def test_the_report_is_one_page_that_needs_nothing_else(of: str, streamfl: Command, request, tmp_path: Path):
    to = tmp_path / "report.html"
    assert streamfl("replay", request.getfixturevalue(of), "--report", to).code == 0
    page = to.read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert f"{of}.csv" in page
    assert 'id="data"' in page
    assert not re.search(r'(src|href)="https?://', page)


def test_the_model_is_the_one_that_the_result_names_and_predicts_labels(
    streamfl: Command, blobs: Path, tmp_path: Path
):
    to = tmp_path / "model.safetensors"
    result = streamfl("replay", blobs, "--model-out", to, "--json", "-").json
    model = ServedModel.load(to)
    assert model.sha256 == result["model_sha256"]
    assert model.predict(np.array([[0.0, 0.0], [3.0, 3000.0]]), ("width", "height")) == ["round", "square"]
    # Columns are found by name: in another order, beside others.
    other = np.array([[9.9, 0.0, 0.0], [9.9, 3000.0, 3.0]])
    assert model.predict(other, ("extra", "height", "width"), unknown="ignore") == ["round", "square"]


def test_the_model_of_a_target_predicts_in_its_own_unit(streamfl: Command, line: Path, tmp_path: Path):
    to = tmp_path / "model.safetensors"
    streamfl("replay", line, "--model-out", to)
    for X in (np.array([[2.0], [-2.0]]), [[2], [-2]]):
        assert ServedModel.load(str(to)).predict(X, ["a"]) == pytest.approx([13.0, 1.0], abs=0.5)
    with pytest.warns(UserWarning, match='the first one, of record 0: "much" is not a number'):
        assert ServedModel.load(to).predict([["much"]], ("a",)) == pytest.approx([7.0], abs=0.5)


@pytest.mark.full
def test_the_model_file_serves_what_the_headline_says(streamfl: Command, tmp_path: Path):
    rng, to = np.random.default_rng(5), tmp_path / "model.safetensors"
    X = rng.uniform(-1.0, 1.0, (3000, 2)).round(3)
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
    path = tmp_path / "xor.csv"
    path.write_text("a,b,y\n" + "".join(f"{a},{b},{c}\n" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True)))
    ended = streamfl("replay", path, "--clients", 3, "--model-out", to, "--json", "-")
    told = ended.json["accuracy"]
    model = ServedModel.load(to)
    predicted = model.predict(X, ("a", "b"))
    right = np.mean(np.array(predicted) == y.astype(str))
    assert told["prequential"] > 0.97
    assert told["model_file"] > told["prequential"] - 0.01  # the rounds' model alone has 0.5
    assert right == pytest.approx(told["model_file"], abs=0.02)
    files = f"{told['model_file']:.3f}, clients' own files {told['own_file']:.3f}"
    figures = f"{files}; the clients themselves had {told['last_rounds']:.3f}"
    assert f"on the last rounds the model file has accuracy {figures}\n" in ended.err
    assert model.sha256 == ended.json["model_sha256"]
    made = model.provenance
    assert made is not None
    assert (made.source, made.records, made.clients, made.rounds) == ("xor.csv", 3000, 3, 100)
    assert (made.file, made.served, made.sha256) == (told["model_file"], told["last_rounds"], model.sha256)
    assert json.loads(made.settings)["learning"]["features"] == "auto"
    again = streamfl("predict", path, "--model", to, "--label", "y")
    assert f"accuracy   {right:.3f}  NoChange" in again.err
    assert f"from xor.csv, 3,000 records; there its accuracy was {told['model_file']:.3f}" in again.err


def test_the_model_file_is_measured_on_exactly_its_own_predictions(streamfl: Command, blobs: Path, tmp_path: Path):
    """Without online models it is the model at the start of the round, here of all rounds but the first."""
    to = tmp_path / "model.safetensors"
    options = "--features", "rounds", "--clients", 2, "--round-size", 30, "--model-out", to, "--json", "-"
    result = streamfl("replay", blobs, *options, "--per-round").json
    told, rounds = result["accuracy"], result["per_round"][1:]
    right = sum(line["accuracy"] * line["records"] for line in rounds) / sum(line["records"] for line in rounds)
    assert told["model_file"] == told["last_rounds"] == pytest.approx(right)


@pytest.mark.full
def test_a_replay_says_when_the_model_file_is_much_worse_than_what_was_served(streamfl: Command, tmp_path: Path):
    """Labels of single places, which only a client's nearest records know."""
    rng, to = np.random.default_rng(5), tmp_path / "model.safetensors"
    places, y = rng.normal(size=(300, 8)), rng.integers(0, 2, 300)
    rows = [",".join(map(str, [*places[i].round(4).tolist(), y[i]])) for i in np.tile(np.arange(300), 8).tolist()]
    path = tmp_path / "places.csv"
    path.write_text(",".join([*"abcdefgh", "y"]) + "\n" + "\n".join(rows) + "\n")
    options = "--features", "linear", "--clients", 1, "--model-out", to, "--json", "-"
    ended = streamfl("replay", path, *options)
    told = ended.json["accuracy"]
    assert told["model_file"] < 0.75
    assert told["last_rounds"] > 0.95
    assert ". The file lacks what only a client knows" in ended.err


def test_a_file_that_is_no_model_is_refused(tmp_path: Path, blobs: Path):
    for content in (b"", b"{}", b'{"format":99}', pickle.dumps({"format": 1}), blobs.read_bytes()):
        path = tmp_path / "model"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=f"{path}: "):
            ServedModel.load(path)


def test_predictions_are_one_line_a_record_and_as_good_as_the_result_says(
    streamfl: Command, blobs: Path, tmp_path: Path
):
    to = tmp_path / "predictions.csv"
    options = ("--clients", 4, "--round-size", 7, "--min-records", 1, "--predictions", to, "--json", "-")
    result = streamfl("replay", blobs, *options).json
    with to.open(newline="") as file:
        told = list(csv.DictReader(file))
    assert list(told[0]) == ["record", "client", "round", "label", "predicted"]
    assert sorted(int(one["record"]) for one in told) == list(range(600))
    right = sum(one["label"] == one["predicted"] for one in told) / len(told)
    assert right == pytest.approx(result["accuracy"]["prequential"])
    labels = [row.split(",")[2] for row in blobs.read_text().splitlines()[1:]]
    assert all(labels[int(one["record"])] == one["label"] for one in told)
    assert {one["client"] for one in told} == {"c0", "c1", "c2", "c3"}
    assert all(int(one["record"]) % 4 == int(one["client"][1:]) for one in told)


def test_the_file_of_predictions_of_a_target_agrees_with_the_result(streamfl: Command, line: Path, tmp_path: Path):
    to = tmp_path / "predictions.csv"
    result = streamfl("replay", line, "--predictions", to, "--json", "-").json
    with to.open(newline="") as file:
        told = list(csv.DictReader(file))
    mae = sum(abs(float(one["label"]) - float(one["predicted"])) for one in told) / len(told)
    assert len(told) == 600
    assert mae == pytest.approx(result["mae"]["prequential"])


def test_predictions_name_the_records_of_the_file_also_past_bad_ones(streamfl: Command, tmp_path: Path):
    path, to = tmp_path / "some.csv", tmp_path / "predictions.csv"
    path.write_text("a,y\n" + "".join("oops\n" if i % 5 == 3 else f"{i},{'ab'[i % 2]}\n" for i in range(60)))
    result = streamfl("replay", path, "--clients", 2, "--min-records", 1, "--predictions", to, "--json", "-").json
    with to.open(newline="") as file:
        told = list(csv.DictReader(file))
    assert result["rejected"] == 12
    assert sorted(int(one["record"]) for one in told) == [i for i in range(60) if i % 5 != 3]
    assert all(one["label"] == "ab"[int(one["record"]) % 2] for one in told)


def test_the_same_seed_gives_the_same_result(streamfl: Command, blobs: Path):
    options = ("replay", blobs, "--split", "dirichlet:0.5", "--clients", 3, "--json", "-")
    digests = [streamfl(*options, "--seed", seed).json["model_sha256"] for seed in (5, 5, 6)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "options",
    [
        ("--profile", "paper", "--rho-scale", "0.00005", "--start", "warm"),
        ("--profile", "paper", "--optimistic", "regret"),
        ("--algorithm", "fedomd"),
        ("--algorithm", "fedomd", "--mirror", "hypentropic", "--average", "dual", "--l1", "0.0001"),
        ("--profile", "experts", "--max-order", "none"),
        ("--local-batch", "4"),
        ("--split", "column:kind"),
        full(("--inject", "permutation@20,60", "--min-records", "1")),
        ("--task", "classification", "--drop", "height"),
        ("--bytes", "200"),
        full(("--bytes", "200", "--label-delay", "20")),
    ],
)
def test_a_replay_runs_with_every_option(options: tuple[str, ...], streamfl: Command, blobs: Path):
    ended = streamfl("replay", blobs, *options, "--json", "-")
    assert ended.code == 0
    result = ended.json
    assert result["records"] == result["accepted"] + result["rejected"] + result["pending"] == 600
    assert math.isfinite(result["accuracy"]["prequential"])


# --- labels that come late -------------------------------------------------------------------------------------


def test_a_replay_reports_how_late_labels_come(streamfl: Command, blobs: Path, tmp_path: Path):
    page, model, to = tmp_path / "report.html", tmp_path / "model.safetensors", tmp_path / "predictions.csv"
    outputs = ("--report", page, "--model-out", model, "--predictions", to, "--json", "-")
    ended = streamfl("replay", blobs, "--clients", 3, "--round-size", 20, "--label-delay", 9, *outputs)
    result = ended.json
    assert (result["label_delay"], result["unanswered"], result["waiting"], result["expired"]) == (9, 27, 0, 0)
    told = r"^labels +9 records late: 27 answered before any model, 0 still waiting, 0 expired$"
    assert re.search(told, ended.err, re.MULTILINE)
    assert "27 records were answered before there was any model, and count as wrong." in page.read_text()
    assert json.loads(ServedModel.load(model).provenance.settings)["label_delay"] == 9
    with to.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert sorted(int(one["record"]) for one in lines if not one["predicted"]) == list(range(27))
    right = sum(one["label"] == one["predicted"] for one in lines) / len(lines)
    assert right == pytest.approx(result["accuracy"]["prequential"])


@pytest.mark.parametrize(
    "options",
    [
        ("--profile", "paper"),
        ("--profile", "experts"),
        ("--features", "rounds"),
        full(("--split", "column:kind")),
        full(("--split", "dirichlet:0.5")),
        full(("--inject", "class-swap@4")),
        full(("--model", "river:preprocessing.StandardScaler|linear_model.LogisticRegression")),
        full(("--algorithm", "fedomd")),
    ],
)
def test_a_replay_with_delayed_labels_runs_with_every_other_option(
    options: tuple[str, ...], streamfl: Command, blobs: Path
):
    without, late = (
        streamfl("replay", blobs, *options, "--clients", 2, "--label-delay", delay, "--json", "-").json
        for delay in (0, 30)
    )
    assert late["records"] == late["accepted"] + late["rejected"] + late["pending"] == 600
    for key in ("accepted", "rounds", "restarts", "local_drifts", "promotions", "model_sha256"):
        assert late[key] == without[key]
    assert late["unanswered"] >= 60
    assert late["accuracy"]["prequential"] < without["accuracy"]["prequential"]


@pytest.mark.full
def test_restarts_are_told_with_their_times_also_where_labels_come_late(streamfl: Command, sensor_file: Path):
    told = [
        streamfl("replay", sensor_file, "--time", "ts", "--label-delay", delay, "--json", "-").json["restarts"]
        for delay in (0, 25)
    ]
    assert told[0] == told[1] != []


def test_bad_records_are_listed_also_where_labels_come_late(streamfl: Command, tmp_path: Path):
    rows = [f"{i % 7},{i % 3},{'xy'[i % 2]}" for i in range(100)]
    rows[20] = "1,2"
    path = tmp_path / "dirty.csv"
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    ended = streamfl("replay", path, "--clients", 2, "--min-records", 1, "--label-delay", 4, "--json", "-")
    result = ended.json
    assert (result["records"], result["accepted"], result["rejected"], result["pending"]) == (100, 99, 1, 0)
    assert re.search(r"line 22\b.*fields", ended.err)


@pytest.mark.parametrize("delay", ["-1", "1000001", "ten"])
def test_a_delay_out_of_bounds_is_refused(delay: str, streamfl: Command, blobs: Path):
    assert streamfl("replay", blobs, "--label-delay", delay).code == 2


# --- the base algorithm ----------------------------------------------------------------------------------------


def test_fedomd_is_not_fedavg_unless_its_map_is_the_euclidean_one(streamfl: Command, blobs: Path):
    def digest(*options: str) -> str:
        told: str = streamfl("replay", blobs, "--features", "rounds", *options, "--json", "-").json["model_sha256"]
        return told

    fedavg, p_norm = digest(), digest("--algorithm", "fedomd")
    assert p_norm == digest("--algorithm", "fedomd", "--mirror", "p-norm") != fedavg
    # The theorem: mirror descent with the Euclidean map is gradient descent, to the last byte.
    assert digest("--algorithm", "fedomd", "--mirror", "euclidean") == fedavg


@pytest.mark.parametrize(
    ("before", "option"),
    [
        (("--algorithm", "fedomd"), ("--mirror", "hypentropic")),
        (("--algorithm", "fedomd"), ("--average", "dual")),
        (("--algorithm", "fedomd"), ("--l1", "0.01")),
        (("--algorithm", "fedomd", "--mirror", "euclidean"), ("--l1", "0.01")),
        (("--features", "rounds"), ("--l2", "0.01")),
        (("--features", "rounds"), ("--gamma", "0.5")),
        (("--features", "rounds"), ("--step", "2")),
        (("--profile", "paper"), ("--step", "2")),
        (("--profile", "experts"), ("--step", "2")),
        (("--profile", "paper", "--round-size", "2", "--min-records", "1"), ("--max-order", "1")),
        (("--profile", "experts"), ("--max-order", "1")),
        (
            ("--profile", "paper", "--rho-scale", "1e-5", "--round-size", "10", "--clients", "2"),
            ("--order-after-alarm", "continue"),
        ),
    ],
)
def test_every_option_of_the_algorithm_changes_the_model(
    before: tuple[str, ...], option: tuple[str, ...], streamfl: Command, blobs: Path
):
    digests = {streamfl("replay", blobs, *before, *more, "--json", "-").json["model_sha256"] for more in ((), option)}
    assert len(digests) == 2


@pytest.mark.full
def test_without_a_cap_blocks_grow_past_the_256_rounds(streamfl: Command, blobs: Path):
    options = ("replay", blobs, "--clients", "1", "--round-size", "1", "--min-records", "1", "--profile", "experts")
    options += ("--json", "-")
    digests = [
        streamfl(*options, *more).json["model_sha256"] for more in ((), ("--max-order", "8"), ("--max-order", "none"))
    ]
    assert digests[0] == digests[1] != digests[2]


# --- an ordinary sensor file -----------------------------------------------------------------------------------


def sensors(n: int = 2400) -> list[str]:
    """Return the lines of a file as sensors write it; from the middle on, `ok` and `hot` change places."""
    rng = np.random.default_rng(8)
    lines = ["ts,site,remark,temperature,vibration,state"]
    for i in range(n):
        when = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=i)
        hot = bool(rng.integers(0, 2))
        temperature = f"{20 + 15 * hot + rng.normal():.3f}" if rng.random() > 0.1 else ""
        state = "hot" if hot ^ (i >= n // 2) else "ok"
        cells = [f"{when:%Y-%m-%d %H:%M:%S}", "NSE"[i % 3], f"reading {i} of shift {i // 480}", temperature]
        lines.append(",".join([*cells, f"{rng.normal():.3f}", state]))
    return lines


@pytest.fixture
def sensor_file(tmp_path: Path) -> Path:
    path = tmp_path / "sensors.csv"
    path.write_text("\n".join(sensors()) + "\n")
    return path


def test_a_sensor_file_needs_no_options_and_one_message_tells_what_is_left_out(streamfl: Command, sensor_file: Path):
    ended = streamfl("replay", sensor_file, "--label", "state", "--clients", 4, "--json", "-")
    assert ended.code == 0
    assert ended.json["left_out"] == ["ts", "remark"]
    assert ended.json["rejected"] == 0
    assert (
        "sensors.csv: left out: column ts looks like a time (--time ts keeps it with the records); "
        "column remark is text with more than 50 values\n" in ended.err
    )
    assert [restarted["time"] for restarted in ended.json["restarts"]] == [None]


def test_restarts_are_told_with_their_times(streamfl: Command, sensor_file: Path, tmp_path: Path):
    report = tmp_path / "report.html"
    options = ("--label", "state", "--clients", 4, "--round-size", 20, "--time", "ts", "--report", report)
    ended = streamfl("replay", sensor_file, *options, "--json", "-", "--per-round")
    (restarted,) = ended.json["restarts"]
    assert restarted["time"] in [told["time"] for told in ended.json["per_round"]]
    last = 80 * restarted["round"] - 1  # of the round: 4 clients of 20 records, one a minute
    assert 15 <= restarted["round"] - 1 <= 17
    when = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=last)
    assert restarted["time"] == f"{when:%Y-%m-%dT%H:%M:%SZ}"
    assert ended.json["left_out"] == ["remark"]
    assert f"round {restarted['round']}  {restarted['time']}  drift since round " in ended.err
    assert report.read_text().count(restarted["time"]) >= 2


@pytest.mark.parametrize(("mark", "said"), [(";", ";"), ("\t", "tab"), full("\t", "\\t"), full("|", "|")])
def test_a_csv_file_with_any_separator_gives_the_same_model(mark: str, said: str, streamfl: Command, blobs: Path):
    expected = streamfl("replay", blobs, "--json", "-").json["model_sha256"]
    blobs.write_text(blobs.read_text().replace(",", mark))
    assert streamfl("replay", blobs, "--separator", said, "--json", "-").json["model_sha256"] == expected
    ended = streamfl("replay", blobs)
    assert (ended.code, "add --separator" in ended.err) == (2, True)


def test_records_from_standard_input_give_the_same_model_as_from_a_file(
    streamfl: Command, blobs: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = streamfl("replay", blobs, "--label", "kind", "--json", "-").json
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(blobs.read_bytes())))
    told = streamfl("replay", "-", "--label", "kind", "--json", "-").json
    assert told["source"] == "standard input"
    assert told["model_sha256"] == expected["model_sha256"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    ended = streamfl("replay", "-", "--label", "kind")
    assert (ended.code, "standard input: it is empty" in ended.err) == (2, True)


# --- bad records -----------------------------------------------------------------------------------------------


def test_bad_records_are_rejected_counted_and_listed(streamfl: Command, tmp_path: Path):
    rows = [f"{i % 7},{i % 3},{'xy'[i % 2]}" for i in range(100)]
    rows[10] = "1,2"  # a ragged row
    rows[20] = "oops,2,x"  # text in a number: a missing value, told
    rows[30] = "1,inf,y"  # infinity: a missing value, counted
    rows[40] = "1,2,"  # no label
    rows[50] = "NaN,,x"  # missing values: a good record
    path = tmp_path / "dirty.csv"
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    ended = streamfl("replay", path, "--clients", 2, "--min-records", 1, "--json", "-")
    assert ended.code == 0
    result = ended.json
    assert (result["records"], result["accepted"], result["rejected"], result["pending"]) == (100, 98, 2, 0)
    assert result["infinite"] == 1
    assert re.search(r"^infinite +1 value, treated as missing$", ended.err, re.MULTILINE)
    for place, reason in ((12, "fields"), (22, "oops"), (42, "missing")):
        assert re.search(rf"line {place}\b.*{reason}", ended.err)


def test_cut_json_lines_are_rejected_counted_and_listed(streamfl: Command, tmp_path: Path):
    rows = [json.dumps({"a": i % 5, "y": i % 2}) for i in range(50)]
    rows[7] = rows[7][:-3]
    path = tmp_path / "cut.jsonl"
    path.write_text("\n".join(rows) + "\n")
    ended = streamfl("replay", path, "--clients", 2, "--min-records", 1, "--json", "-")
    assert (ended.json["accepted"], ended.json["rejected"]) == (49, 1)
    assert "line 8" in ended.err


# --- what may leave a client -----------------------------------------------------------------------------------


def test_a_rest_of_fewer_than_may_leave_a_client_stays_pending_and_is_told(streamfl: Command, tmp_path: Path):
    path = tmp_path / "some.csv"
    path.write_text("a,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(70)))
    ended = streamfl("replay", path, "--clients", 2, "--round-size", 15, "--json", "-")
    result = ended.json
    assert (result["records"], result["accepted"], result["pending"], result["rounds"]) == (70, 60, 10, 2)
    assert "pending: a client's last records are not sent if they are fewer than --min-records" in ended.err
    whole = streamfl("replay", path, "--clients", 2, "--round-size", 15, "--min-records", 5, "--json", "-")
    assert (whole.json["accepted"], whole.json["pending"], whole.json["rounds"]) == (70, 0, 3)
    assert "--min-records 1" not in whole.err
    assert "--min-records 1: " in streamfl("replay", path, "--min-records", 1, "--json", "-").err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--round-size", 9), "--round-size 9 is below --min-records 10"),
        (("--round-size", 20, "--min-records", 21), "--round-size 20 is below --min-records 21"),
        (("--clients", 75), "no client has 10 valid records"),
    ],
)
def test_rounds_that_could_not_leave_a_client_are_refused(options, says, streamfl: Command, blobs: Path):
    told = one_line_of_error(streamfl("replay", blobs, *options))
    assert says in told
    assert "--min-records" in told


# --- what cannot be done ---------------------------------------------------------------------------------------


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


GOOD = b"a,b,y\n" + b"1,2,x\n3,4,z\n" * 50

BAD: dict[str, tuple[str, bytes, tuple[str, ...], str]] = {
    "empty": ("f.csv", b"", (), "empty"),
    "unknown format": ("f.xls", b"x", (), "unknown format"),
    "wrong arrays": ("f.npz", npz(X=np.ones((3, 2)), y=np.ones(2)), (), "make them"),
    "pickled npz": ("f.npz", npz(X=np.array([[{}]], object), y=np.zeros(1)), (), "pickled"),
    "a pickle": ("f.npz", pickle.dumps([1, 2]), (), "pickled"),
    "no such label": ("f.csv", GOOD, ("--label", "nope"), "--label"),
    "no label column": ("f.jsonl", b'{"a":1,"b":2}\n', (), "--label"),
    "no feature column": ("f.csv", b"y\n1\n0\n", (), "no feature column"),
    "header alone": ("f.csv", b"a,b,y\n", (), "no records"),
    "wrong encoding": ("f.csv", b"a,y\n1,0\n2,\xe9\n", (), "line 3"),
    "JSON cut short": ("f.jsonl", b'{"a":1,"y"\n{"a":2,\n', (), "line 1"),
    "text to stop at": ("f.csv", b"a,slope,y\n1,2,x\n1,steep,z\n", ("--on-bad-record", "stop"), "line 3"),
    "too many clients": ("f.csv", GOOD, ("--clients", "101"), "--clients 101"),
    "unknown split": ("f.csv", GOOD, ("--split", "fair"), "--split fair"),
    "split by no column": ("f.csv", GOOD, ("--split", "column:nope"), "nope"),
    "clients beside a column": (
        "f.csv",
        GOOD,
        ("--clients", "3", "--split", "column:a"),
        "--clients 3: column 'a' of f.csv has 2 values",
    ),
    "wrong concentration": ("f.csv", GOOD, ("--split", "dirichlet:-1"), "dirichlet"),
    "unknown drift": ("f.csv", GOOD, ("--inject", "earthquake@3"), "earthquake"),
    "drift without rounds": ("f.csv", GOOD, ("--inject", "class-swap"), "class-swap"),
    "drift backwards": ("f.csv", GOOD, ("--inject", "class-swap@5,2"), "increase"),
    "drift of too many classes": ("f.csv", GOOD, ("--inject", "class-introduction@1,2,3"), "class-introduction"),
    "regret with local batches": (
        "f.csv",
        GOOD,
        ("--profile", "paper", "--optimistic", "regret", "--local-batch", "5"),
        "--local-batch",
    ),
    "an option of the other profile": ("f.csv", GOOD, ("--rho-scale", "2"), "--profile paper"),
    "a rho that is no number": (
        "f.csv",
        GOOD,
        ("--profile", "paper", "--rho-scale", "nan"),
        "--rho-scale is not a number",
    ),
    "a gamma that is no number": ("f.csv", GOOD, ("--gamma", "nan"), "--gamma is not a number"),
    "a map of another algorithm": ("f.csv", GOOD, ("--mirror", "p-norm"), "mirror: only for fedomd"),
    "an algorithm of several steps, with one": (
        "f.csv",
        GOOD,
        ("--algorithm", "fednova"),
        "algorithm fednova: with one step a round it is fedavg; set local_batch",
    ),
    "L1 of another algorithm": ("f.csv", GOOD, ("--l1", "0.1"), "l1: only for fedomd"),
    "averages that are the same": (
        "f.csv",
        GOOD,
        ("--algorithm", "fedomd", "--mirror", "euclidean", "--average", "dual"),
        "both averages are the same",
    ),
    "regret with a part of the records": (
        "f.csv",
        GOOD,
        ("--profile", "paper", "--optimistic", "regret", "--gamma", "0.5"),
        "leave --gamma out",
    ),
    "orders of another profile": ("f.csv", GOOD, ("--max-order", "none"), "--profile paper"),
    "an order that is none": ("f.csv", GOOD, ("--profile", "paper", "--max-order", "21"), "from 0 to 20, or none"),
    "no number of bytes": ("f.csv", GOOD, ("--bytes", "few"), "give a positive number, raw or auto"),
    "bytes of rounds": ("f.csv", GOOD, ("--bytes", "90", "--profile", "paper"), "leave bytes out"),
    "too few bytes": ("f.csv", GOOD, ("--bytes", "9", "--round-size", "10", "--clients", "2"), "give 57 or more"),
    "a drift after the end": ("f.csv", GOOD, ("--inject", "class-swap@99999"), "name earlier rounds"),
    "two outputs in one file": ("f.csv", GOOD, ("--report", "r", "--predictions", "r"), "name another file"),
    "an output without a name": ("f.csv", GOOD, ("--json", ""), "--json"),
}
# These are about an option, not about the file.
NAMES_NO_FILE = {
    "unknown split",
    "wrong concentration",
    "unknown drift",
    "drift without rounds",
    "drift backwards",
    "regret with local batches",
    "an option of the other profile",
    "a rho that is no number",
    "a gamma that is no number",
    "a map of another algorithm",
    "L1 of another algorithm",
    "an algorithm of several steps, with one",
    "averages that are the same",
    "regret with a part of the records",
    "orders of another profile",
    "an order that is none",
    "no number of bytes",
    "bytes of rounds",
    "too few bytes",
    "a drift after the end",
    "two outputs in one file",
    "an output without a name",
}


def one_line_of_error(ended: Ended) -> str:
    assert (ended.code, ended.out) == (2, "")
    (only,) = ended.err.splitlines()
    assert only.startswith("streamfl: error: ")
    assert "Traceback" not in only
    # What is wrong, and after it what to do.
    assert re.search(r"[;:] ", only.removeprefix("streamfl: error: "))
    return only


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_ends_in_one_line_and_exit_code_2(case: str, streamfl: Command, tmp_path: Path):
    name, content, options, says = BAD[case]
    path = tmp_path / name
    path.write_bytes(content)
    told = one_line_of_error(streamfl("replay", path, *options))
    assert says in told
    if case not in NAMES_NO_FILE:
        assert name in told
    assert "; " in told


def test_an_output_never_overwrites_the_input(streamfl: Command, tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_bytes(GOOD)
    assert "name another file" in one_line_of_error(streamfl("replay", path, "--predictions", path))
    assert path.read_bytes() == GOOD


def test_a_disk_that_is_full_is_an_error_in_one_line(streamfl: Command, tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_bytes(GOOD)
    told = streamfl("replay", path, "--report", "/dev/full")
    assert told.code == 2
    assert told.err.splitlines()[-1].startswith("streamfl: error: /dev/full: cannot be written")


def test_a_directory_or_a_missing_file_is_an_error_in_one_line(streamfl: Command, tmp_path: Path):
    assert "directory" in one_line_of_error(streamfl("replay", tmp_path))
    assert "no such file" in one_line_of_error(streamfl("replay", tmp_path / "none.csv"))


@pytest.mark.parametrize("option", ["--json", "--report", "--model-out", "--predictions"])
def test_places_that_cannot_be_written_to_are_refused_before_anything_runs(
    option: str, streamfl: Command, blobs: Path, tmp_path: Path
):
    for place in (tmp_path / "nowhere" / "out", tmp_path):
        told = one_line_of_error(streamfl("replay", blobs, option, place))
        assert str(place) in told
        assert "directory" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "f.csv", "--frobnicate"),
        ("demo", "--rounds"),
        ("replay",),
        ("dance",),
        ("replay", "f.csv", "--clients", "0"),
        ("replay", "f.csv", "--clients", "many"),
        ("replay", "f.csv", "--seed", "-1"),
    ],
)
def test_options_that_do_not_exist_end_in_exit_code_2(arguments: tuple[str, ...], streamfl: Command):
    ended = streamfl(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("option", ["--profile", "--algorithm", "--mirror", "--aggregation"])
def test_a_name_that_is_not_registered_is_refused_before_the_file_is_read(option: str, streamfl: Command):
    assert "is called 'magic': use one of " in one_line_of_error(streamfl("replay", "nowhere.csv", option, "magic"))


# --- help ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("demo", "--help"), ("replay", "--help")])
def test_help_pages_fit_a_hundred_columns(arguments: tuple[str, ...]):
    ended = CliRunner().invoke(cli, arguments)
    assert ended.exit_code == 0
    assert "Usage: " in ended.output
    assert max(map(len, ended.output.splitlines())) <= 100


def test_help_names_every_option_that_people_are_promised():
    told = CliRunner().invoke(cli, ("replay", "--help")).output
    promised = (
        "label clients split round-size profile task drop time rho-scale optimistic start detector algorithm"
        " mirror average l1 mu l2 gamma step order-after-alarm max-order local-batch inject seed on-bad-record report"
        " json per-round model-out predictions bytes label-delay"
    )
    assert [option for option in promised.split() if f"--{option}" not in told] == []


def test_the_version_is_the_package_s(streamfl: Command):
    from streamfl import __version__

    assert streamfl("--version").out == f"streamfl {__version__}\n"


@pytest.mark.process
def test_the_program_ends_with_the_exit_code_and_the_error_of_its_command(tmp_path: Path):
    program = [sys.executable, "-c", "from streamfl.cli.main import main; main()"]
    path = tmp_path / "f.csv"
    path.write_bytes(b"")
    failed = subprocess.run([*program, "replay", str(path)], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == f"streamfl: error: {path}: it is empty; give a file with at least one record\n"
    path.write_bytes(GOOD)
    done = subprocess.run([*program, "replay", str(path), "--json", "-"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["accepted"] == 100


@pytest.mark.process
def test_the_package_itself_is_the_command_line() -> None:
    shown = subprocess.run([sys.executable, "-m", "streamfl", "--help"], capture_output=True, text=True, check=True)
    assert "Commands:" in shown.stdout
    wrong = subprocess.run(
        [sys.executable, "-m", "streamfl", "replay", "nowhere.csv", "--label", "y"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "nowhere.csv" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_ctrl_c_while_the_program_starts_is_no_error(monkeypatch, capsys):
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "streamfl.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "streamfl.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        program()
    assert (ended.value.code, capsys.readouterr().err) == (130, "streamfl: stopped\n")


@pytest.mark.parametrize("columns", ["0", "00", "3"])
def test_a_terminal_of_hardly_any_columns_shows_the_summary(
    streamfl: Command, blobs: Path, monkeypatch, columns: str
):
    monkeypatch.setenv("COLUMNS", columns)
    assert "accuracy" in streamfl("replay", blobs, "--clients", 3, "--features", "rounds").err


@pytest.mark.parametrize(
    "options",
    [("--interval", "1e-300"), ("--interval", "inf"), ("--round-size", 10**12), ("--clients", 10**300)],
)
def test_a_number_beyond_all_sense_is_refused_with_the_range(streamfl: Command, blobs: Path, options):
    ended = streamfl("replay", blobs, *options)
    assert ended.code == 2
    assert f"{options[1]} is not in the range" in ended.err.replace("1e300", str(10**300))


def test_every_number_of_a_command_has_a_range():
    commands = [one for one in cli.commands.values() if one.name != "bench"]
    commands += [one for group in commands if isinstance(group, Group) for one in group.commands.values()]
    numbers = [
        (command.name, one.name, one.type)
        for command in commands
        for one in command.params
        if isinstance(one.type, IntRange | FloatRange) or one.type.name in {"integer", "float"}
    ]
    for command, name, kind in numbers:
        bounded = isinstance(kind, IntRange | FloatRange) and kind.min is not None and kind.max is not None
        assert bounded or name in {"seed", "noise", "radius"}, f"{command} {name}: {kind}"


def test_what_is_compiled_can_be_compiled_beforehand_and_it_says_where_it_is_kept():
    ended = CliRunner().invoke(cli, ("compile",))
    assert ended.exit_code == 0
    folder = Path(ended.output.strip().splitlines()[-1].removeprefix("compiled; the machine code is in "))
    assert list(folder.glob("softmax.rounds_say-*.nbi"))


def test_what_is_compiled_can_be_copied_to_where_a_wheel_carries_it(tmp_path: Path):
    ended = CliRunner().invoke(cli, ("compile", "--to", str(tmp_path / "carried")))
    assert ended.exit_code == 0
    (folder,) = (tmp_path / "carried").iterdir()
    assert ended.output.strip().splitlines()[-1] == f"compiled; the machine code is in {folder}"
    functions = {file.name.partition("-")[0] for file in folder.iterdir()}
    assert functions == {"coding.coded", "one_record.predict_and_learn", "softmax.rounds_say"}
    assert {file.suffix for file in folder.iterdir()} == {".nbi", ".nbc"}


def test_a_place_that_machine_code_cannot_be_copied_to_is_refused(streamfl: Command, tmp_path: Path):
    (tmp_path / "file").touch()
    assert f"--to {tmp_path / 'file' / 'folder'}" in one_line_of_error(
        streamfl("compile", "--to", tmp_path / "file" / "folder")
    )


def test_a_label_that_looks_like_an_identifier_is_said_to(streamfl: Command, tmp_path: Path) -> None:
    path = tmp_path / "sensors.csv"
    path.write_text("x,kind,serial\n" + "".join(f"{i % 7},{i % 2},{i}\n" for i in range(400)))
    ended = streamfl("replay", path, "--clients", 2, "--features", "rounds", "--label", "serial")
    remark = (
        "label column 'serial' may be an identifier and not a label: it has 400 distinct values in 400 records; "
        "name another"
    )
    assert remark in ended.out + ended.err
    ended = streamfl("replay", path, "--clients", 2, "--features", "rounds", "--label", "kind")
    assert "identifier" not in ended.out + ended.err
