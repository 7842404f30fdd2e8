"""Our own models at a client: they learn its records as they come, from the agreed models on."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import Limits
from streamfl.core.learning.between_rounds import AtClient
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.arrived import Arrived
from streamfl.core.protocol.messages import BetweenPublished
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import NativeSettings
from streamfl.core.protocol.records import Batch

if TYPE_CHECKING:
    from streamfl.core.between.native.learner import NativeLearner


@dataclass
class NativeAtClient(AtClient):
    """What a client has learnt since the round began, of the records that are pending.

    Parameters
    ----------
    settings
        What learns.
    learner
        The models, from the agreed ones on.
    version
        Of the agreed models; 1 is nothing learnt, where everybody begins.

    Examples
    --------
    >>> from streamfl.core.protocol.records import Span
    >>> between = NativeAtClient(NativeSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> batch = Batch(Span("p", 0, 4), np.arange(4), ("x",), X, y, ("a", "b"))
    >>> between.learn([batch.head(2)])
    >>> between.learn([batch])
    >>> between.served, between.learner.records
    (array([-1.,  0.,  1.,  1.]), 4)
    """

    settings: NativeSettings
    learner: "NativeLearner" = field(init=False)
    version: int = 1
    _served: list[FloatArray] = field(default_factory=list)
    _published: Arrived[dict[bool, tuple[NativeState, FloatArray | None]]] = field(default_factory=Arrived)

    def __post_init__(self) -> None:
        # Compiled loops take half a second to import, and clients that learn by rounds only do without.
        from streamfl.core.between.native.learner import NativeLearner  # noqa: PLC0415

        self.learner = NativeLearner(self.settings)

    def take(self, published: BetweenPublished) -> None:
        """Keep what was published until its round is open.

        A version is told with the rows of the table that changed, and whole for those that lack the one before. The
        rows of a round that is opened again were told the first time.
        """
        if isinstance(published.agreed, NativeState):
            kept = self._published.get(published.version) or {}
            whole = published.cells is None
            self._published.take(published.version, {whole: (published.agreed, published.cells)} | kept)

    def has(self, version: int) -> bool:
        """Tell whether it can go on from a version."""
        return version == self.version or self._next(version) is not None

    def begin(self, version: int) -> None:
        """Go on from the agreed models of a version; what is pending is learnt again, from there."""
        if version == self.version or (following := self._next(version)) is None:
            return
        agreed, cells = following
        self.learner.begin(agreed, None if cells is None else cells.astype(np.int64))
        self.version, self._served = version, []
        self._published.forget_before(version + 1)

    def _next(self, version: int) -> tuple[NativeState, FloatArray | None] | None:
        kept = self._published.get(version) or {}
        return (kept.get(False) if version == self.version + 1 else None) or kept.get(True)

    def forget(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""
        self.learner.restore()
        self._served = []

    @property
    def records(self) -> int:
        """Count the pending records that it has learnt."""
        return self.learner.records

    def learn_next(self, batch: Batch, serving: Serving | None = None) -> None:
        """Learn the records that follow those it has learnt."""
        foreseen = self.learner.foresees(batch.features, batch.X, batch.y, batch.labels)
        others = None if foreseen else self._heard(batch, serving)
        self._served.append(self.learner.learn(batch.features, batch.X, batch.y, batch.labels, others))

    def answer(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return what is served of some records now: probabilities by label, or targets; shape (n, columns)."""
        return self.learner.predicted(batch.features, batch.X, self._heard(batch, serving))

    def _heard(self, batch: Batch, serving: Serving | None) -> FloatArray | None:
        return None if serving is None else self.learner.heard(serving, batch)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that predictions are of; none for targets."""
        return self.learner.labels

    @property
    def served(self) -> FloatArray:
        """Return what was predicted of each record just before it was learnt, shape (records,)."""
        return np.concatenate([np.zeros(0), *self._served])

    def learnt(self, _: Limits) -> NativeLearnt:
        """Return what the records did to the agreed models; its names are those of its records."""
        return self.learner.learnt()

    def shares(self) -> dict[str, float]:
        """Return what part each expert has in the predictions served, by name; they sum to 1."""
        shares = self.learner.mixture.shares.tolist()
        return dict(zip(self.settings.experts, shares, strict=True))
