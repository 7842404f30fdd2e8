"""Native models at a client: from the agreed state on, they learn the client's records as they come."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, ClassVar, Optional

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.learning.online_models import AtClient
from streamfl.learning.serving import Serving
from streamfl.online.native.merging.on_grids import ON_GRIDS
from streamfl.online.native.merging.way import Way
from streamfl.online.native.private.part import OwnPart
from streamfl.protocol.arrived import Arrived
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.messages.decision_rule import together
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.native.sleeping import Rest
from streamfl.protocol.native.steps import COARSEST
from streamfl.protocol.records import Batch

if TYPE_CHECKING:
    from streamfl.online.native.learner import KeptOwn, NativeLearner
    from streamfl.online.native.private.late_labels import PastPredictions
    from streamfl.online.native.shared import Shared


@dataclass
class NativeAtClient(AtClient):
    """Native models as they have learnt the pending records of the open round.

    Examples
    --------
    >>> import numpy as np
    >>> from streamfl.protocol.records import Span
    >>> between = NativeAtClient(NativeSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> batch = Batch(Span("p", 0, 4), np.arange(4), ("x",), X, y, ("a", "b"))
    >>> between.learn([batch.head(2)])
    >>> between.learn([batch])
    >>> between.served.argmax(axis=1), between.learner.records
    (array([0, 0, 1, 1]), 4)
    """

    coarsest: ClassVar[int] = COARSEST

    settings: NativeSettings  # which models learn
    shared: InitVar[Optional["Shared"]] = None  # what they share with those of other clients; None: nothing
    way: InitVar[Way] = ON_GRIDS  # how what they learn goes to the coordinator
    learner: "NativeLearner" = field(init=False)  # the models
    # The version of the agreed state; version 1 is the untrained one, with which every client begins.
    version: int = 1
    _epoch: int | None = None
    _past: "PastPredictions | None" = None  # the predictions for records whose labels come late
    _held: "KeptOwn | None" = None
    _served: list[FloatArray] = field(default_factory=list)
    _published: Arrived[dict[bool, NativeState | NativeChange]] = field(default_factory=Arrived)

    def __post_init__(self, shared: Optional["Shared"], way: Way) -> None:
        # Compiled loops take half a second to import, and clients that learn by rounds only do without.
        from streamfl.online.native.learner import NativeLearner  # noqa: PLC0415
        from streamfl.online.native.shared import Shared  # noqa: PLC0415

        self.learner = NativeLearner(self.settings, Shared() if shared is None else shared, way)

    def take(self, published: OnlinePublished) -> None:
        """Store a published state until its round opens.

        A version is published as a change, and complete for clients that lack the version before. When a round is
        opened again, its change is not published again.
        """
        if isinstance(published.agreed, NativeState | NativeChange):
            kept = self._published.get(published.version) or {}
            self._published.take(published.version, {published.is_whole: published.agreed} | kept)

    def has(self, version: int) -> bool:
        """Tell whether it can continue from a version."""
        return version == self.version or self._next(version) is not None

    def begin(self, version: int, epoch: int, branch: str = "") -> None:
        """Continue from the agreed state of a version; pending records are then learnt again.

        A restart wakes the client's own experts, as it wakes the agreed ones.
        """
        if version == self.version or not self.has(version):
            return
        self._go_back()
        self.learner.rest_own()
        if self._epoch not in {None, epoch}:
            self.learner.rest = Rest()
        self._epoch = epoch
        self._begin(version, own=True, branch=branch)

    def follow(self, version: int) -> None:
        """Continue from the agreed state of a version, with its mixture."""
        if version != self.version and self.has(version):
            self._begin(version, own=False)

    def mix_as(self, branch: str) -> bool:
        """Predict as the clients of a branch do, or as all others."""
        self.learner.mix_as(branch)
        return True

    def _begin(self, version: int, *, own: bool, branch: str = "") -> None:
        following = self._next(version)
        if isinstance(following, NativeChange):
            self.learner.begin(*self.learner.following(following), own=own, branch=branch)
        elif following is not None:
            if self.learner.forget_if_begun_again(following) and self._held is not None:
                self._held = self.learner.keep_own()  # pending records are learnt again from nothing, too
            self.learner.begin(following, own=own, branch=branch)
        if self.learner.last is not None and self.learner.agreed_names[1]:
            self.learner.last.follow(self.learner.agreed_pairs)
        self.version, self._served = version, []
        self._published.forget_before(version + 1)

    def _next(self, version: int) -> NativeState | NativeChange | None:
        kept = self._published.get(version) or {}
        return (kept.get(False) if version == self.version + 1 else None) or kept.get(True)

    def forget(self) -> None:
        """Go back to the agreed state, because pending records will be read again."""
        self._go_back()
        self.learner.restore()
        self._served = []

    def hold(self) -> None:
        """Keep what is the client's own as it is now, unless something is kept: see `AtClient.hold`."""
        if self._held is None:
            self._held = self.learner.keep_own()

    def release(self) -> None:
        """Forget what `hold` has kept, and the predictions for records that are in the ledger."""
        self._held = None
        if self._past is not None:
            self._past.forget_learnt()

    def _go_back(self) -> None:
        if self._held is not None:
            self.learner.take_own(self._held)

    @property
    def records(self) -> int:
        """Count the pending records that have been learnt."""
        return self.learner.records

    def answer_late(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return the present predictions of records whose labels come late: see `answer`."""
        if self._past is None:
            from streamfl.online.native.private.late_labels import PastPredictions  # noqa: PLC0415  as in __post_init__

            self._past = PastPredictions()
        if self.learner.last is None:
            return self.answer(batch, serving)
        rounds, answers = self._of_rounds(batch, serving), []
        for i, position in enumerate(batch.positions.tolist()):  # each is the next one after the last answer
            row = slice(i, i + 1)
            answers.append(
                self.learner.predicted(batch.features, batch.X[row], None if rounds is None else rounds[row])
            )
            self._past.keep(position, self.learner.past_prediction())
        return together(answers, self.learner.columns)

    def learn_next(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Learn the next records; return the prediction of each just before it was learnt."""
        past = None if self._past is None or batch.beside is None else self._past.of(batch.beside)
        records = batch.features, batch.X, batch.y, batch.labels
        served = self.learner.learn_predicted(*records, past=past)
        if served is None:
            served = self.learner.learn(*records, self._of_rounds(batch, serving), past=past)
        self._served.append(served)
        return served

    def answer(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return the present predictions of records: probabilities by label, or targets; shape (n, columns)."""
        return self.learner.predicted(batch.features, batch.X, self._of_rounds(batch, serving))

    def _of_rounds(self, batch: Batch, serving: Serving | None) -> FloatArray | None:
        return None if serving is None else self.learner.predicted_by_rounds(serving, batch)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the predictions' columns; empty in regression."""
        return self.learner.labels

    @property
    def served(self) -> FloatArray:
        """Return the prediction of each record just before it was learnt, shape (records, columns)."""
        return together(self._served, 1 if self.settings.targets else len(self.labels))

    def learnt(self, limits: Limits, client: str, *, measured: bool = True, coarser: int = 0) -> NativeLearnt:
        """Return what the pending records did to the agreed state, as an update carries it."""
        learnt = self.learner.learnt(client, self.version, measured=measured, coarser=coarser)
        return self.learner.as_sent(learnt)

    def untrained_loss(self, batches: Sequence[Batch]) -> float | None:
        """Return the mean log-loss of untrained agreed models over some records; None of targets."""
        return None if self.settings.targets else self.learner.untrained_loss(batches)

    def shares(self) -> dict[str, float]:
        """Return the share of each expert in the predictions, by name; they sum to 1."""
        return self.learner.shares

    def own_part(self) -> OwnPart:
        """Return what the client alone knows now, of which nothing is sent."""
        return self.learner.own_part()
