"""How time, memory and bytes of `replay` grow with clients, features, labels and rounds.

    python benchmarks/growth.py --json benchmarks/runs/growth.json.gz [--only rounds:clients:1000,...] [--seeds 1]

One number grows at a time, from a small federation: see `SMALL`. Each row is a process of its own, which first
replays two rounds of four clients, so that what is loaded once counts neither as time nor as memory. CPU time is that
of the replay, with the bytes of its messages counted as `replay` does; memory is the peak of the process beyond what
it had before, and `peak_mb` the whole. Rows `rounds:N` also have the CPU time of a round and the memory around some
rounds up to N. They go on for a ninth more: in its last tenth, a replay also measures its model file. Each row has
what a live federation pays as well, for the last round: the coordinator's part of the CPU time, encoding and decoding
an update, and the bytes of the entry and of the coordinator's state. Rows that the file holds already are not run
again.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from streamfl.protocol.messages import FromClient, FromCoordinator, RoundClosed, Update
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.transport.traffic import Traffic
from streamfl.wire import messages, state_bytes
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

# What does not grow. The size is that of a client's round.
SMALL = {"clients": 20, "size": 20, "rounds": 20, "features": 10, "labels": 3}
GROWN: dict[tuple[str, str], tuple[int, ...]] = {
    ("rounds", "clients"): (100, 300, 1_000, 3_000, 10_000),
    ("auto", "clients"): (30, 100, 300, 1_000),
    ("rounds", "features"): (10, 30, 100, 300),
    ("auto", "features"): (10, 30, 100, 300),
    ("rounds", "labels"): (3, 10, 30, 100),
    ("auto", "labels"): (3, 10, 30, 100, 250),
    ("rounds", "rounds"): (10_000,),
    ("auto", "rounds"): (1_000,),
}
# Where clients or rounds are many, the rest is smaller.
FEW = {
    "clients": {"size": 11, "rounds": 4},
    "features": {"clients": 5},
    "labels": {"clients": 5},
    "rounds": {"clients": 2, "size": 10, "features": 4, "labels": 2},
}
ROWS = tuple(f"{features}:{what}:{value}" for (features, what), values in GROWN.items() for value in values)

# The rounds whose time and memory are compared, as far as a row has them, and how many around each are measured.
MARKS, AROUND = (100, 1_000, 10_000, 100_000), 100


def made(records: int, features: int, labels: int, seed: int) -> Table:
    """Return records around a centre for each label; all labels are equally frequent."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, labels, records)
    X = rng.normal(size=(labels, features))[y] + rng.normal(size=(records, features))
    names = tuple(f"x{j}" for j in range(features))
    return Table("made", names, X, y.astype(np.float64), tuple(map(str, range(labels))), np.arange(records))


@dataclass
class Marks:
    """The CPU time and the memory after each round, in seconds and MB."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    def note(self, event: object) -> None:
        """Note where the process stands when a round has closed."""
        if isinstance(event, RoundClosed):
            self.seconds.append(time.process_time())
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.memory.append(pages * resource.getpagesize() / 2**20)

    def around(self, mark: int) -> dict[str, float]:
        """Return the CPU time of a round around a mark, in ms, and the memory there."""
        first, last = mark - AROUND // 2 - 1, min(mark + AROUND // 2, len(self.seconds)) - 1
        a_round = 1e3 * (self.seconds[last] - self.seconds[first]) / (last - first)
        return {"ms_a_round": round(a_round, 3), "memory_mb": round(self.memory[mark - 1], 1)}


@dataclass
class Last(Traffic):
    """Counts the bytes of messages, and keeps the last updates and the last entry."""

    updates: deque[Update] = field(default_factory=lambda: deque(maxlen=64))
    entry: RoundClosed | None = None

    def add(self, message: FromClient | FromCoordinator) -> None:
        """Count a message, and keep it if it is one of the last."""
        super().add(message)
        if isinstance(message, Update):
            self.updates.append(message)
        elif isinstance(message, RoundClosed):
            self.entry = message

    def told(self) -> dict[str, float]:
        """Return the bytes of an update and of the entry, and the CPU time to encode and decode an update, in ms."""
        assert self.entry is not None
        encode = [timed(partial(messages.encode, one)) for one in self.updates]
        decode = [timed(partial(messages.decode, data)) for _, data in encode]
        entry = messages.encode(self.entry)
        return {
            "update_bytes": round(fmean(len(data) for _, data in encode)),
            "encode_ms": round(1e3 * fmean(seconds for seconds, _ in encode), 3),
            "decode_ms": round(1e3 * fmean(seconds for seconds, _ in decode), 3),
            "entry_bytes": len(entry),
            "entry_bytes_on_log": messages.size_on_log(self.entry, entry),
        }


@dataclass
class Coordinating:
    """The CPU time of a coordinator's steps, in seconds."""

    seconds: float = 0.0

    def watch(self) -> None:
        """Time all steps of this process from now on."""
        step = CoordinatorNode.step

        def timed_step(node: CoordinatorNode, now: float) -> bool:
            seconds, busy = timed(lambda: step(node, now))
            self.seconds += seconds
            return bool(busy)

        CoordinatorNode.step = timed_step  # type: ignore[method-assign, assignment]


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds that something takes, and what it returns."""
    began = time.process_time()
    found = do()
    return time.process_time() - began, found


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def replay(features: str, shape: dict[str, int], seed: int, marks: Marks, last: Traffic) -> Replay:
    """Return the replay of a federation of some shape."""
    table = made(shape["clients"] * shape["size"] * shape["rounds"], shape["features"], shape["labels"], seed)
    learning = LearningSettings(features=features)
    settings = ReplaySettings(round_size=shape["size"], seed=seed, learning=learning)
    return Replay(table, deal(table, shape["clients"], "round-robin", seed), settings, marks.note, _traffic=last)


def run(row: str, seed: int) -> dict[str, Any]:
    """Run one row in this process."""
    features, what, value = row.split(":")
    shape = {**SMALL, **FEW.get(what, {}), what: int(value)}
    if what == "rounds":
        shape["rounds"] += int(value) // 9 + AROUND
    replay(features, {**shape, "clients": 4, "size": 10, "rounds": 2}, seed, Marks(), Last()).run()
    marks, last, coordinating = Marks(), Last(), Coordinating()
    replayed = replay(features, shape, seed, marks, last)
    coordinating.watch()
    before = peak()
    seconds, found = timed(replayed.run)
    memory = peak() - before
    client_rounds, result = shape["clients"] * shape["rounds"], found.result
    saving, state = timed(lambda: state_bytes.encode(replayed._machine.state))
    return {
        "features_of": features,
        "what": what,
        "value": int(value),
        "seed": seed,
        **{f"of_{name}": size for name, size in shape.items()},
        "client_rounds": client_rounds,
        "ms_a_client_round": round(1e3 * seconds / client_rounds, 4),
        "coordinator_ms_a_client_round": round(1e3 * coordinating.seconds / client_rounds, 4),
        "seconds": round(seconds, 2),
        "peak_mb": round(before + memory),
        "memory_mb": round(memory, 1),
        "sent": result.bytes.up,
        "published": result.bytes.down,
        **last.told(),
        "state_bytes": len(state),
        "state_ms": round(1e3 * saving, 1),
        "accuracy": result.accuracy.prequential,
        "no_change": result.accuracy.no_change,
        "around": {str(mark): marks.around(mark) for mark in MARKS if what == "rounds" and mark <= int(value)},
    }


def main() -> None:
    """Run every row that the file lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=ROWS)
    parser.add_argument("--seeds", type=lambda text: tuple(map(int, text.split(","))), default=(1,))
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(run(options.row, *options.seeds)))
        return
    origin, known = Origin.now("growth"), run_file.read(options.json) if options.json.exists() else ()
    kept = {(f"{k.run['features_of']}:{k.run['what']}:{k.run['value']}", k.run["seed"]): k for k in known}
    for seed in options.seeds:
        for row in options.only:
            if (row, seed) not in kept:
                command = [sys.executable, __file__, "--row", row, "--seeds", str(seed), "--json", str(options.json)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                kept[row, seed] = Kept(origin, json.loads(done.stdout.splitlines()[-1]))
                run_file.write(options.json, kept.values())
            print(row, seed, kept[row, seed].run, flush=True)


if __name__ == "__main__":
    main()
