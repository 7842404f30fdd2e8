"""A client between rounds: it learns its records as they come, from the agreed models on, and answers from there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.native.learnt import Learnt
from streamfl.core.protocol.native.models import OnlineModels
from streamfl.core.protocol.native.settings import OnlineSettings
from streamfl.core.protocol.records import Batch

if TYPE_CHECKING:
    from streamfl.core.between.native.learner import OnlineLearner

# The open round's version, the one that may arrive before its RoundOpened, and one that is late or forged.
VERSIONS = 3


class Agreed(Protocol):
    """Agreed models as they are published: see `OnlinePublished`."""

    @property
    def version(self) -> int:
        """Return the round that they are for."""
        ...

    @property
    def models(self) -> OnlineModels:
        """Return the models, their table as far as it is told."""
        ...

    @property
    def cells(self) -> FloatArray | None:
        """Return which rows of the table are told; None: all."""
        ...


@dataclass
class BetweenRounds:
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
    >>> between = BetweenRounds(OnlineSettings("linear", neighbours=False))
    >>> X, y = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> batch = Batch(Span("p", 0, 4), np.arange(4), ("x",), X, y, ("a", "b"))
    >>> between.learn([batch.head(2)])
    >>> between.learn([batch])
    >>> between.served, between.learner.records
    (array([-1.,  0.,  1.,  1.]), 4)
    """

    settings: OnlineSettings
    learner: "OnlineLearner" = field(init=False)
    version: int = 1
    _served: list[FloatArray] = field(default_factory=list)
    _published: dict[tuple[int, bool], Agreed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Compiled loops take half a second to import, and clients that learn by rounds only do without.
        from streamfl.core.between.native.learner import OnlineLearner  # noqa: PLC0415

        self.learner = OnlineLearner(self.settings)

    def take(self, agreed: Agreed) -> None:
        """Keep what was published until its round is open; only the versions that arrived last.

        A round without records is opened again in the same version; the rows that changed are told the first time.
        A version that says it is far ahead keeps no true one out.
        """
        self._published.setdefault((agreed.version, agreed.cells is None), agreed)
        last = list(dict.fromkeys(version for version, _ in self._published))[-VERSIONS:]
        self._published = {key: kept for key, kept in self._published.items() if key[0] in last}

    def has(self, version: int) -> bool:
        """Tell whether it can go on from a version."""
        return version == self.version or self._next(version) is not None

    def begin(self, version: int) -> None:
        """Go on from the agreed models of a version; what is pending is learnt again, from there."""
        if version == self.version or (agreed := self._next(version)) is None:
            return
        self.learner.begin(agreed.models, None if agreed.cells is None else agreed.cells.astype(np.int64))
        self.version, self._served = version, []
        self._published = {key: kept for key, kept in self._published.items() if key[0] > version}

    def _next(self, version: int) -> Agreed | None:
        follows = version == self.version + 1
        return (self._published.get((version, False)) if follows else None) or self._published.get((version, True))

    def forget(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""
        self.learner.restore()
        self._served = []

    def learn(self, batches: Sequence[Batch], serving: Serving | None = None) -> None:
        """Learn those of the pending records that it has not learnt yet."""
        for batch in without_first(batches, self.learner.records):
            self.learn_next(batch, serving)

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

    def learnt(self) -> Learnt:
        """Return what the records did to the agreed models."""
        return self.learner.learnt()

    def shares(self) -> dict[str, float]:
        """Return what part each expert has in the predictions served, by name; they sum to 1."""
        shares = self.learner.mixture.shares.tolist()
        return dict(zip(self.settings.experts, shares, strict=True))


def without_first(batches: Sequence[Batch], records: int) -> Iterator[Batch]:
    """Return batches without their first records.

    >>> from streamfl.core.protocol.records import Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> [left.X.ravel().tolist() for left in without_first([batch, batch], 4)]
    [[2.0, 6.0]]
    """
    for batch in batches:
        if records < len(batch):
            yield batch.only(np.arange(records, len(batch))) if records else batch
        records = max(0, records - len(batch))
