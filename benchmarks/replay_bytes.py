"""Bytes of updates and publications of whole runs, over the records of all clients.

    python benchmarks/replay_bytes.py --data DIR --json F

DIR holds elec2.npz; covtype is the sample that ships with streamfl, shuffled. The first `records` of a
stream are dealt in turn. FedAvg would send a model of float32 for each client and round. Runs that are in the file
are skipped.
"""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

# Clients, records of a client's round, and records of the run.
SHAPES = {
    "covtype": ((20, 10, 10_000), (20, 100, 40_000), (4, 1_000, 40_000)),
    "elec2": ((20, 10, 10_000), (20, 100, 40_000)),
}


def table_of(name: str, data: Path, records: int) -> Table:
    """Return the first records of a stream."""
    table = shuffled(covtype(), 0) if name == "covtype" else read(str(data / f"{name}.npz"), label="y")
    return replace(table, X=table.X[:records], y=table.y[:records], places=np.arange(records), columns={})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()

    def run(wanted: Row) -> Row:
        """Return the bytes a record, and what the run reaches."""
        table = table_of(wanted["stream"], options.data, wanted["records"])
        learning = LearningSettings(features=wanted["features"])
        settings = ReplaySettings(round_size=wanted["size"], learning=learning, seed=wanted["seed"])
        result = Replay(table, deal(table, wanted["clients"], "round-robin", 0), settings).run().result
        if result.bytes is None or result.accuracy is None:
            raise RuntimeError(f"{wanted}: no bytes were counted")
        model = 4 * (len(table.features) + 1) * len(table.labels)
        return {
            "sent": result.bytes.up,
            "published": result.bytes.down,
            "raw": result.bytes.raw,
            "fedavg": model / wanted["size"],
            "accuracy": result.accuracy.prequential,
            "no_change": result.accuracy.no_change,
        }

    names = ("stream", "clients", "size", "records", "features", "seed")
    wanted = (
        dict(zip(names, (stream, *shape, features, 0), strict=True))
        for stream in SHAPES
        for shape, features in product(SHAPES[stream], ("rounds", "auto"))
    )
    for row in continued(options.json, Origin.now("replay_bytes"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
