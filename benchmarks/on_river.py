"""Compares streamfl with River and CapyMOA, test-then-train, on fourteen streams.

    python benchmarks/on_river.py --data DIR --json results/river.json                     everything there is
    python benchmarks/on_river.py --data DIR --json results/river.json --size 2000         2,000 records of each
    python benchmarks/on_river.py --data DIR --json results/river.json --methods streamfl  one method

DIR holds elec2.npz. CapyMOA needs Java and an environment of its own (`pip install capymoa`); --capymoa-python names
its interpreter. A line says what each run has; `--runs F` writes what docs/results.md shows. Finished runs are kept
in the JSON file and not repeated, unless --again names their method. Several calls may share a file. With another
JSON file, F keeps the runs that were not asked for: those of other streams, and those of other methods on the streams
where streamfl has the figures that F has. So another peer takes its own runs and those of streamfl.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from river_peers.methods import METHODS, ONE, PEERS, VARIANTS
from river_peers.paired import BATCHES
from river_peers.plan import Bench, FailedError, UnavailableError, Wanted, wanted
from river_peers.results import Results, Run
from river_peers.shown import Found, rows, still_comparable
from river_peers.streams import STREAMS, Stream, stream
from streamfl.errors import StreamflError, UsageError
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

CHEAP_FIRST = (*PEERS[:-3], *(method for method in METHODS if method not in PEERS), *PEERS[-3:])


def listed(text: str, known: Sequence[str], option: str) -> list[str]:
    """Return the names that are chosen, in the order in which they are known."""
    chosen = text.split(",")
    for name in chosen:
        if name not in known:
            raise UsageError(f"{option} {name}: unknown; take some of {', '.join(known)}")
    return [name for name in known if name in chosen]


def missing(
    results: Results, runs: Sequence[Wanted], streams: dict[str, Stream], again: Sequence[str]
) -> list[Wanted]:
    """Return the missing runs."""
    digests = {name: records.digest for name, records in streams.items()}
    return [run for run in runs if run.method in again or not results.has(run.key(digests[run.stream]))]


def made(bench: Bench, results: Results, runs: Sequence[Wanted], jobs: int) -> Iterator[str]:
    """Make runs and keep them; yield a line about each run, and about each method that cannot run."""
    absent: set[str] = set()

    def one(run: Wanted) -> str:
        if run.method in absent:
            return ""
        try:
            finished, right = bench.make(run)
        except UnavailableError as error:
            message = "" if run.method in absent else str(error)
            absent.add(run.method)
            return message
        except FailedError as error:
            return str(error)  # the others go on; the next call tries it again
        results.add(finished, right)
        return run_line(finished)

    pool = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([pool.submit(one, run) for run in runs]):
            if line := future.result():
                yield line
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt does not wait for the remaining runs


def run_line(run: Run) -> str:
    name = run.method if run.variant == ONE else f"{run.method} {run.variant}"
    return (
        f"{run.stream:15} {name:32} seed {run.seed}  accuracy {run.accuracy:.4f}"
        f"  {run.records / run.cpu_seconds:9,.0f} records/s  {run.wall_seconds:6.1f} s"
    )


@click.command(help=__doc__.splitlines()[0])
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="The folder of elec2.npz.")
@click.option("--streams", default=",".join(STREAMS), help="Comma-separated. Default: all.")
@click.option("--methods", default=",".join(METHODS), help="Comma-separated. Default: all.")
@click.option(
    "--variants", default=",".join(VARIANTS), help="Variants of the streamfl methods: one client, or several."
)
@click.option("--seeds", default="1", help="Seeds of the methods; those of the streams are fixed.")
@click.option(
    "--size", type=click.IntRange(min=BATCHES), help="Records of a stream: the first ones, or all of a generated one."
)
@click.option("--here", is_flag=True, help="Make runs in this process: quicker, but speed and memory mean nothing.")
@click.option(
    "--runs", "kept", type=click.Path(dir_okay=False, path_type=Path), help="Write what docs/results.md shows there."
)
@click.option("--again", default="", help="Methods whose runs are repeated.")
@click.option(
    "--jobs", default=1, type=click.IntRange(min=1), help="Parallel runs; more than one distorts the speeds."
)
@click.option("--capymoa-python", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(
    path: Path,
    data: Path | None,
    streams: str,
    methods: str,
    variants: str,
    seeds: str,
    size: int | None,
    here: bool,
    kept: Path | None,
    again: str,
    jobs: int,
    capymoa_python: Path | None,
) -> None:
    names = listed(streams, STREAMS, "--streams")
    chosen = listed(methods, CHEAP_FIRST, "--methods")
    asked = listed(variants, VARIANTS, "--variants")
    anew = listed(again, METHODS, "--again") if again else []
    which = [int(seed) for seed in seeds.split(",")]
    results = Results.read(path)
    tables = {name: stream(name, data, size) for name in names}
    todo = missing(results, list(wanted(names, chosen, asked, which)), tables, anew)
    click.echo(f"{len(todo)} runs")
    for line in made(Bench(tables, capymoa_python, here), results, todo, jobs):
        click.echo(line)
    if kept is not None:
        found = Found(results, {name: records.digest for name, records in tables.items()}, which)
        shown = list(rows(found))
        earlier = still_comparable(run_file.read(kept), shown) if kept.exists() else []
        every = [*(Kept(Origin.now("river"), row) for row in shown), *earlier]
        run_file.write(kept, sorted(every, key=lambda one: STREAMS.index(one.run["stream"])))


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except StreamflError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
