"""A client between rounds with a guest: it learns its records as they come, from the agreed state on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.between.native.between_rounds import VERSIONS, without_first
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.external.interface import Guest, GuestPass
from streamfl.core.protocol.external.state import GuestLearnt, GuestState
from streamfl.core.protocol.records import Batch


@dataclass
class GuestBetweenRounds:
    """What a guest has learnt since the round began, of the records that are pending; like `BetweenRounds`.

    The guest alone serves: what else is known of records is not looked at.

    Parameters
    ----------
    guest
        The model.
    version
        Of the agreed state; 0 before any: then it learns from nothing, to begin again with the first round.
    """

    guest: Guest
    version: int = 0
    _agreed: GuestState = field(init=False)
    _pass: GuestPass = field(init=False)
    _served: list[FloatArray] = field(default_factory=list)
    _published: dict[int, GuestState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._agreed = GuestState(self.guest.initial())
        self.forget()

    def take(self, version: int, agreed: GuestState) -> None:
        """Keep what was published until its round is open; only the versions that arrived last."""
        arrived = {v: kept for v, kept in self._published.items() if v != version} | {version: agreed}
        self._published = {v: arrived[v] for v in list(arrived)[-VERSIONS:]}

    def has(self, version: int) -> bool:
        """Tell whether it can go on from a version."""
        return version == self.version or version in self._published

    def begin(self, version: int) -> None:
        """Go on from the agreed state of a version; what is pending is learnt again, from there."""
        if version != self.version and version in self._published:
            self.version, self._agreed = version, self._published[version]
            self._published = {v: kept for v, kept in self._published.items() if v > version}
            self.forget()

    def forget(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""
        self._pass = self.guest.begin(self._agreed)
        self._served = []

    def learn(self, batches: Sequence[Batch], serving: Serving | None = None) -> None:
        """Learn those of the pending records that it has not learnt yet."""
        for batch in without_first(batches, self._pass.records):
            self.learn_next(batch, serving)

    def learn_next(self, batch: Batch, _: Serving | None = None) -> None:
        """Learn the records that follow those it has learnt."""
        self._served.append(self._pass.learn(batch))

    def answer(self, batch: Batch, _: Serving | None = None) -> FloatArray:
        """Return what is served of some records now: probabilities by label, or targets; shape (n, columns)."""
        return self._pass.answer(batch)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that predictions are of; none for targets."""
        return self._pass.labels

    @property
    def served(self) -> FloatArray:
        """Return what was predicted of each record just before it was learnt, shape (records,)."""
        return np.concatenate([np.zeros(0), *self._served])

    def learnt(self) -> GuestLearnt:
        """Return what the records made of the agreed state."""
        return self._pass.learnt()

    def shares(self) -> dict[str, float]:
        """Return what part each model has in the predictions served, by name."""
        return {self.guest.name: 1.0}
