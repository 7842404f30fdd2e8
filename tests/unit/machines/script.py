"""Parts of scripts of events: records, hand-made messages, and a federation driven without a transport."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from worlds.phases import may_follow

from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.ladder import LadderSettings
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.changes import followed
from streamfl.protocol.decisions import Commit, Dropped, Fetch, Finished, Publish, Refused, Seek, Send
from streamfl.protocol.events import RecordsFetched, RecordsRead, SourceEnded, Tick
from streamfl.protocol.messages import (
    Accepted,
    FromClient,
    FromCoordinator,
    Join,
    Joined,
    Leave,
    ModelPublished,
    ModelsChanged,
    RegistryPublished,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Served,
    Slot,
    SlotLosses,
    Update,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Batch, Rejection, Span
from streamfl.protocol.registry import Registry
from streamfl.run.settings import LearningSettings
from streamfl.wire import codec, messages
from streamfl_benchmarks.liars.fields import altered

M = TypeVar("M")
LEARNER: Learner = LearningSettings(features="rounds").learner("classification", 0)
REGISTRY = Registry(1, ("x",), ("a", "b"), np.zeros(1), np.ones(1))
SLOT = Slot(name="m", version=1, eta=1.0)


# --- records ---------------------------------------------------------------------------------------------------


def batch(labels: str, *, start: int = 0, of: str = "c0", values: Sequence[float] | None = None) -> Batch:
    """Return records of one feature `x`, one a character: its label, or `!` for a bad one.

    The value of a record is 1 for label a, -1 for every other, if it is not given.
    """
    good = [i for i, label in enumerate(labels) if label != "!"]
    names = tuple(sorted({labels[i] for i in good}))
    X = [(1.0 if labels[i] == "a" else -1.0) for i in good] if values is None else list(values)
    return Batch(
        span=Span(of, start, start + len(labels)),
        positions=start + np.array(good, np.int64),
        features=("x",),
        X=np.array(X, np.float64).reshape(len(good), 1),
        y=np.array([names.index(labels[i]) for i in good], np.float64),
        labels=names,
        rejected=tuple(Rejection(start + i, "bad") for i, label in enumerate(labels) if label == "!"),
    )


# --- a coordinator's messages, by hand -------------------------------------------------------------------------


def joined(client: str = "c0", *, entry: int = 1, start: int = 1, **more: Any) -> Joined:
    """Return the answer to a start's first Join, by default of a client that the ledger knows nothing of."""
    fields: dict[str, Any] = {"nonce": f"i{start}", "incarnation": start, "positions": {}, "read": 0, "question": 1}
    return Joined(client=client, entry=entry, **(fields | more))


def opening(
    entry: int = 1,
    *,
    t: int | None = None,
    slots: tuple[Slot, ...] = (SLOT,),
    registry: Registry = REGISTRY,
    weights: Mapping[str, np.ndarray] | None = None,
    **more: Any,
) -> tuple[FromCoordinator, ...]:
    """Return what opens a round: the registry, every model, RoundOpened. Models are zero if not given."""
    slots = tuple(replace(slot, version=entry) for slot in slots)
    zero = np.zeros((registry.rows, len(registry.labels)))
    fields: dict[str, Any] = {
        "entry": entry,
        "round": entry if t is None else t,
        "epoch": 1,
        "block": 1,
        "registry": registry.version,
        "slots": slots,
        "serves": slots[0].name,
        "known_labels": len(registry.labels),
    }
    models = (
        ModelPublished(
            slot=slot.name,
            version=slot.version,
            registry=registry.version,
            weights=(weights or {}).get(slot.name, zero),
        )
        for slot in slots
    )
    return (RegistryPublished(registry=registry), *models, altered(RoundOpened(**fields), **more))


def closed(entry: int, *accepted: Update, **more: Any) -> RoundClosed:
    """Return the ledger entry that accepts some updates."""
    fields: dict[str, Any] = {
        "entry": entry,
        "round": entry,
        "epoch": 1,
        "block": 1,
        "accepted": tuple(
            Accepted(
                client=u.client,
                attempt=u.attempt,
                spans=u.spans,
                records=u.records,
                rejected=u.rejected,
                watermark=u.watermark,
            )
            for u in accepted
        ),
        "records": sum(u.records for u in accepted),
        "trained": sum(u.trained for u in accepted),
        "rejected": sum(u.rejected for u in accepted),
        "losses": {"m": 0.5},
        "serves": "m",
        "readings": {},
        "served": Served(),
        "model": "",
        "registry": 1,
    }
    return RoundClosed(**(fields | more))


def client(name: str = "c0", *, start: int = 1, secrets: Any = None, **settings: Any) -> Client:
    """Return a start of a client with rounds of four records."""
    fields: dict[str, Any] = {"learner": LEARNER, "round_size": 4, "retry": 5.0}
    return Client(ClientSettings(**(fields | settings)), name, f"i{start}", secrets)


def feed(machine: Client | Coordinator, *events: Any, now: float = 0.0) -> list[Any]:
    """Hand over events in turn, messages as they are, and return all that was decided."""
    return [decision for event in events for decision in handled(machine, event, now)]


def handled(machine: Client | Coordinator, event: Any, now: float) -> list[Any]:
    """Handle one event and return the decisions; the change of a client's phase must be in the table."""
    if isinstance(machine, Coordinator):
        return [*machine.handle(event, now), *answered(machine, now)]
    before = machine.phase
    decisions = machine.handle(event, now)
    assert may_follow(before, event, decisions, machine.phase), (before, event, machine.phase)
    return [*decisions]


def answered(machine: Coordinator, now: float) -> list[Any]:
    """Answer the clients that have asked."""
    decisions: list[Any] = []
    while machine.has_questions:
        decisions += machine.answer(now)
    return decisions


def sent(decisions: Iterable[Any], kind: type[M]) -> list[M]:
    """Return the messages of a kind that a client sends."""
    return [d.message for d in decisions if isinstance(d, Send) and isinstance(d.message, kind)]


def broadcast(decisions: Iterable[Any], kind: type[M]) -> list[M]:
    """Return the messages of a kind that a coordinator publishes."""
    publishing = [d for d in decisions if isinstance(d, Publish | Commit)]
    return [message for d in publishing for message in d.messages if isinstance(message, kind)]


def weights_in(published: Iterable[Any]) -> dict[tuple[str, int], np.ndarray]:
    """Return the weights of models among messages by slot and version, whole or as changes of those before."""
    found: dict[tuple[str, int], np.ndarray] = {}
    for message in published:
        if isinstance(message, ModelPublished):
            found[message.slot, message.version] = message.weights
        if isinstance(message, ModelsChanged):
            before = {slot: W for (slot, version), W in found.items() if version == message.version - 1}
            models = followed(message, before)
            assert models is not None, "changes of models that were never published"
            found |= {(slot, message.version): W for slot, W in models.items()}
    return found


def first_update(machine: Client, records: Batch, **more: Any) -> Update:
    """Let a client join, and return its update of round 1."""
    decisions = feed(machine, RecordsRead((records,)), joined(machine.name))
    decisions += feed(machine, *opening(**more))
    (update,) = sent(decisions, Update)
    return update


# --- clients' messages, by hand --------------------------------------------------------------------------------


def join(name: str, *, start: int = 1, labels: Sequence[str] = ("a", "b"), **more: Any) -> Join:
    """Return the introduction of a client's start with four records of the feature x, mean 0 and variance 1.

    It takes the place of the start before, of which it knows.
    """
    moments = Moments(("x",), np.array([4.0]), np.zeros(1), np.array([4.0]))
    fields: dict[str, Any] = {"nonce": f"i{start}", "after": start - 1, "moments": moments, "records": 4}
    return Join(client=name, labels=tuple(labels), **(fields | more))


def leave(name: str, *, start: int = 1, **more: Any) -> Leave:
    """Return the Leave of a client's start."""
    return Leave(client=name, **({"nonce": f"i{start}", "after": start - 1} | more))


def answer(
    opened: RoundOpened, name: str, *, loss: float = 0.3, records: int = 4, start: int = 0, **more: Any
) -> Update:
    """Return the update of a client whose every model has the same mean loss, and steps by 0.01 of its number."""
    labels = 2 + len(more.get("new_labels", ()))
    shape = (1 + 1, labels)
    step = 0.01 * (1 + int(name[1:]))
    mine = [slot for slot in opened.slots if slot.is_for(name)]
    fields: dict[str, Any] = {
        "client": name,
        "attempt": "1-1",
        "entry": opened.entry,
        "round": opened.round,
        "epoch": opened.epoch,
        "registry": opened.registry,
        "records": records,
        "trained": records,
        "rejected": 0,
        "spans": (Span(name, start, start + records),),
    }
    numbers: dict[str, Any] = {}
    if records:
        numbers = {
            "losses": {slot.name: sums_of(records, loss) for slot in mine},
            "differences": {trained: np.full(shape, step) for trained in opened.trained_by(name, mine)},
            "squared_norm": 2.0 * records,
            "largest_norm": 2.0,
            "second_moments": records * np.eye(2) if opened.asks.second_moments else None,
        }
    return altered(Update(**fields), **(numbers | more))


def sums_of(records: int, score: float) -> SlotLosses:
    """Return sums of scores that are all the same; proper ones are half of them, as where nothing is clipped."""
    return SlotLosses(loss=score * records, square=score * score * records, proper=score * records / 2.0)


def fits(update: Update, *, right: float = 1.0, exchanged: float = 1.0) -> np.ndarray:
    """Return S of a client with as many records of a as of b: mean scores of labels as they are, and exchanged."""
    lost = -update.records / 2 * 2.0 * np.log(2.0)
    return lost * np.array([[right, exchanged], [exchanged, right]])


def scores(update: Update, asked: Score, loss: float, *, exchanged: float = 1.0, **more: Any) -> Scores:
    """Return a client's answer to Score: every model has the same mean loss, and steps to 0.5 more.

    Those that it is asked for labels of lose 1; `exchanged` is the mean score that exchanged labels would have.
    """
    n, mine = update.records, [slot for slot in asked.slots if slot.is_for(update.client)]
    lost = {slot.name: 1.0 if slot.name in asked.relabel else loss for slot in mine}
    fields: dict[str, Any] = {
        "client": update.client,
        "attempt": update.attempt,
        "entry": update.entry,
        "epoch": update.epoch,
        "stage": asked.stage,
        "resumed": asked.resumed,
        "losses": {name: sums_of(n, x) for name, x in lost.items()},
        "differences": {slot.name: np.full((2, 2), 0.5) for slot in mine if slot.trained},
        "relabelling": {slot.name: fits(update, exchanged=exchanged) for slot in mine if slot.name in asked.relabel},
    }
    return Scores(**(fields | more))


def plain(**more: Any) -> Promotion:
    """Return a profile of five rungs and a shadow whose steps are the clients' own, and which sees losses only."""
    ladder = LadderSettings(orders=(0, 2, 4, 6, 8), heavy=(), averages=False, whitened=False)
    return Promotion(**({"ladder": ladder, "detector": GLRDetector()} | more))


def coordinator(min_clients: int = 2, *, profile: Paper | Promotion | None = None, **settings: Any) -> Coordinator:
    """Return a coordinator without scaling, so that the registry stays as it is."""
    fields: dict[str, Any] = {"learner": LEARNER, "min_clients": min_clients, "scaling": False} | settings
    return Coordinator(CoordinatorSettings(**fields), CoordinatorState(plain() if profile is None else profile))


def begun(machine: Coordinator, *names: str, now: float = 0.0) -> RoundOpened:
    """Let clients join, and return the opening of round 1."""
    (opened,) = broadcast(feed(machine, *(join(name) for name in names), now=now), RoundOpened)
    return opened


def refusals(decisions: Iterable[Any]) -> list[tuple[str, str]]:
    """Return who was refused, and why."""
    return [(d.client, d.reason) for d in decisions if isinstance(d, Refused)]


# --- a whole federation ----------------------------------------------------------------------------------------

PROFILES: dict[str, Callable[[], CoordinatorState]] = {
    "adaptive": lambda: CoordinatorState(Promotion()),
    "paper": lambda: CoordinatorState(
        Paper(
            PaperSettings(
                horizon=40,
                rho_scale=0.0003,
                new_instance="warm",
                new_block="warm",
                after_alarm="warm",
                history_rounds=4,
                history_records=6,
            )
        )
    ),
}


@dataclass
class Federation:
    """Clients, each with a list of records, and a coordinator; every decision is carried out at once, in order.

    Parameters
    ----------
    coordinator
        The machine.
    records
        The records of each client, one batch a partition, in order.
    settings
        How the clients work.
    restart
        Given the coordinator after a Commit, returns one that goes on in its place, or the same.
    """

    coordinator: Coordinator
    records: Mapping[str, Batch]
    settings: ClientSettings
    restart: Callable[[Coordinator], Coordinator] = lambda machine: machine
    clients: dict[str, Client] = field(default_factory=dict)
    log: list[FromClient | FromCoordinator] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)
    now: float = 0.0
    finished: set[str] = field(default_factory=set)
    _inbox: deque[FromClient] = field(default_factory=deque)
    _outbox: deque[FromCoordinator] = field(default_factory=deque)

    def run(self, steps: int = 5000) -> "Federation":
        """Run to the end."""
        self.clients = {name: Client(self.settings, name, "i1") for name in self.records}
        self.read = dict.fromkeys(self.records, 0)
        for _ in range(steps):
            if not self._step():
                self._wait()
            if self.finished == set(self.clients):
                return self
        raise AssertionError("the federation did not come to its end")

    def _wait(self) -> None:
        """Let it be the next moment that a client waits for."""
        due = {name: at for name, machine in self.clients.items() if (at := machine.wakes_at) is not None}
        self.now = max(self.now, min(due.values()))
        for name, at in due.items():
            if at <= self.now:
                self._client(name, Tick())

    def of(self, kind: type[M]) -> list[M]:
        """Return all messages of a kind, in order."""
        return [message for message in self.log if isinstance(message, kind)]

    def _step(self) -> bool:
        busy = [self._feed(name) for name in self.clients]
        while self._inbox or self._outbox:
            busy.append(True)
            while self._outbox:
                message = self._outbox.popleft()
                for name in self.clients:
                    self._client(name, message)
            if self._inbox:
                self._coordinator(self._inbox.popleft())
        return any(busy)

    def _feed(self, name: str) -> bool:
        machine, source = self.clients[name], self.records[name]
        room, at = machine.room, self.read[name]
        if at > source.span.end or not (room or at == source.span.end):
            return False
        if at == source.span.end:
            self.read[name] += 1
            self._client(name, SourceEnded())
            return True
        self.read[name] = min(at + room, source.span.end)
        self._client(name, RecordsRead((cut(source, at, self.read[name]),)))
        return True

    def _client(self, name: str, event: Any) -> None:
        for decision in handled(self.clients[name], event, self.now):
            match decision:
                case Send(message):
                    self.log.append(message)
                    self._inbox.append(message)
                case Seek(positions):
                    self.read[name] = positions.get(name, 0)
                case Fetch(positions):
                    self._client(name, RecordsFetched((fetched(self.records[name], positions.get(name, ())),)))
                case Finished():
                    self.finished.add(name)
                case Dropped(error=error):
                    self._dropped(error)
                case _:
                    pass

    def _dropped(self, error: Exception) -> None:
        raise error

    def _coordinator(self, event: FromClient) -> None:
        for decision in handled(self.coordinator, event, self.now):
            match decision:
                case Commit(told_) | Publish(told_):
                    self._tell(told_)
                    if isinstance(decision, Commit):
                        self._restarted()
                case Refused() | Finished():
                    pass

    def _restarted(self) -> None:
        another = self.restart(self.coordinator)
        if another is not self.coordinator:
            self.coordinator = another
            for decision in another.start(self.now):
                if isinstance(decision, Publish | Commit):
                    self._tell(decision.messages)

    def _tell(self, told_: Sequence[FromCoordinator]) -> None:
        self.log.extend(told_)
        self._outbox.extend(told_)


def cut(source: Batch, start: int, end: int) -> Batch:
    """Return the part of a batch that covers [start, end)."""
    after = source.after(start)
    there = int(np.searchsorted(after.positions, end))
    return replace(
        after,
        span=Span(source.span.partition, start, end),
        positions=after.positions[:there],
        X=after.X[:there],
        y=after.y[:there],
        rejected=tuple(r for r in after.rejected if r.position < end),
    )


def fetched(source: Batch, positions: Sequence[int]) -> Batch:
    """Return single records of a batch."""
    return source.only(np.flatnonzero(np.isin(source.positions, list(positions))))


def swapping(name: str, rounds: int, *, size: int = 20, at: int | None = None, seed: int = 0) -> Batch:
    """Return the records of a client: two Gaussian classes, exchanged from round `at` on; every 31st is bad."""
    rng = np.random.default_rng([seed, int(name[1:])])
    n = rounds * size
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) * [1.0, 20.0] + np.outer(y, [3.0, 40.0]) + [0.0, 500.0]
    if at is not None:
        y = np.where(np.arange(n) >= (at - 1) * size, 1 - y, y)
    everywhere = np.arange(n + n // 31)
    bad = everywhere[everywhere % 31 == 7][: n // 31]
    good = np.setdiff1d(everywhere, bad)[:n]
    span = Span(name, 0, int(max(good[-1], bad[-1] if len(bad) else 0)) + 1)
    rejected = tuple(Rejection(int(p), "bad") for p in bad)
    return Batch(span, good, ("x", "y"), X, y.astype(np.float64), ("a", "b"), rejected)


def federation(profile: str = "adaptive", *, rounds: int = 16, at: int | None = 11, **more: Any) -> Federation:
    """Return three clients with rounds of 20 whose classes are exchanged at a round."""
    settings = CoordinatorSettings(learner=LEARNER, min_clients=3)
    records = {name: swapping(name, rounds, at=at) for name in ("c0", "c1", "c2")}
    return Federation(
        Coordinator(settings, PROFILES[profile]()),
        records,
        ClientSettings(learner=LEARNER, round_size=20),
        **more,
    )


def parting(*, rounds: int = 26, at: int = 9, back: int | None = None, size: int = 40, **more: Any) -> Federation:
    """Return six clients of which c1 alone has its classes exchanged at a round, and back again at another."""
    records = {f"c{i}": swapping(f"c{i}", rounds, size=size, at=at if i == 1 else None) for i in range(6)}
    if back is not None:
        mine = records["c1"]
        again = np.arange(len(mine)) >= (back - 1) * size
        records["c1"] = replace(mine, y=np.where(again, 1.0 - mine.y, mine.y))
    machine = Coordinator(CoordinatorSettings(learner=LEARNER, min_clients=6), CoordinatorState(Promotion()))
    return Federation(machine, records, ClientSettings(learner=LEARNER, round_size=size), **more)


def uncounted(machine: Coordinator) -> bytes:
    """Return the bytes of a coordinator's state but for the number of refused messages."""
    return codec.encode(replace(machine.state, refused=0))


def reborn(machine: Coordinator) -> Coordinator:
    """Return a coordinator that has nothing but the bytes of the other's state."""
    return Coordinator(machine.settings, codec.decode(CoordinatorState, codec.encode(machine.state)))


def as_bytes(told_: Iterable[FromClient | FromCoordinator]) -> list[bytes]:
    """Return messages as they travel."""
    return [messages.encode(message) for message in told_]
