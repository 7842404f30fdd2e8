"""`streamfl predict`: a saved model and a file without labels, in batches."""

import csv
import gzip
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from streamfl.cli.main import main
from streamfl.protocol.messages import DecisionRule
from streamfl.protocol.registry import Registry, TargetUnit
from streamfl.run.model_file import ServedModel
from streamfl.run.predictions.predict import ahead

# Predicts "yes" where x > 0; being red is worth 10.
LABELS = ServedModel(
    "classification",
    "softmax",
    Registry(1, ("x", "colour=blue", "colour=red"), ("no", "yes"), np.zeros(3), np.ones(3)),
    np.array([[-1.0, 1.0], [0.0, 0.0], [-5.0, 5.0], [0.0, 0.0]]),
    categories={"colour": ("blue", "red")},
    label="kind",
    left_out=("when",),
)
# Predicts 2 x + 1.
TARGETS = ServedModel(
    "regression",
    "squared",
    Registry(1, ("x",), (), np.zeros(1), np.ones(1), TargetUnit(1.0, 2.0)),
    np.array([[1.0], [0.0]]),
    label="y",
)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Predict = Callable[..., Ended]


@pytest.fixture
def predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Predict:
    """Run `streamfl predict FILE --model labels ...` in a folder with both models."""
    monkeypatch.chdir(tmp_path)
    LABELS.save("labels")
    TARGETS.save("targets")
    BRANCHED.save("branched")

    def command(file: str, *arguments: str, model: str = "labels") -> Ended:
        monkeypatch.setattr(sys, "argv", ["streamfl", "predict", file, "--model", model, *arguments])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return command


# Turns LABELS round for the client `site=east`.
BRANCHED = replace(
    LABELS, branches={"site=east": -LABELS.weights}, client_column="site", clients=("site=east", "site=west")
)


RECORDS: list[dict[str, Any]] = [
    {"x": 2.0, "colour": "blue", "when": "2026-11-23"},
    {"x": -2.0, "colour": "red", "when": "2026-11-23"},
    {"x": -2.0, "colour": "green", "when": "2026-11-23"},
    {"x": None, "colour": "red", "when": "2026-11-23"},
]
PREDICTED = ["yes", "yes", "no", "yes"]


def written(ending: str) -> str:
    """Write the records in a form, and return the file's name."""
    name, frame = f"records{ending}", pl.DataFrame(RECORDS)
    match ending:
        case ".csv":
            frame.write_csv(name)
        case ".csv.gz":
            Path(name).write_bytes(gzip.compress(frame.write_csv().encode()))
        case ".jsonl":
            Path(name).write_text("\n".join(map(json.dumps, RECORDS)))
        case ".parquet":
            frame.write_parquet(name)
    return name


def test_a_model_with_a_rule_of_decision_tells_the_label_that_answers_and_how_probable_that_is(predict: Predict):
    replace(LABELS, decision=DecisionRule(weights={"no": 1000.0})).save("rule")
    Path("x.csv").write_text("x,colour\n2.0,blue\n9.0,blue\n")
    lines = [json.loads(line) for line in predict("x.csv", "--json", "-", model="rule").out.splitlines()]
    p = 1.0 / (1.0 + np.exp(-2.0 * 2.0))
    assert lines[0] == {"record": 0, "predicted": "no", "probability": pytest.approx(1.0 - p, abs=1e-6)}
    assert lines[1]["predicted"] == "yes"


@pytest.mark.process
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet"])
def test_a_file_of_any_form_is_predicted_without_labels(ending: str, predict: Predict):
    ended = predict(written(ending), "--json", "-")
    assert ended.code == 0
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["predicted"] for line in lines] == PREDICTED
    assert [line["record"] for line in lines] == [0, 1, 2, 3]
    assert lines[0]["probability"] == pytest.approx(1.0 / (1.0 + np.exp(-4.0)), abs=1e-6)


def test_an_npz_file_that_ends_early_is_an_error_of_one_line(predict: Predict, tmp_path: Path):
    with zipfile.ZipFile("records.npz", "w") as file, file.open("X.npy", "w") as member:
        header = {"descr": "<f8", "fortran_order": False, "shape": (5, 1)}
        np.lib.format.write_array_header_1_0(member, header)  # type: ignore[arg-type]
        member.write(np.ones(3).tobytes())
    ended = predict("records.npz", "--unknown", "ignore", model="targets")
    assert ended.code == 2
    assert "its array 'X' ends after record 3 of 5; get a complete copy of the file" in ended.err
    assert "Traceback" not in ended.err


def test_an_npz_file_needs_no_y(predict: Predict):
    X = np.array([[2.0], [-2.0], [np.inf]])
    np.savez("records.npz", X=X, features=np.array(["x"]))
    ended = predict("records.npz", model="targets")
    assert ended.out == "record,predicted\n0,5.0\n1,-3.0\n2,1.0\n"
    np.savez("records.npz", X=X, y=np.array([5.0, -4.0, 1.0]), features=np.array(["x"]))
    ended = predict("records.npz", "--label", "y", model="targets")
    assert (ended.out, "MAE        0.3333  NoChange 7\n" in ended.err) == ("", True), ended.err


def test_with_a_label_accuracy_is_told_beside_no_change_and_bad_records_are_counted(predict: Predict):
    rows = ["x,colour,kind", "1,blue,yes", "much,blue,no", "-1,blue,no", "-1,blue,", "-1,blue,no", "-1,red,no", "1"]
    Path("records.csv").write_text("\n".join(rows) + "\n")
    ended = predict("records.csv", "--label", "kind", "--csv", "told.csv")
    assert ended.code == 0
    told = list(csv.DictReader(Path("told.csv").read_text().splitlines()))
    assert [(row["record"], row["label"], row["predicted"]) for row in told] == [
        ("0", "yes", "yes"),
        ("1", "no", told[1]["predicted"]),
        ("2", "no", "no"),
        ("4", "no", "no"),
        ("5", "no", "yes"),
    ]
    odd = 'column x: 1 cell (line 3) is not a number and counts as missing, such as "much"'
    for line in ("rejected   2 records", odd, "line 8: it has 1 field, but"):
        assert line in ended.err
    stopped = predict("records.csv", "--label", "kind", "--on-bad-record", "stop")
    assert (stopped.code, 'line 3, column "x"' in stopped.err) == (2, True)


def test_blocks_are_predicted_as_one_file(predict: Predict):
    rng = np.random.default_rng(1)
    x = rng.normal(size=20_000).round(3)
    y = np.where(x > 0.0, "yes", "no")
    rows = [f"{a},blue,{b}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    Path("records.csv").write_text("\n".join(["x,colour,kind", *rows]) + "\n")
    ended = predict("records.csv", "--label", "kind", "--json", "-", "--missing-columns", "refuse")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["record"] for line in lines] == list(range(20_000))
    right = np.mean([line["predicted"] == line["label"] for line in lines])
    repeated = np.mean(y[1:] == y[:-1]) * 19_999 / 20_000
    assert right > 0.99
    assert f"accuracy   {right:.3f}  NoChange {repeated:.3f}" in ended.err


def test_columns_that_do_not_fit_are_refused_or_filled_as_asked(predict: Predict):
    Path("records.csv").write_text("x,weight\n1,5\n-1,5\n")
    ended = predict("records.csv")
    assert (ended.code, ended.out) == (2, "")
    assert "the model does not know weight; it knows x, colour; leave them out, or add --unknown ignore" in ended.err
    ended = predict("records.csv", "--unknown", "ignore")
    assert [line.split(",")[1] for line in ended.out.splitlines()[1:]] == ["yes", "no"]
    assert "colour of the model's features are missing and count as their means" in ended.err
    assert "colour" not in predict("records.csv", "--drop", "weight", "--missing-columns", "mean").err
    ended = predict("records.csv", "--drop", "weight", "--missing-columns", "refuse")
    assert (ended.code, "colour of the model's features are missing; add them" in ended.err) == (2, True)


def test_each_row_is_predicted_for_the_client_that_its_column_names(predict: Predict):
    bad, rows = "2,red", ["2,blue,west", "2,blue,east", "-2,blue,east"]
    Path("rows.csv").write_text("\n".join(["x,colour,site", rows[0], bad, *rows[1:]]) + "\n")
    ended = predict("rows.csv", model="branched")
    assert [line.split(",")[1] for line in ended.out.splitlines()[1:]] == ["yes", "no", "yes"]
    for name in ("east", "site=east"):
        ended = predict("rows.csv", "--client", name, model="branched")
        assert [line.split(",")[1] for line in ended.out.splitlines()[1:]] == ["no", "no", "yes"]
    assert "nothing says" not in ended.err
    refused = predict("rows.csv", "--client", "East", model="branched")
    assert (refused.code, "the run had no such client; its clients are site=east, site=west" in refused.err) == (
        2,
        True,
    )
    for name in ("west", ""):  # not one that drifted
        ended = predict("rows.csv", "--client", name, model="branched")
        assert [line.split(",")[1] for line in ended.out.splitlines()[1:]] == ["yes", "yes", "no"]
        assert "no client" not in ended.err
    Path("typo.csv").write_text("x,colour,site\n2,blue,west\n2,blue,East\n2,blue,\n")
    assert "the run had no client called East, which column 'site' names" in predict("typo.csv", model="branched").err
    Path("whose.csv").write_text("x,colour\n2,blue\n")
    ended = predict("whose.csv", model="branched")
    assert "there is no way to tell which records belong to site=east" in ended.err
    assert "column 'site' would, but is missing; if all records belong to one client, add --client" in ended.err


def test_a_name_that_is_unknown_may_come_late(predict: Predict):
    lines = [json.dumps({"x": 1, "colour": "red"})] * 9000 + [json.dumps({"x": 1, "colour": "red", "late": 1})]
    Path("records.jsonl").write_text("\n".join(lines))
    ended = predict("records.jsonl")
    assert (ended.code, "the model does not know late" in ended.err) == (2, True)
    ended = predict("records.jsonl", "--unknown", "ignore")
    assert (ended.code, ended.out.count("\n")) == (0, 9002)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.csv",), "none.csv: no such file"),
        (("river:Phishing",), "river:Phishing: no such file"),
        (("records.csv", "--csv", "records.csv"), "this is the input file"),
        (("records.csv", "--csv", "labels"), "is the model file"),
        (("records.csv", "--json", "no/such/place"), "in a directory that exists"),
        (("records.csv", "--json", "-", "--csv", "-"), "are both written to -"),
        (("records.csv", "--label", "size"), "no column 'size'"),
        (("empty.csv",), "none of its 1 records can be used"),
    ],
)
def test_what_cannot_be_done_ends_in_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, predict: Predict
):
    written(".csv")
    Path("empty.csv").write_text("x,colour\nmuch\n")
    ended = predict(*arguments)
    assert (ended.code, said in ended.err) == (2, True), ended.err
    assert ended.err.count("\n") == 1


def test_a_model_predicts_the_file_that_it_was_trained_on(
    predict: Predict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Dropped columns, times, texts and the label are where they were; the model has them all in its file."""
    rng = np.random.default_rng(7)
    rows = ["id,at,x,colour,free,kind"]
    for i in range(900):
        x, colour = rng.normal(), rng.choice(["blue", "red", "green"])
        kind = "a" if x + 2 * (colour == "red") > 1 else "b"
        rows.append(f"{i},2026-11-{1 + i % 28:02d} 10:00,{x:.4f},{colour},text {i},{kind}")
    Path("stream.csv").write_text("\n".join(rows) + "\n")
    argv = "streamfl replay stream.csv --drop id --time at --clients 3 --model-out made --json told.json"
    monkeypatch.setattr(sys, "argv", argv.split())
    main()
    capsys.readouterr()
    ended = predict("stream.csv", "--label", "kind", "--missing-columns", "refuse", model="made")
    assert ended.code == 0, ended.err
    told = json.loads(Path("told.json").read_text())["accuracy"]
    right = float(ended.err.split("accuracy   ")[1].split()[0])
    assert right == pytest.approx(told["model_file"], abs=0.05)
    assert right > 0.9
    assert "from stream.csv, 900 records; there its accuracy was" in ended.err


def test_blocks_are_read_a_few_ahead_and_given_back_in_order():
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(20):
            read.append(i)
            yield i

    with ThreadPoolExecutor(2) as pool:
        found = [(len(read), item, square) for item, square in ahead(pool, lambda i: i * i, items(), 3)]
    assert [(item, square) for _, item, square in found] == [(i, i * i) for i in range(20)]
    assert [count for count, *_ in found] == [min(4 + i, 20) for i in range(20)]
