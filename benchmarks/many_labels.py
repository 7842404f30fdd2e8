"""Many labels: peak memory and CPU time a record of an estimator and of `replay`, by the number of labels.

Run: python benchmarks/many_labels.py [--json F] [--only WAY:FEATURES:LABELS,...]

Each row is a process of its own. Its 6,000 records have 20 features, and a centre for each label. Rows that the file
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

from streamfl import MasterFLClassifier
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

RECORDS, FEATURES, CLIENTS = 6_000, 20, 10
ROWS = (
    *(f"estimator:auto:{labels}" for labels in (2, 5, 60, 250)),
    *(f"estimator:linear:{labels}" for labels in (2, 60, 250, 1000)),
    *(f"replay:auto:{labels}" for labels in (2, 60)),
)


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made(labels: int) -> Table:
    """Return records around a centre for each label; all labels are equally frequent."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, labels, RECORDS)
    X = rng.normal(size=(labels, FEATURES))[y] + 0.3 * rng.normal(size=(RECORDS, FEATURES))
    names = tuple(f"x{j}" for j in range(FEATURES))
    return Table("made", names, X, y.astype(np.float64), tuple(map(str, range(labels))), np.arange(RECORDS))


def estimated(table: Table, features: str) -> float:
    """Predict each record, then learn it; return the accuracy."""
    model, right = MasterFLClassifier(seed=1, features=features), 0
    for x, y in zip(table.X.tolist(), table.y.astype(int).tolist(), strict=True):
        record = dict(zip(table.features, x, strict=True))
        right += model.predict_one(record) == y
        model.learn_one(record, y)
    return right / RECORDS


def replayed(table: Table, features: Any) -> float | None:
    """Replay the records, dealt to clients in turn; return the accuracy."""
    settings = ReplaySettings(learning=LearningSettings(features=features))
    result = Replay(table, deal(table, CLIENTS, "round-robin", 0), settings).run().result
    return None if result.accuracy is None else result.accuracy.prequential


def run(row: str) -> dict[str, Any]:
    """Run one row in this process; memory is that of the whole process."""
    way, features, labels = row.split(":")
    table, before = made(int(labels)), peak()
    began = time.process_time()
    accuracy = estimated(table, features) if way == "estimator" else replayed(table, features)
    seconds = time.process_time() - began
    return {
        "peak_mb": round(peak()),
        "before_mb": round(before),
        "microseconds_a_record": round(1e6 * seconds / RECORDS),
        "accuracy": accuracy,
    }


def main() -> None:
    """Run every row that the file lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("many_labels.json"))
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=ROWS)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(run(options.row)))
        return
    done = json.loads(options.json.read_text()) if options.json.exists() else {}
    for row in options.only:
        if row not in done:
            made_row = subprocess.run([sys.executable, __file__, "--row", row], check=True, stdout=subprocess.PIPE)
            done[row] = json.loads(made_row.stdout.splitlines()[-1])
            options.json.write_text(json.dumps(done, indent=1) + "\n")
        print(row, done[row], flush=True)


if __name__ == "__main__":
    main()
