"""CPU time of federated averaging in `replay` and in Flower's simulation, over the same records.

    python benchmarks/beside_flower.py --flower PYTHON --json benchmarks/runs/beside_flower.json.gz [--seeds 1,2,3]

PYTHON is an interpreter that has `flwr[simulation]` and NumPy; streamfl needs neither. Records are those of covtype,
shuffled and standardised, dealt in turn. A client takes one gradient step on its records of a round. Each run is a
process of its own, and sides take turns. CPU time is that of all its processes, user and system. It is noted after
`WARM` rounds and after the last; the difference is that of rounds, and the rest, without the rounds before the first
mark, is that of the start. Both predict a round's records with the model from before the round: `accuracy`. Runs that
the file holds are not made again.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from streamfl.protocol.messages import RoundClosed
from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

HERE = Path(__file__).parent
# Clients and rounds: nearly all records of the sample. Records of a client's round, and rounds before the first mark.
SHAPES, SIZE, WARM = ((20, 46), (100, 9)), 100, 2
# Of a step of FedAvg, times the mean squared norm of records, with the constant 1.
STEP = 30.0

# `fedavg`: one model for one round at a time, from where the last one ended. A local batch of all records of a round
# is one step, which is not whitened: FedAvg with a constant step.
_FEDAVG = LearningSettings(algorithm="fedavg", local_batch=SIZE, features="rounds")
OURS = {
    "fedavg": (_FEDAVG, ProfileSettings(profile="experts", max_order=0, step=STEP)),
    "rounds": (LearningSettings(features="rounds"), ProfileSettings()),
    "auto": (LearningSettings(), ProfileSettings()),
}
# They take turns; what takes longest comes last.
TURNS = (("flower", "fedavg", "rounds"), ("auto",))


def replayed(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the CPU seconds of this process at the two marks, and the accuracy."""
    marks = []

    def note(event: object) -> None:
        if isinstance(event, RoundClosed) and event.round in {WARM, wanted["rounds"]}:
            marks.append(time.process_time())

    with np.load(wanted["path"]) as file:
        X, y = file["X"], file["y"]
    names, labels = tuple(f"x{j}" for j in range(X.shape[1])), tuple(map(str, range(int(y.max()) + 1)))
    table = Table("covtype", names, X, y.astype(np.float64), labels, np.arange(len(y)))
    learning, profile = OURS[wanted["side"]]
    settings = ReplaySettings(round_size=SIZE, learning=learning, profile=profile, scaling=False)
    result = Replay(table, deal(table, wanted["clients"], "round-robin", 0), settings, note).run().result
    if result.accuracy is None:
        raise RuntimeError(f"{wanted}: no accuracy was measured")
    return {"marks": marks, "accuracy": result.accuracy.prequential, "no_change": result.accuracy.no_change}


def write(path: Path, records: int, seed: int) -> float:
    """Write the first records of the shuffled sample, standardised, and return the step of FedAvg."""
    table = shuffled(covtype(), seed)
    X, y = table.X[:records].astype(np.float64), table.y[:records].astype(np.intp)
    X -= X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), 1e-9)
    np.savez(path, X=X, y=y)
    return float(STEP / (np.square(X).sum(axis=1).mean() + 1.0))


def measured(row: Row, flower: str) -> Row:
    """Return the CPU time of a run, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.npz")
        eta = write(path, row["clients"] * row["rounds"] * SIZE, row["seed"])
        wanted = json.dumps({**row, "path": str(path), "size": SIZE, "warm": WARM, "eta": eta})
        flowers = [flower, "-c", "import flower_client; flower_client.main()"]
        command = flowers if row["side"] == "flower" else [sys.executable, __file__, "--run", wanted]
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OPENBLAS_NUM_THREADS": "1"}
        path_of = {"PYTHONPATH": str(HERE)} if row["side"] == "flower" else {}
        environment = {**os.environ, **quiet, **path_of, "BESIDE_FLOWER": wanted}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    first, last = found.pop("marks")
    a_client_round = (last - first) / (row["clients"] * (row["rounds"] - WARM))
    start = first - a_client_round * row["clients"] * WARM
    return {"ms_a_client_round": round(1e3 * a_client_round, 4), "start_s": round(start, 3), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flower", help="the interpreter that has Flower")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2, 3))
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(replayed(options.run)))
        return
    ask = "from importlib.metadata import version as v; print(v('flwr'), v('ray'), v('numpy'))"
    versions = subprocess.run([options.flower, "-c", ask], check=True, stdout=subprocess.PIPE, text=True)
    origin = Origin.now("beside_flower", dict(zip(("flwr", "ray", "numpy"), versions.stdout.split(), strict=True)))
    wanted = (
        {"side": side, "clients": clients, "rounds": rounds, "seed": seed}
        for sides in TURNS
        for seed, (clients, rounds), side in product(options.seeds, SHAPES, sides)
    )
    for row in continued(options.json, origin, wanted, lambda row: measured(row, options.flower)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
