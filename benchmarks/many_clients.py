"""Many clients in one process: peak memory and CPU time a record of `replay`, by the number of clients.

Run: python benchmarks/many_clients.py --json F [--only FEATURES:CLIENTSxSIZExROUNDS,...]

Each row is a process of its own, which deals covtype in turn, again from its start when it ends. Rows that the file
holds already are not run again.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from streamfl.records.files.covtype import covtype
from streamfl.run.dealing.dealing import Log
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

ROWS = tuple(
    f"{features}:{shape}"
    for features in ("rounds", "auto")
    for shape in ("20x100x20", "100x11x20", "1000x11x5", "10000x11x3")
)


def replayed(row: str) -> dict[str, Any]:
    """Run one row in this process; memory is that of the whole process, in MB, CPU time that of the replay."""
    features, _, shape = row.partition(":")
    clients, size, rounds = map(int, shape.split("x"))
    table = covtype()
    owner = np.arange(clients * size * rounds) % clients
    rows = np.arange(len(owner)) % len(table)
    logs = {f"c{i:05}": Log(rows[owner == i], table.y[rows[owner == i]]) for i in range(clients)}
    settings = ReplaySettings(round_size=size, learning=LearningSettings(features=features))  # type: ignore[arg-type]
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    result = Replay(table, logs, settings).run().result
    seconds = time.process_time() - began
    return {
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "before_mb": round(loaded / 1024),
        "microseconds_a_record": round(1e6 * seconds / result.records, 1),
        "accuracy": result.accuracy and result.accuracy.prequential,
        "sha256": result.model_sha256,
    }


def measured(wanted: Row) -> Row:
    """Return the figures of a row, from a process of its own."""
    arguments = [sys.executable, __file__, "--row", wanted["row"]]
    run = subprocess.run(arguments, check=True, capture_output=True, text=True)
    found: Row = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run every row that the file lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=ROWS)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row or options.json is None:
        print(json.dumps(replayed(options.row)))
        return
    wanted = ({"row": row, "seed": 0} for row in options.only)
    for found in continued(options.json, Origin.now("many_clients"), wanted, measured):
        print(found, flush=True)


if __name__ == "__main__":
    main()
