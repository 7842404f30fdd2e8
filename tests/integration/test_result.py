"""What a run says of itself: who drifted and what moved in one sentence, and how each client and label fared."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from streamfl.cli.main import cli

ROUND, ROUNDS, SITES = 40, 30, 12


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write records of twelve sites, a minute apart; from round 16 on, two sites label anew at a higher pressure."""
    rng = np.random.default_rng(0)
    n = ROUND * ROUNDS * SITES
    site, drifts = np.arange(n) % SITES, np.arange(n) >= ROUND * 15 * SITES
    Z = rng.normal(size=(n, 3))
    outputs = Z @ rng.normal(size=(3, 3)) + 0.2 * rng.normal(size=(n, 3))
    alone = drifts & (site < 2)
    outputs[alone] = outputs[alone][:, [1, 2, 0]]
    X = Z * [1.0, 10.0, 0.1] + [20.0, 100.0, 3.0]
    X[alone, 1] += 15.0
    times = np.datetime64("2026-03-01T00:00") + np.arange(n) * np.timedelta64(1, "m")
    rows = zip(times, site, X, outputs.argmax(axis=1), strict=True)
    lines = [f"{time},s{s}," + ",".join(f"{x:.4f}" for x in values) + f",{'uvw'[y]}" for time, s, values, y in rows]
    path = tmp_path_factory.mktemp("stream") / "sites.csv"
    path.write_text("\n".join(["when,site,temperature,pressure,flow,label", *lines]) + "\n")
    return path


@cache
def run(stream: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Replay the stream; return the result, and what was on the console."""
    told = stream.with_suffix(".json")
    rest = ["--time", "when", "--round-size", str(ROUND), "--features", "rounds", "--json", str(told), *options]
    done = CliRunner().invoke(cli, ["replay", str(stream), *rest], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(told.read_text()), done.output


def by_site(stream: Path) -> tuple[dict[str, Any], str]:
    return run(stream, "--label", "label", "--drop", "site", "--split", "column:site")


def test_a_local_drift_says_since_when_where_and_what_moved(stream: Path) -> None:
    result, console = by_site(stream)
    (change,) = result["changes"]
    # Round 16 begins with record 15 * 40 * 12 = 7200, five days after the first.
    assert (change["kind"], change["since"]) == ("local drift", 16)
    assert [moved["feature"] for moved in change["moved"]] == ["pressure"]
    assert change["moved"][0]["before"] == pytest.approx(100.0, abs=1.5)
    assert change["moved"][0]["since"] == pytest.approx(115.0, abs=3.0)
    assert (
        "but only at clients site=s0, site=s1 (found in round 16, 2026-03-06T07:59:00Z); on average, pressure rose"
        in change["sentence"]
    )
    assert change["sentence"] in console


def test_labels_that_are_exchanged_move_no_feature(stream: Path) -> None:
    result, console = run(stream, "--label", "label", "--drop", "site", "--clients", "6", "--inject", "class-swap@9")
    first = result["changes"][0]
    assert (first["kind"], first["since"], first["moved"]) == ("restart", 9, [])
    assert "; no feature moved, so the labels were probably exchanged: " in first["sentence"]
    assert result["restarts"][0]["renamed"] == {"u": "v", "v": "u"}
    assert first["sentence"] in console


def test_the_tables_have_every_record_of_the_headline(stream: Path) -> None:
    result, _ = by_site(stream)
    headline, clients, classes = result["accuracy"], result["by_client"], result["by_class"]
    right = round(headline["prequential"] * result["accepted"])
    assert len(clients["clients"]) == SITES
    assert [line["records"] for line in clients["clients"]] == [ROUND * ROUNDS] * SITES
    assert sum(round(line["prequential"] * line["records"]) for line in clients["clients"]) == right
    repeated = sum(round(line["no_change"] * line["records"]) for line in clients["clients"])
    assert repeated == round(headline["no_change"] * result["accepted"])
    assert sum(line["records"] for line in classes["classes"]) == result["accepted"]
    assert sum(round(line["recall"] * line["records"]) for line in classes["classes"]) == right
    matrix = np.array(classes["confusion"]["matrix"])
    assert (matrix.sum(), np.trace(matrix)) == (result["accepted"], right)
    # The two sites that drifted are worst.
    assert {line["client"] for line in clients["clients"][:2]} == {"site=s0", "site=s1"}


def test_targets_have_their_errors_by_client(stream: Path) -> None:
    result, _ = run(stream, "--label", "pressure", "--task", "regression", "--drop", "site,label", "--clients", "3")
    lines, accepted = result["by_client"]["clients"], result["accepted"]
    assert result["by_client"]["measure"] == "mae"
    assert "by_class" not in result
    assert sum(line["records"] for line in lines) == accepted
    for key in ("prequential", "no_change"):
        total = sum(line[key] * line["records"] for line in lines)
        assert total / accepted == pytest.approx(result["mae"][key], rel=1e-12)
