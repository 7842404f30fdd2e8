"""Runs on disk, and what is said of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from river_peers.methods import ISOLATED, MERGED, ONE
from river_peers.paired import Difference
from river_peers.plan import Wanted, wanted
from river_peers.results import Results, Run
from river_peers.shown import Found, rows, still_comparable
from streamfl.errors import UsageError
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

N = 300
ALL = np.ones(N, dtype=bool)


def finished(method: str, right: np.ndarray, *, variant: str = ONE, seed: int = 1, digest: str = "d1") -> Run:
    return Run(
        stream="s",
        digest=digest,
        records=len(right),
        method=method,
        variant=variant,
        seed=seed,
        accuracy=float(right.mean()),
        kappa=0.5,
        temporal_kappa=None,
        silent=1,
        cpu_seconds=0.1 if method.startswith("streamfl") else 0.5,
        wall_seconds=1.0,
        model_bytes=2_500_000,
        resident_bytes=7_000_000,
        versions=("river 0",),
    )


def kept(path: Path, *runs: tuple[Run, np.ndarray]) -> Results:
    results = Results(path)
    for run, right in runs:
        results.add(run, right)
    return results


def right(wrong: int) -> np.ndarray:
    """Return marks of which so many are wrong, spread evenly."""
    marks = ALL.copy()
    marks[:: N // wrong] = False
    return marks


def test_runs_are_found_again_bit_by_bit(tmp_path: Path) -> None:
    marks = np.random.default_rng(1).random(301) < 0.7  # not a multiple of eight
    run = finished("river-arf", marks)
    kept(tmp_path / "r.json", (run, marks))
    again = Results.read(tmp_path / "r.json")
    assert list(again.runs.values()) == [run]
    assert np.array_equal(again.right(run.key), marks)


def test_two_processes_add_to_one_file(tmp_path: Path) -> None:
    one, other = Results.read(tmp_path / "r.json"), Results.read(tmp_path / "r.json")
    one.add(finished("river-arf", ALL), ALL)
    other.add(finished("river-hat", ALL), ALL)
    one.add(finished("river-srp", ALL), ALL)
    assert {run.method for run in Results.read(tmp_path / "r.json").runs.values()} == {
        "river-arf", "river-hat", "river-srp"
    }  # fmt: skip


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("[{}]")
    with pytest.raises(UsageError, match="no runs of this benchmark"):
        Results.read(tmp_path / "r.json")


def test_only_our_own_methods_have_other_variants() -> None:
    runs = list(wanted(["s"], ["river-arf", "streamfl"], [ONE, MERGED, ISOLATED], [1]))
    assert runs == [
        Wanted("s", "river-arf", ONE, 1),
        Wanted("s", "streamfl", ONE, 1),
        Wanted("s", "streamfl", MERGED, 1),
        Wanted("s", "streamfl", ISOLATED, 1),
    ]


def test_other_records_under_the_same_name_are_not_mixed_in(tmp_path: Path) -> None:
    results = kept(
        tmp_path / "r.json",
        (finished("river-arf", right(60)), right(60)),
        (finished("river-arf", ALL, digest="d2"), ALL),
    )
    assert [run.accuracy for run in Found(results, {"s": "d1"}, [1]).runs("s", "river-arf")] == [0.8]
    assert [run.accuracy for run in Found(results, {"s": "d2"}, [1]).runs("s", "river-arf")] == [1.0]


def test_peers_are_compared_record_by_record(tmp_path: Path) -> None:
    results = kept(
        tmp_path / "r.json",
        (finished("river-arf", right(60)), right(60)),
        (finished("streamfl", right(30)), right(30)),
    )
    ours, theirs = rows(Found(results, {"s": "d1"}, [1]))
    assert (ours["method"], ours["ahead"]) == ("streamfl", {"mean": 0.0, "low": 0.0, "high": 0.0})
    assert (theirs["method"], theirs["accuracy"]) == ("river-arf", 0.8)
    assert theirs["ahead"] == pytest.approx({"mean": 0.1, "low": 0.1, "high": 0.1})


def test_seeds_are_averaged_record_by_record(tmp_path: Path) -> None:
    results = kept(
        tmp_path / "r.json",
        (finished("streamfl", ALL), ALL),
        (finished("streamfl", ~ALL, seed=2), ~ALL),
        (finished("river-arf", ALL), ALL),
        (finished("river-arf", ~ALL, seed=3), ~ALL),  # not asked for
    )
    found = Found(results, {"s": "d1"}, [1, 2]).difference("s", ("streamfl", ONE), ("river-arf", ONE))
    assert found == Difference(-0.5, -0.5, -0.5)


def row(stream: str, method: str, accuracy: float = 0.9, *, records: int = N) -> dict[str, Any]:
    same = {"stream": stream, "records": records, "variant": ONE, "seed": 1}
    return {**same, "method": method, "accuracy": accuracy}


SEA_AND_LED = [row(stream, method) for stream in ("sea", "led") for method in ("streamfl", "river-arf")]
OTHERS_OF_LED = [("led", "streamfl"), ("led", "river-arf")]


@pytest.mark.parametrize(
    ("now", "remaining"),
    [
        ([row("sea", "streamfl", 0.8), row("sea", "river-arf", 0.7)], OTHERS_OF_LED),
        ([row("sea", "streamfl", 0.8)], OTHERS_OF_LED),  # what it is ahead of is another run
        ([row("sea", "river-arf", records=N + 1)], OTHERS_OF_LED),
        ([row("sea", "streamfl")], [("sea", "river-arf"), *OTHERS_OF_LED]),
        ([row("sea", "river-hat")], [("sea", "streamfl"), ("sea", "river-arf"), *OTHERS_OF_LED]),
    ],
    ids=["a whole stream", "another streamfl", "other records", "the same streamfl", "another peer"],
)
def test_what_was_not_asked_for_stays_in_the_file(
    now: list[dict[str, Any]], remaining: list[tuple[str, str]]
) -> None:
    origin = Origin.now("river")
    left = still_comparable([Kept(origin, one) for one in SEA_AND_LED], now)
    assert [(one.run["stream"], one.run["method"]) for one in left] == remaining
