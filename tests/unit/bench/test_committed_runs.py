"""What holds of the committed runs themselves; `make results-check` compares them with the pages."""

from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from streamfl_benchmarks import run_file
from streamfl_benchmarks.code import CODE, ROOT, digest
from streamfl_benchmarks.federated import BestInHindsight
from streamfl_benchmarks.methods import FEDERATIONS
from streamfl_benchmarks.one_by_one import Nearest
from streamfl_benchmarks.peers.registry import PEERS
from streamfl_benchmarks.regret import load
from streamfl_benchmarks.regret_players import STEPS as REGRET_STEPS
from streamfl_benchmarks.results import Results

RUNS = ROOT / "benchmarks" / "runs"


@pytest.mark.parametrize("path", sorted(RUNS.glob("*.json.gz")), ids=lambda path: path.name)
def test_a_committed_file_is_written_again_with_the_same_bytes(path: Path, tmp_path: Path) -> None:
    run_file.write(tmp_path / path.name, run_file.read(path))
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", CODE)
def test_the_code_that_runs_depend_on_is_there(name: str) -> None:
    assert len(digest(CODE[name])) == 64


def constants(variant: str) -> dict[str, float]:
    return {name: float(x) for name, _, x in (part.partition("=") for part in variant.split(","))}


# Axes on which the best may lie at an end: kinds of work, and those on which the end is another method's plain step.
ENDS = {"steps", "passes", "over_t", "by_client", "momentum", "beta1"}
TURNS_INTO = {
    "mu": "FedAvg as it falls",
    "tau": "FedAvg as it grows",
    "rho_scale": "a profile that never alarms, as it grows",
}
# Methods that were removed; the file still has their runs.
REMOVED = {"cbce"}
# No batch has fewer records, and fewer cannot vote.
NATURAL = {"batch": {1.0}, "k": {1.0}}


def variants(method: str) -> Iterable[str]:
    if method in PEERS:
        return PEERS[method].variants
    return Nearest().variants if method == "nearest-pooled" else cast(BestInHindsight, FEDERATIONS[method]).variants


@pytest.mark.parametrize("name", ["drift", "paper"])
def test_no_best_step_of_a_committed_run_is_at_the_edge_of_its_grid(name: str) -> None:
    at_edge = set()
    for run in Results.read(RUNS / f"{name}.json.gz").runs.values():
        if not run.variant or run.method in REMOVED:
            continue
        points = [constants(variant) for variant in variants(run.method)]
        best = constants(run.variant)
        assert any(set(best.items()) <= set(point.items()) for point in points), f"{run.key}: {run.variant}"
        for constant in best.keys() - ENDS - TURNS_INTO.keys():
            axis = {point[constant] for point in points}
            if best[constant] in {min(axis), max(axis)} - NATURAL.get(constant, set()):
                at_edge.add(f"{run.key}: {constant} {best[constant]:g}")
    assert at_edge == set()


def test_the_best_constant_of_the_regret_table_is_that_of_the_committed_runs() -> None:
    found = [m for _, m in load(RUNS / "regret.json.gz").values() if m.case.method == "constant"]
    assert {REGRET_STEPS[m.way] for m in found} == {10.0}
