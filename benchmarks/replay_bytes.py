"""Bytes of updates and publications of whole runs, over the records of all clients.

    python benchmarks/replay_bytes.py --data DIR --federations DIR --json F

The first DIR holds elec2.npz; covtype is the sample that ships with streamfl, shuffled. The first `records` of a
stream are dealt in turn; those of a natural federation have their own clients. FedAvg would send a model of float32
for each client and round. Rounds of federations are those that `replay` chooses. Runs that the file has are skipped.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.order import usual_rounds
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.natural.sources import Source, sources
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

# Clients, records of a client's round, and records of the run.
SHAPES = {
    "covtype": ((20, 10, 10_000), (20, 100, 40_000), (4, 1_000, 40_000)),
    "elec2": ((20, 10, 10_000), (20, 100, 40_000)),
}
OF_FEDERATION, USUAL = 8_000, "usual"

# Models, and the limit on the bytes of updates.
WAYS = (("rounds", "auto"), ("auto", "auto"), ("auto", "raw"))


def wanted(federations: Mapping[str, Source]) -> Iterator[Row]:
    """Yield the fields by which each run is known; those of natural federations have as many clients as they have."""
    for stream, shapes in SHAPES.items():
        for clients, size, records in shapes:
            of = {"stream": stream, "clients": clients, "size": size, "records": records}
            yield from ({**of, "features": features, "limit": limit, "seed": 0} for features, limit in WAYS)
    for name in federations:
        of = {"stream": name, "clients": "its own", "size": USUAL, "records": OF_FEDERATION}
        yield from ({**of, "features": features, "limit": limit, "seed": 0} for features, limit in WAYS[1:])


def dealt(name: str, data: Path, records: int, clients: int) -> tuple[Table, dict[str, Log]]:
    """Return the first records of a stream, dealt in turn."""
    table = shuffled(covtype(), 0) if name == "covtype" else read(str(data / f"{name}.npz"), label="y")
    table = replace(table, X=table.X[:records], y=table.y[:records], places=np.arange(records), columns={})
    return table, deal(table, clients, "round-robin", 0)


def run_of(row: Row, table: Table, logs: dict[str, Log]) -> Row:
    """Return the bytes a record, and what the run reaches."""
    learning = LearningSettings(features=row["features"], bytes=row["limit"])
    settings = ReplaySettings(learning=learning, seed=row["seed"])
    usual = usual_rounds(table, logs, None, min_records=settings.min_records)
    size, interval = usual if row["size"] == USUAL else (row["size"], None)
    settings = replace(settings, round_size=size, interval=interval)
    result = Replay(table, logs, settings).run().result
    figures = result.accuracy or result.mae
    if result.bytes is None or figures is None:
        raise RuntimeError(f"{row}: no bytes were counted")
    model = 4 * (len(table.features) + 1) * max(1, len(table.labels))
    return {
        "has": len(logs),
        "sent": result.bytes.up,
        "published": result.bytes.down,
        "raw": result.bytes.raw,
        "coarser": result.budget.coarser if result.budget else 0,
        "exceeded": result.budget.exceeded if result.budget else 0,
        "fedavg": model / size,
        "measure": "accuracy" if result.accuracy else "mae",
        "good": figures.prequential,
        "no_change": figures.no_change,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--federations", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    federations = sources(options.federations)

    def run(row: Row) -> Row:
        name, records = row["stream"], row["records"]
        natural = federations.get(name)
        return run_of(
            row, *(natural.dealt(records) if natural else dealt(name, options.data, records, row["clients"]))
        )

    for row in continued(options.json, Origin.now("replay_bytes"), wanted(federations), run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
