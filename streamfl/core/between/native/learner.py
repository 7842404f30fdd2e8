"""What a client learns between rounds, record by record, and what it tells of it when the round ends."""

import math
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamfl.core.arrays import BoolArray, FloatArray, IntArray
from streamfl.core.between.native.ferns import Ferns
from streamfl.core.between.native.kernels.compiled import KeptArguments, announced, plain
from streamfl.core.between.native.kernels.neighbours import Memory
from streamfl.core.between.native.kernels.one_record import Learning, Record, hold, predict_and_learn
from streamfl.core.between.native.kernels.scaling import FIRST
from streamfl.core.between.native.kernels.softmax import rounds_say
from streamfl.core.between.native.kernels.steps import COUNTED, RIDGE, Kinds, Models, Table, Touched
from streamfl.core.between.native.mixture import LabelMixture, TargetMixture, room
from streamfl.core.between.native.neighbours import NO_MEMORY, Neighbours
from streamfl.core.between.native.running_scaler import RunningScaler
from streamfl.core.errors import BrokenInvariantError, PeerError
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import MEMORIES, TOUCHED, NativeSettings
from streamfl.core.protocol.native.sleeping import unused
from streamfl.core.protocol.records import Batch, aligned

F = TypeVar("F", np.float32, np.float64)

# So many deviations from its targets a client does not measure them from what is agreed on: a float has 16 digits.
FAR_OFF = 1e6

# What differences are multiples of, at least, where targets are small.
LEAST_UNIT = 2.0**-110

NOT_FITTING = "arrays do not fit the names: learning was interrupted, or another thread learns at the same time"

# What is said of a record that is learnt without being predicted again.
_NOT_AGAIN = np.zeros((0, 0))


class Foreseen(NamedTuple):
    """The record that was predicted last, and what is served of it: to learn it, none of that need be done again."""

    features: tuple[str, ...]
    values: bytes
    served: float


@dataclass
class NativeLearner:
    """The agreed models as one client goes on from them.

    Parameters
    ----------
    settings
        Which models.

    Examples
    --------
    >>> learner = NativeLearner(NativeSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 1, 0, 1])
    >>> learner.learn(("x",), X, y, ("a", "b"))
    array([-1.,  0.,  1.,  1.])
    >>> learner.labels, learner.predicted(("x",), np.array([[1.0]])).round(2)
    (('a', 'b'), array([[0.32, 0.68]]))
    """

    settings: NativeSettings
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    mixture: LabelMixture | TargetMixture = field(init=False)
    near: Neighbours | None = field(init=False)
    _codes: dict[str, int] = field(init=False)
    _ferns: Ferns = field(init=False)
    _scaler: RunningScaler = field(init=False)
    _agreed: NativeState = field(init=False)
    _kinds: Kinds = field(init=False)
    _models: Models = field(init=False)
    _touched: Touched = field(init=False)
    _way: KeptArguments | None = None
    _foreseen: Foreseen | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        experts, ferns = len(settings.experts), settings.ferns
        self.mixture = TargetMixture(experts) if settings.targets else LabelMixture(experts)
        self.near = Neighbours() if settings.neighbours else None
        self._ferns = Ferns(settings.seed)
        self._kinds = Kinds(settings.sees, settings.rates, ferns.start, ferns.stop - ferns.start)
        nothing = NativeState.none(settings)
        table = nothing.table.astype(np.float32)
        visits, none = np.zeros(settings.table_rows, np.int64), np.zeros(0)
        self._models = Models(none, table, visits, none, none, none, none, none, none, none, none, none)
        self._touched = _untouched(table)
        self.begin(nothing)
        self._load()

    def _load(self) -> None:
        """Load what is compiled, or compile it, so that no record waits for it."""
        none, nothing = np.zeros(0), np.zeros((0, 0))
        with announced():
            self._send((), nothing, nothing, none, nothing)
            rounds_say(nothing, none, none, 1.0, np.zeros((1, 0)))

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy goes on from: the way of a record leads through views, which would be copied apart."""
        return {**self.__dict__, "_way": None, "_foreseen": None}

    @property
    def records(self) -> int:
        """Count the records learnt since `begin`."""
        return int(self._touched.counted["records"][0])

    # --- rounds --------------------------------------------------------------------------------------------------

    def begin(self, agreed: NativeState, cells: IntArray | None = None) -> None:
        """Go on from agreed models; what was learnt since the last ones is theirs by now, or lost.

        Parameters
        ----------
        agreed
            The models.
        cells
            The rows of the table that `agreed.table` holds: those that changed since the agreed models of before.
            None: it holds all.

        Raises
        ------
        PeerError
            Their arrays do not fit their names.
        """
        rows = self.settings.table_rows
        named = cells is None or not len(cells) or bool(0 <= cells.min() <= cells.max() < rows)
        if not named or not agreed.fits(self.settings, rows if cells is None else len(cells)):
            raise PeerError(
                "agreed models do not fit their names: the coordinator runs another version, or is broken"
            )
        ferns, old = self._ferns, len(self._ferns.features)
        ferns = Ferns(self.settings.seed) if agreed.features[:old] != ferns.features else ferns
        ferns = ferns.over(agreed.features) if self.settings.has_ferns else ferns
        scaler = RunningScaler.of(agreed.moments, agreed.features)
        second = agreed.second.copy()
        centre = self._centre(agreed)
        models = Models(
            weights=self._begins(agreed, centre),
            table=self._changed_table(agreed.table, cells),
            visits=self._models.visits,
            second=second,
            inverse=np.full(second.shape, np.nan),
            norms=agreed.norms.copy(),
            norm_sums=np.zeros(2),
            bearing=np.zeros(agreed.weights.shape[2]),
            right=np.zeros(agreed.weights.shape[1:]),
            mean=np.zeros(second.shape),
            along=np.zeros(len(second)),
            centre=np.array([centre]),
        )
        codes = {label: code for code, label in enumerate(agreed.labels)}
        self.mixture.wake(self._awake(agreed))
        # Whoever is interrupted below finds arrays that do not fit their names, and is told so.
        self._way, self._foreseen = None, None
        self._agreed, self._ferns, self._scaler, self._models = agreed, ferns, scaler, models
        self.features, self.labels, self._codes = agreed.features, agreed.labels, codes
        self._tell_neighbours()

    def _centre(self, agreed: NativeState) -> float:
        """Return what to measure targets from: the agreed centre, NaN before any; the mean if that lies far off."""
        if not agreed.seen or not self.settings.targets:
            return agreed.centre if agreed.seen else math.nan
        targets = self.mixture.mixing.targets
        seen, total, square = (float(part[0]) for part in (targets.seen, targets.total, targets.square))
        if seen < FIRST:
            return agreed.centre
        mean = total / seen
        deviation = math.sqrt(max(square / seen - mean * mean, 0.0))
        mean += float(targets.near[0])
        return mean if abs(agreed.centre - mean) > FAR_OFF * deviation > 0.0 else agreed.centre

    def _begins(self, agreed: NativeState, centre: float) -> FloatArray:
        """Return the linear weights that say of targets, measured from a centre, what the agreed ones say."""
        weights = agreed.weights.copy()
        if agreed.seen and centre != agreed.centre:
            weights[0, :, 0] += (agreed.centre - centre) / self.settings.sees
        return weights

    def _awake(self, agreed: NativeState) -> BoolArray:
        awake = np.array([not agreed.sleeps(expert) for expert in self.settings.experts])
        return awake if awake.any() else ~awake  # where other experts sleep than here are, somebody must serve

    def heard(self, serving: Serving, batch: Batch) -> FloatArray | None:
        """Return what the model that serves rounds says of records; None while it sleeps."""
        if not self.mixture.mixing.awake[-1]:
            return None
        if serving.model.link != "softmax":
            return serving.says(batch)
        X = plain(aligned(batch.X, batch.features, serving.registry.features))
        if X.shape[1:] != serving.arrays[0].shape:
            raise BrokenInvariantError(NOT_FITTING)
        return rounds_say(X, *serving.arrays)

    def remember(self, near: Neighbours | None) -> None:
        """Take over the last records of a learner that was saved.

        Raises
        ------
        PeerError
            They are not what a learner would have saved.
        """
        if near is not None and not self._takes(near):
            raise PeerError("the last records of a client do not fit their names: the file is damaged")
        self._way, self._foreseen = None, None
        self.near = near
        self._tell_neighbours()

    def _takes(self, near: Neighbours) -> bool:
        """Tell whether last records are sound, and of a learner with such settings."""
        labelled = bool(near.kept_labels) or not near.seen
        return self.settings.neighbours and near.is_sound and (self.settings.targets or labelled)

    def restore(self) -> None:
        """Go back to the agreed models."""
        self._agreed = replace(self._agreed, table=self._agreed.table[:0])
        self.begin(self._agreed, np.zeros(0, np.int64))

    def _changed_table(self, rows: FloatArray, cells: IntArray | None) -> Table:
        """Return the table without this round's changes, and with the rows that `cells` names, or all."""
        touched, before = self._before()
        table = self._models.table
        # In this order, so that who is interrupted can begin again.
        table[touched] = before
        self._models.visits[touched] = 0
        self._touched = _untouched(rows)
        if cells is None:
            return rows.astype(np.float32)
        # A label that only this client has seen, in a round that did not count, has no column any more.
        table = np.ascontiguousarray(_wide(table[..., : rows.shape[-1]], rows.shape[-1]))
        table[cells] = rows[: len(cells)]  # none, to go back to the agreed models
        return table

    def _before(self) -> tuple[IntArray, Table]:
        """Return the rows of the table that this round touched, and what they held."""
        rows = int(self._touched.counted["rows"][0])
        return self._touched.cells[:rows], _wide(self._touched.before[:rows], self._models.table.shape[-1])

    def learnt(self) -> NativeLearnt:
        """Return what the records since `begin` did."""
        agreed, models = self._agreed, self._models
        start = agreed.grown(self.features[len(agreed.features) :], self.labels[len(agreed.labels) :], table=False)
        centre = float(models.centre[0]) if self.settings.targets and self.records else agreed.centre
        cells, before = self._before()
        weights, table = models.weights - self._begins(start, centre), models.table.take(cells, axis=0) - before
        unit = _unit(weights, table, least=LEAST_UNIT if self.settings.targets else 1.0)
        return NativeLearnt(
            features=self.features,
            labels=self.labels,
            records=self.records,
            moments=self._scaler.moments(self.features, since=agreed.moments),
            again=tuple(compress(self.features, self._scaler.again)),
            far=self._scaler.far(self.features),
            norms=models.norm_sums / max(1, self.records),
            second=models.second - start.second,
            weights=weights / unit,
            cells=cells.astype(np.float64),
            visits=models.visits[cells].astype(np.float64),
            table=table.astype(np.float64) / unit,
            unit=unit,
            bearing=models.bearing[: len(self.labels)].copy(),
            right=models.right[:, : len(self.labels)].copy(),
            unused=unused(self.settings.experts, self.mixture.influence),
            centre=centre,
        )

    # --- records -------------------------------------------------------------------------------------------------

    def learn(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        y: FloatArray,
        labels: tuple[str, ...] = (),
        others: FloatArray | None = None,
    ) -> FloatArray:
        """Predict every record, then learn it, in order.

        Parameters
        ----------
        features, X
            Names, and values, shape (n, d); NaN is a missing one. A feature begins with its first value.
        y, labels
            Label indices in `labels`, or targets; shape (n,).
        others
            What one more expert says of each record: probabilities of the first labels of this learner, shape
            (n, labels), or targets, shape (n, 1). None: nothing.

        Returns
        -------
        The predicted label indices in this learner's `labels` as they are afterwards (-1 before any label), or
        targets; shape (n,).
        """
        served = np.zeros(len(X))
        others = np.zeros((len(X), 0)) if others is None else others
        for rows in self._parts(features, X, y, labels):
            i = rows.start
            if self.foresees(features, X[rows], y[rows], labels) and self._foreseen is not None:
                served[i] = self._foreseen.served
                self._send(features, X[rows], others[rows], self._truths(y[rows], labels), _NOT_AGAIN)
                continue
            told = None
            if not self._knows(y, labels, i) or self._new(features, X[i]):
                told = self._served(self.predicted(features, X[i : i + 1], others[i : i + 1]))
                self._take_in(features, X[i], None if self.settings.targets else labels[int(y[i])])
            said = np.zeros((rows.stop - i, self._models.weights.shape[-1]))
            self._send(features, X[rows], others[rows], self._truths(y[rows], labels), said)
            served[rows] = self._served(said)
            served[i] = served[i] if told is None else told[0]  # nobody who asked could know what it brings
        return served

    def predicted(self, features: tuple[str, ...], X: FloatArray, others: FloatArray | None = None) -> FloatArray:
        """Return what it says of records now: probabilities, shape (n, labels), or targets, shape (n, 1)."""
        said = np.zeros((len(X), self._models.weights.shape[-1]))
        self._foreseen = None
        if said.size:
            self._send(features, X, np.zeros((len(X), 0)) if others is None else others, np.zeros(0), said)
            if len(X) == 1 and not self._new(features, X[0]):
                self._foreseen = Foreseen(features, X.tobytes(), float(self._served(said)[0]))
        return said

    def foresees(self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...] = ()) -> bool:
        """Tell whether the record to be learnt is the one that was predicted last, with nothing learnt since.

        Not if it brings a label, for which there was no room.
        """
        last = self._foreseen
        if last is None or len(X) != 1 or last.features != features or last.values != X.tobytes():
            return False
        return self._knows(y, labels, 0)

    def _served(self, said: FloatArray) -> FloatArray:
        """Return the label indices, or targets, that are served where this is said."""
        if self.settings.targets:
            return said[:, 0]
        return said.argmax(axis=1).astype(np.float64) if said.shape[1] else np.full(len(said), -1.0)

    def _send(
        self, features: tuple[str, ...], X: FloatArray, others: FloatArray, truths: FloatArray, said: FloatArray
    ) -> None:
        """Send records, which bring no names, on their way: see `predict_and_learn`."""
        self._foreseen = None  # the mixture learns of what it mixed last
        way, seen = self._on_the_way(), self._agreed.seen + self.records
        remembered = 0 if self.near is None else self.near.seen
        touched = self._room_for(len(truths))
        X, others = self._aligned(features, X), plain(others)
        if not predict_and_learn(way, remembered, seen, X, others, truths, said, touched):
            raise BrokenInvariantError(NOT_FITTING)
        if self.near is not None:
            self.near.seen += len(truths)

    def _room_for(self, records: int) -> Touched:
        """Return room for the rows of the table that so many more records may touch for the first time."""
        touched, table = self._touched, self._models.table
        wanted = min(len(table), int(touched.counted["rows"][0]) + TOUCHED * records)
        if len(touched.cells) < wanted or touched.before.shape[1:] != table.shape[1:]:
            rows = min(len(table), 2 * wanted)
            cells, before = np.zeros(rows, np.int64), np.zeros((rows, *table.shape[1:]), np.float32)
            filled, kept = self._before()
            cells[: len(filled)], before[: len(filled)] = filled, kept
            self._touched = Touched(cells, before, touched.counted)
        return self._touched

    def _on_the_way(self) -> KeptArguments:
        """Return all that a record's way leads through."""
        if self._way is None:
            settings, columns = self.settings, self._models.weights.shape[-1]
            learning = Learning(
                kinds=self._kinds,
                scales=self._scaler.sums,
                tests=self._ferns.tests,
                models=self._models,
                memory=NO_MEMORY if self.near is None else self.near.memory,
                mixing=self.mixture.mixing,
                record=Record(np.ones(1 + len(self.features)), np.zeros(TOUCHED * settings.has_ferns, np.int64)),
                said=room(len(settings.experts), columns),
                targets=settings.targets,
            )
            if not _is_sound(learning, len(self.features), columns):
                raise BrokenInvariantError(NOT_FITTING)
            self._way = hold(learning)
        return self._way

    # --- names ---------------------------------------------------------------------------------------------------

    def _parts(self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]) -> list[slice]:
        """Return runs of records of which only the first may bring names."""
        if len(X) < 2:
            return [slice(0, len(X))] * len(X)
        known, starts = set(self.features), {0}
        for j in [j for j, name in enumerate(features) if name not in known]:
            starts.update(np.flatnonzero(~np.isnan(X[:, j]))[:1].tolist())
        for code in [code for code, label in enumerate(labels) if label not in self._codes]:
            starts.update(np.flatnonzero(y == code)[:1].tolist())
        return [slice(a, b) for a, b in pairwise([*sorted(starts), len(X)])]

    def _new(self, features: tuple[str, ...], x: FloatArray) -> tuple[str, ...]:
        """Return the features that have their first value in a record."""
        if features == self.features:
            return ()
        known = set(self.features)
        values = zip(features, x, strict=True)
        return tuple(sorted(name for name, value in values if name not in known and not math.isnan(value)))

    def _knows(self, y: FloatArray, labels: tuple[str, ...], i: int) -> bool:
        """Tell whether the truth of a record is no new label."""
        return self.settings.targets or labels[int(y[i])] in self._codes

    def _truths(self, y: FloatArray, labels: tuple[str, ...]) -> FloatArray:
        """Return the places of labels in `self.labels`, or targets as they are."""
        if self.settings.targets:
            return plain(y)
        if len(y) == 1:
            return np.array([self._codes[labels[int(y[0])]]], dtype=np.float64)
        places = np.array([self._codes.get(label, -1) for label in labels], dtype=np.float64)
        return places[y.astype(np.int64)]

    def _take_in(self, features: tuple[str, ...], x: FloatArray, label: str | None) -> None:
        """Take in the features that have their first value in a record, and its label."""
        new = self._new(features, x)
        more = () if label is None or label in self._codes else (label,)
        names, labels = (*self.features, *new), (*self.labels, *more)
        ferns = self._ferns.over(names) if self.settings.has_ferns else self._ferns
        models = self._wider(len(new), len(more))
        scaler = self._scaler.grown(len(new))
        codes = self._codes | dict.fromkeys(more, len(self.labels))
        # Whoever is interrupted below finds arrays that do not fit their names, and is told so.
        self._way, self._foreseen = None, None
        self._ferns, self._models, self._scaler = ferns, models, scaler
        self.features, self.labels, self._codes = names, labels, codes
        self._tell_neighbours()

    def _wider(self, features: int, labels: int) -> Models:
        """Return the models with room for more names, of which nothing is known."""
        models, size = self._models, len(self._models.second) + features
        if not models.second.size or not features:
            second, inverse, mean, along = models.second, models.inverse, models.mean, models.along
        else:
            second, inverse = np.pad(models.second, (0, features)), np.pad(models.inverse, (0, features))
            # Until the inverse is worked out again: what has not been seen has the ridge for its second moment.
            ridge = RIDGE * np.trace(second) / size / max(1, self._agreed.seen + self.records)
            inverse[range(size - features, size), range(size - features, size)] = 1.0 / ridge if ridge else np.nan
            mean, along = np.zeros(second.shape), np.zeros(size)
        return models._replace(
            weights=np.pad(models.weights, ((0, features), (0, 0), (0, labels))),
            table=_wide(models.table, models.table.shape[-1] + labels),
            bearing=_wide(models.bearing, models.bearing.shape[-1] + labels),
            right=_wide(models.right, models.right.shape[-1] + labels),
            second=second,
            inverse=inverse,
            mean=mean,
            along=along,
        )

    def _tell_neighbours(self) -> None:
        if self.near is not None:
            self.near.over(self.features, self.labels)

    def _aligned(self, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return values in the order of `self.features`."""
        return plain(aligned(X, features, self.features))


def _wide(array: npt.NDArray[F], columns: int) -> npt.NDArray[F]:
    """Return an array with zeros for more columns in its last axis."""
    more = columns - array.shape[-1]
    return np.concatenate([array, np.zeros((*array.shape[:-1], more), array.dtype)], axis=-1) if more else array


def _unit(*differences: npt.NDArray[np.floating], least: float = 1.0) -> float:
    """Return a power of two that brings differences within 1024, and small ones near 1: what can be added up exactly.

    >>> _unit(np.array([0.3, -900.0])), _unit(np.array([1e6]), np.array([-2.0]))
    (1.0, 1024.0)
    >>> _unit(np.array([0.3])), _unit(np.array([0.3]), least=0.125)
    (1.0, 0.5)
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in differences)
    if not least < largest < math.inf:
        return least
    power = math.ceil(math.log2(largest))
    return max(least, 2.0 ** (min(power, 0) if power <= 10 else power - 10))


def _untouched(table: npt.NDArray[F]) -> Touched:
    """Return that no row of a table has changed."""
    return Touched(np.zeros(0, np.int64), table[:0].astype(np.float32), np.zeros(1, COUNTED))


def _is_sound(learning: Learning, features: int, columns: int) -> bool:
    """Tell whether all arrays fit the names: to compiled loops, an array that is too small is other memory."""
    models, memory, said = learning.models, learning.memory, learning.said
    inputs, count = 1 + features, models.weights.shape[1]
    near = len(MEMORIES) if len(memory.y) else 0
    return (
        models.weights.shape == (inputs, count, columns)
        and models.right.shape == (count, columns)
        and models.bearing.shape == (columns,)
        and models.table.shape[2] == columns
        and int(learning.tests.feature.max()) < max(1, features)
        and all(part.shape[-1:] == (features,) for part in learning.scales)
        and len(learning.scales.first) == FIRST
        and models.second.shape in {(0, 0), (inputs, inputs)}
        and models.second.shape == models.inverse.shape == models.mean.shape
        and models.along.shape == models.mean.shape[:1]
        and models.centre.shape == (1,)
        and (not near or _is_sound_memory(memory, features, 0 if learning.targets else columns))
        and said.by_expert.shape == (count + near + 1, columns)
        and len(learning.mixing.best) == learning.mixing.stacked.shape[1] == count + near + 1
    )


def _is_sound_memory(memory: Memory, features: int, labels: int) -> bool:
    """Tell whether the last records have room for so many names."""
    return (
        len(memory.column) == features
        and int(memory.column.max(initial=-1)) < len(memory.Z) == len(memory.at)
        and memory.Z.shape[1] == len(memory.y) == len(memory.distance)
        and len(memory.code) == labels
        and int(memory.code.max(initial=-1)) < len(memory.place)
        and int(memory.place.max(initial=-1)) < max(1, labels)
    )
