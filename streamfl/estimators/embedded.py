"""A federation inside one process, fed record by record: the very machines of a live one, over memory."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.between.native.at_client import NativeAtClient
from streamfl.core.between.native.mixture import MixtureState
from streamfl.core.bounds import Limits
from streamfl.core.client.machine import Client
from streamfl.core.client.settings import ClientSettings
from streamfl.core.coordinator.machine import Coordinator
from streamfl.core.coordinator.settings import CoordinatorSettings
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.errors import BrokenInvariantError, UsageError
from streamfl.core.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.core.protocol.events import BufferDue
from streamfl.core.protocol.messages import FromCoordinator, LocalDrift, Restarted, RoundClosed
from streamfl.core.protocol.records import Batch, Span, without_infinity
from streamfl.core.protocol.registry import TargetUnit
from streamfl.estimators.labels import MOST_LABELS
from streamfl.estimators.saved import RestartPlace, SavedClient, SavedFederation, SavedRecords
from streamfl.runtime.nodes import ClientNode, CoordinatorNode, Node
from streamfl.settings import LearningSettings, ProfileSettings
from streamfl.transport.memory import MemoryTransport
from streamfl.uninterrupted import Uninterrupted

if TYPE_CHECKING:
    from streamfl.core.between.native.learner import NativeLearner

Task = Literal["classification", "regression"]

# Clients in one process: each has models of its own.
MOST_CLIENTS = 100

# Features: what is learnt record by record has a matrix of them.
MOST_FEATURES, MOST_BETWEEN_ROUNDS = 20_000, 2_000

# They were counted when they came: the machines refuse none of them.
LIMITS = Limits(MOST_FEATURES, MOST_LABELS, name_bytes=2**30, external_names=2**40)

# Rounds are closed by whoever feeds the federation, so no buffer is ever full.
ENDLESS = 2**40

# Restarts that are remembered, and rounds of which it is known with which record they began.
MOST_RESTARTS, MOST_ROUNDS = 1000, 1000


@dataclass
class FedSource:
    """The source of one client: it is given records, and hands them on when the round is closed."""

    name: str
    waiting: list[Batch] = field(default_factory=list)
    records: int = 0
    kept: tuple[Batch, ...] = ()
    ended: bool = False

    def give(self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]) -> Batch:
        """Take records, and return them with their places."""
        start, self.records = self.records, self.records + len(X)
        span = Span(self.name, start, self.records)
        batch = Batch(span, np.arange(start, self.records), features, X, y, labels)
        self.waiting.append(batch)
        return batch

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return all that waits, records with the same features as one batch."""
        batches, self.waiting = [_joined(list(run)) for _, run in groupby(self.waiting, _features)], []
        return batches

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go on where it is: nothing is ever read twice."""

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Return records that were held back when the federation was saved; no others can be asked for."""
        wanted = positions.get(self.name, ())
        found = [batch.only(np.flatnonzero(np.isin(batch.positions, wanted))) for batch in self.kept]
        self.kept = ()
        return [batch for batch in found if len(batch)]


def _features(batch: Batch) -> tuple[str, ...]:
    return batch.features


def _joined(batches: Sequence[Batch]) -> Batch:
    """Return consecutive batches as one; the labels of each begin with those of the one before."""
    first, last = batches[0], batches[-1]
    return Batch(
        Span(first.span.partition, first.span.start, last.span.end),
        np.concatenate([batch.positions for batch in batches]),
        first.features,
        np.concatenate([batch.X for batch in batches]),
        np.concatenate([batch.y for batch in batches]),
        last.labels,
    )


@dataclass
class EmbeddedFederation:
    """Clients and their coordinator; a round closes when `round_size` records a client have been learnt.

    Parameters
    ----------
    task
        What is learnt.
    round_size
        Records a client and round, on average over those that had any.
    learning, profile
        How.
    seed
        Of everything that is drawn.

    Examples
    --------
    >>> federation = EmbeddedFederation("classification", round_size=2)
    >>> for x in (0.0, 1.0, 0.0, 1.0):
    ...     federation.learn("", ("x",), np.array([[x]]), np.array([x]), ("no", "yes"))
    >>> federation.rounds, federation.labels, federation.answer("", ("x",), np.array([[1.0]])).round(2)
    (2, ('no', 'yes'), array([[0.23, 0.77]]))
    """

    task: Task
    round_size: int = 100
    learning: LearningSettings = LearningSettings(features="auto")
    profile: ProfileSettings = ProfileSettings()
    seed: int = 0
    rounds: int = 0
    labels: tuple[str, ...] = ()
    restarts: deque[Restarted] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    local_drifts: deque[LocalDrift] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    shares: dict[str, float] = field(default_factory=dict)
    restarted: int = 0
    unlearnt: int = 0
    infinite: int = 0
    places: deque[RestartPlace] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    _starts: dict[int, int] = field(default_factory=dict)
    _transport: MemoryTransport = field(default_factory=MemoryTransport)
    _coordinator: CoordinatorNode | None = None
    _clients: dict[str, ClientNode] = field(default_factory=dict)
    _sources: dict[str, FedSource] = field(default_factory=dict)
    _joined: set[str] = field(default_factory=set)
    _began: dict[str, MixtureState] = field(default_factory=dict)
    _heard: dict[str, None] = field(default_factory=dict)
    _since: int = 0
    _incarnation: int = 0
    _learns: bool = False
    _named: set[str] = field(default_factory=set)
    _pairs_features: bool = field(init=False)

    def __post_init__(self) -> None:
        between = self.learning.learner(self.task, self.seed).between
        self._pairs_features = between is not None and between.pairs_features
        if between is not None:
            between.at_client()  # loads what is compiled: no record is to wait for it

    @property
    def clients(self) -> tuple[str, ...]:
        """Return the names of the clients."""
        return tuple(self._clients)

    @property
    def learnt(self) -> int:
        """Count the records learnt; one of weight 3 counts three times."""
        return sum(source.records for source in self._sources.values())

    @property
    def state(self) -> CoordinatorState | None:
        """Return where the coordinator stands; None before the first round has closed."""
        return None if self._coordinator is None else self._coordinator.machine.state

    @property
    def asleep(self) -> list[str]:
        """Return which of the models that learn between rounds sleep."""
        between = None if self.state is None else self.state.between
        return [] if between is None else list(between.asleep)

    def learn(
        self, client: str, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...] = ()
    ) -> None:
        """Let a client learn records, in order; a round that they fill is closed.

        Ctrl-C stops it when the records of the open round have been learnt.

        Parameters
        ----------
        client
            Its name; one that is new takes part from the next round on, and answers at once.
        features, X
            Names, and values, shape (n, d); NaN is a missing one, and so is infinity, which is counted.
        y, labels
            Label indices in `labels`, or targets; shape (n,).

        Raises
        ------
        ValueError
            There are too many clients, or not as many labels or targets as records.
        UsageError
            A lesson was broken off, or another thread learns.
        """
        self.one_each(X, y)
        self._whole()
        self._name(features)
        if len(X):
            self._client(client)
        X, infinite = without_infinity(X)
        self.infinite += infinite
        at = 0
        while at < len(X):
            with Uninterrupted():
                self._learns = True
                at += self._learn_of_round(client, features, X[at:], y[at:], labels)
                self._learns = False

    def _learn_of_round(
        self, client: str, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]
    ) -> int:
        """Learn as many records as the round still takes, and close it if they fill it; return how many."""
        self._heard[client] = None
        taken = min(len(X), max(1, self.round_size * len(self._heard) - self._since))
        batch = self._sources[client].give(features, X[:taken], y[:taken], labels)
        self._clients[client].machine.learn_early(batch)
        self._know(labels, y[:taken])
        self._since += taken
        if self._since >= self.round_size * len(self._heard):
            self._close_round()
        return taken

    def _name(self, features: tuple[str, ...]) -> None:
        """Take note of the names of features, of which there may not be any number.

        Raises
        ------
        ValueError
            There are too many.
        """
        if self._named.issuperset(features):
            return
        most = MOST_BETWEEN_ROUNDS if self._pairs_features else MOST_FEATURES
        if len(self._named.union(features)) > most:
            raise ValueError(
                f"more than {most} features: what is learnt of them grows with the square of their number; "
                "hash them into fewer, as by river.preprocessing.FeatureHasher"
            )
        self._named.update(features)

    def _whole(self) -> None:
        """Refuse to go on from half a lesson: whatever it did to the models is unknown.

        Raises
        ------
        UsageError
            A lesson was broken off by an exception, or another thread learns.
        """
        if self._learns:
            raise UsageError(
                "learning was broken off by an error, or another thread learns at the same time: "
                "go on from the last file that was saved, or from a copy"
            )

    def one_each(self, X: FloatArray, y: Sized) -> None:
        """Refuse other than one label or target a record: to compiled loops, what is beyond them is other memory.

        Raises
        ------
        ValueError
            Tells how many there are of each.
        """
        if len(X) != len(y):
            kind = "targets" if self.task == "regression" else "labels"
            raise ValueError(f"{len(X)} records, and {len(y)} {kind}: one for each is needed")

    def admit(self, clients: Iterable[str]) -> None:
        """Refuse clients before any of their records is learnt.

        Raises
        ------
        ValueError
            With them there were too many.
        """
        new = [name for name in dict.fromkeys(clients) if name not in self._clients]
        room = MOST_CLIENTS - len(self._clients)
        if len(new) > room:
            raise ValueError(
                f"more than {MOST_CLIENTS} clients: is {new[room]!r} the value of a feature that names clients?"
            )

    def answer(self, client: str, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return what a client serves of records: probabilities of `labels`, or targets; shape (n, columns).

        One that has learnt nothing yet is answered for by the first client, and nothing changes by asking.
        """
        self._whole()
        node = self._clients.get(client) or next(iter(self._clients.values()), None)
        columns = 1 if self.task == "regression" else len(self.labels)
        X, _ = without_infinity(X)
        if node is None:
            return np.zeros((len(X), columns))
        batch = Batch(Span("", 0, len(X)), np.arange(len(X)), features, X, np.zeros(len(X)))
        said, labels = node.machine.answer(batch)
        if self.task == "regression":
            return said if said.shape[1] else np.full((len(X), 1), self._middle_target(node.machine.name))
        if not labels:
            return np.full((len(X), columns), 1.0 / max(1, columns))
        if labels == self.labels:
            return said
        placed = np.zeros((len(X), columns))
        placed[:, [self.labels.index(label) for label in labels]] = said
        return placed

    def _middle_target(self, client: str) -> float:
        """Return the median of the last targets that wait for the end of the first round; 0 if there are none."""
        return TargetUnit.of(
            np.concatenate([np.zeros(0), *(batch.y for batch in self._sources[client].waiting[-100:])])
        ).centre

    # --- saving --------------------------------------------------------------------------------------------------

    def saved(self) -> SavedFederation:
        """Return all that it takes to go on from here in another process.

        Raises
        ------
        UsageError
            A lesson was broken off, or another thread learns.
        """
        self._whole()
        return SavedFederation(
            rounds=self.rounds,
            labels=self.labels,
            since=self._since,
            heard=tuple(self._heard),
            incarnation=self._incarnation,
            restarts=tuple(self.restarts),
            places=tuple(self.places),
            starts=self._starts,
            local_drifts=tuple(self.local_drifts),
            shares=self.shares,
            restarted=self.restarted,
            unlearnt=self.unlearnt,
            infinite=self.infinite,
            state=self.state,
            clients=tuple(self._saved_client(name) for name in self._clients),
        )

    def _saved_client(self, name: str) -> SavedClient:
        machine, source, native = self._clients[name].machine, self._sources[name], self._native(name)
        return SavedClient(
            name=name,
            read=source.records - sum(len(batch) for batch in source.waiting),
            joined=name in self._joined,
            held=SavedRecords.of(machine.held_back),
            pending=tuple(SavedRecords.of(batch) for batch in source.waiting),
            mixture=None if native is None else native.mixture.state(),
            neighbours=None if native is None else native.near,
            began=self._began.get(name),
        )

    def _native(self, name: str) -> "NativeLearner | None":
        """Return our own models at a client, if they learn between rounds: only they know what no message tells."""
        between = self._clients[name].machine.between_rounds
        return between.learner if isinstance(between, NativeAtClient) else None

    def restore(self, saved: SavedFederation) -> None:
        """Go on from where another one was saved: what is pending is learnt again, so that nothing is lost."""
        self.rounds, self.labels, self.shares = saved.rounds, saved.labels, dict(saved.shares)
        self.unlearnt = saved.unlearnt
        self.infinite = saved.infinite
        self.restarts.extend(saved.restarts)
        self.places.extend([RestartPlace()] * (len(saved.restarts) - len(saved.places)))  # of an earlier version
        self.places.extend(saved.places)
        self._starts = dict(saved.starts)
        self.restarted = max(saved.restarted, len(saved.restarts))
        self.local_drifts.extend(saved.local_drifts)
        self._since, self._heard = saved.since, dict.fromkeys(saved.heard)
        self._incarnation = saved.incarnation + 1
        for client in saved.clients:
            self._client(client.name, known=client.joined)
            source = self._sources[client.name]
            source.records, source.kept = client.read, (client.held.batch(client.name),)
        self._joined = {client.name for client in saved.clients if client.joined}
        if saved.state is not None:
            self._coordinate(saved.state)
        if self._coordinator is not None:
            self._coordinator.start(0.0)
            self._settle()
        if saved.state is not None:
            self._named.update(() if saved.state.between is None else saved.state.between.features)
        for client in saved.clients:
            self._named.update(*(records.features for records in client.pending))
            self._learn_again(client)

    def _learn_again(self, saved: SavedClient) -> None:
        machine, source = self._clients[saved.name].machine, self._sources[saved.name]
        native = self._native(saved.name)
        if native is not None and (saved.mixture or saved.began):
            _check_experts(native, saved)
        if native is not None and saved.began is not None:
            native.mixture.restore(saved.began)
            self._began[saved.name] = saved.began
        for records in saved.pending:
            self.one_each(records.X, records.y)
            machine.learn_early(source.give(records.features, records.X, records.y, records.labels))
        if native is not None and saved.mixture is not None:
            native.mixture.restore(saved.mixture)
            native.remember(saved.neighbours)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _close_round(self) -> None:
        """Close the round with what there is: newcomers join first, then all close their buffers."""
        if self._coordinator is None:
            self._coordinate(None)
        newcomers = [name for name in self._clients if name not in self._joined]
        for names in (newcomers, [name for name in self._clients if name in self._joined]):
            for name in names:
                self._clients[name].step(0.0)
                self._clients[name].handle(BufferDue(), 0.0)
            if names and names is newcomers and self._joined:
                self._settle()
        self._settle()
        self._joined.update(newcomers)
        self._began = {
            name: native.mixture.state() for name in self._clients if (native := self._native(name)) is not None
        }
        self._heard, self._since = {}, 0

    def _settle(self) -> None:
        """Let messages go back and forth until nobody has more to say."""
        nodes: list[Node] = [*self._clients.values()]
        if self._coordinator is not None:
            nodes.append(self._coordinator)
        busy = True
        while busy:
            busy = sum(node.step(0.0) for node in nodes) > 0  # each has its turn

    def _coordinate(self, state: CoordinatorState | None) -> None:
        if state is None:
            self._starts = {1: 1}
        learner = self.learning.learner(self.task, self.seed)
        settings = CoordinatorSettings(learner=learner, expect=len(self._clients), task=self.task, limits=LIMITS)
        machine = Coordinator(settings, state or CoordinatorState(self.profile.master(1, learner)))
        self._coordinator = CoordinatorNode(machine, self._transport.coordinator(), self._take)

    def _client(self, name: str, *, known: bool = False) -> None:
        """Begin a client; one that the coordinator knows joins at once, others when a round is closed."""
        if name in self._clients:
            return
        self.admit([name])
        settings = ClientSettings(
            self.learning.learner(self.task, self.seed),
            round_size=ENDLESS,
            clock="interval" if known else "records",
            capacity=ENDLESS,
            limits=LIMITS,
        )
        self._sources[name] = FedSource(name)
        machine = Client(settings, name, incarnation=f"{self._incarnation:08d}")
        self._clients[name] = ClientNode(machine, self._sources[name], self._transport.client(name))

    def _begins(self, t: int) -> None:
        """Note with which record, counted from 1, round t begins."""
        self._starts[t] = self.learnt + 1
        self._starts.pop(t - MOST_ROUNDS, None)

    def _know(self, labels: tuple[str, ...], y: FloatArray) -> None:
        if labels:
            known = set(self.labels)
            seen = (labels[int(code)] for code in dict.fromkeys(y.tolist()))
            self.labels += tuple(label for label in seen if label not in known)

    def _take(self, event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
        match event:
            case Refused():  # nothing is late here: what was learnt has been damaged, and would be for ever
                raise BrokenInvariantError(f"no round can be closed any more: what was learnt has {event.reason}")
            case RoundClosed():
                self.rounds += event.records > 0
                self._begins(event.round + 1)
                self.unlearnt += event.unlearnt
                self.shares = {
                    name: share / max(1, event.served.records) for name, share in event.served.shares.items()
                }
            case Restarted():
                self.restarts.append(event)
                self.places.append(RestartPlace(self.learnt, self._starts.get(event.since)))
                self.restarted += 1
            case LocalDrift():
                self.local_drifts.append(event)
            case _:
                pass


def _check_experts(native: "NativeLearner", saved: SavedClient) -> None:
    """Refuse mixtures of other experts than are there: compiled loops do not look."""
    fresh = native.mixture.state()
    same = all(
        getattr(fresh, name).shape == getattr(state, name).shape
        for state in (saved.mixture, saved.began)
        if state is not None
        for name in ("best", "stacked", "outer")
    )
    if not same or (native.near is None) != (saved.neighbours is None):
        raise UsageError(f"what client {saved.name!r} had mixed is not what its parameters say")
