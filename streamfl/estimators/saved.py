"""An estimator as one safe file: safetensors with a JSON header and a format version; nothing is pickled."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from streamfl import codec, safe_file
from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.between.native.kernels.scaling import FIRST
from streamfl.core.between.native.mixture import MixtureState
from streamfl.core.between.native.neighbours import Neighbours
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.errors import PeerError, UsageError
from streamfl.core.protocol.messages import LocalDrift, Restarted
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.old_names import ReadsOldNames
from streamfl.core.protocol.records import LARGEST_TARGET, Batch, Span
from streamfl.detectors import named_detector

FORMAT = 2

WHAT = "a file that an estimator was saved to"

# Above it a float no longer counts one by one.
MOST_COUNTED = 2**53


@dataclass(frozen=True, eq=False)
class SavedRecords:
    """Records of one client, with their positions: see `Batch`."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    start: int
    end: int
    positions: FloatArray
    features: tuple[str, ...]
    X: FloatArray
    y: FloatArray
    labels: tuple[str, ...]

    @classmethod
    def of(cls, batch: Batch) -> "SavedRecords":
        """Return what is saved of a batch."""
        positions = batch.positions.astype(np.float64)
        return cls(batch.span.start, batch.span.end, positions, batch.features, batch.X, batch.y, batch.labels)

    @property
    def used(self) -> set[str]:
        """Return the labels of the records, which are sound."""
        return {self.labels[int(code)] for code in np.unique(self.y)} if self.labels else set()

    def is_sound(self, *, targets: bool) -> bool:
        """Tell whether the arrays fit each other and their names, and the labels are some of those that are named."""
        n, names = len(self.positions), len(self.labels)
        fits = (
            self.positions.shape == self.y.shape == (n,)
            and self.X.shape == (n, len(self.features))
            and len(set(self.features)) == len(self.features)
            and len(set(self.labels)) == names
        )
        if not fits or not _are_counts(self.positions) or targets:
            return fits and _are_counts(self.positions) and bool(np.isfinite(self.y).all()) and not names
        return _are_counts(self.y) and bool((self.y < names).all())

    def batch(self, client: str) -> Batch:
        """Return the batch again."""
        span = Span(client, self.start, self.end)
        return Batch(span, self.positions.astype(np.int64), self.features, self.X, self.y, self.labels)


@dataclass(frozen=True, eq=False)
class SavedClient:
    """What only the client knows: the records that it holds back, those that are pending, and what it serves by.

    `read` counts the records of closed rounds. `began` is the mixture with which the round began: how far a target
    is out depends on those before it, and so does how pending ones are learnt.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    name: str
    read: int
    joined: bool
    held: SavedRecords
    pending: tuple[SavedRecords, ...]
    mixture: MixtureState | None
    neighbours: Neighbours | None
    began: MixtureState | None = None

    def check(self, *, targets: bool) -> None:
        """Refuse what no client can have saved: see `SavedEstimator.check`."""
        for records in (self.held, *self.pending):
            _must(records.is_sound(targets=targets), f"the records of client {self.name!r} do not fit each other")
        _must(_counts(self.read), f"client {self.name!r} has read {self.read} records")
        for mixture in (self.mixture, self.began):
            _must(mixture is None or _is_sound(mixture), f"the mixture of client {self.name!r} is none")
        near = self.neighbours
        if near is not None:
            sound = _counts(near.seen) and np.isfinite(near.Z).all() and np.isfinite(near.y).all()
            _must(bool(sound), f"the last records of client {self.name!r} are no numbers")


@dataclass(frozen=True, slots=True)
class RestartPlace:
    """Where a restart was, in records as they were learnt, counted from 1; None where it is not known.

    `record` is the last one learnt before it, `since` the first of the round since which the world has changed.
    """

    record: int | None = None
    since: int | None = None


@dataclass(frozen=True, eq=False)
class SavedFederation(ReadsOldNames):
    """An embedded federation in the middle of a round."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"standing": "state"}

    rounds: int
    labels: tuple[str, ...]
    since: int
    heard: tuple[str, ...]
    incarnation: int
    restarts: tuple[Restarted, ...]
    local_drifts: tuple[LocalDrift, ...]
    shares: dict[str, float]
    state: CoordinatorState | None
    clients: tuple[SavedClient, ...]
    unlearnt: int = 0
    infinite: int = 0
    restarted: int = 0
    places: tuple[RestartPlace, ...] = ()
    starts: Mapping[int, int] = field(default_factory=dict)

    def check(self, *, targets: bool) -> None:
        """Refuse what no federation can have saved: see `SavedEstimator.check`."""
        counts = {
            "rounds": self.rounds, "since": self.since, "incarnation": self.incarnation,
            "unlearnt": self.unlearnt, "infinite": self.infinite, "restarted": self.restarted,
        }  # fmt: skip
        for name, count in counts.items():
            _must(_counts(count), f"{name} is {count}")
        _must(len(self.places) <= len(self.restarts), "more places of restarts than restarts")
        names = [client.name for client in self.clients]
        _must(len(set(names)) == len(names), "two clients have one name")
        _must(set(self.heard) <= set(names), "records came from clients that there are not")
        _must(len(set(self.labels)) == len(self.labels), "two labels have one name")
        between = None if self.state is None else self.state.between
        native = between if isinstance(between, NativeState) else None
        _must(native is None or _is_sound_native(native), "what was learnt between rounds is none")
        _must(self._agreed_labels() <= set(self.labels), "models are of labels that were never seen")
        for client in self.clients:
            client.check(targets=targets)
            for records in (client.held, *client.pending):
                _must(records.used <= set(self.labels), f"client {client.name!r} has labels that were never seen")

    def _agreed_labels(self) -> set[str]:
        state = self.state
        if state is None:
            return set()
        agreed = () if state.agreement is None else state.agreement.registry.labels
        return {*agreed, *(() if state.between is None else state.between.labels)}


@dataclass(frozen=True, eq=False)
class SavedEstimator:
    """An estimator: its class, its parameters, the labels as they were given, and the federation inside."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    kind: str
    parameters: dict[str, Any]
    labels: tuple[bool | int | float | str, ...]
    weighed: int
    federation: SavedFederation
    format: int = FORMAT

    def check(self, *, targets: bool) -> None:
        """Refuse what no estimator can have saved: to compiled loops, an index that is too large is other memory.

        Raises
        ------
        UsageError
            Something does not fit; the message says what.
        """
        _must(_counts(self.weighed), f"weighed is {self.weighed}")
        self.federation.check(targets=targets)
        names = [str(label) for label in self.labels]
        _must(len(set(names)) == len(names), "two labels have one name")
        _must(set(self.federation.labels) <= set(names), "labels were learnt that are not there")

    def ordered_labels(self) -> tuple[bool | int | float | str, ...]:
        """Return the labels in the order in which pending records number them.

        Earlier versions saved some in another order, and some that were never learnt.

        Raises
        ------
        UsageError
            Pending records do not agree on an order.
        """
        pending = [records.labels for client in self.federation.clients for records in client.pending]
        longest = max(pending, key=len, default=())
        _must(all(labels == longest[: len(labels)] for labels in pending), "pending records number labels anew")
        named = {str(label): label for label in self.labels}
        _must(set(longest) <= named.keys(), "pending records have labels that are not there")
        learnt = [name for name in named if name in self.federation.labels]
        return tuple(named[name] for name in dict.fromkeys([*longest, *learnt]))

    def save(self, path: Path) -> None:
        """Write the file.

        Raises
        ------
        UsageError
            It cannot be written.
        """
        safe_file.write(path, self)

    @classmethod
    def load(cls, path: Path, kind: str) -> "SavedEstimator":
        """Read a file of one kind of estimator.

        Raises
        ------
        UsageError
            It is no such file, of a later format, or damaged.
        """
        plain, arrays = safe_file.read(path, WHAT, newest=FORMAT)
        if "kind" not in plain:
            raise UsageError(f"{path}: not {WHAT}")
        if plain["kind"] != kind:
            raise UsageError(f"{path}: holds a {plain['kind']}, not a {kind}")
        _import_detector(plain)
        try:
            return codec.join(cls, plain, arrays)
        except PeerError as error:
            raise UsageError(f"{path}: not {WHAT}: {error}") from error


def _import_detector(plain: Mapping[str, Any]) -> None:
    """Import the package of the detector, whose state can only then be read; if there is none, reading says so."""
    parameters = plain.get("parameters")
    name = parameters.get("detector") if isinstance(parameters, dict) else None
    if isinstance(name, str):
        with suppress(UsageError):
            named_detector(name)


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise UsageError(otherwise)


def _counts(*numbers: int) -> bool:
    return all(0 <= number < MOST_COUNTED for number in numbers)


def _are_counts(numbers: FloatArray) -> bool:
    """Tell whether all are whole numbers, 0 or more.

    >>> _are_counts(np.array([0.0, 3.0])), _are_counts(np.array([0.5])), _are_counts(np.array([np.nan]))
    (True, False, False)
    """
    return bool(((numbers >= 0.0) & (numbers < MOST_COUNTED) & (numbers == np.floor(numbers))).all())


def _is_sound(state: MixtureState) -> bool:
    """Tell whether shares are shares and numbers are numbers; stacked weights may be negative."""
    shares = all(part.size and part.min() >= 0.0 and part.sum() > 0.0 for part in (state.best, state.outer))
    scalars = (state.norm, state.variance, state.near, state.total, state.square)
    return (
        shares
        and _are_finite(state.best, state.stacked, state.outer, np.array(scalars))
        and min(state.norm, state.variance, state.square) >= 0.0
        and _counts(state.seen, state.known)
        and state.first.shape == (FIRST,)
        and not np.isinf(state.first).any()
    )


def _is_sound_native(models: NativeState) -> bool:
    """Tell whether numbers are numbers; whether the arrays fit each other is looked at when they are taken over."""
    moments = (models.moments, models.early.first, models.early.later, models.far)
    counts = [part for told in moments for part in (told.count, told.m2)]
    return (
        _are_finite(models.weights, models.table, models.second, models.norms, *(told.mean for told in moments))
        and abs(models.centre) <= LARGEST_TARGET
        and _are_finite(*counts)
        and all((part >= 0.0).all() for part in (models.norms, *counts))
        and _counts(models.seen)
        and all(len(set(names)) == len(names) for names in (models.features, models.labels))
    )


def _are_finite(*parts: FloatArray) -> bool:
    return all(bool(np.isfinite(part).all()) for part in parts)
