"""What is lost where the coordinator sees totals alone: accuracy and delays, with drift for all clients and for two.

    python benchmarks/masked_drift.py [--clients 20] [--size 100] [--rounds 44] [--seeds 1,2,3]

Covtype; from the middle on classes are exchanged or features permuted, or the classes of two clients alone. `pooled`
gives the same models as `masked`. `features rounds`; `auto`, which totals forbid, is given next to it.
"""

import argparse
import statistics
from collections.abc import Mapping

from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.imposed_drift import inject, parse
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings

ALONE = ("c3", "c11")
DRIFTS = ("none", "class-swap", "permutation", "two clients alone")
WAYS = (("off", "rounds"), ("pooled", "rounds"), ("off", "auto"))


def logs_of(table: Table, options: argparse.Namespace, drift: str, seed: int) -> Mapping[str, Log]:
    """Return the records of the clients with a drift in the middle."""
    n = options.size * options.rounds
    dealt = deal(table, options.clients, "round-robin", seed)
    logs = {name: Log(log.rows[:n], log.y[:n]) for name, log in dealt.items()}
    if drift == "none":
        return logs
    kind = drift if drift != "two clients alone" else "class-swap"
    drifted = inject(table, logs, parse(f"{kind}@{options.rounds // 2 + 1}"), options.size, seed)
    return drifted if kind == drift else {name: (drifted if name in ALONE else logs)[name] for name in logs}


def run(
    options: argparse.Namespace, drift: str, seed: int, sums: str, features: str
) -> tuple[float, float, list[str]]:
    """Return accuracy, NoChange, and what was found when."""
    table, at = shuffled(covtype(), seed), options.rounds // 2 + 1
    settings = ReplaySettings(
        round_size=options.size,
        seed=seed,
        learning=LearningSettings(features=features),
        privacy=PrivacySettings(secure_aggregation=sums),
    )
    result = Replay(table, logs_of(table, options, drift, seed), settings).run().result
    found = [f"restart {x.round - at:+d}" for x in result.restarts]
    found += [f"alone {x.round - at:+d}" for x in result.local_drifts if x.state == "latched"]
    return result.accuracy.prequential, result.accuracy.no_change, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=44)
    parser.add_argument("--seeds", default="1,2,3")
    options = parser.parse_args()
    for drift in DRIFTS:
        for sums, features in WAYS:
            runs = [run(options, drift, int(seed), sums, features) for seed in options.seeds.split(",")]
            accuracy, no_change = (statistics.mean(one[i] for one in runs) for i in (0, 1))
            found = "; ".join(", ".join(one[2]) or "-" for one in runs)
            print(f"{drift:18} {sums:9} {features:6}  {accuracy:.4f}  NoChange {no_change:.4f}  {found}", flush=True)


if __name__ == "__main__":
    main()
