"""The native models of one client: they learn record by record, and report the differences at the end of a round."""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import NamedTuple

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.errors import BrokenInvariantError, PeerError
from streamfl.learning.grid import in_short
from streamfl.learning.serving import Serving
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.kept_arguments import kept
from streamfl.online.native.kernels.compiled import announced, plain
from streamfl.online.native.kernels.last_answer import ERROR, LAST, Last
from streamfl.online.native.kernels.neighbours import NO_MEMORY, Memory
from streamfl.online.native.kernels.one_record import Learning, Record, predict_and_learn
from streamfl.online.native.kernels.own import CELLS, DEPTH, FEWEST, PAIR_CELLS, Own
from streamfl.online.native.kernels.scaling import FIRST
from streamfl.online.native.kernels.softmax import rounds_say
from streamfl.online.native.kernels.steps import RIDGE, Kinds, Models, Table
from streamfl.online.native.merging.in_order import change_as_received, change_named, learnt_as_sent
from streamfl.online.native.merging.on_grids import ON_GRIDS
from streamfl.online.native.merging.way import Raw, Way
from streamfl.online.native.mixture import Mixture, room
from streamfl.online.native.private.last_answer import (
    NO_PAST_ANSWERS,
    LastAnswer,
    PastPrediction,
    no_last_answer,
)
from streamfl.online.native.private.last_answer_state import LastAnswerState
from streamfl.online.native.private.neighbours import Neighbours
from streamfl.online.native.private.own import OwnModel, no_own_model
from streamfl.online.native.private.own_state import OwnState
from streamfl.online.native.private.part import OwnPart
from streamfl.online.native.running_scaler import RunningScaler
from streamfl.online.native.shared import Shared
from streamfl.online.native.tables import NO_TABLE, NO_VISITS, ClientTable, wide
from streamfl.protocol.messages.decision_rule import together
from streamfl.protocol.moments import NOTHING, Moments
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.extremes import Extremes, believed, extremes, of_all
from streamfl.protocol.native.learnt import NativeLearnt, round_loss, sends_moments
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import in_turn
from streamfl.protocol.native.settings import (
    FOLLOWING,
    LAST_ANSWER,
    MEMORIES,
    NONE,
    OWN,
    OWN_RATES,
    TOUCHED,
    NativeSettings,
)
from streamfl.protocol.native.sleeping import Rest, unused
from streamfl.protocol.records import Batch, aligned
from streamfl.sampling import generator

# If the agreed centre is so many deviations from a client's targets, the client measures from its own mean instead: a
# float has only 16 digits.
FAR_OFF = 1e6

NOT_FITTING = "arrays do not fit the names: learning was interrupted, or another thread learns at the same time"

# Room for no predictions: of a record that is learnt without being predicted again.
_NO_PREDICTIONS = np.zeros((0, 0))
_NO_ROUNDS = np.zeros((1, 0))


class LastPrediction(NamedTuple):
    """The record that was predicted last, and its prediction: to learn it next, none of that work is repeated."""

    features: tuple[str, ...]
    values: bytes
    outputs: FloatArray  # shape (1, columns)


class KeptOwn(NamedTuple):
    """What a client has learnt that it never sends, as it was at one time."""

    mixture: Mixture
    near: Neighbours | None
    own: OwnModel | None
    last: LastAnswer | None
    rest: Rest


@dataclass
class NativeLearner:
    """The native models of one client, which continue from the agreed state.

    Examples
    --------
    >>> learner = NativeLearner(NativeSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 1, 0, 1])
    >>> learner.learn(("x",), X, y, ("a", "b")).argmax(axis=1)
    array([0, 0, 1, 1])
    >>> learner.labels, learner.predicted(("x",), np.array([[1.0]])).round(2)
    (('a', 'b'), array([[0.41, 0.59]]))
    """

    settings: NativeSettings  # which models learn
    shared: Shared = field(default_factory=Shared)  # what it shares with others of this thread; by default nothing
    way: Way = ON_GRIDS  # how what it learns goes to the coordinator
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    mixture: Mixture = field(init=False)
    agreed_mixture: Mixture = field(init=False)
    near: Neighbours | None = field(init=False)
    own: OwnModel | None = field(init=False)
    last: LastAnswer | None = field(init=False)
    # The sleep of the client's own experts, which it decides alone: nothing that is sent depends on it.
    rest: Rest = field(default_factory=Rest)
    _codes: dict[str, int] = field(init=False)
    _ferns: Ferns = field(init=False)
    _scaler: RunningScaler = field(init=False)
    _agreed: NativeState = field(init=False)
    _kinds: Kinds = field(init=False)
    _models: Models = field(init=False)
    _table: ClientTable = field(init=False)
    _last_prediction: LastPrediction | None = None
    _in_turn: list[float] = field(default_factory=list)  # the labels of the round
    _extremes: Extremes = ()  # of the targets of the round
    _branch: str = ""

    def __post_init__(self) -> None:
        settings = self.settings
        ferns = settings.ferns
        self._forget_own()
        self.agreed_mixture = Mixture(len(settings.agreed_experts))
        self._ferns = self.shared.ferns(Ferns(settings.seed), ())
        self._kinds = Kinds(settings.sees, settings.rates, ferns.start, ferns.stop - ferns.start)
        nothing, none = NativeState.none(settings), np.zeros(0)
        table = np.zeros(nothing.table.shape, np.float32)
        self._models = Models(none, NO_TABLE, NO_VISITS, none, none, none, none, none, none, none, none, none)
        self._table = ClientTable(self.shared.tables, table)
        self._agreed = nothing
        self.begin(replace(nothing, table=nothing.table[:0].copy()), np.zeros(0, np.int64))
        self._load()

    def _forget_own(self) -> None:
        """Begin all that the client alone knows: how it mixes, its last records, its own model, and last answers."""
        settings = self.settings
        self.mixture = Mixture(len(settings.experts))
        self.near = Neighbours() if settings.neighbours else None
        self.own = self._new_own() if settings.last_answer else None
        self.last = LastAnswer(settings.targets) if settings.last_answer else None

    def _new_own(self) -> OwnModel:
        return OwnModel(self.settings.targets, self.settings.has_ferns, self.settings.seed)

    def _load(self) -> None:
        """Load the compiled loops, or compile them, so that no record waits for that."""
        none, nothing = np.zeros(0), np.zeros((0, 0))
        if self.shared.loaded:
            return
        with announced():
            self._run((), nothing, nothing, none, nothing)
            rounds_say(nothing, none, none, 1.0, np.zeros((1, 0)), nothing)
        self.shared.loaded = True

    def __getstate__(self) -> dict[str, object]:
        """Return the state of a copy, which need not know what was predicted last."""
        return {**self.__dict__, "_last_prediction": None}

    @property
    def records(self) -> int:
        """Count the records learnt since `begin`."""
        return int(self._table.changes.records[0])

    @property
    def loss(self) -> float | None:
        """Return the agreed mixture's sum of log-losses over the records since `begin`, in nats; None of targets."""
        return None if self.settings.targets else round_loss(self._lost)

    @property
    def _lost(self) -> float:
        return float(self._table.changes.touched.counted["loss"][0])

    def untrained_loss(self, batches: Sequence[Batch]) -> float:
        """Return the mean `loss` of agreed models that know nothing but the labels, and learn these records."""
        untrained = NativeLearner(self.settings.agreed_only)
        nothing = NativeState.none(untrained.settings)
        nothing = replace(nothing, table=nothing.table[:0].copy()).grown((), self._agreed.labels)
        untrained.begin(nothing, np.zeros(0, np.int64))
        for batch in batches:
            untrained.learn(batch.features, batch.X, batch.y, batch.labels)
        return round_loss(untrained._lost / max(1, untrained.records))

    # --- rounds --------------------------------------------------------------------------------------------------

    def begin(
        self, agreed: NativeState, cells: IntArray | None = None, *, own: bool = True, branch: str = ""
    ) -> None:
        """Continue from an agreed state, which replaces everything learnt since the last one.

        Parameters
        ----------
        cells
            The rows of the table that `agreed.table` holds: those that changed since the state before. None: it holds
            all rows.
        own
            Whether to keep the client's own mixture, if it has learnt one.
        branch
            The name of the client's branch, whose mixture it continues; empty: that of all.

        Raises
        ------
        PeerError
            Its arrays do not fit its names.
        """
        rows = self.settings.table_rows
        named = cells is None or not len(cells) or bool(0 <= cells.min() <= cells.max() < rows)
        if not named or not agreed.is_sound(self.settings, rows if cells is None else len(cells)):
            raise PeerError(
                "agreed models do not fit their names: the coordinator runs another version, or is broken"
            )
        ferns = self.shared.ferns(self._ferns, agreed.features if self.settings.has_ferns else ())
        scaler = RunningScaler.of(agreed.moments, agreed.features)
        second = agreed.second.copy()
        centre = self._centre(agreed)
        of_others = self._trained_by_others(agreed) if own else 0.0
        moves = agreed is not self._agreed
        # In this order, so that `begin` can be repeated after an interruption.
        self._table.begin(cells, agreed.table, agreed.chain)
        models = Models(
            weights=self._weights_about(agreed, centre),
            table=NO_TABLE,
            visits=NO_VISITS,
            second=second,
            inverse=np.full(second.shape, np.nan),
            norms=agreed.norms.copy(),
            norm_sums=np.zeros(2),
            bearing=np.zeros(agreed.weights.shape[2]),
            right=np.zeros(agreed.weights.shape[1:]),
            mean=self.shared.square(len(second)),
            along=np.zeros(len(second)),
            centre=np.array([centre]),
        )
        codes = {label: code for code, label in enumerate(agreed.labels)}
        shared, awake = self._awake(agreed, branch)
        self.agreed_mixture.begin(agreed.mixture_of(branch), shared)
        if own and self.mixture.has_learnt:
            self.mixture.wake(awake)
        else:
            self.mixture.begin(agreed.mixture_of(branch), awake, self.settings.shared)
        # An interruption from here on leaves arrays that do not fit the names: the next call raises.
        self._table.changes.arguments, self._last_prediction = None, None
        # The rows are in the table; a view would keep all of them.
        self._agreed = replace(agreed.published, table=agreed.table[:0].copy())
        self._in_turn, self._extremes, self._branch = [], (), branch
        self._ferns, self._scaler, self._models = ferns, scaler, models
        self.features, self.labels, self._codes = agreed.features, agreed.labels, codes
        self._rename_own()
        if moves and self.own is not None:
            self.own.pair_up()
        if self.last is not None and of_others:
            self.last.distrust_others(of_others)

    def forget_if_begun_again(self, agreed: NativeState) -> bool:
        """Forget what the client alone knows, if the models of an agreed state have begun again; tell whether."""
        if agreed.times_begun_again <= self._agreed.times_begun_again:
            return False
        self._table.changes.arguments, self._last_prediction = None, None
        self.rest = Rest()
        self._forget_own()
        return True

    def _trained_by_others(self, agreed: NativeState) -> float:
        """Return which part of a state of targets others trained, if it is the client's first one; else 0.

        docs/choices.md, "The first agreed state".
        """
        records = self.own.records if self.own is not None and self.settings.targets else 0
        first = records and agreed.seen and not self._agreed.seen
        return max(0.0, 1.0 - records / agreed.seen) if first else 0.0

    def _centre(self, agreed: NativeState) -> float:
        """Return the value to measure targets from: the agreed centre, NaN before any; if far off, the own mean."""
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

    def _weights_about(self, agreed: NativeState, centre: float) -> FloatArray:
        """Return the agreed linear weights with intercepts for targets that are measured from `centre`."""
        weights = agreed.weights.copy()
        if agreed.seen and centre != agreed.centre:
            weights[0, :, 0] += (agreed.centre - centre) / self.settings.sees
        return weights

    def mix_as(self, branch: str) -> None:
        """Mix as the clients of a branch have agreed, or without a name as all others; it has learnt nothing."""
        if branch != self._branch:
            self._last_prediction = None
            self.mixture.begin(self._agreed.mixture_of(branch), self._awake(self._agreed, branch)[1])
            self._branch = branch

    def _awake(self, agreed: NativeState, branch: str) -> tuple[BoolArray, BoolArray]:
        """Return which of the agreed experts are awake, by the agreed state alone, and which of all.

        The expert `rounds` of a branch is a model of its own, of which the sleep of all others says nothing.
        """
        shared = np.array([not agreed.sleeps(expert) for expert in self.settings.agreed_experts])
        shared[-1] |= bool(branch)
        shared = shared if shared.any() else ~shared  # the state may know other experts: at least one must serve
        awake = np.full(len(self.settings.experts), not self.rest.left)
        awake[self.settings.shared] = shared
        return shared, awake

    def rest_own(self) -> None:
        """Let the client's own experts sleep in the next round, or wake, by their influence in this one."""
        own = ~self.settings.shared
        if self.records and own.any():
            idle = unused(compress(self.settings.experts, own), self.mixture.influence[own])
            self.rest = self.rest.after() if idle else Rest()

    def predicted_by_rounds(self, serving: Serving, batch: Batch) -> FloatArray | None:
        """Return the predictions of the expert `rounds`, shape (n, columns); None while it sleeps."""
        if not self.mixture.mixing.awake[-1]:
            return None
        if serving.model.link != "softmax":
            return serving.predictions(batch)
        X = plain(aligned(batch.X, batch.features, serving.registry.features))
        if X.shape[1:] != serving.arrays[0].shape:
            raise BrokenInvariantError(NOT_FITTING)
        outputs = np.zeros((len(X), serving.arrays[-1].shape[1]))
        rounds_say(X, *serving.arrays, outputs)
        return outputs

    def remember(self, near: Neighbours | None) -> None:
        """Take over the last records of a saved learner.

        Raises
        ------
        PeerError
            No learner with these settings can have saved them.
        """
        if near is not None and not self._can_use(near):
            raise PeerError("the last records of a client do not fit their names: the file is damaged")
        self._table.changes.arguments, self._last_prediction = None, None
        self.near = near
        self._rename_own()

    def remember_own(self, state: OwnState | None) -> None:
        """Take over the own model of a saved learner; None: it had none, and begins again.

        Raises
        ------
        PeerError
            No learner with these settings can have saved it.
        """
        if state is not None and self.own is None:
            raise PeerError("a client's own model was saved that the settings do not have: the file is damaged")
        if self.own is None:
            return
        new = self._new_own()
        own = new if state is None else OwnModel.of(state, targets=new.targets, cells=new.cells, seed=new.seed)
        self._table.changes.arguments, self._last_prediction = None, None
        self.own = own
        self._rename_own()

    def remember_last(self, state: LastAnswerState | None) -> None:
        """Take over the last answer of a saved learner; None: it had none, and the next record is the first.

        Raises
        ------
        PeerError
            No learner with these settings can have saved it.
        """
        if state is not None and self.last is None:
            raise PeerError("a last answer was saved that the settings do not have: the file is damaged")
        if self.last is None:
            return
        targets = self.settings.targets
        last = LastAnswer(targets) if state is None else LastAnswer.of(state, targets=targets)
        self._table.changes.arguments, self._last_prediction = None, None
        self.last = last
        self._rename_own()
        last.follow(self._agreed.pairs)

    def own_part(self) -> OwnPart:
        """Return what the client alone knows now."""
        return OwnPart(
            mixture=self.mixture.state(),
            neighbours=deepcopy(self.near),
            last=None if self.last is None else self.last.state(),
            own=None if self.own is None else self.own.state(),
            rest=self.rest,
        )

    def continue_as(self, part: OwnPart, branch: str = "") -> None:
        """Go back to the agreed state, as a client that knows this, and perhaps belongs to a branch.

        Raises
        ------
        PeerError
            No learner with these settings can have known it.
        """
        if not (part.mixture.is_sound and part.mixture.fits(self.mixture.state())):
            raise PeerError("a client's own mixture does not fit the experts: the file is damaged")
        self.rest = part.rest
        self.mixture.restore(part.mixture)
        self.remember(deepcopy(part.neighbours))
        self.remember_own(part.own)
        self.remember_last(part.last)
        self._branch = branch
        self.restore()

    def keep_own(self) -> KeptOwn:
        """Return a copy of what the client has learnt that it never sends."""
        return deepcopy(KeptOwn(self.mixture, self.near, self.own, self.last, self.rest))

    def take_own(self, kept: KeptOwn) -> None:
        """Go back to what `keep_own` has returned."""
        own = deepcopy(kept)
        self._table.changes.arguments, self._last_prediction = None, None
        self.mixture, self.near, self.own, self.last, self.rest = own
        self._rename_own()

    @property
    def columns(self) -> int:
        """Return how many columns predictions have: one a label, or one for targets."""
        return int(self._models.weights.shape[-1])

    def past_prediction(self) -> PastPrediction | None:
        """Return the answer to the record that was predicted last; None without an outer mixture, or any label."""
        return self.last.past_prediction(float(self._models.centre[0])) if self.last and self.columns else None

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of each expert in the predictions, by name."""
        experts = dict(zip(self.settings.experts, self.mixture.shares.tolist(), strict=True))
        if self.last is None:
            return experts
        others, answer, own = self.last.shares
        return {name: others * share for name, share in experts.items()} | {LAST_ANSWER: answer, OWN: own}

    def _can_use(self, near: Neighbours) -> bool:
        """Tell whether last records are sound, and those of a learner with these settings."""
        labelled = bool(near.kept_labels) or not near.seen
        return self.settings.neighbours and near.is_sound and (self.settings.targets or labelled)

    @property
    def table(self) -> Table:
        """Return the table of ferns with the client's changes, shape (rows, rates, columns); a view."""
        return self._table.values

    def following(self, change: NativeChange) -> tuple[NativeState, IntArray]:
        """Return the agreed state after a change, and the rows of the table that it changes, which the state holds.

        Raises
        ------
        PeerError
            It is no change of the present state.
        """
        if not change.fits(self._agreed, self.settings.table_rows):
            raise PeerError("changes of agreed models do not fit them: the coordinator runs another version")
        agreed, table = self._agreed, self._table.agreed
        given = change, agreed.chain, agreed.steps, agreed.features
        if table.heard is None or table.heard[0] != given:
            table.heard = given, *self._received(change)
        _, change, cells, moved = table.heard
        return replace(change.after(agreed), table=moved), cells

    def _received(self, change: NativeChange) -> tuple[NativeChange, IntArray, Table]:
        """Return a change with cells in place of places, which rows of the table they are, and what these become."""
        agreed, table = self._agreed, self._table.agreed
        if agreed.steps.are_known:
            change = change_named(change, agreed.features)
        if agreed.chain != table.chain == change.chain:  # the table alone has moved: an interruption
            cells, rows = table.moved
            return change, cells, wide(rows.astype(np.float32), change.table.shape[-1])
        if agreed.steps.are_known:
            change = change_as_received(change, table.order, agreed.steps)
        if self.way.chain_after(change, agreed) != change.chain:
            raise PeerError("changes of agreed models do not fit the ones before: some are missing, or forged")
        cells = change.cells.astype(np.int64)
        return change, cells, change.rows(self._table.agreed_rows(cells, change.table.shape[-1]))

    def as_sent(self, learnt: NativeLearnt) -> NativeLearnt:
        """Return what it learnt as an update carries it: without the agreed names, and with the places of cells."""
        if self._agreed.steps.are_known:
            learnt = learnt_as_sent(learnt, self._table.agreed.order)
        return learnt.beyond(*self.agreed_names)

    def restore(self) -> None:
        """Go back to the agreed state."""
        self.begin(self._agreed, np.zeros(0, np.int64), branch=self._branch)

    @property
    def agreed(self) -> NativeState:
        """Return the agreed state, with its table; what was learnt since is not in it."""
        rows = np.arange(self.settings.table_rows)
        table = self._table.agreed_rows(rows, self._agreed.table.shape[-1])
        return replace(self._agreed, table=np.ascontiguousarray(table))

    @property
    def agreed_pairs(self) -> FloatArray:
        """Return how often one label followed another at all clients, by the agreed state."""
        return self._agreed.pairs

    @property
    def agreed_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the features and the labels of the agreed state."""
        return self._agreed.features, self._agreed.labels

    def learnt(self, *key: str | int, measured: bool = True, coarser: int = 0) -> NativeLearnt:
        """Return what the records since `begin` did to the agreed state, on its way to the coordinator.

        Parameters
        ----------
        key
            The key of the draws by which numbers are rounded: the client and the round.
        measured
            Whether it is the client's turn to send moments. It also does if it has new features, or some that began
            again.
        coarser
            So many times are steps doubled, at most `COARSEST`.
        """
        agreed, models = self._agreed, self._models
        start = agreed.grown(self.features[len(agreed.features) :], self.labels[len(agreed.labels) :], table=False)
        centre = float(models.centre[0]) if self.settings.targets and self.records else agreed.centre
        moments = self._scaler.moments(self.features, since=agreed.moments)
        again = tuple(compress(self.features, self._scaler.again))
        measured = sends_moments(self.features, again, agreed.features, measured=measured)
        second = models.second - start.second if measured else np.zeros((0, 0))
        raw = Raw(self.records, models.weights - self._weights_about(start, centre), *self._table.changed(), second)
        numbers = self.way.numbers(raw, agreed, generator(self.settings.seed, "grid", *key), coarser)
        return NativeLearnt(
            features=self.features,
            labels=self.labels,
            records=self.records,
            count=moments.count,
            moments=moments if measured else NOTHING,
            again=again,
            far=self._far_out(),
            norms=np.array(in_short(models.norm_sums / max(1, self.records))),
            bearing=models.bearing[: len(self.labels)].copy(),
            right=models.right[:, : len(self.labels)].copy(),
            unused=self._unused(),
            centre=centre,
            mixture=self.agreed_mixture.report() if self.records else AgreedMixture(),
            coarser=coarser,
            pairs=in_turn(np.array(self._in_turn)),
            extremes=extremes(np.array(self._extremes)),
            loss=self.loss,
            **numbers._asdict(),
        )

    def _far_out(self) -> Moments:
        far = self._scaler.far(self.features)
        return far if far.count.any() else NOTHING

    def _unused(self) -> tuple[str, ...]:
        """Return the groups of agreed experts without a share in the agreed mixture."""
        return unused(self.settings.agreed_experts, self.agreed_mixture.influence)

    # --- records -------------------------------------------------------------------------------------------------

    def learn(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        y: FloatArray,
        labels: tuple[str, ...] = (),
        rounds: FloatArray | None = None,
        *,
        past: Sequence[PastPrediction | None] | None = None,
    ) -> FloatArray:
        """Predict every record, then learn it, in order.

        The outer mixture learns a record by the answer that was given when it came: by these predictions, without
        what is known only since then, such as the column of a label that the record itself brings.

        Parameters
        ----------
        features, X
            Names, and values of shape (n, d); NaN is missing. A feature is new with its first value.
        y, labels
            Label indices in `labels`, or targets; shape (n,).
        rounds
            The predictions of the expert `rounds`: probabilities of the first labels of this learner, shape
            (n, labels), or targets, shape (n, 1). None: it makes none.
        past
            The answer to each record when it came; None: they are answered now.

        Returns
        -------
        The predictions: probabilities of this learner's `labels` as they are after the call (all 0 before any label),
        shape (n, labels), or targets, shape (n, 1).
        """
        served = self.learn_predicted(features, X, y, labels, past=past)
        if served is not None:
            return served
        parts: list[FloatArray] = []
        rounds = np.zeros((len(X), 0)) if rounds is None else rounds
        for rows in self._parts(features, X, y, labels):
            i, before, answers = rows.start, None, () if past is None else past[rows]
            if not self._knows(y, labels, i) or self._new(features, X[i]):
                before = self.predicted(features, X[i : i + 1], rounds[i : i + 1])
                answers = answers or (self.past_prediction(),)
                self._add_names(features, X[i], None if self.settings.targets else labels[int(y[i])])
            outputs = np.zeros((rows.stop - i, self._models.weights.shape[-1]))
            self._run(features, X[rows], rounds[rows], self._truths(y[rows], labels), outputs, answers)
            if before is not None:  # predicted before its new names were known
                outputs[0, : before.shape[1]], outputs[0, before.shape[1] :] = before[0], 0.0
            parts.append(outputs)
        return together(parts, self._models.weights.shape[-1])

    def learn_predicted(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        y: FloatArray,
        labels: tuple[str, ...] = (),
        *,
        past: Sequence[PastPrediction | None] | None = None,
    ) -> FloatArray | None:
        """Learn the record that was predicted last, and return that prediction; None if it is another one."""
        last = self._last_prediction
        if last is None or not self.has_predicted(features, X, y, labels):
            return None
        self._run(features, X, _NO_ROUNDS, self._truths(y, labels), _NO_PREDICTIONS, past or ())
        return last.outputs

    def predicted(self, features: tuple[str, ...], X: FloatArray, rounds: FloatArray | None = None) -> FloatArray:
        """Return its present predictions: probabilities, shape (n, labels), or targets, shape (n, 1)."""
        outputs = np.zeros((len(X), self._models.weights.shape[-1]))
        self._last_prediction = None
        if outputs.size:
            self._run(features, X, np.zeros((len(X), 0)) if rounds is None else rounds, np.zeros(0), outputs)
            if len(X) == 1 and not self._new(features, X[0]):
                self._last_prediction = LastPrediction(features, X.tobytes(), outputs.copy())
        return outputs

    def standardised(self, features: tuple[str, ...], x: FloatArray) -> FloatArray:
        """Return a record as linear models see it: the constant 1, then `self.features`; shape (1 + features,)."""
        return np.append(1.0, self._scaler.scaled(self._aligned(features, x[None]), count=False)[0])

    def has_predicted(
        self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...] = ()
    ) -> bool:
        """Tell whether the record to be learnt is the one that was predicted last, with nothing learnt since.

        False if its label is new: the prediction had no column for it. False also if others have used the table.
        """
        last = self._last_prediction
        if (
            last is None
            or self._table.changes.arguments is None
            or len(X) != 1
            or last.features != features
            or last.values != X.tobytes()
        ):
            return False
        return self._knows(y, labels, 0)

    def _run(
        self,
        features: tuple[str, ...],
        X: FloatArray,
        rounds: FloatArray,
        truths: FloatArray,
        outputs: FloatArray,
        past: Sequence[PastPrediction | None] = (),
    ) -> None:
        """Predict and learn records without new names: see `predict_and_learn`."""
        self._last_prediction = None  # the mixture learns from what it mixed last
        learnt, near = len(truths), self.near
        answers = self.last.past_answers(past, truths) if past and self.last else NO_PAST_ANSWERS
        if learnt:
            self._make_room_for(learnt)
        arguments, remembered = self._kept_arguments(), 0 if near is None else near.seen
        X, rounds = self._aligned(features, X), plain(rounds)
        if not predict_and_learn(arguments, remembered, X, rounds, truths, *answers, outputs):
            raise BrokenInvariantError(NOT_FITTING)
        if not learnt:
            return
        if self.settings.targets:
            self._extremes = of_all((self._extremes, (float(truths.min()), float(truths.max()))))
        else:
            self._in_turn.extend(truths.tolist())
        self._table.changes.spare -= TOUCHED * learnt
        if near is not None:
            near.seen += learnt
        self._make_room_for(1)  # now: what is predicted next is learnt from the same arrays
        if self.own is not None and self.own.records == FEWEST and self.own.pair_up():
            self._table.changes.arguments = None

    def _make_room_for(self, records: int) -> None:
        """Let the nearest records, and the changes of the table, have room for so many more records."""
        self._table.make_room_for(records)
        if self.near is not None and not self.near.has_room_for(records):
            self._table.changes.arguments = None
            self.near.make_room_for(records)

    def _kept_arguments(self) -> Learning:
        """Return the arguments of the compiled loops, built once for the present names."""
        table, changes = self._table.enter(), self._table.changes
        if changes.arguments is None:
            self._table.make_room_for(1)
            settings, columns = self.settings, self._models.weights.shape[-1]
            own = no_own_model() if self.own is None else self.own.arrays
            record = Record(np.ones(1 + len(self.features)), np.zeros(TOUCHED * settings.has_ferns, np.int64))
            learning = Learning(
                kinds=self._kinds,
                scales=self._scaler.sums,
                tests=self._ferns.tests,
                models=self._models._replace(table=table.values, visits=table.visits),
                memory=NO_MEMORY if self.near is None else self.near.memory,
                mixing=self.mixture.mixing,
                own=own,
                last=no_last_answer(targets=settings.targets) if self.last is None else self.last.arrays,
                record=record,
                measured=record.z if self.own is None else own.z,
                predictions=room(len(settings.experts), columns),
                agreed=self.agreed_mixture.mixing,
                agreed_predictions=room(len(settings.agreed_experts), columns),
                touched=changes.touched,
                seen=self._agreed.seen,
                targets=settings.targets,
                believed=believed(self._agreed.extremes),
            )
            if not _is_sound(learning, len(self.features), columns):
                raise BrokenInvariantError(NOT_FITTING)
            changes.arguments = kept(learning)
        return changes.arguments

    # --- names ---------------------------------------------------------------------------------------------------

    def _parts(self, features: tuple[str, ...], X: FloatArray, y: FloatArray, labels: tuple[str, ...]) -> list[slice]:
        """Return runs of records in which only the first may have new names; the client's tenth record ends one."""
        if len(X) < 2:
            return [slice(0, len(X))] * len(X)
        known, starts = set(self.features), {0}
        if self.own is not None and 0 < FEWEST - self.own.records < len(X):  # it pairs features up there: see `_run`
            starts.add(FEWEST - self.own.records)
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
        """Tell whether the truth of a record is a target, or a known label."""
        return self.settings.targets or labels[int(y[i])] in self._codes

    def _truths(self, y: FloatArray, labels: tuple[str, ...]) -> FloatArray:
        """Return the indices of labels in `self.labels`, or targets unchanged."""
        if self.settings.targets or labels == self.labels:
            return plain(y)
        if len(y) == 1:
            return np.array([self._codes[labels[int(y[0])]]], dtype=np.float64)
        places = np.array([self._codes.get(label, -1) for label in labels], dtype=np.float64)
        return places[y.astype(np.int64)]

    def _add_names(self, features: tuple[str, ...], x: FloatArray, label: str | None) -> None:
        """Add the features that have their first value in a record, and its label."""
        new = self._new(features, x)
        more = () if label is None or label in self._codes else (label,)
        names, labels = (*self.features, *new), (*self.labels, *more)
        ferns = self.shared.ferns(self._ferns, names) if self.settings.has_ferns else self._ferns
        models = self._wider(len(new), len(more))
        scaler = self._scaler.grown(len(new))
        codes = self._codes | dict.fromkeys(more, len(self.labels))
        # An interruption from here on leaves arrays that do not fit the names: the next call raises.
        self._table.changes.arguments, self._last_prediction = None, None
        self._ferns, self._models, self._scaler = ferns, models, scaler
        self.features, self.labels, self._codes = names, labels, codes
        self._rename_own()

    def _wider(self, features: int, labels: int) -> Models:
        """Return the models with zeros for more features and labels."""
        models, size = self._models, len(self._models.second) + features
        if not models.second.size or not features:
            second, inverse, mean, along = models.second, models.inverse, models.mean, models.along
        else:
            second, inverse = np.pad(models.second, (0, features)), np.pad(models.inverse, (0, features))
            # Until the inverse is computed again, the second moment of a new feature is the ridge.
            ridge = RIDGE * np.trace(second) / size / max(1, self._agreed.seen + self.records)
            inverse[range(size - features, size), range(size - features, size)] = 1.0 / ridge if ridge else np.nan
            mean, along = self.shared.square(size), np.zeros(size)
        self._table.widen(models.weights.shape[-1] + labels)
        return models._replace(
            weights=np.pad(models.weights, ((0, features), (0, 0), (0, labels))),
            bearing=wide(models.bearing, models.bearing.shape[-1] + labels),
            right=wide(models.right, models.right.shape[-1] + labels),
            second=second,
            inverse=inverse,
            mean=mean,
            along=along,
        )

    def _rename_own(self) -> None:
        """Let the client's own experts follow the present names."""
        if self.near is not None:
            self.near.over(self.features, self.labels)
        if self.own is not None:
            self.own.over(self.features, self.labels)
        if self.last is not None:
            self.last.over(self.labels)

    def _aligned(self, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return values in the order of `self.features`."""
        return plain(aligned(X, features, self.features))


def _is_sound(learning: Learning, features: int, columns: int) -> bool:
    """Tell whether all arrays fit the names; compiled loops do not check indices."""
    models, memory, last = learning.models, learning.memory, learning.last
    inputs, count = 1 + features, models.weights.shape[1]
    near = len(MEMORIES) if len(memory.y) else 0
    return (
        models.weights.shape == (inputs, count, columns)
        and models.right.shape == (count, columns)
        and models.bearing.shape == (columns,)
        and models.table.shape[2] >= columns  # others may know more labels
        and int(learning.tests.feature.max()) < max(1, features)
        and all(part.shape[-1:] == (features,) for part in learning.scales)
        and len(learning.scales.first) == FIRST
        and len(learning.measured) >= inputs
        and models.second.shape in {(0, 0), (inputs, inputs)}
        and models.second.shape == models.inverse.shape == models.mean.shape
        and models.along.shape == models.mean.shape[:1]
        and models.centre.shape == (1,)
        and learning.believed.shape == (2,)
        and (not near or _is_sound_memory(memory, features, 0 if learning.targets else columns))
        and learning.predictions.by_expert.shape == (count + near + 1, columns)
        and len(learning.mixing.best) == learning.mixing.stacked.shape[1] == count + near + 1
        and len(learning.agreed.best) == learning.agreed.stacked.shape[1] == count + 1
        and learning.agreed_predictions.by_expert.shape == (count + 1, columns)
        and (
            not len(learning.own.weights) or _is_sound_own(learning.own, features, columns, targets=learning.targets)
        )
        and (not len(last.predictions.by_expert) or _is_sound_last(last, columns, targets=learning.targets))
    )


def _is_sound_own(own: Own, features: int, columns: int, *, targets: bool) -> bool:
    """Tell whether the own model has room for so many names, and perhaps some that are gone."""
    inputs, outputs = own.weights.shape
    ferns, pairs = len(own.cells) - len(own.pairs), len(own.pairs)
    return (
        inputs > features
        and outputs >= len(own.predicted) == len(own.lengths)
        and own.table.shape == (ferns * CELLS + pairs * PAIR_CELLS, outputs)
        and own.pairs.shape == (pairs, 2)
        and int(own.pairs.min(initial=0)) >= 0
        and int(own.pairs.max(initial=-1)) < inputs - 1
        and own.trust.shape == own.cells.shape
        and CELLS == 1 << DEPTH
        and own.known.shape == (outputs,)
        and own.given.shape == (columns,)
        and len(own.predicted) == (len(own.at_rates.by_expert) if targets else columns)
        and len(own.rates.best) == len(own.at_rates.by_expert) <= len(OWN_RATES)
        and own.z.shape == (inputs,)
        and all(part.shape[-1:] == (inputs - 1,) for part in own.scales)
        and len(own.scales.first) == FIRST
    )


def _is_sound_last(last: Last, columns: int, *, targets: bool) -> bool:
    """Tell whether the last answer has room for so many names."""
    labels = len(last.following)
    return (
        labels >= (0 if targets else columns)
        and last.predictions.by_expert.shape == (2 + (ERROR if targets else LAST), columns)
        and last.following.shape == last.counts.shape == (labels, FOLLOWING)
        and last.all_following.shape == last.all_counts.shape == (labels, FOLLOWING)
        and max(int(each.max(initial=NONE)) for each in (last.following, last.all_following)) < labels
        and int(last.label[0]) < max(1, labels)
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
