"""The models that a client has: published models, those it trains between rounds, and the one that serves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.errors import PeerError
from streamfl.learning.between_rounds import AtClient
from streamfl.learning.local_round import Learner, RoundRecords
from streamfl.learning.serving import Serving
from streamfl.machines.client.ledger.evaluated import coded
from streamfl.machines.client.ledger.published import Published
from streamfl.protocol.messages import (
    BetweenPublished,
    Learnt,
    ModelPublished,
    ModelsChanged,
    RegistryPublished,
    RoundOpened,
    Score,
    asked_of,
)
from streamfl.protocol.records import Batch


@dataclass
class ClientModels:
    """The models with which one client predicts.

    Parameters
    ----------
    client
        The client's name.
    learner
        How it learns.
    published
        The registries and models that were received last.
    between
        The models that learn between rounds; None if there are none.
    """

    client: str
    learner: Learner
    published: Published = field(default_factory=Published)
    between: AtClient | None = field(init=False)
    _serving: Serving | None = None

    def __post_init__(self) -> None:
        self.between = None if self.learner.between is None else self.learner.between.at_client()

    # --- what is published -------------------------------------------------------------------------------------

    def keep(
        self, published: RegistryPublished | ModelPublished | ModelsChanged | BetweenPublished
    ) -> list[PeerError]:
        """Keep a published registry or model until it is superseded; return what turned out to be forged."""
        match published:
            case RegistryPublished() | ModelPublished() | ModelsChanged():
                return self.published.add(published)
            case BetweenPublished() if self.between is not None:
                self.between.take(published)
            case _:
                pass  # this client has no models between rounds
        return []

    def has(self, of: RoundOpened | Score) -> bool:
        """Tell whether the registry and models of a round, or of candidates, have arrived."""
        columns, slots = self.learner.model.columns, asked_of(self.client, of.slots)
        return self.published.has(of.registry, slots, columns) and self._has_agreed_state(of)

    def _has_agreed_state(self, of: RoundOpened | Score) -> bool:
        asks = isinstance(of, RoundOpened) and of.between
        return not asks or (self.between is not None and self.between.has(of.round))

    def weights(self, asked: RoundOpened | Score) -> dict[str, FloatArray]:
        """Return the weights of the models that the client is asked about."""
        return self.published.weights(asked_of(self.client, asked.slots))

    def serving(self, opened: RoundOpened | None) -> Serving | None:
        """Return the model that serves a round, once it has arrived; it is cached, as records may come one by one."""
        if self._serving is not None and self._serving.opened is opened:
            return self._serving
        if opened is None or _is_first(opened) or not self.has(opened):
            return None
        name = opened.served_by(self.client)
        W = self.published.weights([slot for slot in opened.slots if slot.name == name])[name]
        registry = self.published.registry(opened.registry)
        self._serving = Serving(opened, registry, self.learner.model, W)
        return self._serving

    # --- between rounds ----------------------------------------------------------------------------------------

    def begin_round(self, opened: RoundOpened | None) -> None:
        """Start from the agreed state of the open round, once it has arrived."""
        between = self.between
        if between is not None and opened is not None and opened.between and between.has(opened.round):
            between.begin(opened.round, opened.epoch)

    def learn_early(self, batch: Batch, opened: RoundOpened | None) -> None:
        """Learn the next records, before the rest of the round is read."""
        if self.between is not None:
            self.between.learn_next(batch, self.serving(opened))

    def learn(self, opened: RoundOpened, batches: Sequence[Batch]) -> None:
        """Learn a round's records one by one from its agreed state; records learnt early are not learnt again."""
        if self.between is not None:
            if opened.between:
                self.between.begin(opened.round, opened.epoch)
            self.between.learn(batches, self.serving(opened))

    def learn_more(self, batches: Sequence[Batch]) -> None:
        """Learn the records of the first round that have not been learnt, before it is open."""
        if self.between is not None:
            self.between.learn(batches)

    @property
    def coarsest(self) -> int:
        """Return the most times that what the models between rounds learnt can be made coarser."""
        return 0 if self.between is None else self.between.coarsest

    def learnt(self, opened: RoundOpened, limits: Limits, *, coarser: int = 0) -> Learnt | None:
        """Return what the models between rounds learnt in a round; None if the round does not ask for it."""
        return (
            None
            if self.between is None or not opened.between
            else self.between.learnt(limits, self.client, measured=opened.asks.of(self.client), coarser=coarser)
        )

    def served(self, records: RoundRecords, by_rounds: FloatArray) -> FloatArray:
        """Return the predictions of a round's records, coded like the records.

        Without models between rounds these are `by_rounds`, the predictions of the round's model; shape (n,).
        """
        return by_rounds if self.between is None else coded(self.between.served, self.between.labels, records)

    def shares(self) -> dict[str, float]:
        """Return the share of each expert in the predictions, by name."""
        return {} if self.between is None else self.between.shares()

    def forget_pending(self) -> None:
        """Forget what was learnt from pending records: they will be read again."""
        if self.between is not None:
            self.between.forget()

    def answer(
        self, batch: Batch, opened: RoundOpened | None, *, late: bool = False
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return predictions of some records, whose labels may come late, and their labels: see `Client.answer`."""
        serving = self.serving(opened)
        if self.between is not None:
            told = self.between.answer_late(batch, serving) if late else self.between.answer(batch, serving)
            return (told if self.between.records or not _is_first(opened) else told[:, :0]), self.between.labels
        if serving is None:
            return np.zeros((len(batch), 0)), ()
        return serving.predictions(batch), serving.registry.labels


def _is_first(opened: RoundOpened | None) -> bool:
    """Tell whether no round is known to have closed: then there is no agreed model."""
    return opened is None or opened.round == 1
