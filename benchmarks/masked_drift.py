"""What is lost where the coordinator sees totals alone: accuracy and delays, with drift for all clients and for two.

    python benchmarks/masked_drift.py --json F [--clients 20] [--size 100] [--rounds 44] [--seeds 1,2,3]

Covtype; from the middle on classes are exchanged or labels permuted, or the classes of two clients alone. Models
are those of rounds; `pooled` sums give the same ones as `masked`. Runs that are in the file are skipped.
"""

import argparse
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.imposed_drift import inject, parse
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

ALONE = ("c3", "c11")
DRIFTS = ("none", "class-swap", "permutation", "two clients alone")
SUMS = ("off", "pooled")
SHAPE = ("clients", "size", "rounds", "drift", "sums", "seed")


def logs_of(table: Table, wanted: Row) -> Mapping[str, Log]:
    """Return the records of the clients with a drift in the middle."""
    size, drift, seed = wanted["size"], wanted["drift"], wanted["seed"]
    n = size * wanted["rounds"]
    dealt = deal(table, wanted["clients"], "round-robin", seed)
    logs = {name: Log(log.rows[:n], log.y[:n]) for name, log in dealt.items()}
    if drift == "none":
        return logs
    kind = drift if drift != "two clients alone" else "class-swap"
    drifted = inject(table, logs, parse(f"{kind}@{wanted['rounds'] // 2 + 1}"), size, seed)
    return drifted if kind == drift else {name: (drifted if name in ALONE else logs)[name] for name in logs}


def run(wanted: Row) -> Row:
    """Return a run: its accuracy, NoChange, and by how many rounds each finding came after the drift."""
    seed, at = wanted["seed"], wanted["rounds"] // 2 + 1
    table = shuffled(covtype(), seed)
    settings = ReplaySettings(
        round_size=wanted["size"],
        seed=seed,
        learning=LearningSettings(features="rounds"),
        privacy=PrivacySettings(secure_aggregation=wanted["sums"]),
    )
    result = Replay(table, logs_of(table, wanted), settings).run().result
    accuracy = result.accuracy
    assert accuracy is not None  # the targets are labels
    return {
        "accuracy": accuracy.prequential,
        "no_change": accuracy.no_change,
        "restarts": [x.round - at for x in result.restarts],
        "local": [x.round - at for x in result.local_drifts if x.state == "latched"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=44)
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    sizes = (options.clients, options.size, options.rounds)
    every = product(DRIFTS, SUMS, map(int, options.seeds.split(",")))
    wanted = (dict(zip(SHAPE, (*sizes, *one), strict=True)) for one in every)
    for row in continued(options.json, Origin.now("masked_drift"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
