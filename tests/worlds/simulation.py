"""A simulated federation on one virtual clock and one seed, with any faults."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError, UsageError
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import (
    Answered,
    ClientDecision,
    CoordinatorDecision,
    Dropped,
    OverBudget,
    PostUpdate,
    Predicted,
    Refused,
    Send,
)
from streamfl.protocol.events import ClientEvent, CoordinatorEvent
from streamfl.protocol.messages import FromClient, FromCoordinator, Leave, Update
from streamfl.records.past_features import PastFeatures
from streamfl.records.past_source import SourceWithPast
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.delayed import HalvesSource
from streamfl.run.dealing.source import TableSource
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.log.recorded import Recorded
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import ClientNode, CoordinatorNode, Node, unobserved
from streamfl.sampling import generator
from streamfl.testing.violation import Violation
from streamfl.wire import messages
from streamfl.wire.masking import MaskKeys
from worlds.audit import Audit
from worlds.bounds import check_client, check_coordinator
from worlds.delayed import Accounts, Halves
from worlds.faulty import Faults, FaultyTransport, Killed
from worlds.lies import STRANGERS, Liar
from worlds.observer import Observer
from worlds.spoilt_records import SpoiltSource

# The mean time that a killed machine is down, in seconds.
DOWN_FOR = 3.0


@dataclass
class AuditedClient(Client):
    """A client whose phase is checked after every event."""

    audit: Audit = field(default_factory=Audit)  # the auditor that checks it

    def handle(self, event: ClientEvent, now: float) -> list[ClientDecision]:
        """Handle one event, and check the phase."""
        before = self.phase
        decisions = super().handle(event, now)
        self.audit.moves(self.name, before, event, decisions, self.phase)
        check_client(self)
        for decision in decisions:
            if isinstance(decision, Answered):
                self.audit.answers(self.name, decision.batch)
            elif (
                isinstance(decision, Send) and isinstance(decision.message, Update) and self._flight.sent is not None
            ):
                self.audit.makes(decision.message, self._flight.sent.batches)
        return decisions


class AuditedCoordinator(Coordinator):
    """A coordinator whose phases are checked at every event, by `audit`."""

    audit: Audit

    def handle(self, event: CoordinatorEvent, now: float) -> list[CoordinatorDecision]:
        """Take one event, and have the phase checked."""
        before = self.phase
        decisions = super().handle(event, now)
        self.audit.coordinates(before, event, self.phase)
        check_coordinator(self)
        return decisions


@dataclass
class Machine:
    """A machine of a simulation, which is down from when it is killed until it starts again; its node is new then."""

    world: "Simulation"
    name: str

    @property
    def finished(self) -> bool:
        """Whether the simulation has ended."""
        return self.world.finished

    @property
    def wakes_at(self) -> float | None:
        """Return when it starts again, or wants a Tick."""
        return self.world.wakes(self.name)

    def step(self, now: float) -> bool:
        """Take a turn; return whether there was anything to do."""
        return self.world._turn(self.name)


@dataclass
class Simulation:
    """Runs a federation to its end, killing and restarting machines, and checks it after every step.

    Raises
    ------
    Violation
        By `run`: something that must hold did not. The message ends with the transcript.

    Examples
    --------
    >>> from streamfl.learning.profiles.adaptive.promotion import Promotion
    >>> from streamfl.run.settings import LearningSettings
    >>> from streamfl.run.dealing.dealing import deal
    >>> from streamfl.records.files.readers import read
    >>> table = read("river:Phishing")
    >>> learner = LearningSettings(features="rounds").learner("classification", seed=0)
    >>> simulation = Simulation(
    ...     table,
    ...     deal(table, 2, "round-robin", 0),
    ...     ClientSettings(learner, round_size=100),
    ...     CoordinatorSettings(learner, min_clients=2),
    ...     lambda: CoordinatorState(Promotion()),
    ...     faults=Faults(loss=0.1, kill=0.05),
    ... )
    >>> coordinator = simulation.run()
    >>> simulation.audit.accepted, simulation.kills > 0
    ({'c0': 625, 'c1': 625}, True)
    """

    # The records, and those of each client.
    table: Table
    logs: Mapping[str, Log]
    # Settings of the machines.
    client: ClientSettings
    coordinator: CoordinatorSettings
    state: Callable[[], CoordinatorState]  # makes the coordinator's first state
    # The faults that happen until `calm_after`, after which there are none, so that a run ends.
    faults: Faults = Faults()
    seed: int = 0  # the seed of all faults: the same seed gives the same run, step by step

    # If labels come later: makes the halves of a client from its records, and from what it has answered so far, which
    # no kill loses.
    halves: Callable[[TableSource, Recorded], HalvesSource] | None = None
    past: PastFeatures | None = None  # what sources of clients add to their records
    calm_after: float = 2000.0  # seconds of virtual time during which faults happen
    most_steps: int = 50_000  # the number of steps after which a run counts as stuck
    audit: Audit = field(default_factory=Audit)
    kills: int = 0
    recorded: dict[str, Recorded] = field(default_factory=dict)
    finished: bool = False
    observer: Observer = field(init=False)
    _steps: int = 0
    _clock: ManualClock = field(default_factory=ManualClock)
    _nodes: dict[str, ClientNode | CoordinatorNode] = field(default_factory=dict)
    _down: dict[str, float] = field(default_factory=dict)
    _starts: int = 0

    def __post_init__(self) -> None:
        rng = generator(self.seed, "simulation")
        self._rng = rng
        self._liar = Liar(self.seed, self.faults.liars)
        self._network = FaultyTransport(self._clock, rng, self.faults, self._watch, self._liar)
        if self.faults.lies or self.faults.forged:
            self.audit.liars = frozenset((*STRANGERS, *self.faults.liars))
        self.audit.misled = self.faults.misleading > 0.0
        self.observer = Observer(self.client.min_clients_per_sum)

    def run(self) -> Coordinator:
        """Run to the end and return the coordinator; every invariant has held after every step."""
        try:
            return self._run()
        except (Violation, BrokenInvariantError) as violation:
            transcript = "\n".join(self.audit.transcript[-200:])
            raise Violation(f"seed {self.seed}: {violation}\n{transcript}") from None

    def _run(self) -> Coordinator:
        self.audit.delayed = self._accounts()
        for name in ("coordinator", *self.logs):
            self._start(name)
        machines = [Machine(self, name) for name in ("coordinator", *self.logs)]
        nodes: list[Node] = [self, *machines]
        run(nodes, self._clock, self._turns)
        return self._finished()

    def _turns(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """Yield the world, then every machine, in random order; then the run has ended, or continues."""
        world, *machines = nodes
        yield world
        by_name = {machine.name: machine for machine in machines if isinstance(machine, Machine)}
        for name in self._rng.permutation(list(by_name)).tolist():
            yield by_name[name]
        self.finished = self._ended(["coordinator", *self._honest])

    @property
    def wakes_at(self) -> float | None:
        """Return when the next message arrives."""
        return self._later(self._network.arrivals())

    def step(self, now: float) -> bool:
        """Let the world do what no machine does: forge messages, and end all faults in time."""
        self._steps += 1
        if self._steps > self.most_steps:
            raise Violation(f"the run has not ended after {self.most_steps} steps")
        if now > self.calm_after or self._ended(self._honest):
            self._calm()
        self._network.forge()
        return False

    @property
    def _honest(self) -> list[str]:
        return [name for name in self.logs if name not in self.audit.liars]

    def _ended(self, names: Sequence[str]) -> bool:
        return all(name in self._nodes and self._nodes[name].finished for name in names)

    def _calm(self) -> None:
        """End all faults; what liars and forgers have brought in leaves, once the honest clients have."""
        self._network.faults = Faults()
        node = self._nodes.get("coordinator")
        if self.audit.liars and self._ended(self._honest) and isinstance(node, CoordinatorNode):
            for name, member in node.machine.state.members.items():
                if not member.left:
                    self._network.said(name, messages.encode(Leave(client=name, nonce=member.nonce)))

    def _turn(self, name: str) -> bool:
        if name in self._down:
            if self._clock.now() < self._down[name]:
                return False
            del self._down[name]
            self._start(name)
            return True
        node = self._nodes.get(name)
        if node is None or (node.finished and name != "coordinator"):
            return False
        try:
            busy = node.step(self._clock.now())
        except Killed:
            self._kill(name)
            return True
        except UsageError:  # its ledger is not that of its records: a host lets such a client fail
            if name not in self.faults.liars:
                raise
            self._kill(name)
            return True
        self._check(name, node)
        return busy

    def wakes(self, name: str) -> float | None:
        """Return when a machine starts again, or wants a Tick."""
        node = self._nodes.get(name)
        ticks = None if node is None or node.finished else node.wakes_at
        return self._later([self._down.get(name, ticks)])

    def _later(self, moments: Sequence[float | None]) -> float | None:
        """Return the first moment to come: for a machine that has ended they may be in the past."""
        return min((at for at in moments if at is not None and at > self._clock.now()), default=None)

    def _kill(self, name: str) -> None:
        self.kills += 1
        self._nodes.pop(name, None)
        self._down[name] = self._clock.now() + float(self._rng.exponential(DOWN_FOR))
        self.audit.note(self._clock.now(), name, "is killed")

    def _start(self, name: str) -> None:
        self._starts += 1
        self.audit.note(self._clock.now(), name, "starts")
        try:
            self._nodes[name] = self._coordinator_node() if name == "coordinator" else self._client_node(name)
        except Killed:
            self._kill(name)

    def _coordinator_node(self) -> CoordinatorNode:
        link = self._network.coordinator()

        def recover() -> CoordinatorState:
            return link.restore() or self.state()

        # Delayed labels are a log of their own, whose end the source alone knows.
        ends = self._log_ends if self.halves is None else None
        machine = AuditedCoordinator(self.coordinator, recover(), recover, ends)
        machine.audit = self.audit
        node = CoordinatorNode(machine, link, self._told)
        node.start(self._clock.now())
        return node

    @cached_property
    def _in_one_process(self) -> ClientSettings:
        return replace(self.client, learner=self.client.learner.in_one_process())

    def _client_node(self, name: str) -> ClientNode:
        nonce, settings = f"{self._starts:05d}.{name}", self._in_one_process
        machine = AuditedClient(settings, name, nonce, self._secrets(), audit=self.audit)
        times = self.table.times if len(self.table.times) else None
        source, link = self._source(name, times), self._network.client(name)
        if self.halves is None:
            read = source if self.past is None else SourceWithPast(source, self.past)
            return ClientNode(machine, read, link, self._record)
        halves = self.halves(source, self.recorded.setdefault(name, Recorded(targets=not self.table.labels)))
        return ClientNode(machine, halves, link, self._record)

    def _secrets(self) -> MaskKeys | None:
        if self.client.secure_aggregation != "masked":
            return None
        return MaskKeys(generator(self.seed, "masks", self._starts).bytes(64))

    def _record(self, event: Answered | Predicted | PostUpdate | Dropped | OverBudget) -> None:
        if isinstance(event, Answered):
            self.recorded[event.client].add_all(event.batch)
        elif isinstance(event, Dropped) and self.audit.liars:
            self.audit.dropped += 1
        else:
            unobserved(event)

    def _told(self, event: FromCoordinator | Refused) -> None:
        if isinstance(event, Refused):
            self.audit.refuses(event)

    def _accounts(self) -> dict[str, Accounts]:
        """Return empty accounts of the honest clients next to what their logs hold, if labels come later."""
        if self.halves is None:
            return {}
        logs = {
            name: Halves.of(self.halves(TableSource(self.table, name, self.logs[name]), Recorded()))
            for name in self._honest
        }
        window, among_liars = self.client.window or 0, bool(self.audit.liars)
        return {name: Accounts(name, log, window, may_lack_names=among_liars) for name, log in logs.items()}

    def _log_ends(self, partitions: Collection[str]) -> dict[str, int | None]:
        return {name: len(self.logs[name]) if name in self.logs else None for name in partitions}

    def _source(self, name: str, times: FloatArray | None) -> TableSource:
        if name not in self.faults.liars or not self.faults.spoilt:
            return TableSource(self.table, name, self.logs[name], times)
        source = SpoiltSource(self.table, name, self.logs[name], times)
        source.seed, source.share = self.seed, self.faults.spoilt
        return source

    def _watch(self, node: str, message: FromClient | FromCoordinator) -> None:
        self.audit.watch(self._clock.now(), node, message)
        if self.client.secure_aggregation == "masked" and not self.audit.liars:
            self.observer.hear(message)

    def _check(self, name: str, node: ClientNode | CoordinatorNode) -> None:
        if not isinstance(node, ClientNode) or node.machine.accounted is None or name in self.audit.liars:
            return
        machine, source, accounted = node.machine, node.source, node.machine.accounted
        if machine.intake.is_restored:
            self.audit.accounts(name, node.reading.total, accounted, machine.pending)
        if isinstance(source, TableSource):
            self.audit.accounts(name, source.read, accounted, machine.pending)
        elif isinstance(source, HalvesSource) and machine.intake.is_restored:
            self.audit.waits(
                name,
                machine._ledger,
                told=source.read,
                asked=sum(at < source.asked for at in self.audit.delayed[name].halves.features),
                pending=machine.pending,
                waiting=machine.intake.waiting,
            )

    def _finished(self) -> Coordinator:
        for name in self._honest:
            self._check_end(name)
        self.observer.check()
        node = self._nodes["coordinator"]
        if not isinstance(node, CoordinatorNode):
            raise Violation("the coordinator's node is not a CoordinatorNode")
        if node.machine.state.refused and not self.audit.liars:
            raise Violation(f"{node.machine.state.refused} messages of honest clients were refused")
        return node.machine

    @property
    def _may_keep_a_rest(self) -> bool:
        """Tell whether clients leave with records about which no total may be told: too few others are left."""
        return self.client.secure_aggregation == "masked" and not self.client.waits

    def _check_end(self, name: str) -> None:
        """Check that the ledger has all of a client's records, but for a rest that is too small to be sent."""
        if self.halves is not None and self._may_keep_a_rest:
            return
        if self.halves is not None:
            self.audit.delayed[name].check_end(self.audit.answered.get(name, set()), self.client.min_records)
            return
        log = self.logs[name]
        done = self.audit.accepted.get(name, 0) + self.audit.rejected.get(name, 0)
        rest = len(log) - done
        good = rest - sum(bad.position >= done for bad in log.rejected)
        if rest and not 0 < good < self.client.min_records and not self._may_keep_a_rest:
            raise Violation(f"{name} has {len(log)} records, but the ledger has {done} of them")
