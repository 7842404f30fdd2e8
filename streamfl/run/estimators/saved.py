"""The file of a saved estimator: safetensors with a JSON header and a format version; nothing is pickled."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, RealArray
from streamfl.errors import PeerError, UsageError
from streamfl.learning.error_quantiles import KEPT, LEVELS, ErrorQuantiles
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.online.native.mixture_state import MOST_COUNTED, MixtureState
from streamfl.online.native.private.last_answer_state import LastAnswerState
from streamfl.online.native.private.neighbours import Neighbours
from streamfl.online.native.private.own_state import OwnState
from streamfl.plugins.detectors import named_detector
from streamfl.protocol.messages import LocalDrift, Restarted
from streamfl.protocol.native.extremes import Extremes, are_sound
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.records import LARGEST_TARGET, Batch, Span
from streamfl.records.columns import MAX_VALUES, Column, LeftOutColumn, NumberColumn, TextColumn
from streamfl.records.values.cells import USUAL
from streamfl.wire import codec, safe_file, state_bytes

# The formats that are read: 3 is of 0.2.0, without a model of each client's own.
OLDEST, FORMAT = 3, 4

NONE: Mapping[str, int] = MappingProxyType({})

WHAT = "a file that an estimator was saved to"


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
        """Return a batch in the form in which it is saved."""
        positions = batch.positions.astype(np.float64)
        return cls(batch.span.start, batch.span.end, positions, batch.features, batch.X, batch.y, batch.labels)

    @property
    def used(self) -> set[str]:
        """Return the labels that occur; the records must be sound."""
        return {self.labels[int(code)] for code in np.unique(self.y)} if self.labels else set()

    def is_sound(self, *, targets: bool) -> bool:
        """Return whether the shapes match, names are unique, and every label index is within `labels`."""
        n, names = self.positions.size, len(self.labels)
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
        """Return the saved records as a batch."""
        span = Span(client, self.start, self.end)
        return Batch(span, self.positions.astype(np.int64), self.features, self.X, self.y, self.labels)


@dataclass(frozen=True)
class SavedErrors:
    """A client's last errors, the oldest first, and the levels of their quantiles."""

    errors: tuple[float, ...]
    levels: tuple[float, ...]

    @classmethod
    def of(cls, quantiles: ErrorQuantiles) -> "SavedErrors":
        """Return quantiles in the form in which they are saved."""
        return cls(quantiles.errors, tuple(quantiles.levels))

    @property
    def is_sound(self) -> bool:
        """Return whether quantiles can have been saved so."""
        levels = len(self.levels) == len(LEVELS) and all(0.0 <= level <= 1.0 for level in self.levels)
        return levels and len(self.errors) <= KEPT and all(map(isfinite, self.errors))

    def restored(self) -> ErrorQuantiles:
        """Return the quantiles."""
        return ErrorQuantiles.restored(self.errors, self.levels)


@dataclass(frozen=True, eq=False)
class SavedClient:
    """The state of one client that the coordinator does not have.

    `held` are its held-out records, `pending` the records of the open round, `read` the number of records in closed
    rounds. `mixture`, `neighbours`, `last`, `rest` and `own` are its part of the native models. `began` is the
    mixture at the start of the round, from which the pending records are learnt again: how far out a target is
    depends on those before it.
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
    last: LastAnswerState | None = None
    rest: Rest = field(default_factory=Rest)
    own: OwnState | None = None
    errors: SavedErrors | None = None

    def check(self, *, targets: bool) -> None:
        """Refuse values that no client can have saved: see `SavedEstimator.check`."""
        for records in (self.held, *self.pending):
            _must(records.is_sound(targets=targets), f"the records of client {self.name!r} do not fit each other")
        _must(_counts(self.read), f"client {self.name!r} has read {self.read} records")
        for mixture in (self.mixture, self.began):
            _must(mixture is None or mixture.is_sound, f"the mixture of client {self.name!r} is not valid")
        near = self.neighbours
        if near is not None:
            sound = _counts(near.seen) and np.isfinite(near.Z).all() and np.isfinite(near.y).all()
            _must(bool(sound), f"the last records of client {self.name!r} are not finite numbers")
        last = self.last
        known = last is None or (last.is_sound and last.mixture.is_sound)
        _must(known, f"the last answer of client {self.name!r} is not valid")
        _must(self.errors is None or self.errors.is_sound, f"the errors of client {self.name!r} are not valid")
        _must(self.rest.is_sound, f"the sleep of client {self.name!r} is not valid")


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a restart or local drift among the records learnt, counted from 1; None if unknown.

    `record` is the last record learnt before it. `since` is the first record of the round to which the change is
    dated.
    """

    record: int | None = None
    since: int | None = None


@dataclass(frozen=True, eq=False)
class SavedFederation:
    """An embedded federation in the middle of a round.

    `since` counts the records of the open round, `contributors` names the clients that they came from. `extremes` are
    the least and the largest target so far.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    rounds: int
    labels: tuple[str, ...]
    since: int
    contributors: tuple[str, ...]
    incarnation: int
    restarts: tuple[Restarted, ...]
    local_drifts: tuple[LocalDrift, ...]
    shares: dict[str, float]
    state: CoordinatorState | None
    clients: tuple[SavedClient, ...]
    unlearnt: int = 0
    infinite: int = 0
    restarted: int = 0
    extremes: Extremes = ()
    places: tuple[RecordPlace, ...] = ()
    local_places: tuple[RecordPlace, ...] = ()
    starts: Mapping[int, int] = field(default_factory=dict)

    def check(self, *, targets: bool) -> None:
        """Refuse values that no federation can have saved: see `SavedEstimator.check`."""
        counts = {
            "rounds": self.rounds, "since": self.since, "incarnation": self.incarnation,
            "unlearnt": self.unlearnt, "infinite": self.infinite, "restarted": self.restarted,
        }  # fmt: skip
        for name, count in counts.items():
            _must(_counts(count), f"{name} is {count}")
        known = are_sound(self.extremes) and not (self.extremes and not targets)
        _must(known, "the least and the largest target are impossible")
        _must(len(self.places) == len(self.restarts), "there are more or fewer places of restarts than restarts")
        of_drifts = len(self.local_places) == len(self.local_drifts)
        _must(of_drifts, "there are more or fewer places of local drifts than of these")
        names = [client.name for client in self.clients]
        _must(len(set(names)) == len(names), "two clients have the same name")
        _must(set(self.contributors) <= set(names), "records came from unknown clients")
        _must(len(set(self.labels)) == len(self.labels), "two labels have the same name")
        online = None if self.state is None else self.state.online
        native = online if isinstance(online, NativeState) else None
        _must(native is None or _is_sound_native(native), "the native models are not valid")
        _must(self._agreed_labels() <= set(self.labels), "a model has labels that were never seen")
        for client in self.clients:
            client.check(targets=targets)
            for records in (client.held, *client.pending):
                _must(records.used <= set(self.labels), f"client {client.name!r} has labels that were never seen")

    def _agreed_labels(self) -> set[str]:
        state = self.state
        if state is None:
            return set()
        agreed = () if state.agreement is None else state.agreement.registry.labels
        return {*agreed, *(() if state.online is None else state.online.labels)}


@dataclass(frozen=True)
class SavedColumns:
    """What the columns of an estimator's records hold."""

    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # texts: their values
    numbers: Mapping[str, str] = field(default_factory=dict)  # numbers: the unit that they may have, "" for none
    left_out: Mapping[str, str] = field(default_factory=dict)  # those that are no features, and why
    unusable: Mapping[str, int] = field(default_factory=dict)  # how many cells were not what their column holds

    @classmethod
    def of(cls, columns: Mapping[str, Column], unusable: Mapping[str, int] = NONE) -> "SavedColumns":
        """Return columns in the form in which they are saved.

        >>> SavedColumns.of({"wind": TextColumn("wind", ("NW",)), "x": NumberColumn("x")}).categories
        {'wind': ('NW',)}
        """
        return cls(
            {name: column.values for name, column in columns.items() if isinstance(column, TextColumn)},
            {name: column.reading.unit for name, column in columns.items() if isinstance(column, NumberColumn)},
            {name: column.why for name, column in columns.items() if isinstance(column, LeftOutColumn)},
            dict(unusable),
        )

    def restored(self) -> dict[str, Column]:
        """Return the columns."""
        columns: dict[str, Column] = {name: TextColumn(name, values) for name, values in self.categories.items()}
        columns |= {name: NumberColumn(name, replace(USUAL, unit=unit)) for name, unit in self.numbers.items()}
        return columns | {name: LeftOutColumn(name, why) for name, why in self.left_out.items()}

    def check(self) -> None:
        """Refuse columns that no estimator can have saved: see `SavedEstimator.check`."""
        names = [*self.categories, *self.numbers, *self.left_out]
        _must(len(set(names)) == len(names), "a column holds two kinds of values")
        for name, values in self.categories.items():
            _must(len(set(values)) == len(values) <= MAX_VALUES, f"the values of column {name!r} are not valid")
        _must(_counts(*self.unusable.values()) and {*self.unusable} <= {*names}, "counts of cells are not valid")


@dataclass(frozen=True, eq=False)
class SavedEstimator:
    """An estimator: its class, its parameters, the labels as given, and the federation.

    `weighed` counts the fractional weights so far, which seeds their rounding. Without `columns` an earlier version
    saved it, which knew numbers only.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    kind: str
    parameters: dict[str, Any]
    labels: tuple[bool | int | float | str, ...]
    weighed: int
    federation: SavedFederation
    columns: SavedColumns | None = None
    format: int = FORMAT

    def check(self, *, targets: bool) -> None:
        """Refuse values that no estimator can have saved: compiled loops do not check bounds.

        Raises
        ------
        UsageError
            The message says what is wrong.
        """
        _must(_counts(self.weighed), f"weighed is {self.weighed}")
        self.federation.check(targets=targets)
        if self.columns is not None:
            self.columns.check()
        names = [str(label) for label in self.labels]
        _must(len(set(names)) == len(names), "two labels have the same name")
        _must(set(self.federation.labels) <= set(names), "the federation has labels that the estimator lacks")
        pending = [records.labels for client in self.federation.clients for records in client.pending]
        _must(
            all(labels == tuple(names[: len(labels)]) for labels in pending),
            "pending records have labels that the estimator lacks, or has in another order",
        )

    def save(self, path: Path) -> None:
        """Write the file.

        Raises
        ------
        UsageError
            The file cannot be written.
        """
        safe_file.write(path, self)

    @classmethod
    def load(cls, path: Path, kind: str) -> "SavedEstimator":
        """Read a file of one kind of estimator.

        Raises
        ------
        UsageError
            The file is not a saved estimator of this kind, has another format, or is damaged.
        """
        plain, arrays = safe_file.read(path, WHAT, oldest=OLDEST, newest=FORMAT)
        if "kind" not in plain:
            raise UsageError(f"{path}: not {WHAT}")
        if plain["kind"] != kind:
            raise UsageError(f"{path}: holds a {plain['kind']}, not a {kind}")
        _import_detector(plain)
        try:
            return codec.join(cls, _names_now(plain), arrays)
        except PeerError as error:
            wrong = f"{path}: not {WHAT}: {error}; if streamfl 0.1.0 wrote it, {safe_file.REMEDY}"
            raise UsageError(wrong) from error


def _names_now(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved estimator with the names that the fields of the coordinator's state have now."""
    federation = plain.get("federation")
    if not isinstance(federation, Mapping) or "state" not in federation:
        return dict(plain)
    return {**plain, "federation": {**federation, "state": state_bytes.names_now(federation["state"])}}


def _import_detector(plain: Mapping[str, Any]) -> None:
    """Import the detector's package, so that its state can be decoded; a missing package is reported by decoding."""
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
    """Return whether all are whole numbers, 0 or more.

    >>> _are_counts(np.array([0.0, 3.0])), _are_counts(np.array([0.5])), _are_counts(np.array([np.nan]))
    (True, False, False)
    """
    return bool(((numbers >= 0.0) & (numbers < MOST_COUNTED) & (numbers == np.floor(numbers))).all())


def _is_sound_native(models: NativeState) -> bool:
    """Return whether all numbers are finite; shapes are checked when the state is restored."""
    moments = (models.moments, models.early.first, models.early.later, models.far)
    counts = [part for moment in moments for part in (moment.count, moment.m2)]
    return (
        _are_finite(models.weights, models.table, models.second, models.norms, *(moment.mean for moment in moments))
        and abs(models.centre) <= LARGEST_TARGET
        and _are_finite(*counts)
        and all((part >= 0.0).all() for part in (models.norms, *counts))
        and _counts(models.seen)
        and all(len(set(names)) == len(names) for names in (models.features, models.labels))
    )


def _are_finite(*parts: RealArray) -> bool:
    return all(bool(np.isfinite(part).all()) for part in parts)
