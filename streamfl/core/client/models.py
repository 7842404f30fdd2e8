"""The models that a client has: those published to it, what it learns from them between rounds, and what serves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import Limits
from streamfl.core.client.evaluated import coded
from streamfl.core.client.published import Published
from streamfl.core.learning.between_rounds import AtClient
from streamfl.core.learning.local_round import Learner, RoundRecords
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.messages import (
    BetweenPublished,
    Learnt,
    ModelPublished,
    RegistryPublished,
    RoundOpened,
    Score,
    asked_of,
)
from streamfl.core.protocol.records import Batch


@dataclass
class Models:
    """What one client answers records with.

    Parameters
    ----------
    client
        Its name.
    learner
        How it learns.
    published
        The registries and models that arrived last.
    between
        What learns between rounds, if anything does.
    """

    client: str
    learner: Learner
    published: Published = field(default_factory=Published)
    between: AtClient | None = field(init=False)
    _serving: Serving | None = None

    def __post_init__(self) -> None:
        self.between = None if self.learner.between is None else self.learner.between.at_client()

    # --- what is published -------------------------------------------------------------------------------------

    def keep(self, published: RegistryPublished | ModelPublished | BetweenPublished) -> None:
        """Keep what was published until it is superseded."""
        match published:
            case RegistryPublished() | ModelPublished():
                self.published.add(published)
            case BetweenPublished() if self.between is not None:
                self.between.take(published)
            case _:
                pass  # of models that are not learnt here

    def has(self, of: RoundOpened | Score) -> bool:
        """Tell whether all that a round, or candidates, are of is here."""
        columns, mine = self.learner.model.columns, asked_of(self.client, of.slots)
        return self.published.has(of.registry, mine, columns) and self._may_go_on(of)

    def _may_go_on(self, of: RoundOpened | Score) -> bool:
        asks = isinstance(of, RoundOpened) and of.between
        return not asks or (self.between is not None and self.between.has(of.round))

    def weights(self, asked: RoundOpened | Score) -> dict[str, FloatArray]:
        """Return the weights of the models that the client is asked about."""
        return self.published.weights(asked_of(self.client, asked.slots))

    def serving(self, opened: RoundOpened | None) -> Serving | None:
        """Return what serves a round, once it is here; it is kept, as records may come one by one."""
        if self._serving is not None and self._serving.opened is opened:
            return self._serving
        if opened is None or opened.round == 1 or not self.has(opened):
            return None
        name = opened.served_by(self.client)
        W = self.published.weights([slot for slot in opened.slots if slot.name == name])[name]
        registry = self.published.registry(opened.registry)
        self._serving = Serving(opened, registry, self.learner.model, W)
        return self._serving

    # --- between rounds ----------------------------------------------------------------------------------------

    def go_on(self, opened: RoundOpened | None) -> None:
        """Go on from the agreed models of the open round, once they are here."""
        between = self.between
        if between is not None and opened is not None and opened.between and between.has(opened.round):
            between.begin(opened.round)

    def learn_early(self, batch: Batch, opened: RoundOpened | None) -> None:
        """Learn the records that follow those learnt, before the round's others are read."""
        if self.between is not None:
            self.between.learn_next(batch, self.serving(opened))

    def learn(self, opened: RoundOpened, batches: Sequence[Batch]) -> None:
        """Learn a round's records one by one, from its agreed models on; those learnt early are not learnt again."""
        if self.between is not None:
            if opened.between:
                self.between.begin(opened.round)
            self.between.learn(batches, self.serving(opened))

    def learnt(self, opened: RoundOpened, limits: Limits) -> Learnt | None:
        """Return what a round did to the models that learn between rounds, if it is asked for."""
        return None if self.between is None or not opened.between else self.between.learnt(limits)

    def served(self, records: RoundRecords, by_rounds: FloatArray) -> FloatArray:
        """Return what was answered of a round's records, coded as they are.

        Where nothing learns between rounds it is `by_rounds`, what the round's model answers; shape (n,).
        """
        return by_rounds if self.between is None else coded(self.between.served, self.between.labels, records)

    def shares(self) -> dict[str, float]:
        """Return what part each model that learns between rounds has in the answers, by name."""
        return {} if self.between is None else self.between.shares()

    def forget_pending(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""
        if self.between is not None:
            self.between.forget()

    def answer(self, batch: Batch, opened: RoundOpened | None) -> tuple[FloatArray, tuple[str, ...]]:
        """Return what is served now of some records, and the labels it is of: see `Client.answer`."""
        serving = self.serving(opened)
        if self.between is not None:
            return self.between.answer(batch, serving), self.between.labels
        if serving is None:
            return np.zeros((len(batch), 0)), ()
        return serving.says(batch), serving.registry.labels
