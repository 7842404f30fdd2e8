"""The models that a client has: published models, those it trains online, and the one that serves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.errors import PeerError
from streamfl.learning.local_round import Learner, RoundRecords
from streamfl.learning.online_models import AtClient
from streamfl.learning.serving import Serving
from streamfl.machines.client.ledger.evaluated import encode, tried_answers
from streamfl.machines.client.ledger.published import Published
from streamfl.protocol.delayed import NO_LABEL
from streamfl.protocol.messages import (
    Learnt,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
    RoundOpened,
    Score,
    Tried,
    asked_of,
)
from streamfl.protocol.records import Batch


@dataclass
class ClientModels:
    """The models with which one client predicts."""

    client: str
    learner: Learner  # how it learns
    published: Published = field(default_factory=Published)  # the registries and models that were received last
    online: AtClient | None = field(init=False)  # the online models; None if there are none
    _serving: Serving | None = None

    def __post_init__(self) -> None:
        self.online = None if self.learner.online is None else self.learner.online.at_client()

    # --- what is published -------------------------------------------------------------------------------------

    def keep(
        self, published: RegistryPublished | ModelPublished | ModelsChanged | OnlinePublished
    ) -> list[PeerError]:
        """Keep a published registry or model until it is superseded; return what turned out to be forged."""
        match published:
            case RegistryPublished() | ModelPublished() | ModelsChanged():
                return self.published.add(published)
            case OnlinePublished() if self.online is not None:
                self.online.take(published)
            case _:
                pass  # this client has no online models
        return []

    def has(self, of: RoundOpened | Score) -> bool:
        """Tell whether the registry and models of a round, or of candidates, have arrived."""
        columns, slots = self.learner.model.columns, asked_of(self.client, of.slots)
        return self.published.has(of.registry, slots, columns) and self._has_agreed_state(of)

    def _has_agreed_state(self, of: RoundOpened | Score) -> bool:
        asks = isinstance(of, RoundOpened) and of.online
        return not asks or (self.online is not None and self.online.has(of.round))

    def weights(self, asked: RoundOpened | Score) -> dict[str, FloatArray]:
        """Return the weights of the models that the client is asked about."""
        return self.published.weights(asked_of(self.client, asked.slots))

    def serving(self, opened: RoundOpened | None) -> Serving | None:
        """Return the model that serves a round, once it has arrived; it is cached, as records may come one by one."""
        if self._serving is not None and self._serving.opened is opened:
            return self._serving
        if opened is None or _is_first(opened) or not self.has(opened):
            return None
        self._serving = self._served(opened, opened.served_by(self.client))
        return self._serving

    def serving_all(self, opened: RoundOpened) -> Serving:
        """Return the model that serves the clients without a branch in a round, whose models have arrived."""
        return self._served(opened, opened.serves)

    def _served(self, opened: RoundOpened, name: str) -> Serving:
        W = self.published.weights([slot for slot in opened.slots if slot.name == name])[name]
        return Serving(opened, self.published.registry(opened.registry), self.learner.model, W)

    # --- online models ----------------------------------------------------------------------------------------

    def begin_round(self, opened: RoundOpened | None) -> None:
        """Start from the agreed state of the open round, once it has arrived."""
        online = self.online
        if online is None or opened is None or not opened.online or online.version == opened.round:
            return
        if online.has(opened.round):
            online.begin(opened.round, opened.epoch, opened.branch_of(self.client))

    def learn_early(self, batch: Batch, opened: RoundOpened | None) -> FloatArray | None:
        """Learn the next records, before the rest of the round is read; return their predictions, if any learn."""
        return None if self.online is None else self.online.learn_next(batch, self.serving(opened))

    def learn(self, opened: RoundOpened, batches: Sequence[Batch]) -> None:
        """Learn a round's records one by one from its agreed state; records learnt early are not learnt again."""
        if self.online is not None:
            if opened.online:
                self.online.begin(opened.round, opened.epoch, opened.branch_of(self.client))
            self.online.learn(batches, self.serving(opened))

    def learn_more(self, batches: Sequence[Batch]) -> None:
        """Learn the records of the first round that have not been learnt, before it is open."""
        if self.online is not None:
            self.online.learn(batches)

    def hold(self) -> None:
        """Keep what is the client's own: the records learnt next are learnt again, see `AtClient.hold`."""
        if self.online is not None:
            self.online.hold()

    def release(self) -> None:
        """Let go of what `hold` has kept: the ledger has accepted the records."""
        if self.online is not None:
            self.online.release()

    @property
    def coarsest(self) -> int:
        """Return the most times that what the online models learnt can be made coarser."""
        return 0 if self.online is None else self.online.coarsest

    def learnt(self, opened: RoundOpened, limits: Limits, *, coarser: int = 0) -> Learnt | None:
        """Return what the online models learnt in a round; None if the round does not ask for it."""
        return (
            None
            if self.online is None or not opened.online
            else self.online.learnt(limits, self.client, measured=opened.asks.of(self.client), coarser=coarser)
        )

    def untrained_loss(self, batches: Sequence[Batch]) -> float | None:
        """Return what untrained online models lose on a round's records: see `AtClient.untrained_loss`."""
        return None if self.online is None else self.online.untrained_loss(batches)

    def served(self, opened: RoundOpened, records: RoundRecords, by_rounds: FloatArray) -> FloatArray:
        """Return the predictions of a round's records, coded like the records.

        Without online models these are `by_rounds`, the predictions of the round's model; shape (n,).
        """
        if self.online is None:
            return by_rounds
        P = self.online.served
        codes = opened.decision.label_indices(P, self.online.labels) if records.labels else P[:, 0]
        return encode(codes, self.online.labels, records)

    def tried(self, opened: RoundOpened, records: RoundRecords) -> tuple[Tried, ...]:
        """Return what other rules would have answered, as far as the round asks for it: see `tried_answers`."""
        if self.online is None or not opened.decision.tried:
            return ()
        return tried_answers(opened.decision, self.online.served, self.online.labels, records)

    def by_rounds(self, opened: RoundOpened, records: RoundRecords) -> FloatArray:
        """Return what the round's model predicts, coded like the records; without a model no label, or the centre."""
        W = self.weights(opened).get(opened.served_by(self.client))
        if W is None:
            return np.full(len(records.y), NO_LABEL if records.labels else 0.0)
        return self.learner.model.predict(records.Z @ W)

    def shares(self) -> dict[str, float]:
        """Return the share of each expert in the predictions, by name."""
        return {} if self.online is None else self.online.shares()

    def forget_pending(self) -> None:
        """Forget what was learnt from pending records: they will be read again."""
        if self.online is not None:
            self.online.forget()

    def answer(
        self, batch: Batch, opened: RoundOpened | None, *, late: bool = False
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return predictions of some records, whose labels may come late, and their labels: see `Client.answer`."""
        serving = self.serving(opened)
        if self.online is not None:
            told = self.online.answer_late(batch, serving) if late else self.online.answer(batch, serving)
            return (told if self.online.records or not _is_first(opened) else told[:, :0]), self.online.labels
        if serving is None:
            return np.zeros((len(batch), 0)), ()
        return serving.predictions(batch), serving.registry.labels


def _is_first(opened: RoundOpened | None) -> bool:
    """Tell whether no round is known to have closed: then there is no agreed model."""
    return opened is None or opened.round == 1
