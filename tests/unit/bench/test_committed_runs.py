"""What the documents say of the drift benchmark, held against the runs that are committed."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from streamfl_benchmarks.comparison import Estimate, over_seeds, paired
from streamfl_benchmarks.methods import STEPS
from streamfl_benchmarks.peers.registry import PEERS
from streamfl_benchmarks.regret import load
from streamfl_benchmarks.regret_players import STEPS as REGRET_STEPS
from streamfl_benchmarks.results import Results
from streamfl_benchmarks.run import PENALTY, Run

ROOT = Path(__file__).parents[3]
DRIFTS = {"class swap": "class-swap", "introduction": "class-introduction", "permutation": "permutation"}
NOT_KEPT = "runs not kept"

REGRET_ENDS = [("abrupt", 2**7), ("abrupt", 2**14), ("moving", 2**7), ("moving", 2**14)]

# The rows of both tables by what is before their brackets.
METHODS = {
    "adaptive, `--features auto`": "adaptive-auto",
    "adaptive": "adaptive",
    "adaptive-auto": "adaptive-auto",
    "adaptive that never alarms": "adaptive-never",
    "adaptive with plain steps": "adaptive-plain",
    "adaptive with plain steps that never alarms": "adaptive-plain-never",
    "adaptive with GLR": "adaptive-glr",
    "adaptive with FedOMD": "adaptive-fedomd",
    "adaptive with FedOMD, p-norms": "adaptive-fedomd",
    "experts": "experts",
    "a Newton step with forgetting": "newton",
    "whitened FedAvg + GLR": "whitened-glr",
    "FedAvg + ADWIN": "fedavg-adwin",
    "FedAvg + GLR": "fedavg-glr",
    "FedAvg, 1 step": "fedavg",
    "FedAvg, 3 steps": "fedavg-3",
    "FedAvg, 10 steps": "fedavg-10",
    "FedAvg, 10 local steps": "fedavg-10",
    "FedAvg, 1/sqrt(T)": "fedavg-sqrt",
    "FedProx": "fedprox",
    "FedNova": "fednova",
    "FedAdagrad": "fedadagrad",
    "FedYogi": "fedyogi",
    "FedAdam": "fedadam",
    "CBCE": "cbce",
    "Adaptive-FedAvg": "adaptive-fedavg",
    "oracle restarts": "oracle",
    "oracle: FedAvg restarted at every drift": "oracle",
    "calibrated, since removed": "calibrated",
    "paper": "paper",
    "the paper as printed": "paper",
    "paper, warm": "paper-warm",
    "paper, best step, from scratch": "paper-best",
    "paper, best step, warm": "paper-warm-best",
    "paper with FedOMD, p-norms": "paper-fedomd",
    "limit": "limit",
    "limit: the best linear model of each concept, in hindsight": "limit",
}


@cache
def committed() -> tuple[Run, ...]:
    return tuple(Results.read(ROOT / "benchmarks" / "runs" / "drift.json").runs.values())


@cache
def kept(method: str, drift: str) -> Mapping[int, float]:
    """Return the accuracy of each seed on covtype, 100 records a client, 500 rounds."""
    found = {}
    for run in committed():
        size = (run.stream, run.condition, run.clients, run.round_size, run.rounds, run.l2)
        if (run.method, run.drift, *size) == (method, drift, "covtype", "plain", 20, 100, 500, PENALTY):
            assert run.accuracy.prequential is not None
            found[run.seed] = run.accuracy.prequential
    return found


def no_change(drift: str) -> str:
    alike = ("covtype", "plain", 20, 100, 500, PENALTY, drift, "adaptive")
    found = [
        run.accuracy.no_change or 0.0
        for run in committed()
        if (run.stream, run.condition, run.clients, run.round_size, run.rounds, run.l2, run.drift, run.method)
        == alike
    ]
    return f"{fmean(found):.3f}"


def told(estimate: Estimate | None) -> str:
    return "" if estimate is None else estimate.text


def accuracy(method: str, drift: str) -> str:
    values = kept(method, drift)
    return told(over_seeds(list(values.values())) if values else None)


def behind(method: str, drift: str) -> str:
    """Return by how much `adaptive` is better, over the same seeds."""
    own, ours = kept(method, drift), kept("adaptive", drift)
    seeds = [seed for seed in own if seed in ours]
    if method == "adaptive" or not seeds:
        return ""
    return told(paired([ours[s] for s in seeds], [own[s] for s in seeds]))


def seeds(method: str) -> str:
    """Return how many seeds each column has: one number if that is the same in all.

    >>> seeds("adaptive")
    '5'
    """
    counts = [len(kept(method, drift)) for drift in DRIFTS.values()]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def rows(path: str, after: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the first table after a line that begins so, by the table's own headings."""
    lines = (ROOT / path).read_text().partition(f"\n{after}")[2].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    head, _, *body = (line for line in lines[first : next(i for i in range(first, len(lines)) if not lines[i])])
    names = cells(head)
    for line in body:
        yield dict(zip(names, cells(line), strict=True))


def cells(line: str) -> list[str]:
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]


RESULTS = list(rows("docs/results.md", "## Drift, beside everybody"))
ELEC2 = [row for row in rows("docs/results.md", "**Elec2 as it") if not row["method"].startswith("NoChange")]
README = list(rows("README.md", "`make demo` needs"))


@pytest.mark.parametrize("row", RESULTS, ids=lambda row: next(iter(row.values())))
def test_a_row_of_the_results_is_the_mean_of_the_committed_runs_and_says_how_many(row: Mapping[str, str]) -> None:
    first, *_ = row.values()
    label, _, rest = first.partition(" (")
    if label == "NoChange":
        assert [row[column] for column in DRIFTS] == [no_change(drift) for drift in DRIFTS.values()]
        return
    method, said = METHODS[label], rest.partition(")")[0]
    if said == NOT_KEPT:
        assert not any(kept(method, drift) for drift in DRIFTS.values())
        return
    assert said == seeds(method)
    assert [row[column] for column in DRIFTS] == [accuracy(method, drift) for drift in DRIFTS.values()]
    assert row["adaptive is better by"] == behind(method, "class-swap")


@pytest.mark.parametrize("row", README, ids=lambda row: row["method"])
def test_a_row_of_the_readme_is_the_mean_of_the_committed_runs_and_says_how_many(row: Mapping[str, str]) -> None:
    named = list(zip(("class swap", "class introduction", "fresh permutations"), DRIFTS.values(), strict=True))
    if row["method"].startswith("NoChange"):
        assert [row[column] for column, _ in named] == [no_change(drift) for _, drift in named]
        return
    method = METHODS[row["method"]]
    assert row["seeds"] == seeds(method)
    for column, drift in named:
        digits = len(row[column].partition(".")[2])
        assert row[column] == f"{fmean(kept(method, drift).values()):.{digits}f}"


@pytest.mark.parametrize("row", ELEC2, ids=lambda row: row["method"])
def test_a_row_of_elec2_is_the_committed_run(row: Mapping[str, str]) -> None:
    alike = ("elec2.npz", "recorded", 4, METHODS[re.split("[:(]|, with", row["method"].strip("*"))[0]])
    for column, size in (("rounds of 10", 10), ("25", 25), ("100", 100)):
        (run,) = (r for r in committed() if (r.stream, r.drift, r.clients, r.method, r.round_size) == (*alike, size))
        assert row[column].strip("*").partition(" ")[0] == f"{run.accuracy.prequential:.4f}"


def constants(run: Run) -> dict[str, float]:
    return {name: float(x) for name, _, x in (part.partition("=") for part in run.variant.split(","))}


# Axes on which the best may lie at an end: kinds of work, and those on which the end is another method's plain step.
ENDS = {"steps", "passes", "warm", "over_t", "by_client", "momentum", "beta1"}
TURNS_INTO = {"mu": "FedAvg as it falls", "tau": "FedAvg as it grows", "epsilon": "FedAvg as it grows"}


def test_no_best_step_of_a_committed_run_is_at_the_edge_of_its_grid() -> None:
    at_edge = set()
    for run in committed():
        if not run.variant:
            continue
        spec = PEERS.get(run.method)
        points = spec.variants.values() if spec is not None else [{"step": s} for s in STEPS]
        best = constants(run)
        assert any(set(best.items()) <= set(point.items()) for point in points), f"{run.key}: {run.variant}"
        for name in best.keys() - ENDS - TURNS_INTO.keys():
            axis = {point[name] for point in points}
            if best[name] in (min(axis), max(axis)):
                at_edge.add(f"{run.key}: {name} {best[name]:g}")
    assert at_edge == set()


def test_the_best_constant_of_the_regret_table_is_that_of_the_committed_runs() -> None:
    found = [m for m in load(ROOT / "benchmarks" / "runs" / "regret.json") if m.case.method == "constant"]
    assert {REGRET_STEPS[m.way] for m in found} == {10.0}
    row = next(
        row for row in rows("docs/results.md", "## Dynamic regret") if row["method"].startswith("best constant")
    )
    told = ", ".join([*list(row.values())[1].split(", "), *list(row.values())[3].split(", ")])
    of = [[m.regret for m in found if (m.case.stream, m.case.rounds) == at] for at in REGRET_ENDS]
    assert told == ", ".join(f"{fmean(values):.1f}" for values in of)
    assert {len(values) for values in of} == {5}


def test_the_reader_of_tables_reads_a_table() -> None:
    assert re.fullmatch(r"\d\.\d{4} ± \d\.\d{4}", accuracy("adaptive", "class-swap"))
    assert RESULTS[0]["class swap"] == accuracy("adaptive", "class-swap")
    assert [row["method"].partition(":")[0] for row in README][-1] == "NoChange"
    assert (len(README), len(RESULTS) > 30) == (5, True)
