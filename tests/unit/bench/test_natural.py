"""Natural federations: their records, the peers, and runs that are not repeated."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from streamfl.errors import UsageError
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl_benchmarks import origin, run_file
from streamfl_benchmarks.commands import federations
from streamfl_benchmarks.natural import runs
from streamfl_benchmarks.natural.fedavg import LinearFedAvg
from streamfl_benchmarks.natural.forest import forests
from streamfl_benchmarks.natural.sources import CLIENT, OF_THIS, TARGET, Source, sources
from streamfl_benchmarks.pages.federation_cells import Federation, counts


def test_a_file_of_a_folder_is_read_as_replay_reads_its_columns(tmp_path: Path) -> None:
    y, client = np.array(["u", "v", "u", "v"]), np.array(["n", "s", "n", "s"])
    N, S = np.array([[1.0], [2.0], [np.nan], [4.0]]), np.array([["x"], ["y"], ["x"], ["x"]])
    np.savez(tmp_path / "fed_valves.npz", N=N, names=np.array(["a"]), S=S, tnames=np.array(["b"]), y=y, client=client)
    table, logs = sources(tmp_path)["valves"].dealt(3)
    assert (table.labels, len(table), list(logs)) == (("u", "v"), 3, ["client=n", "client=s"])
    assert {"a", "b=x", "b=y"} < set(table.features)


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        sources(tmp_path)


@pytest.mark.parametrize("name", OF_THIS)
def test_every_record_of_what_is_at_hand_has_a_client_and_an_answer(name: str) -> None:
    frame = OF_THIS[name]()
    assert frame[CLIENT].n_unique() >= 4
    assert frame.select(CLIENT, TARGET).null_count().sum_horizontal().item() == 0


def dealt(*, targets: bool = False, n: int = 400) -> tuple[Table, dict[str, Log]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) * [1.0, 50.0]
    y = 7.0 + 3.0 * X[:, 0] if targets else (X[:, 0] > 0.0).astype(np.float64)
    table = Table("t", ("a", "b"), X, y, () if targets else ("u", "v"), np.arange(n))
    return table, {f"c{i}": Log(np.arange(i, n, 4), y[i::4]) for i in range(4)}


@pytest.mark.parametrize(("targets", "least"), [(False, 0.2), (True, 1.5)])
def test_fedavg_predicts_every_record_before_its_round_and_learns(targets: bool, least: float) -> None:
    table, logs = dealt(targets=targets)
    constants, missed = LinearFedAvg(table, logs).best()
    errors = np.concatenate(list(missed.values()))
    assert constants.steps in {1, 10}
    assert len(errors) == len(table)
    assert errors.mean() < least
    first = np.concatenate(
        [own[:10] for own in missed.values()]
    )  # before anything was learnt: one label, or the mean
    assert first.mean() > 2.0 * errors.mean()


@pytest.mark.parametrize("targets", [False, True])
def test_a_forest_predicts_every_record_and_begins_with_nothing(targets: bool) -> None:
    table, logs = dealt(targets=targets, n=80)
    missed = forests(table, logs, seed=1)
    assert {name: len(own) for name, own in missed.items()} == dict.fromkeys(logs, 20)
    assert [own[0] for own in missed.values()] == [abs(log.y[0]) if targets else 1.0 for log in logs.values()]


def test_a_finished_run_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def run(source: Source, seed: int, records: int | None) -> dict[str, Any]:
        made.append(source.name)
        total = {"records": 1, "federated": 0.5}
        return {"federation": source.name, "first": str(records), "seed": seed, "total": total, "clients": []}

    monkeypatch.setattr(runs, "run", run)
    some = [Source(name, pl.DataFrame) for name in ("a", "b")]
    path = tmp_path / "federations.json.gz"
    assert len(list(runs.make(some[:1], [0], 10, path))) == 1
    assert len(list(runs.make(some, [0], 10, path))) == 1
    assert made == ["a", "b"]
    assert [each.run["federation"] for each in run_file.read(path)] == ["a", "b"]
    assert not list(runs.make(some, [0], 10, path, renew=True))
    monkeypatch.setattr(origin, "is_of_today", lambda *_: False)
    assert len(list(runs.make(some[1:], [0], 10, path, renew=True))) == 1  # other code has made it
    assert made == ["a", "b", "b"]
    assert [each.run["federation"] for each in run_file.read(path)] == ["a", "b"]


def test_of_packages_the_first_records_are_used_and_files_are_used_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, int | None] = {}

    def run(source: Source, seed: int, records: int | None) -> dict[str, Any]:
        made[source.name] = records
        return {"federation": source.name, "first": str(records), "seed": seed, "total": {}, "clients": []}

    monkeypatch.setattr(runs, "run", run)
    (tmp_path / "fed_valves.npz").touch()
    words = [
        "--data",
        str(tmp_path),
        "--only",
        "valves,chicks",
        "--records",
        "300",
        "--json",
        str(tmp_path / "f.json"),
    ]
    assert CliRunner().invoke(federations, words, catch_exceptions=False).exit_code == 0
    assert made == {"valves": None, "chicks": 300}


def federation(measure: str, ours: float, alone: float, *clients: tuple[int, float, float]) -> Federation:
    lines = [
        {"client": f"client=c{i}", "records": n, "federated": f, "alone": a} for i, (n, f, a) in enumerate(clients)
    ]
    total = {"records": 1, "federated": ours, "alone": alone}
    return Federation({"federation": "f", "measure": measure, "total": total, "clients": lines})


def test_clients_with_few_records_are_not_called_worse() -> None:
    one = federation("accuracy", 0.9, 0.8, (200, 0.7, 0.71), (199, 0.1, 0.9))
    assert (one.worse_than_alone, one.worst) == ("0 of 1", "c0: -0.010")
    errors = federation("mae", 2.0, 2.0, (300, 2.1, 2.0), (300, 1.0, 2.0))
    assert (errors.worse_than_alone, errors.worst) == ("1 of 2", "c0: -5.0%")
    assert federation("mae", 1.0, 1.0, (10, 1.0, 1.0)).worse_than_alone == "none has 200 records"


def test_federations_are_counted_by_what_makes_a_difference() -> None:
    some = [federation("accuracy", 0.9, alone) for alone in (0.8, 0.897, 0.95)]
    assert counts([*some, federation("mae", 1.0, 1.04)], "alone") == "better on 2, level on 1, worse on 1"
