"""Runs on natural federations, kept in a file: a run is one federation, predicted in every way."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import Any

from streamfl.run.compare import Alternatives
from streamfl.run.evaluation.compared import by_client, in_total
from streamfl.run.replay import ReplaySettings
from streamfl_benchmarks import run_file
from streamfl_benchmarks.natural.fedavg import LinearFedAvg
from streamfl_benchmarks.natural.forest import forests
from streamfl_benchmarks.natural.sources import Source
from streamfl_benchmarks.origin import OF_TODAY, Origin
from streamfl_benchmarks.run_file import Kept

# The records of a federation of which all are taken.
ALL = "all"

Key = tuple[str, str, int]


def make(
    sources: Sequence[Source], seeds: Sequence[int], records: int | None, path: Path, *, renew: bool = False
) -> Iterator[str]:
    """Make the runs that the file lacks, and write each one when it has finished; yield a line about it.

    With `renew` also those that the file has of other code.
    """
    kept = {key(each.run): each for each in (run_file.read(path) if path.exists() else ())}
    origin = Origin.now("federations")
    for seed in seeds:
        for source in sources:
            this = (source.name, _told(records), seed)
            if this not in kept or (renew and kept[this].origin.age != OF_TODAY):
                began = process_time()
                kept[this] = Kept(origin, run(source, seed, records))
                run_file.write(path, kept.values())
                total = kept[this].run["total"]
                told = ", ".join(f"{way} {figure:.4g}" for way, figure in total.items() if figure is not None)
                yield f"{source.name}, seed {seed}: {told}; {process_time() - began:.0f} s of CPU time"


def key(run: run_file.Row) -> Key:
    """Return what tells runs apart."""
    return run["federation"], run["first"], run["seed"]


def run(source: Source, seed: int, records: int | None) -> dict[str, Any]:
    """Return the figures of one federation, by way, in total and by client."""
    table, logs = source.dealt(records)
    ways = Alternatives(table, logs, ReplaySettings(seed=seed))
    constants, averaged = LinearFedAvg(table, logs).best()
    misses = ways.misses() | {"fedavg": averaged, "forest": forests(table, logs, seed)}
    clients = [{"client": name, **figures} for name, figures in by_client(ways.measure, misses).items()]
    return {
        "federation": source.name,
        "first": _told(records),
        "seed": seed,
        "measure": ways.measure,
        "total": in_total(ways.measure, misses),
        "clients": clients,
        "fedavg": asdict(constants),
    }


def _told(records: int | None) -> str:
    return ALL if records is None else str(records)
