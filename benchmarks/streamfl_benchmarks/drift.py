"""Methods x streams x seeds: independent runs, several at a time, each kept as soon as it has finished."""

from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streamfl.records.table import Table
from streamfl_benchmarks import methods
from streamfl_benchmarks.drawn import RECORDED, DrawnStream, default_at
from streamfl_benchmarks.features import prepared
from streamfl_benchmarks.processes import pool
from streamfl_benchmarks.recorded import rounds_recorded
from streamfl_benchmarks.records import Drawn
from streamfl_benchmarks.results import Results
from streamfl_benchmarks.run import PENALTY, Finished, Run, key


@dataclass(frozen=True)
class Plan:
    """The methods to compare, and the streams.

    Parameters
    ----------
    streams, drifts, conditions, methods, seeds
        Every combination is one run.
    at
        The rounds of the drifts; None takes those of the paper, or what fits the kind of drift.
    clients, round_size, rounds
        The size of each stream, as in `DrawnStream`; a recorded one may be shorter.
    l2
        Weight of the penalty, the same for all methods.
    data
        A directory that holds covtype.npz and mnist.npz.
    """

    streams: tuple[str, ...]
    drifts: tuple[str, ...]
    methods: tuple[str, ...]
    conditions: tuple[str, ...] = ("plain",)
    seeds: tuple[int, ...] = (1,)
    at: tuple[int, ...] | None = None
    clients: int = 20
    round_size: int = 1000
    rounds: int = 500
    l2: float = PENALTY
    data: Path | None = None

    def jobs(self) -> list["Job"]:
        """Return all runs, those of one stream and seed together.

        Raises
        ------
        UsageError
            If one of them cannot be run.
        """
        methods.check(self.methods)
        return [
            Job(stream, method, self.data, self.l2)
            for name in self.streams
            for stream in self._drawn(name, prepared(name, self.data))
            for method in self.methods
        ]

    def _drawn(self, name: str, table: Table) -> list[DrawnStream]:
        found = []
        for drift, condition, seed in product(self.drifts, self.conditions, self.seeds):
            at = self.at
            if at is None:
                at = default_at(name, drift, self.rounds, len(table.labels))
            rounds = self._rounds(drift, table)
            stream = DrawnStream(name, drift, at, condition, self.clients, self.round_size, rounds, seed)
            stream.check(table)
            found.append(stream)
        return found

    def _rounds(self, drift: str, table: Table) -> int:
        there = rounds_recorded(table, self.clients, self.round_size)
        return min(self.rounds, there) if drift == RECORDED else self.rounds


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make."""

    stream: DrawnStream
    method: str
    data: Path | None
    l2: float = PENALTY
    variant: str | None = None  # the constants to run with; None tries all, if the method has a grid

    @property
    def key(self) -> str:
        """Return the name of the run."""
        return key(self.stream, self.method, self.l2)

    def run(self) -> Finished:
        """Draw the stream, unless the last run of this process had the same, and run the method over it."""
        return methods.run(self.method, _drawn(self.stream, self.data), self.l2, self.variant)


@lru_cache(maxsize=1)
def _drawn(stream: DrawnStream, data: Path | None) -> Drawn:
    return Drawn.of(stream, _table(stream.stream, data))


@lru_cache(maxsize=1)
def _table(stream: str, data: Path | None) -> Table:
    return prepared(stream, data)


def run_all(
    jobs: Sequence[Job], results: Results, console: Console, *, processes: int, losses: bool = False
) -> list[Run]:
    """Make the runs that are missing in the results, and return those of all jobs.

    Parameters
    ----------
    jobs
        The wanted runs.
    results
        The finished runs; each new run is added when it has finished.
    console
        The console for progress.
    processes
        The number of parallel runs; each has one BLAS thread, so more than there are cores does not help.
    losses
        Whether to keep the losses of each round, which a figure needs, and to repeat runs that lack them.
    """
    missing = [
        replace(job, variant=results.variant(job.key)) for job in jobs if not results.has(job.key, losses=losses)
    ]
    with _progress(console) as progress:
        task = progress.add_task("runs", total=len(jobs), completed=len(jobs) - len(missing))
        for finished in _finished(missing, processes):
            results.add(finished, losses=losses)
            progress.advance(task)
            console.print(progress_line(finished.run), highlight=False, soft_wrap=True, markup=False)
    return [results.runs[job.key] for job in jobs]


def _finished(jobs: Sequence[Job], processes: int) -> Iterator[Finished]:
    if not jobs:
        return
    executor = pool(min(processes, len(jobs)))
    try:
        for future in as_completed([executor.submit(Job.run, job) for job in jobs]):
            yield future.result()
    finally:
        executor.shutdown(cancel_futures=True)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)


def progress_line(run: Run) -> str:
    """Return a run as one line of progress."""
    accuracy = run.accuracy
    constants = f" ({run.variant})" if run.variant else ""
    found = ", ".join("-" if d is None else str(d) for d in run.detections)
    alarms = f"restarts {len(run.restarts)}" if run.false_alarms is None else f"false alarms {run.false_alarms}"
    return (
        f"{run.key}{constants}  accuracy {accuracy.prequential:.4f}  NoChange {accuracy.no_change:.4f}"
        f"  delays [{found}]  {alarms}  {run.seconds:.1f} s"
    )
