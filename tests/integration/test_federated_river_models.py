"""River models federated as a person does it: replayed, from the command line, and as an estimator."""

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from river import checks, linear_model, naive_bayes, optim, preprocessing, tree

from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.cli.main import main
from streamfl.errors import UsageError
from streamfl.models.river_models import Exported, RiverPass, merged, named
from streamfl.protocol.messages import OnlinePublished
from streamfl.records.files.readers import read
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, Replayed, ReplaySettings
from streamfl.run.settings import LearningSettings

SOFTMAX = "river:preprocessing.StandardScaler|linear_model.SoftmaxRegression(optim.SGD(0.1))"
LOGISTIC = "river:preprocessing.StandardScaler|linear_model.LogisticRegression"
CLIENTS, SIZE = 3, 25


def replayed(source: str, spec: Any, clients: int = CLIENTS) -> tuple[Replayed, list[Exported], Table]:
    """Return what a replay found, the state that was agreed on before each round, and the records."""
    table, states = read(source), {}

    def note(event: object) -> None:
        if isinstance(event, OnlinePublished):
            states[event.version] = event.agreed.state

    settings = ReplaySettings(round_size=SIZE, min_records=1, learning=LearningSettings(model=spec))
    run = Replay(table, deal(table, clients, "round-robin", 0), settings, note).run()
    return run, [states[t] for t in sorted(states)], table


def by_hand(table: Table, spec: str) -> tuple[list[Exported], int]:
    """Return the states that River models agree on which meet every 25 records, and how often they were right."""
    model: Any = named(spec)
    logs = deal(table, CLIENTS, "round-robin", 0)
    binary = len(table.labels) == 2
    states, right = [RiverPass(model, labels=table.labels if binary else None).export()], 0
    for start in range(0, max(len(log.rows) for log in logs.values()), SIZE):
        parts = []
        for name in sorted(logs):
            rows = logs[name].rows[start : start + SIZE]
            over = RiverPass(model, states[-1], labels=table.labels if binary else None)
            for row in rows:
                x = dict(zip(table.features, table.X[row].tolist(), strict=True))
                y = table.labels[int(table.y[row])]
                right += over.predict_one(x) == y
                over.learn_one(x, y)
            parts.append((over.export(), len(rows)))
        states.append(merged(parts, states[-1]))
    return states, right


def plain(state: Exported) -> dict[str, Any]:
    return {path: (t.rule, t.rows, t.columns, t.values.tolist()) for path, t in state.tables.items()}


@pytest.mark.parametrize(("source", "spec"), [("river:Phishing", LOGISTIC), ("river:ImageSegments", SOFTMAX)])
def test_a_replay_is_what_models_learn_that_meet_after_every_round(source, spec):
    run, states, table = replayed(source, spec)
    expected, right = by_hand(table, spec)
    assert [plain(state) for state in states] == [plain(state) for state in expected]
    # The very first records: nobody has said yet which labels there are.
    assert run.result.accuracy is not None
    assert abs(run.result.accuracy.prequential * run.result.records - right) <= CLIENTS
    assert run.result.unlearnt == 0
    assert run.result.model_sha256 == run.model.sha256


def test_text_and_estimator_are_the_same_model():
    runs = [replayed("river:Phishing", spec)[0] for spec in (LOGISTIC, named(LOGISTIC))]
    assert runs[0].result.model_sha256 == runs[1].result.model_sha256


def test_a_federated_river_model_learns_targets():
    run, states, _ = replayed(
        "river:ChickWeights", "river:preprocessing.StandardScaler|linear_model.LinearRegression"
    )
    assert run.result.mae is not None
    assert run.result.mae.prequential < run.result.mae.no_change
    assert len(states) == run.result.rounds + 1


# --- the command line ------------------------------------------------------------------------------------------

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def streamfl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["streamfl", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        return int(str(code or 0)), "".join(capsys.readouterr())

    return command


def test_a_replay_says_why_a_river_model_has_learnt_nothing(streamfl, tmp_path):
    with (tmp_path / "negative.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "y"), *((-i % 7 - 8, -i % 5 - 6, "uvw"[i % 3]) for i in range(120))])
    options = ("--clients", 2, "--model", "river:naive_bayes.MultinomialNB", "--json", tmp_path / "r.json")
    code, said = streamfl("replay", tmp_path / "negative.csv", *options)
    told = "one of the 120 records could be learnt by the model: what it learnt cannot be merged, because"
    assert (code, f"n{told}" in said) == (0, True)
    assert json.loads((tmp_path / "r.json").read_text())["unlearnt"] == 120
    assert f"N{told}" in streamfl("explain", tmp_path / "r.json")[1]


def test_replay_federates_a_river_model(streamfl, tmp_path):
    options = ("--clients", CLIENTS, "--round-size", SIZE, "--model", LOGISTIC, "--json", tmp_path / "r.json")
    code, said = streamfl("replay", "river:Phishing", *options)
    assert code == 0, said
    assert "StandardScaler | LogisticRegression 100%" in said
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["model_sha256"] == replayed("river:Phishing", LOGISTIC)[0].result.model_sha256
    assert (found["unlearnt"], found["accuracy"]["model_file"]) == (0, None)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("river:tree.HoeffdingTreeClassifier", "tree.HoeffdingTreeClassifier cannot be federated: trees grown on"),
        (
            "river:linear_model.SoftMax",
            "River has no linear_model.SoftMax; near it are linear_model.SoftmaxRegression",
        ),
        ("river:linear_model.LinearRegression", "LinearRegression is for regression, but the task is classification"),
        ("river:linear_model.LogisticRegression", "distinguishes two labels, but there are 7"),
        ("river:preprocessing.StandardScaler", "StandardScaler predicts nothing"),
        ("forest", "no model is called 'forest': use one of softmax, logistic, squared, huber, auto, river:NAME"),
    ],
)
def test_what_cannot_be_federated_is_refused_before_anything_runs(streamfl, tmp_path, spec, reason):
    written = tmp_path / "r.json"
    code, said = streamfl("replay", "river:ImageSegments", "--model", spec, "--json", written)
    assert (code, len(said.strip().splitlines()), written.exists()) == (2, 1, False)
    assert reason in said


def test_the_model_that_serves_cannot_be_written_by_model_out(streamfl, tmp_path):
    code, said = streamfl("replay", "river:Phishing", "--model", LOGISTIC, "--model-out", tmp_path / "m")
    assert code == 2
    assert "--model-out" in said
    assert not (tmp_path / "m").exists()


# --- the estimator ---------------------------------------------------------------------------------------------


def predictions(path: Path) -> dict[str, list[str]]:
    with path.open() as file:
        found = defaultdict(list)
        for line in csv.DictReader(file):
            found[line["client"]].append(line["predicted"])
        return found


@pytest.mark.parametrize(("source", "spec"), [("river:ImageSegments", SOFTMAX), ("river:Phishing", LOGISTIC)])
def test_the_estimator_predicts_what_the_replay_does(streamfl, tmp_path, source, spec):
    table = read(source)
    logs = deal(table, CLIENTS, "round-robin", 0)
    streamfl(
        "replay", source, "--clients", CLIENTS, "--round-size", SIZE, "--model", spec, "--predictions", tmp_path / "p"
    )
    expected = predictions(tmp_path / "p")
    model = MasterFLClassifier(round_size=SIZE, client="client", model=spec)
    of = {int(row): name for name, log in logs.items() for row in log.rows}
    found = defaultdict(list)
    for row in range(len(table)):
        x = dict(zip(table.features, table.X[row].tolist(), strict=True)) | {"client": of[row]}
        found[of[row]].append(model.predict_one(x) or "")
        model.learn_one(x, table.labels[int(table.y[row])])
    # A client that has no record yet is answered for by the first one.
    assert {name: said[1:] for name, said in found.items()} == {name: said[1:] for name, said in expected.items()}
    assert model.summary["serving"] == {str(named(spec)): 1.0}


@pytest.mark.full
@pytest.mark.parametrize(
    "model",
    [
        MasterFLClassifier(round_size=20, model=SOFTMAX),
        MasterFLClassifier(round_size=20, model=preprocessing.StandardScaler() | naive_bayes.GaussianNB()),
        MasterFLRegressor(round_size=20, model="river:preprocessing.StandardScaler|linear_model.LinearRegression"),
    ],
    ids=str,
)
def test_an_estimator_with_a_river_model_passes_rivers_own_checks(model):
    for check in checks.yield_checks(model):
        if check.__name__ not in model._unit_test_skips():
            check(model.clone())


def test_a_clone_of_an_estimator_with_a_river_model_shares_nothing_with_it():
    model = MasterFLClassifier(round_size=2, model=linear_model.PAClassifier())
    for i in range(6):
        model.learn_one({"x": float(i % 2)}, bool(i % 2))
    fresh = model.clone()
    assert fresh.model is not model.model
    assert fresh.predict_one({"x": 1.0}) is None
    assert model.predict_one({"x": 1.0}) is True


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: MasterFLClassifier(model=tree.HoeffdingTreeClassifier()), "cannot be federated"),
        (lambda: MasterFLRegressor(model="river:naive_bayes.GaussianNB"), "is for classification"),
        (lambda: MasterFLClassifier(model="river:naive_bayes.Gauss"), "River has no"),
    ],
)
def test_an_estimator_refuses_a_model_that_cannot_be_federated_when_it_is_made(made, reason):
    with pytest.raises(UsageError, match=reason):
        made()


def test_an_estimator_with_a_river_model_continues_identically_after_save_and_load(tmp_path):
    table = read("river:Phishing")
    records = [dict(zip(table.features, row, strict=True)) for row in table.X.tolist()]
    labels = [table.labels[int(code)] for code in table.y]
    model = MasterFLClassifier(round_size=SIZE, model=LOGISTIC)
    for x, y in zip(records[:310], labels[:310], strict=True):
        model.learn_one(x, y)
    model.save(tmp_path / "saved")
    again = MasterFLClassifier.load(tmp_path / "saved")
    for x, y in zip(records[310:500], labels[310:500], strict=True):
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y)
        again.learn_one(x, y)
    given = MasterFLClassifier(model=linear_model.LogisticRegression(optim.SGD(0.1)))
    with pytest.raises(UsageError, match="give it as text"):
        given.save(tmp_path / "other")
