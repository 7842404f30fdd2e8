"""The table of the paper and its figure of losses, next to what runs here: the runs they take, and how they read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from streamfl_benchmarks.drift import Plan
from streamfl_benchmarks.run import Run

Column = tuple[str, str]  # a stream, and its drift
COLUMNS: tuple[Column, ...] = (
    ("covtype", "class-introduction"),
    ("covtype", "class-swap"),
    ("mnist", "class-introduction"),
    ("mnist", "class-swap"),
)
TITLES = {"class-introduction": "introduction", "class-swap": "swap"}


@dataclass(frozen=True, slots=True)
class Part:
    """A method of the paper: its figures there, in the order of COLUMNS, and ways to run it here.

    Parameters
    ----------
    name
        As the paper has it.
    theirs
        The paper's accuracies; none where the paper has no such method.
    ours
        What is different from way to way, and the method of `streamfl bench drift`.
    """

    name: str
    theirs: tuple[float, ...]
    ours: tuple[tuple[str, str], ...]


PARTS = (
    Part(
        "Master-FL, FedAvg",
        (0.874, 0.852, 0.719, 0.739),
        (
            ("as printed, from scratch", "paper"),
            ("as printed, warm", "paper-warm"),
            ("best step, from scratch", "paper-best"),
            ("best step, warm", "paper-warm-best"),
            ("best step, warm, L1 for L2", "paper-warm-l1"),
            ("step of 10, best factor of the tests, warm", "paper-warm-tuned"),
        ),
    ),
    Part(
        "Master-FL, FedOMD",
        (0.876, 0.864, 0.682, 0.780),
        (
            ("as printed, from scratch", "paper-fedomd"),
            ("as printed, warm", "paper-warm-fedomd"),
            ("best step, from scratch", "paper-fedomd-best"),
            ("best step, warm", "paper-warm-fedomd-best"),
        ),
    ),
    Part(
        "FedNova",
        (0.799, 0.753, 0.629, 0.644),
        (("step 1/sqrt(T)", "fednova-sqrt"), ("best step, momentum, pull and passes", "fednova")),
    ),
    Part(
        "FedProx",
        (0.673, 0.686, 0.577, 0.601),
        (("step 1/sqrt(T), best pull", "fedprox-sqrt"), ("best step and pull", "fedprox")),
    ),
    Part(
        "not in the paper",
        (),
        (
            ("FedAvg, step 1/sqrt(T)", "fedavg-sqrt"),
            ("FedAvg, best step", "fedavg"),
            ("FedAvg, 10 local steps, best step", "fedavg-10"),
            ("profile `adaptive`, with nothing to set", "adaptive"),
        ),
    ),
)
METHODS = tuple(method for part in PARTS for _, method in part.ours)

# What the figure shows: one line for each method of the paper, and ours.
DRAWN = ("adaptive", "paper-warm-best", "paper-warm-fedomd-best", "fednova", "fedprox")


def plan(
    data: Path | None,
    *,
    clients: int = 20,
    round_size: int = 1000,
    rounds: int = 500,
    seeds: tuple[int, ...] = (1,),
    methods: tuple[str, ...] = METHODS,
) -> Plan:
    """Return the runs: covtype, and MNIST if the directory `data` has it.

    >>> plan(None).streams, len(plan(None).drifts), len(plan(None).methods)
    (('covtype',), 2, 18)
    """
    there = data is not None and (data / "mnist.npz").exists()
    return Plan(
        streams=("covtype", "mnist") if there else ("covtype",),
        drifts=("class-introduction", "class-swap"),
        methods=methods,
        seeds=seeds,
        clients=clients,
        round_size=round_size,
        rounds=rounds,
        data=data,
    )


def table(runs: Iterable[Run]) -> str:
    """Return the paper's table as Markdown, next to the means of some runs over their seeds.

    The paper reports, as far as can be told, accuracy on the records that a round has just learnt; so each cell has
    the accuracy after the round, and then that before it.
    """
    by_cell: dict[tuple[Column, str], list[Run]] = {}
    for run in runs:
        by_cell.setdefault(((run.stream, run.drift), run.method), []).append(run)
    shown = [column for column in COLUMNS if any(cell[0] == column for cell in by_cell)]
    rows = [row for part in PARTS for row in _part(part, shown, by_cell)]
    head = ["method (seeds)", *(f"{stream}, {TITLES[drift]}" for stream, drift in shown)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _part(part: Part, shown: Sequence[Column], by_cell: Mapping[tuple[Column, str], list[Run]]) -> list[list[str]]:
    """Return the rows of a method of the paper, or none if nothing of it was run."""
    rows = []
    for label, method in part.ours:
        cells = [by_cell.get((column, method), []) for column in shown]
        if any(cells):
            rows.append([f"{label} ({_seeds(cells)})", *map(_cell, cells)])
    theirs = [f"**{part.theirs[COLUMNS.index(column)]:.3f}**" if part.theirs else "" for column in shown]
    return [[f"**{part.name}**{': the paper' if part.theirs else ''}", *theirs], *rows] if rows else []


def _cell(runs: Sequence[Run]) -> str:
    after = [run.accuracy.post_update for run in runs if run.accuracy.post_update is not None]
    before = [run.accuracy.prequential for run in runs if run.accuracy.prequential is not None]
    return f"{fmean(after):.3f}, {fmean(before):.3f}" if after and before else ""


def _seeds(cells: Sequence[Sequence[Run]]) -> str:
    counts = [len({run.seed for run in cell}) for cell in cells]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))
