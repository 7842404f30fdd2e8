"""Whether one drift for all is told as one where clients have 1 to 30 records a second, and a local one as local.

    python benchmarks/one_drift.py --seeds 20 --json one_drift.jsonl

Eight clients: four have 1, 2.3, 5.5 and 12.8 records a second, the others 30. Kinds: `common`, the labels of all
change at one time; `local`, those of client c(seed mod 8) do. Clocks: `rows`, a replay of a file without times, and
`times`, one of a file with times, in rounds of equal size, so that the drift reaches clients in different rounds;
`interval`, rounds of four seconds, in which the slowest client has four records and sends after ten; `untimed`, the
same of records without times. A file that exists is continued. Figures: docs/results.md, "One drift".
"""

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import click
import numpy as np

from by_the_clock import Arriving
from streamfl.arrays import FloatArray
from streamfl.live.settings.settings import MANY
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import Finding, FromCoordinator, LocalDrift, Restarted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import DatedFinding, DatedLocalDrift, DatedRestart
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport

RATES = (1.0, 2.34, 5.48, 12.8, 30.0, 30.0, 30.0, 30.0)
SIZE, SECONDS, INTERVAL, LEAST = 40, 800.0, 4.0, 10
CLIENTS = len(RATES)
KINDS, CLOCKS = ("common", "local"), ("rows", "times", "interval", "untimed")
ROUNDS = LearningSettings(features="rounds")

Findings = Sequence[Finding | DatedFinding]


def drawn(kind: str, seed: int) -> tuple[Table, dict[str, Log]]:
    """Return records of 800 seconds in the order of their times, and each client's; half way they drift."""
    rng = np.random.default_rng(seed)
    counts = np.rint(SECONDS * np.array(RATES)).astype(int)
    times, owners = rng.uniform(0.0, SECONDS, counts.sum()), np.repeat(np.arange(CLIENTS), counts)
    order = np.argsort(times, kind="stable")
    times, owners = times[order], owners[order]
    X = rng.normal(size=(len(times), 5))
    y = (X @ rng.normal(size=(5, 3)) + 0.3 * rng.normal(size=(len(times), 3))).argmax(axis=1)
    drifted = (times >= SECONDS / 2) & ((kind == "common") | (owners == seed % CLIENTS))
    y = np.where(drifted, (y + 1) % 3, y).astype(np.float64)
    table = Table("drawn", tuple("abcde"), X, y, ("0", "1", "2"), np.arange(len(y)), times=1.7e9 + times)
    rows = {f"c{i}": np.flatnonzero(owners == i) for i in range(CLIENTS)}
    return table, {name: Log(own, y[own]) for name, own in rows.items()}


def replayed(table: Table, logs: dict[str, Log], seed: int, *, timed: bool) -> Findings:
    """Return what a replay finds, in rounds of 40 records of every client."""
    table = table if timed else Table(table.name, table.features, table.X, table.y, table.labels, table.places)
    settings = ReplaySettings(SIZE, seed=seed, learning=ROUNDS, measure=False)
    result = Replay(table, logs, settings).run().result
    return sorted((*result.local_drifts, *result.restarts), key=lambda found: found.round)


def by_the_clock(table: Table, logs: dict[str, Log], seed: int, *, timed: bool) -> Findings:
    """Return what a federation finds whose rounds close by the clock, while records arrive at their times."""
    learner, clock, transport = ROUNDS.learner("classification", seed), ManualClock(), MemoryTransport()
    found: list[Finding] = []

    def take(message: FromCoordinator | object) -> None:
        if isinstance(message, Finding):
            found.append(message)

    settings = CoordinatorSettings(learner=learner, min_clients=CLIENTS, interval=INTERVAL, deadline=INTERVAL / 2.0)
    coordinator = Coordinator(settings, CoordinatorState(ProfileSettings().create(1000, learner)))
    node = CoordinatorNode(coordinator, transport.coordinator(), take)
    client = ClientSettings(learner, round_size=SIZE, clock="interval", min_records=LEAST, capacity=MANY)
    nodes = []
    for name, log in logs.items():
        times: FloatArray = table.times[log.rows] - 1.7e9
        source = Arriving(table, name, log, clock, times, table.times if timed else None)
        nodes.append(ClientNode(Client(client, name, "1"), source, transport.client(name)))
    node.start(clock.now())
    run([*nodes, node], clock)
    return found


FEDERATIONS: dict[str, Callable[[Table, dict[str, Log], int], Findings]] = {
    "rows": lambda table, logs, seed: replayed(table, logs, seed, timed=False),
    "times": lambda table, logs, seed: replayed(table, logs, seed, timed=True),
    "interval": lambda table, logs, seed: by_the_clock(table, logs, seed, timed=True),
    "untimed": lambda table, logs, seed: by_the_clock(table, logs, seed, timed=False),
}


def figures(found: Findings) -> dict[str, object]:
    """Return what was told: the clients named as local at first and at the end, and the findings."""
    local = [each for each in found if isinstance(each, LocalDrift | DatedLocalDrift)]
    common = {each.drift for each in found if isinstance(each, Restarted | DatedRestart)}
    common |= {each.drift for each in local if each.state == "corrected"}
    return {
        "first": sorted({client for each in local if each.state == "latched" for client in each.clients}),
        "local": sorted({client for each in local if each.drift not in common for client in each.clients}),
        "told": [
            [each.round, getattr(each, "state", "restart"), each.drift, each.since, *getattr(each, "clients", ())]
            for each in found
        ],
    }


@click.command()
@click.option("--seeds", default=20, show_default=True, help="How many seeds, from 1.")
@click.option("--json", "path", type=click.Path(path_type=Path), default="one_drift.jsonl", show_default=True)
def main(seeds: int, path: Path) -> None:
    """Run what the file lacks, and print in how many runs the right clients are named as local at the end."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["kind"], line["clock"], line["seed"]): line for line in lines}
    for seed, kind, clock in product(range(1, seeds + 1), KINDS, CLOCKS):
        if (kind, clock, seed) in done:
            continue
        line = {"kind": kind, "clock": clock, "seed": seed} | figures(FEDERATIONS[clock](*drawn(kind, seed), seed))
        done[kind, clock, seed] = line
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
    click.echo(
        "| drift | clock | right at the end | some client local at first | runs |\n| --- | --- | ---: | ---: | ---: |"
    )
    for kind, clock in product(KINDS, CLOCKS):
        runs = [line for (k, c, seed), line in done.items() if (k, c) == (kind, clock) and seed <= seeds]
        right = [line["local"] == ([] if kind == "common" else [f"c{line['seed'] % CLIENTS}"]) for line in runs]
        first = sum(bool(line["first"]) for line in runs)
        click.echo(f"| {kind} | {clock} | {sum(right)} | {first} | {len(runs)} |")


if __name__ == "__main__":
    main()
