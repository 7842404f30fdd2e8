"""What hostile members cost the honest ones, and which drifts they hide or make up.

    python benchmarks/hostile.py --quick --json hostile.json

Ten clients, or fifty, have 120 rounds of 60 records of covtype; their labels are exchanged in pairs from round 40 on,
and back from round 80 on. From round 5 on the first clients send what `streamfl_benchmarks.liars.hostile` makes of
their messages, through the machines and the transport of a replay; with `labels-flipped` the labels of their records
are flipped from round 20 on. Those of `KNOWING` know all but the secret from which the coordinator draws signs:
`unseen` pushes where public signs see nothing, `watching` as far as it counted in the round before, and `flipping`
flips the sign of honest numbers, which are mostly noise, at the largest size that counts. With `unseen-public` there
is no secret. `accuracy` is that of the records of the other clients, `honest` the same of a run without attack,
`missed` the exchanges without a restart within 20 rounds, `made_up` the other restarts and the local drifts that name
an honest client. A file that exists is continued. Figures: docs/results.md, "Hostile members".
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.aggregators import Aggregator
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round_kinds.by_client import ClientUpdates
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Predicted, Refused
from streamfl.protocol.messages import (
    FromClient,
    FromCoordinator,
    Joined,
    LocalDrift,
    Restarted,
    RoundClosed,
    Scores,
    Update,
)
from streamfl.protocol.records import Span
from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.imposed_drift import Injection, inject
from streamfl.run.dealing.source import TableSource
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.ports import ClientLink
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.sampling import generator
from streamfl.wire.sealing import Sealing
from streamfl.wire.signing import PrivateKey
from streamfl_benchmarks import run_file
from streamfl_benchmarks.liars.hostile import ATTACKS, Attack, labels_flipped
from streamfl_benchmarks.liars.knowing import Knowing
from streamfl_benchmarks.origin import OF_TODAY, Origin
from streamfl_benchmarks.processes import pool
from streamfl_benchmarks.run_file import Kept, Row

ROUNDS, SIZE, SWAPS, WITHIN = 120, 60, (40, 80), 20
BEGINS, FLIPPED_FROM = 5, 20
FLIPPED, NONE = "labels-flipped", "none"
PUBLIC = "unseen-public"
KNOWING = ("unseen", "watching", "flipping", PUBLIC)
ATTACKED = (*ATTACKS, FLIPPED, *KNOWING)
OTHERS: tuple[Aggregator, ...] = ("trimmed", "median", "krum", "geometric-median")


@dataclass(frozen=True)
class World:
    """A run to make."""

    attack: str
    hostile: int
    of: int
    features: str
    aggregation: Aggregator
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Return all clients; the first ones are hostile."""
        return tuple(f"c{i:02d}" for i in range(self.of))

    @property
    def honest(self) -> frozenset[str]:
        """Return the honest clients."""
        return frozenset(self.names[self.hostile :])


@dataclass
class HostileLink:
    """A client's link on which its updates and scores are exchanged for others.

    Updates may claim positions beyond the client's true ones. `ahead` is how far the ledger then is, so that the
    client, which is honest, goes on reading its own records.
    """

    link: ClientLink
    client: str
    attack: Attack
    seed: int
    ahead: int = 0
    sent: deque[tuple[str, tuple[Span, ...], int]] = field(default_factory=lambda: deque(maxlen=4))

    def send(self, message: FromClient) -> None:
        """Send what the attack makes of an update or of scores."""
        if isinstance(message, Update) and message.records and message.round >= BEGINS:
            changed = self.attack(message, self.seed)
            assert isinstance(changed, Update)
            self.sent.append((message.attempt, message.spans, _end(changed) - _end(message)))
            message = _later(changed, self.ahead)
        elif isinstance(message, Scores):
            changed_scores = self.attack(message, self.seed)
            assert isinstance(changed_scores, Scores)
            message = changed_scores
        elif isinstance(message, Update):
            message = _later(message, self.ahead)
        self.link.send(message)

    def receive(self) -> Sequence[FromCoordinator]:
        """Return what has arrived, with the client's true positions."""
        return [self._true(message) for message in self.link.receive()]

    def _true(self, message: FromCoordinator) -> FromCoordinator:
        if isinstance(message, RoundClosed):
            return replace(message, accepted=tuple(self._own(each) for each in message.accepted))
        if isinstance(message, Joined) and message.client == self.client and self.ahead:
            at = {name: end - self.ahead for name, end in message.positions.items()}
            return replace(message, positions=at)
        return message

    def _own(self, accepted: Any) -> Any:
        if accepted.client != self.client or not accepted.spans:
            return accepted
        for attempt, spans, more in self.sent:
            if attempt == accepted.attempt and more:
                self.ahead += more
                return replace(accepted, spans=spans, records=spans[0].end - spans[0].start)
        span = accepted.spans[0]
        return replace(accepted, spans=(Span(span.partition, span.start - self.ahead, span.end - self.ahead),))


def _end(update: Update) -> int:
    return update.spans[0].end


def _later(update: Update, by: int) -> Update:
    """Return an update whose positions are later ones."""
    if not by:
        return update
    spans = tuple(Span(span.partition, span.start + by, span.end + by) for span in update.spans)
    return replace(update, spans=spans, kept=replace(update.kept, held=(), let_go=()))


@dataclass
class Watch:
    """What a run has shown."""

    honest: frozenset[str]
    by_client: dict[str, list[int]] = field(default_factory=dict)
    restarts: list[int] = field(default_factory=list)
    local: dict[int, frozenset[str]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def client(self, event: object) -> None:
        """Take what a client reports."""
        if isinstance(event, Predicted):
            counts = self.by_client.setdefault(event.client, [0, 0, 0])
            counts[0] += len(event.truth)
            counts[1] += int((event.truth == event.served).sum())
            counts[2] += int((event.truth == event.no_change).sum())

    def coordinator(self, event: FromCoordinator | Refused) -> None:
        """Take what the coordinator publishes and refuses."""
        match event:
            case Restarted():
                self.restarts.append(event.round)
            case LocalDrift() if set(event.clients) & self.honest:
                self.local[event.drift] = self.local.get(event.drift, frozenset()) | frozenset(event.clients)
            case Refused(is_fault=True):
                self.refused[event.client] = self.refused.get(event.client, 0) + 1
            case _:
                pass

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run."""
        found = {swap: [t for t in self.restarts if swap <= t < swap + WITHIN] for swap in SWAPS}
        first = [rounds[0] for rounds in found.values() if rounds]
        return {
            "accuracy": accuracy(self.by_client, self.honest),
            "no_change": accuracy(self.by_client, self.honest, column=2),
            "missed": sum(not rounds for rounds in found.values()),
            "made_up": len(self.restarts) - len(first) + len(self.local),
            "restarts": self.restarts,
            "local": len(self.local),
            "refused": sum(self.refused.values()),
            "by_client": self.by_client,
        }


def accuracy(by_client: Mapping[str, Sequence[int]], clients: Collection[str], *, column: int = 1) -> float:
    """Return the part of the records of some clients that were predicted right; column 2: by the record before."""
    counts = [each for name, each in by_client.items() if name in clients]
    return round(sum(each[column] for each in counts) / sum(each[0] for each in counts), 4)


@lru_cache(maxsize=2)
def records(clients: int, seed: int) -> tuple[Table, dict[str, Log]]:
    """Return the table, and each client's records, drawn without replacement if there are enough."""
    table, total = covtype(), clients * ROUNDS * SIZE
    rows = generator(seed, "hostile").choice(len(table), total, replace=total > len(table))
    own = {f"c{i:02d}": rows[i::clients] for i in range(clients)}
    logs = {name: Log(each, table.y[each]) for name, each in own.items()}
    return table, inject(table, logs, Injection("class-swap", SWAPS), SIZE, seed)


def dealt(world: World) -> tuple[Table, dict[str, Log]]:
    """Return the records of a run, with flipped labels if that is the attack."""
    table, logs = records(world.of, world.seed)
    if world.attack != FLIPPED:
        return table, logs
    flipped = dict(logs)
    for name in world.names[: world.hostile]:
        y = logs[name].y.copy()
        y[FLIPPED_FROM * SIZE :] = labels_flipped(y[FLIPPED_FROM * SIZE :], len(table.labels))
        flipped[name] = replace(logs[name], y=y)
    return table, flipped


@dataclass(frozen=True)
class WatchedUpdates(ClientUpdates):
    """Rounds of which is known how much each client's steps count: from the log anybody can compute it."""

    shares: dict[str, float] = field(default_factory=dict)

    def count(self, closing: Closing, state: CoordinatorState) -> CountedUpdates:
        """Note the shares of the last round."""
        counted = super().count(closing, state)
        self.shares.update(counted.shares)
        return counted


def attack_of(world: World, client: str, machine: Coordinator) -> Attack | None:
    """Return what a hostile client sends in place of its messages; None: these themselves."""
    if world.attack not in KNOWING:
        return ATTACKS.get(world.attack)
    if world.attack == "flipping":
        return Knowing(lambda: machine.state.agreed, keeps=0.0)
    watches, kind = world.attack == "watching", machine._standing.kind
    if not isinstance(kind, WatchedUpdates):
        kind = machine._standing.kind = WatchedUpdates(machine.settings)
    shares = kind.shares
    share = (lambda: shares.get(client, 1.0)) if watches else None
    return Knowing(lambda: machine.state.agreed, None if watches else world.seed, share)


def figures(world: World) -> dict[str, Any]:
    """Make a run, and return its figures."""
    table, logs = dealt(world)
    watch, clock, transport = Watch(world.honest), ManualClock(), MemoryTransport()
    learning = LearningSettings.model_validate({"features": world.features})
    learner = learning.learner("classification", world.seed)
    settings = CoordinatorSettings(
        learner, min_clients=world.of, deadline=1.0, round_size=SIZE, aggregation=world.aggregation
    )
    if world.attack in KNOWING and world.attack != PUBLIC:
        settings = replace(settings, secret=Sealing.of(PrivateKey(bytes([world.seed] * 32)), "hostile"))
    machine = Coordinator(settings, CoordinatorState(ProfileSettings().create(ROUNDS, learner)))
    coordinator = CoordinatorNode(machine, transport.coordinator(), watch.coordinator)
    of_clients = ClientSettings(learner.in_one_process(), round_size=SIZE, measure=True)
    nodes = []
    for i, (name, log) in enumerate(logs.items()):
        link: ClientLink = transport.client(name)
        attack = attack_of(world, name, machine) if i < world.hostile else None
        if attack is not None:
            link = HostileLink(link, name, attack, world.seed)
        nodes.append(ClientNode(Client(of_clients, name, "1"), TableSource(table, name, log), link, watch.client))
    coordinator.start(clock.now())
    run([*nodes, coordinator], clock)
    return watch.figures()


def worlds(seed: int, *, quick: bool) -> list[World]:
    """Return the runs of a seed."""
    sizes: list[tuple[int, int, str, Aggregator]] = [(hostile, 10, "rounds", "mean") for hostile in (1, 2, 3)]
    sizes += [(hostile, 10, "auto", "mean") for hostile in ((2, 3) if quick else (1, 2, 3))]
    sizes += [(3, 10, "rounds", other) for other in OTHERS]
    sizes += [(hostile, 50, "rounds", "mean") for hostile in (5, 10)]
    if not quick:
        sizes += [(hostile, 10, "rounds", other) for hostile in (1, 2) for other in OTHERS]
        sizes += [(3, 10, "auto", other) for other in OTHERS]
        sizes += [(hostile, 50, "auto", "mean") for hostile in (5, 10)]
    return [World(attack, *size, seed) for size in sizes for attack in ATTACKED]


def honest_of(world: World) -> World:
    """Return the same run without attack."""
    return replace(world, attack=NONE, hostile=0)


def read(path: Path) -> dict[World, Kept]:
    """Return the finished runs of a file."""
    names = World.__dataclass_fields__
    kept = run_file.read(path) if path.exists() else []
    return {World(**{name: each.run[name] for name in names}): each for each in kept}


def line_of(world: World, found: dict[str, Any], honest: Row | None) -> dict[str, Any]:
    """Return a run as it is written: next to the accuracy of the same clients without attack."""
    by_client = found.pop("by_client")
    if honest is None:
        return asdict(world) | found | {"honest": found["accuracy"], "by_client": by_client}
    return asdict(world) | found | {"honest": accuracy(honest["by_client"], world.honest)}


def make(missing: Sequence[World], done: dict[World, Kept], path: Path, jobs: int) -> None:
    """Make runs; each is written when it has finished."""
    origin = Origin.now("hostile")
    if not missing:
        return
    with pool(min(jobs, len(missing))) as executor:
        running = {executor.submit(figures, world): world for world in missing}
        for future in as_completed(running):
            world = running[future]
            honest = None if world.attack == NONE else done[honest_of(world)].run
            done[world] = Kept(origin, line_of(world, future.result(), honest))
            run_file.write(path, done.values())


def table(done: Mapping[World, Row]) -> str:
    """Return a row for each attack: by setting its largest cost of all seeds, and drifts missed and made up."""
    settings = sorted({(w.features, w.of, w.aggregation, w.hostile) for w in done})
    head = [f"{hostile} of {of}, {features}, {how}" for features, of, how, hostile in settings]
    rows = ["| attack | " + " | ".join(head) + " |", "| --- |" + " ---: |" * len(head)]
    for attack in ATTACKED:
        cells = [_cell([line for w, line in done.items() if _is(w, attack, setting)]) for setting in settings]
        rows.append(f"| {attack} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _is(world: World, attack: str, setting: tuple[str, int, str, int]) -> bool:
    return (world.attack, world.features, world.of, world.aggregation, world.hostile) == (attack, *setting)


def _cell(lines: Sequence[Row]) -> str:
    if not lines:
        return ""
    cost = max(line["honest"] - line["accuracy"] for line in lines)
    missed, made_up = (sum(line[name] for line in lines) for name in ("missed", "made_up"))
    return f"{cost:.3f}" + (f" ({missed} missed, {made_up} made up)" if missed or made_up else "")


@click.command(help=__doc__.splitlines()[0])
@click.option("--quick", is_flag=True, help="One seed, and fewer settings.")
@click.option("--seeds", default=3, show_default=True, help="How many seeds, from 1.")
@click.option("--jobs", default=2, show_default=True, help="Runs at a time.")
@click.option(
    "--json", "path", type=click.Path(path_type=Path), required=True, help="A file that exists is continued."
)
@click.option("--renew", is_flag=True, help="Make no others than those of the file that other code has made.")
def main(quick: bool, seeds: int, jobs: int, path: Path, *, renew: bool) -> None:
    done = read(path)
    todo = [world for seed in range(1, 2 if quick else seeds + 1) for world in worlds(seed, quick=quick)]
    missing = [world for world in todo if world not in done]
    if renew:
        todo = list(done)
        missing = [world for world in todo if done[world].origin.age != OF_TODAY]
    honest = dict.fromkeys(map(honest_of, missing))
    make([world for world in honest if world in missing or world not in done], done, path, jobs)
    make([world for world in missing if world not in honest], done, path, jobs)
    click.echo(table({world: done[world].run for world in todo}))


if __name__ == "__main__":
    main()
