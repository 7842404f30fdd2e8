"""What rounds by the clock cost: unequal rates, a client that falls silent and one that comes late, next to replay.

Run: python benchmarks/by_the_clock.py [--seeds N] [--features auto,rounds] [--swaps]

Forest cover types, shuffled, arrive one after the other, 60 a second, at 12 clients, whose settings are those of
deploy/federation.toml but for its clock: rounds close every 10 seconds, so that a mean round has 600 records. The
clock is moved by hand. Accuracy is prequential, over all records. Beside it, `replay` of the same dealing, in rounds
of 50 records; and of the same records in the same order, dealt in turn.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.live.settings.settings import MANY
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import RoundClosed
from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.source import TableSource
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.sampling import generator

CLIENTS, SIZE, LEAST, FASTEST = 12, 50, 10, 30.0
INTERVAL, DEADLINE, EXPIRE_AFTER = 10.0, 5.0, 3
RATE = CLIENTS * SIZE / INTERVAL
SILENT, LATE = "c05", "c08"


@dataclass(frozen=True)
class World:
    """How clients differ: in rates; whether one hangs in the middle third; whether one comes at half time.

    A client that hangs takes part in nothing; its records wait, and it learns them when it is back.
    """

    name: str
    rates: bool = False
    silent: bool = False
    late: bool = False


WORLDS = (
    World("equal rates"),
    World("rates of 1:30", rates=True),
    World("and a silent client", rates=True, silent=True),
    World("and a late client", rates=True, silent=True, late=True),
)


class Arriving(TableSource):
    """Records that arrive at given times, shape (records,); `measured` are the times that they have, if any."""

    def __init__(
        self,
        table: Table,
        name: str,
        log: Log,
        clock: ManualClock,
        times: FloatArray,
        measured: FloatArray | None = None,
    ) -> None:
        super().__init__(table, name, log, measured)
        self._clock, self._times = clock, times

    def poll(self, limit: int) -> Any:
        """Return the next records that have arrived."""
        return super().poll(min(limit, int(np.searchsorted(self._times, self._clock.now(), "right")) - self.read))


@dataclass
class Absent:
    """A client that does nothing for a while, and takes no notice."""

    node: ClientNode
    begins: float
    ends: float
    clock: ManualClock

    @property
    def finished(self) -> bool:
        """Whether the client has left."""
        return self.node.finished

    @property
    def wakes_at(self) -> float | None:
        """When the client wants a Tick, or is back."""
        return self.ends if self._is_absent() else self.node.wakes_at

    def step(self, now: float) -> bool:
        """Do what the client does, unless it is absent."""
        return not self._is_absent() and self.node.step(now)

    def _is_absent(self) -> bool:
        return self.begins <= self.clock.now() < self.ends


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--features", default="auto,rounds")
    parser.add_argument("--swaps", action="store_true", help="swap two classes at a third and two at two thirds")
    options = parser.parse_args()
    print("| features | clients | by the clock | replay, same dealing | replay, in turn |")
    print("| --- | --- | ---: | ---: | ---: |")
    for features in options.features.split(","):
        for world in WORLDS:
            found = [figures(world, features, seed, swaps=options.swaps) for seed in range(options.seeds)]
            cells = " | ".join(f"{np.mean(part):.4f} ({spread(part)})" for part in zip(*found, strict=True))
            print(f"| {features} | {world.name} | {cells} |", flush=True)


def spread(values: tuple[float, ...]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}"


def figures(world: World, features: str, seed: int, *, swaps: bool) -> tuple[float, float, float]:
    """Return the accuracy by the clock, of the replay of the same dealing, and of the replay dealt in turn."""
    table = shuffled(covtype(), seed)
    y = swapped(table.y) if swaps else table.y
    learning, logs = LearningSettings.model_validate({"features": features}), dealt(replace(table, y=y), world, seed)
    settings = ReplaySettings(round_size=SIZE, min_records=LEAST, seed=seed, learning=learning)
    ways = logs, deal(replace(table, y=y), CLIENTS, "round-robin", seed)
    return (by_the_clock(table, logs, world, learning, seed), *(replayed(table, way, settings) for way in ways))


def swapped(y: FloatArray) -> FloatArray:
    """Return labels of which 0 and 1 are swapped after a third, and 1 and 2 after two thirds."""
    first, second = len(y) // 3, 2 * len(y) // 3
    changed = y.copy()
    for start, names in ((first, (0.0, 1.0)), (second, (1.0, 2.0))):
        part = changed[start:].copy()
        for old, new in (names, names[::-1]):
            changed[start:][part == old] = new
    return changed


def dealt(table: Table, world: World, seed: int) -> dict[str, Log]:
    """Deal every record to a client that is there, by rate."""
    names = tuple(deal(table, CLIENTS, "round-robin", seed))
    rng, n = generator(seed, "rates"), len(table)
    rates = rng.permutation(np.geomspace(1.0, FASTEST, CLIENTS)) if world.rates else np.ones(CLIENTS)
    there = np.ones((2, CLIENTS))
    there[0, names.index(LATE)] = not world.late
    chosen = [rng.choice(CLIENTS, n, p=rates * half / (rates @ half)) for half in there]
    owner = np.where(np.arange(n) < n // 2, *chosen)
    rows = {name: np.flatnonzero(owner == c) for c, name in enumerate(names)}
    return {name: Log(mine, table.y[mine]) for name, mine in rows.items()}


def replayed(table: Table, logs: Mapping[str, Log], settings: ReplaySettings) -> float:
    """Return the accuracy of a replay."""
    accuracy = Replay(table, dict(logs), settings).run().result.accuracy
    return 0.0 if accuracy is None else accuracy.prequential


def by_the_clock(table: Table, logs: Mapping[str, Log], world: World, learning: LearningSettings, seed: int) -> float:
    """Return the accuracy of a federation whose rounds close by the clock."""
    learner, clock, transport = learning.learner("classification", seed), ManualClock(), MemoryTransport()
    closed: list[RoundClosed] = []
    coordinator = Coordinator(
        CoordinatorSettings(
            learner=learner,
            min_clients=CLIENTS - world.late,
            interval=INTERVAL,
            deadline=DEADLINE,
            expire_after=EXPIRE_AFTER,
        ),
        CoordinatorState(ProfileSettings().create(10_000, learner)),
    )
    told = lambda message: closed.append(message) if isinstance(message, RoundClosed) else None  # noqa: E731
    node = CoordinatorNode(coordinator, transport.coordinator(), told)
    client = ClientSettings(learner, round_size=SIZE, clock="interval", min_records=LEAST, capacity=MANY)
    end = len(table) / RATE
    absences = {SILENT: (end / 3, 2 * end / 3)} if world.silent else {}
    absences |= {LATE: (0.0, end / 2)} if world.late else {}
    nodes: list[Any] = []
    for name, log in logs.items():
        source = Arriving(table, name, log, clock, log.rows / RATE)
        one = ClientNode(Client(client, name, "1"), source, transport.client(name))
        nodes.append(Absent(one, *absences[name], clock) if name in absences else one)
    node.start(clock.now())
    run([*nodes, node], clock)
    records = sum(entry.served.records for entry in closed)
    if records < len(table) - CLIENTS * LEAST:  # fewer than LEAST of each stay pending
        raise SystemExit(f"{records} of {len(table)} records were served")
    return sum(entry.served.correct for entry in closed) / records


if __name__ == "__main__":
    main()
