"""A federation in one process, fed record by record: the state machines of a live one over an in-memory transport."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.bounds import Limits
from streamfl.errors import BrokenInvariantError, UsageError
from streamfl.learning.error_quantiles import ErrorQuantiles
from streamfl.learning.local_round import Learner
from streamfl.learning.model import Task
from streamfl.learning.objectives import SeenLabels
from streamfl.machines.client.machine import Client
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.mixture_state import MixtureState
from streamfl.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.protocol.messages import DecisionRule, FromCoordinator, LocalDrift, Restarted, RoundClosed
from streamfl.protocol.messages.decision_rule import named
from streamfl.protocol.native.extremes import Extremes, extremes, of_all
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.records import Batch, Span, without_infinity
from streamfl.protocol.registry import TargetUnit
from streamfl.run.estimators.labels import MOST_LABELS
from streamfl.run.estimators.saved import RecordPlace, SavedClient, SavedErrors, SavedFederation, SavedRecords
from streamfl.run.estimators.uninterrupted import Uninterrupted
from streamfl.run.model_file import ServedModel
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.run.summary import RoundSummary
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import settle
from streamfl.runtime.nodes import ClientNode, CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport

if TYPE_CHECKING:
    from streamfl.online.native.learner import NativeLearner


# Clients in one process. Each has its own models.
MOST_CLIENTS = 100

# Features. Online models may hold a matrix of all pairs of features.
MOST_FEATURES, MOST_ONLINE_FEATURES = 20_000, 2_000

# This module checks names when records arrive, so the machines need no limit on their length or number.
LIMITS = Limits(MOST_FEATURES, MOST_LABELS, name_bytes=2**30, external_names=2**40, weights=2**60)

# The federation closes rounds itself, so no buffer is ever full.
ENDLESS = 2**40

# Draws follow from the names of clients, so that of a federation of one is its name in a replay.
ONLY = "c0"

# Restarts kept, and rounds whose first record is kept.
MOST_RESTARTS, MOST_ROUNDS = 1000, 1000


@dataclass
class ClientSource:
    """The source of one client: queues its records until the round closes."""

    name: str
    waiting: list[Batch] = field(default_factory=list)
    records: int = 0
    kept: tuple[Batch, ...] = ()
    ended: bool = False

    def add(self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]) -> Batch:
        """Queue records, and return them as a batch; they get their positions when they are polled."""
        batch = Batch(*(ONE if len(X) == 1 else _places(len(X))), features, X, y, labels)
        self.waiting.append(batch)
        self.records += len(X)
        return batch

    @property
    def read(self) -> int:
        """Count the records that were polled."""
        return self.records - sum([len(batch) for batch in self.waiting])

    def poll(self, limit: int) -> Sequence[Batch]:
        """Return all queued records; consecutive records with the same features form one batch."""
        batches, start = list[Batch](), self.read
        for _, run in groupby(self.waiting, _names):
            batches.append(_joined(self.name, start, list(run)))
            start = batches[-1].span.end
        self.waiting = []
        return batches

    def seek(self, positions: Mapping[str, int]) -> None:
        """Do nothing: no record is ever read twice."""

    def fetch(self, positions: Mapping[str, Sequence[int]]) -> Sequence[Batch]:
        """Return held-out records of the saved federation; no others can be fetched."""
        wanted = positions.get(self.name, ())
        batches = [batch.only(np.flatnonzero(np.isin(batch.positions, wanted))) for batch in self.kept]
        self.kept = ()
        return [batch for batch in batches if len(batch)]


def _places(n: int) -> tuple[Span, IntArray]:
    """Return places of n records, of which nobody asks."""
    return Span("", 0, n), np.arange(n)


# The place of one record, and its truth while that is not known.
ONE, UNKNOWN = _places(1), np.zeros(1)


def _names(batch: Batch) -> tuple[str, ...]:
    return batch.features


def _joined(partition: str, start: int, batches: Sequence[Batch]) -> Batch:
    """Return consecutive batches as one; each batch's labels extend those of the batch before."""
    X, y = np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    span = Span(partition, start, start + len(X))
    return Batch(span, np.arange(start, span.end), batches[0].features, X, y, batches[-1].labels)


@dataclass
class EmbeddedFederation:
    """Clients and their coordinator. A round closes after `round_size` records per client on average.

    Examples
    --------
    >>> federation = EmbeddedFederation("classification", round_size=2)
    >>> for x in (0.0, 1.0, 0.0, 1.0):
    ...     federation.learn("", ("x",), np.array([[x]]), np.array([x]), ("no", "yes"))
    >>> federation.rounds, federation.labels, federation.answer("", ("x",), np.array([[1.0]])).round(2)
    (2, ('no', 'yes'), array([[0.23, 0.77]]))
    """

    task: Task  # labels or numbers
    round_size: int = 100  # records per client and round, averaged over the clients with records
    # How the clients learn, and how drift is handled.
    learning: LearningSettings = LearningSettings()
    profile: ProfileSettings = ProfileSettings()
    seed: int = 0  # seed of all random draws
    alone: bool = False  # whether there is one client, for good
    follows_errors: bool = False  # whether each client follows the quantiles of its errors
    rounds: int = 0
    labels: tuple[str, ...] = ()
    restarts: deque[Restarted] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    local_drifts: deque[LocalDrift] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    shares: dict[str, float] = field(default_factory=dict)
    restarted: int = 0
    unlearnt: int = 0
    infinite: int = 0
    places: deque[RecordPlace] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    local_places: deque[RecordPlace] = field(default_factory=lambda: deque(maxlen=MOST_RESTARTS))
    _extremes: Extremes = ()  # of the targets so far; () for good in what a version before 0.3.0 has saved
    _starts: dict[int, int] = field(default_factory=dict)
    _errors: dict[str, ErrorQuantiles] = field(default_factory=dict)
    _repeats: bool = False
    _transport: MemoryTransport = field(default_factory=MemoryTransport)
    _clock: ManualClock = field(default_factory=ManualClock)
    _coordinator: CoordinatorNode | None = None
    _clients: dict[str, ClientNode] = field(default_factory=dict)
    _sources: dict[str, ClientSource] = field(default_factory=dict)
    _joined: set[str] = field(default_factory=set)
    _mixtures_at_start: dict[str, MixtureState] = field(default_factory=dict)
    _contributors: dict[str, None] = field(default_factory=dict)  # clients with records in the open round
    _learnt_in_round: int = 0
    _incarnation: int = 0
    _learning: bool = False
    _features: set[str] = field(default_factory=set)
    # The features, and the labels, that were added last: those of the next record are mostly the same objects.
    _added: tuple[str, ...] = ()
    _added_labels: tuple[str, ...] = ()
    _learner: Learner = field(init=False)
    _pairs_features: bool = field(init=False)

    def __post_init__(self) -> None:
        learner = self.learning.learner(self.task, self.seed)
        self._learner = learner.alone() if self.alone else learner
        online = self._learner.online
        self._pairs_features = online is not None and online.pairs_features
        if online is not None:
            online.at_client()  # loads the compiled kernels now, so that the first record need not wait

    @property
    def clients(self) -> tuple[str, ...]:
        """Return the names of the clients."""
        return tuple(self._clients)

    @property
    def features(self) -> frozenset[str]:
        """Return the names of all features so far."""
        return frozenset(self._features)

    @property
    def only_client(self) -> str:
        """Return the name of a client that is alone: that of a saved one, or the one that it has in a replay."""
        return next(iter(self._clients), ONLY)

    @property
    def learnt(self) -> int:
        """Count the records learnt; one of weight 3 counts three times."""
        return sum(source.records for source in self._sources.values())

    @property
    def state(self) -> CoordinatorState | None:
        """Return the coordinator's state; None before the first round has closed."""
        return None if self._coordinator is None else self._coordinator.machine.state

    @property
    def asleep(self) -> list[str]:
        """Return the names of the online models that sleep; `neighbours` if they sleep at every client."""
        online = None if self.state is None else self.state.online
        agreed = () if online is None else online.asleep
        own = [native.rest.left > 0 for native in map(self._native, self._clients) if native is not None]
        return [*agreed, *(["neighbours"] if own and all(own) else [])]

    def learn(
        self, client: str, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...] = ()
    ) -> None:
        """Let a client learn records, in order, and close each round that they fill.

        Ctrl-C takes effect once the records of the open round have been learnt.

        Parameters
        ----------
        client
            Its name. A new client answers at once and joins when the round closes.
        features, X
            Feature names, and values of shape (n, d). NaN is a missing value; so is infinity, which is counted.
        y, labels
            Indices into `labels`, or targets; shape (n,).

        Raises
        ------
        ValueError
            There are too many clients, or the number of labels or targets differs from the number of records.
        UsageError
            An earlier call was interrupted, or another thread is learning.
        """
        self.check_lengths(X, y)
        self._check_uninterrupted()
        self._add_features(features)
        if len(X):
            self._client(client)
        X, infinite = without_infinity(X)
        self.infinite += infinite
        at = 0
        while at < len(X):
            with Uninterrupted():
                self._learning = True
                at += self._learn_in_round(client, features, X[at:] if at else X, y[at:] if at else y, labels)
                self._learning = False

    def repeat(
        self, client: str, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...] = ()
    ) -> None:
        """Let a client learn its last record once more: see `learn`.

        A repetition has no last label of its own: it would be the record's.
        """
        native = self._native(client)
        last = None if native is None or native.last is None else native.last.state()
        self._repeats = True
        try:
            self.learn(client, features, X, y, labels)
        finally:
            self._repeats = False
        if native is not None:
            native.remember_last(last)

    def _learn_in_round(
        self, client: str, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]
    ) -> int:
        """Learn as many records as the round has room for; close it if it is full. Return how many were learnt."""
        self._contributors[client] = None
        taken = min(len(X), max(1, self.round_size * len(self._contributors) - self._learnt_in_round))
        if taken < len(X):
            X, y = X[:taken], y[:taken]
        machine, follows = self._clients[client].machine, self.follows_errors and not self._repeats
        if self.task == "regression" and (self._extremes or not self.learnt):  # else those before are not known
            self._extremes = of_all((self._extremes, (float(y.min()), float(y.max()))))
        by_rounds = self._predictions(client, features, X) if follows and machine.online_models is None else None
        served = machine.learn_early(self._sources[client].add(features, X, y, labels))
        served = by_rounds if served is None else served
        if follows and served is not None:
            self._follow_errors(client, y, served[:, 0])
        self._add_labels(labels, y)
        self._learnt_in_round += taken
        if self._learnt_in_round >= self.round_size * len(self._contributors):
            self._close_round()
        return taken

    def _follow_errors(self, client: str, truth: FloatArray, served: FloatArray) -> None:
        errors = self._errors.setdefault(client, ErrorQuantiles())
        for error in (truth - served).tolist():
            errors.learn(error)

    def quantiles(self, client: str, predicted: float) -> tuple[float, ...] | None:
        """Return the quantiles of a target that a client predicts: see `ErrorQuantiles.of`."""
        errors = self._errors.get(client)
        return None if errors is None else errors.of(predicted)

    def _add_features(self, features: tuple[str, ...]) -> None:
        """Add to the known feature names.

        Raises
        ------
        ValueError
            There are too many of them.
        """
        if features is self._added:
            return
        most = MOST_ONLINE_FEATURES if self._pairs_features else MOST_FEATURES
        if len(self._features.union(features)) > most:
            raise ValueError(
                f"more than {most} features: memory grows with the square of their number; "
                "hash them into fewer, for instance with river.preprocessing.FeatureHasher"
            )
        self._features.update(features)
        self._added = features

    def _check_uninterrupted(self) -> None:
        """Refuse to continue after an interrupted call: it may have left the models half updated.

        Raises
        ------
        UsageError
            An exception interrupted an earlier call, or another thread is learning.
        """
        if self._learning:
            raise UsageError(
                "learning was interrupted by an error, or another thread is learning at the same time: "
                "continue from the last saved file, or from a copy"
            )

    def check_lengths(self, X: FloatArray, y: Sized) -> None:
        """Require one label or target per record: compiled loops do not check bounds.

        Raises
        ------
        ValueError
            The message gives both numbers.
        """
        if len(X) != len(y):
            kind = "targets" if self.task == "regression" else "labels"
            raise ValueError(f"{len(X)} records but {len(y)} {kind}: give one for each record")

    def admit(self, clients: Sequence[str], features: tuple[str, ...]) -> None:
        """Check, before any record is learnt, that there is room for the clients of records, and for their features.

        Raises
        ------
        ValueError
            There would be too many clients or features.
        """
        new = [name for name in dict.fromkeys(clients) if name not in self._clients]
        room = MOST_CLIENTS - len(self._clients)
        if len(new) > room:
            raise ValueError(
                f"more than {MOST_CLIENTS} clients: does {new[room]!r} come from a feature that names clients?"
            )
        if clients:
            self._add_features(features)

    def answer(self, client: str, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return a client's predictions: probabilities of `labels`, or targets; shape (n, columns).

        For a client that has learnt nothing yet the first client predicts. Predicting changes no state.
        """
        self._check_uninterrupted()
        return self._predictions(client, features, X)

    def _predictions(self, client: str, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        node = self._clients.get(client) or next(iter(self._clients.values()), None)
        columns = 1 if self.task == "regression" else len(self.labels)
        X, _ = without_infinity(X)
        if node is None:
            return np.zeros((len(X), columns))
        asked = (*ONE, features, X, UNKNOWN) if len(X) == 1 else (*_places(len(X)), features, X, np.zeros(len(X)))
        predicted, labels = node.machine.answer(Batch(*asked))
        if self.task == "regression":
            return predicted if predicted.shape[1] else np.full((len(X), 1), self._middle_target(node.machine.name))
        if not labels:
            return np.tile(self._usual_labels(node.machine.name), (len(X), 1))
        if labels == self.labels:
            return predicted
        placed, places = np.zeros((len(X), columns)), self._places
        placed[:, [places[label] for label in labels]] = predicted
        return placed

    def decided(self, P: FloatArray) -> list[str | None]:
        """Return the label that answers by each row of probabilities; None where all are 0."""
        rule = self._first_rule if self._coordinator is None else self._coordinator.machine.decision
        return named(rule.label_indices(P, self.labels), self.labels)

    def decided_one(self, p: FloatArray) -> str | None:
        """Return the label that answers one record: see `decided`."""
        rule = self._first_rule if self._coordinator is None else self._coordinator.machine.decision
        code = rule.label_index(p, self.labels)
        return None if code < 0 else self.labels[code]

    @property
    def _first_rule(self) -> DecisionRule:
        return self.learning.objective_chosen.rule(SeenLabels(), self.labels)

    def served(self, left_out: Iterable[str], *, own: bool = False, **names: Any) -> ServedModel:
        """Return what all clients agree on after the last closed round; `own`: and what each alone knows now.

        Parameters
        ----------
        left_out
            Columns that are not features; those without a value so far are left out as well.

        Raises
        ------
        UsageError
            No round was closed, or the model is of others.
        """
        external = self.learning.external_model(self.task)
        if external is not None:
            raise UsageError(f"{external.name} is a model of others, which no model file holds; save the estimator")
        if self._coordinator is None:
            raise UsageError("no round was closed yet; learn more records, or choose a smaller round_size")
        parts = {name: native.own_part() for name in self._clients if own and (native := self._native(name))}
        machine = self._coordinator.machine
        others = sorted(self._features.difference(machine.serving()[0].features))
        names |= {"left_out": (*left_out, *others), "extremes": extremes(np.array(self._extremes))}
        return ServedModel.of(machine, self.learning, parts, **names)

    @property
    def _places(self) -> dict[str, int]:
        """Return the place of each label; to look each one up in the names would take the square of their number."""
        return {label: place for place, label in enumerate(self.labels)}

    def _middle_target(self, client: str) -> float:
        """Return the median of the last targets queued before the first round closes; 0 if there are none."""
        return TargetUnit.of(
            np.concatenate([np.zeros(0), *(batch.y for batch in self._sources[client].waiting[-100:])])
        ).centre

    def _usual_labels(self, client: str) -> FloatArray:
        """Return the shares of labels among the last records before the first round closes, shape (labels,)."""
        counts, places = np.zeros(len(self.labels)), self._places
        for batch in self._sources[client].waiting[-100:]:
            for code in batch.y.tolist():
                counts[places[batch.labels[int(code)]]] += 1.0
        total = counts.sum()
        return counts / total if total else np.full(len(counts), 1.0 / max(1, len(counts)))

    # --- saving --------------------------------------------------------------------------------------------------

    def saved(self) -> SavedFederation:
        """Return everything needed to continue from here in another process.

        Raises
        ------
        UsageError
            An earlier call was interrupted, or another thread is learning.
        """
        self._check_uninterrupted()
        return SavedFederation(
            rounds=self.rounds,
            labels=self.labels,
            since=self._learnt_in_round,
            contributors=tuple(self._contributors),
            incarnation=self._incarnation,
            restarts=tuple(self.restarts),
            places=tuple(self.places),
            local_places=tuple(self.local_places),
            starts=self._starts,
            local_drifts=tuple(self.local_drifts),
            shares=self.shares,
            restarted=self.restarted,
            unlearnt=self.unlearnt,
            infinite=self.infinite,
            extremes=self._extremes,
            state=self.state,
            clients=tuple(self._saved_client(name) for name in self._clients),
        )

    def _saved_client(self, name: str) -> SavedClient:
        machine, source, native = self._clients[name].machine, self._sources[name], self._native(name)
        own = None if native is None else native.own_part()
        return SavedClient(
            name=name,
            read=source.read,
            joined=name in self._joined,
            held=SavedRecords.of(machine.held_back),
            pending=tuple(SavedRecords.of(batch) for batch in source.waiting),
            mixture=None if own is None else own.mixture,
            neighbours=None if own is None else own.neighbours,
            began=self._mixtures_at_start.get(name),
            last=None if own is None else own.last,
            rest=Rest() if own is None else own.rest,
            own=None if own is None else own.own,
            errors=SavedErrors.of(self._errors[name]) if name in self._errors else None,
        )

    def _native(self, name: str) -> "NativeLearner | None":
        """Return a client's native models, if any: they hold state that no message carries."""
        online = self._clients[name].machine.online_models
        return online.learner if isinstance(online, NativeAtClient) else None

    def restore(self, saved: SavedFederation) -> None:
        """Continue from a saved federation: pending records are learnt again, so none is lost."""
        self.rounds, self.labels, self.shares = saved.rounds, saved.labels, dict(saved.shares)
        self.unlearnt = saved.unlearnt
        self.infinite = saved.infinite
        self._extremes = saved.extremes
        self.restarts.extend(saved.restarts)
        self.places.extend(saved.places)
        self.local_places.extend(saved.local_places)
        self._starts = dict(saved.starts)
        self.restarted = max(saved.restarted, len(saved.restarts))
        self.local_drifts.extend(saved.local_drifts)
        self._learnt_in_round, self._contributors = saved.since, dict.fromkeys(saved.contributors)
        self._incarnation = saved.incarnation + 1
        for client in saved.clients:
            self._client(client.name, known=client.joined)
            source = self._sources[client.name]
            source.records, source.kept = client.read, (client.held.batch(client.name),)
        self._joined = {client.name for client in saved.clients if client.joined}
        if saved.state is not None:
            self._coordinate(saved.state)
        if self._coordinator is not None:
            self._coordinator.start(self._clock.now())
            self._settle()
        if saved.state is not None:
            self._features.update(() if saved.state.online is None else saved.state.online.features)
        self._errors = {client.name: client.errors.restored() for client in saved.clients if client.errors}
        for client in saved.clients:
            self._features.update(*(records.features for records in client.pending))
            self._learn_again(client)

    def _learn_again(self, saved: SavedClient) -> None:
        machine, source = self._clients[saved.name].machine, self._sources[saved.name]
        native = self._native(saved.name)
        if native is not None and (saved.mixture or saved.began):
            _check_experts(native, saved)
        if native is not None:
            native.rest = saved.rest
        if native is not None and saved.began is not None:
            native.mixture.restore(saved.began)
            self._mixtures_at_start[saved.name] = saved.began
        for records in saved.pending:
            self.check_lengths(records.X, records.y)
            machine.learn_early(source.add(records.features, records.X, records.y, records.labels))
        if native is not None and saved.mixture is not None:
            native.mixture.restore(saved.mixture)
            native.remember(saved.neighbours)
            native.remember_own(saved.own)
            native.remember_last(saved.last)

    # --- rounds --------------------------------------------------------------------------------------------------

    def _close_round(self) -> None:
        """Close the round: new clients join first, then all clients close their buffers."""
        if self._coordinator is None:
            self._coordinate(None)
        newcomers = [name for name in self._clients if name not in self._joined]
        for names in (newcomers, [name for name in self._clients if name in self._joined]):
            for name in names:
                self._clients[name].close_round(self._clock.now())
            if names and names is newcomers and self._joined:
                self._settle()
        self._settle()
        self._joined.update(newcomers)
        self._mixtures_at_start = {
            name: native.mixture.state() for name in self._clients if (native := self._native(name)) is not None
        }
        self._contributors, self._learnt_in_round = {}, 0

    def _settle(self) -> None:
        """Deliver messages until no node has any left to send."""
        settle([*self._clients.values(), *([] if self._coordinator is None else [self._coordinator])], self._clock)

    def _coordinate(self, state: CoordinatorState | None) -> None:
        if state is None:
            self._starts = {1: 1}
        settings = CoordinatorSettings(
            learner=self._learner,
            min_clients=len(self._clients),
            task=self.task,
            limits=LIMITS,
            objective=self.learning.objective_chosen,
            alone=self.alone,
        )
        machine = Coordinator(settings, state or CoordinatorState(self.profile.create(1, self._learner)))
        self._coordinator = CoordinatorNode(machine, self._transport.coordinator(), self._take)

    def _client(self, name: str, *, known: bool = False) -> None:
        """Start a client. One that the coordinator knows joins at once, a new one when the round closes."""
        if name in self._clients:
            return
        self.admit([name], ())
        settings = ClientSettings(
            self._learner,
            round_size=ENDLESS,
            clock="interval" if known else "records",
            capacity=ENDLESS,
            limits=LIMITS,
        )
        self._sources[name] = ClientSource(name)
        machine = Client(settings, name, nonce=f"{self._incarnation:08d}")
        self._clients[name] = ClientNode(machine, self._sources[name], self._transport.client(name))

    def _note_start(self, t: int) -> None:
        """Note the number, counted from 1, of the first record of round t."""
        self._starts[t] = self.learnt + 1
        self._starts.pop(t - MOST_ROUNDS, None)

    def _add_labels(self, labels: tuple[str, ...], y: FloatArray) -> None:
        if labels is self._added_labels:
            return
        known = set(self.labels)
        seen = (labels[int(code)] for code in dict.fromkeys(y.tolist()))
        self.labels += tuple(label for label in seen if label not in known)
        if set(labels) <= set(self.labels):
            self._added_labels = labels

    def _take(self, event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
        match event:
            case Refused():  # nothing is late or lost here, so every later round would fail as well
                raise BrokenInvariantError(
                    f"the estimator cannot learn any more, because an update was refused: {event.reason}"
                )
            case RoundClosed():
                closed = RoundSummary.of(event, targets=self.task == "regression")
                self.rounds += closed.records > 0
                self._note_start(closed.round + 1)
                self.unlearnt += closed.unlearnt
                self.shares = closed.shares
            case Restarted():
                self.restarts.append(event)
                self.places.append(self._place(event))
                self.restarted += 1
            case LocalDrift():
                self.local_drifts.append(event)
                self.local_places.append(self._place(event))
            case _:
                pass

    def _place(self, found: Restarted | LocalDrift) -> RecordPlace:
        return RecordPlace(self.learnt, self._starts.get(found.since))


def _check_experts(native: "NativeLearner", saved: SavedClient) -> None:
    """Refuse a saved mixture of other experts than the client has: compiled loops do not check bounds."""
    fresh = native.mixture.state()
    same = all(state.fits(fresh) for state in (saved.mixture, saved.began) if state is not None)
    if not same or (native.near is None) != (saved.neighbours is None):
        raise UsageError(f"the mixture of client {saved.name!r} does not match the parameters of the estimator")
