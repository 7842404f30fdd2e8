"""`replay --compare`: a federation and what could replace it, on the same records in the same order."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli
from streamfl.records.table import Table
from streamfl.run.compare import Alternatives
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

LINEAR = ReplaySettings(learning=LearningSettings(features="linear"))


def records(n: int = 400, *, seed: int = 1, targets: bool = False) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + 5.0 if targets else (X[:, 0] > 0.0).astype(np.float64)
    return Table("t", ("a", "b"), X, y, () if targets else ("u", "v"), np.arange(n))


def uneven(table: Table) -> dict[str, Log]:
    """Deal a table to clients of which one has three in four records, and one a single one."""
    owner = np.where(np.arange(len(table)) % 4, 0, 1)
    owner[7] = 2
    return {f"c{i}": Log(np.flatnonzero(owner == i), table.y[owner == i]) for i in range(3)}


@pytest.mark.parametrize("targets", [False, True])
def test_every_way_predicts_every_record_of_every_client(targets: bool) -> None:
    table = records(targets=targets)
    told = Alternatives(table, uneven(table), LINEAR).compare()
    assert [(line.client, line.records) for line in told.clients] == [("c0", 299), ("c1", 100), ("c2", 1)]
    assert told.total.records == len(table)
    for line in (told.total, *told.clients):
        assert all(value is not None for value in line.model_dump().values())


def test_the_federation_and_no_change_have_the_figures_of_the_replay() -> None:
    table = records()
    logs = deal(table, 4, "round-robin", 0)
    result = Replay(table, logs, ReplaySettings(round_size=20, learning=LINEAR.learning)).run().result
    told = Alternatives(table, logs, LINEAR, round_size=20).compare()
    assert result.accuracy is not None
    assert (told.total.federated, told.total.no_change) == (result.accuracy.prequential, result.accuracy.no_change)


def test_a_client_alone_has_the_figures_of_its_own_replay() -> None:
    table = records()
    logs = deal(table, 4, "round-robin", 0)
    rows = logs["c2"].rows
    own = Table("t", table.features, table.X[rows], table.y[rows], table.labels, np.arange(len(rows)))
    result = (
        Replay(own, {"c2": Log(np.arange(len(rows)), own.y)}, ReplaySettings(round_size=20, learning=LINEAR.learning))
        .run()
        .result
    )
    alone = Alternatives(table, logs, LINEAR, round_size=20).alone()
    assert result.accuracy is not None
    assert 1.0 - alone["c2"].mean() == result.accuracy.prequential


def test_a_client_alone_has_no_columns_that_never_change_there() -> None:
    table = records(160)
    logs = deal(table, 4, "round-robin", 0)
    whose = np.eye(4)[np.arange(160) % 4]  # as where the column that names the client is a feature
    wide = replace(table, features=("a", "b", *"wxyz"), X=np.hstack([table.X, whose]))
    ferns = ReplaySettings(learning=LearningSettings(features="ferns"))
    narrow_missed, wide_missed = (Alternatives(each, logs, ferns).alone() for each in (table, wide))
    assert {name: own.tolist() for name, own in wide_missed.items()} == {
        name: own.tolist() for name, own in narrow_missed.items()
    }


def test_in_one_place_it_does_not_matter_whose_records_they_are() -> None:
    table = records()
    by_row = []
    for logs in (deal(table, 4, "round-robin", 0), uneven(table)):
        missed = np.empty(len(table))
        for name, own in Alternatives(table, logs, LINEAR).central().items():
            missed[logs[name].rows] = own
        by_row.append(missed.tolist())
    assert by_row[0] == by_row[1]


def test_a_static_model_learns_the_first_tenth_alone() -> None:
    table = records(500)
    y = np.where(np.arange(500) < 50, table.y, 1.0 - table.y)  # from then on labels are swapped
    swapped = Table("t", table.features, table.X, y, table.labels, table.places)
    ways = Alternatives(swapped, deal(swapped, 3, "round-robin", 0), LINEAR)
    static, central = (np.concatenate(list(missed.values())).mean() for missed in (ways.static(), ways.central()))
    assert static > 0.8
    assert central < 0.2


def test_the_result_the_report_and_the_console_have_the_comparison(tmp_path: Path) -> None:
    table = records(240)
    path, told, page = (tmp_path / name for name in ("sites.csv", "r.json", "r.html"))
    rows = [
        f"{a:.4f},{b:.4f},s{i % 3},{table.labels[int(y)]}"
        for i, ((a, b), y) in enumerate(zip(table.X, table.y, strict=True))
    ]
    path.write_text("\n".join(["a,b,site,label", *rows]) + "\n")
    words = ["replay", str(path), "--split", "column:site", "--features", "rounds", "--compare"]
    done = CliRunner().invoke(cli, [*words, "--json", str(told), "--report", str(page)], catch_exceptions=False)
    assert done.exit_code == 0
    comparison = json.loads(told.read_text())["comparison"]
    assert [line["client"] for line in comparison["clients"]] == ["site=s0", "site=s1", "site=s2"]
    assert [line.split()[:2] for line in done.output.splitlines() if line.startswith("site=")] == [
        [f"site=s{i}", "80"] for i in range(3)
    ]
    assert "no client has 200 records, so it is too early to tell" in done.output
    assert "Does federating help?" in page.read_text()
    sentences = CliRunner().invoke(cli, ["explain", str(told)]).output
    assert "Federating " in sentences


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--clients", "1"], "there is only one client"), (["--label-delay", "5"], "leave out --label-delay")],
)
def test_what_cannot_be_compared_is_an_error_before_anything_runs(
    tmp_path: Path, options: list[str], why: str
) -> None:
    path = tmp_path / "some.csv"
    path.write_text("a,label\n" + "1,u\n2,v\n" * 100)
    done = CliRunner().invoke(cli, ["replay", str(path), "--compare", *options])
    assert done.exit_code != 0
    assert why in str(done.exception)
    assert "round" not in done.output
