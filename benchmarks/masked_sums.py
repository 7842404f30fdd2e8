"""What masked sums cost: seconds and bytes of a round, next to sums in the clear and next to each client's numbers.

    python benchmarks/masked_sums.py [--clients 20] [--size 100] [--rounds 40] [--repeats 5] [--absent 0.3] [--json F]

With `--rounds 0` only the masks are timed. Replays of covtype in one process, without a log or a network, in turns:
`off`, `pooled`, `masked`. Seconds are of one core, of all clients and the coordinator together; ratios are
medians over the repeats. Also the seconds that one client takes to mask its sums and to tell its seeds, and the
coordinator to remove what is left of the masks if a share of the clients is absent.
"""

import argparse
import json
import statistics
from pathlib import Path
from time import process_time

import numpy as np

from streamfl.learning.pooling.masks import Masks, total_of
from streamfl.protocol.messages import Roster, Unmask
from streamfl.records.files.covtype import covtype
from streamfl.records.table import shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings
from streamfl.wire.masking import MaskKeys, expand

SUMS = ("off", "pooled", "masked")

# The numbers of an update of covtype in most rounds, and in those with second moments.
NUMBERS = (2_030, 3_570)


def replayed(options: argparse.Namespace, sums: str) -> dict[str, float]:
    """Return what a replay takes, and what it reaches."""
    table = shuffled(covtype(), 0)
    logs = deal(table, options.clients, "round-robin", 0)
    n = options.size * options.rounds
    cut = {name: Log(log.rows[:n], log.y[:n]) for name, log in logs.items()}
    settings = ReplaySettings(
        round_size=options.size,
        learning=LearningSettings(features="rounds"),
        privacy=PrivacySettings(secure_aggregation=sums),
        measure=False,
    )
    began = process_time()
    result = Replay(table, cut, settings).run().result
    seconds = (process_time() - began) / result.rounds
    return {"seconds": seconds, "up": result.bytes.up, "down": result.bytes.down, "model": result.model_sha256}


def beside(clients: int, numbers: int, absent: float) -> dict[str, float]:
    """Return the seconds of a client's masks and seeds, and of the coordinator's total, with some clients absent."""
    keys = {f"c{i}": MaskKeys(i.to_bytes(64)) for i in range(clients)}
    roster = Roster(version=1, keys={name: key.public for name, key in keys.items()})
    here = {name: Masks(name, key, roster, 1, 3) for name, key in keys.items()}
    for peer in roster.keys.values():
        if peer != keys["c0"].public:
            keys["c0"].shared(peer)
    sums, began = np.zeros(numbers, np.int64), process_time()
    sent = {name: masks.masked(sums, 0, "1-1") for name, masks in here.items()}
    masking = (process_time() - began) / clients
    there = sorted(here)[: round((1.0 - absent) * clients)]
    asked, began = Unmask(entry=1, stage=0, attempts=dict.fromkeys(there, "1-1")), process_time()
    answers = [here[name].unmasked(asked) for name in there]
    telling, began = (process_time() - began) / len(there), process_time()
    total = total_of([sent[name] for name in there], answers, expand)
    assert not total.any()
    return {"mask": masking, "tell": telling, "total": process_time() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--absent", type=float, default=0.3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.rounds:
        compare(options)
    for n in NUMBERS:
        told = ", ".join(f"{name} {1e3 * x:.2f} ms" for name, x in beside(options.clients, n, options.absent).items())
        print(f"{options.clients} clients, {n} numbers, {options.absent:.0%} absent: {told}")


def compare(options: argparse.Namespace) -> None:
    """Print what rounds cost in a replay, and write it if asked."""
    runs = [{sums: replayed(options, sums) for sums in SUMS} for _ in range(options.repeats)]
    assert runs[0]["pooled"]["model"] == runs[0]["masked"]["model"]
    middle = {sums: statistics.median(run[sums]["seconds"] for run in runs) for sums in SUMS}
    ratio = {s: statistics.median(run["masked"]["seconds"] / run[s]["seconds"] for run in runs) for s in SUMS[:2]}
    print(f"{options.clients} clients x {options.size} records, {options.rounds} rounds of covtype, features rounds")
    for sums in SUMS:
        told = runs[0][sums]
        print(f"{sums:10} {1e3 * middle[sums]:8.1f} ms a round  {told['up']:7.1f} bytes up  {told['down']:6.1f} down")
    print(f"masked / off {ratio['off']:.2f}, masked / pooled {ratio['pooled']:.2f}")
    if options.json is not None:
        told = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps({"settings": told, "runs": runs, "ratio": ratio}))


if __name__ == "__main__":
    main()
