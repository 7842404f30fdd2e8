"""Follows the agreed models without taking part: what the coordinator publishes goes in, predictions come out."""

from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError
from streamfl.learning.local_round import Learner
from streamfl.learning.online_models import AtClient
from streamfl.learning.serving import Serving
from streamfl.machines.client.ledger.models import ClientModels
from streamfl.machines.client.usable import unusable
from streamfl.protocol.changes import WHOLE_EVERY
from streamfl.protocol.memory import MOST_KEPT
from streamfl.protocol.messages import (
    FromCoordinator,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
    RoundOpened,
)
from streamfl.protocol.records import Batch

Published = ModelPublished | ModelsChanged | OnlinePublished

# The most messages that wait for their round: two kinds of changes since the last whole round, and many models.
# Together they take at most `MOST_KEPT` bytes.
MOST_WAITING = 4 * WHOLE_EVERY


@dataclass
class Follower:
    """The models that all clients agree on, and their predictions.

    Messages of one topic must come in their order; the topics of models and of rounds may be ahead of each other. A
    round answers once all that it names has arrived. It continues to answer until the next one has.
    """

    # How the federation learns. Models of a client's own have no part.
    learner: Learner
    opened: RoundOpened | None = None  # the round whose models answer; None as long as there are none
    newest: int = 0  # the newest round that was opened; 0 before any
    _models: ClientModels = field(init=False)
    _next: RoundOpened | None = None
    _waiting: list[Published] = field(default_factory=list)
    _kept: int = 0  # bytes of those that wait
    _serving: dict[str, Serving] = field(default_factory=dict)  # by slot

    def __post_init__(self) -> None:
        self._models = ClientModels("", self.learner.agreed_only())

    @property
    def behind(self) -> int:
        """Return how many rounds the models that answer are behind the newest round; below 0 if ahead of it."""
        return self.newest - (0 if self.opened is None else self.opened.round)

    @property
    def waiting(self) -> int:
        """Count the models and changes that wait for their round to be opened."""
        return len(self._waiting)

    @property
    def online(self) -> AtClient | None:
        """Return the online models, of which it only predicts with the agreed ones."""
        return self._models.online

    def take(self, message: FromCoordinator) -> list[PeerError]:
        """Follow a message; return why it, or one that has waited for it, could not be used."""
        reason = unusable(message, self.learner.online)
        if reason is not None:
            return [PeerError(reason)]
        match message:
            case RegistryPublished():
                self._models.keep(message)
            case ModelPublished() if self._lacks(message):
                return self._models.keep(message)
            case ModelPublished() | ModelsChanged() | OnlinePublished():
                self._wait(message)
            case RoundOpened():
                self._next, self.newest = message, message.round
        return self._advance()

    def _lacks(self, message: ModelPublished) -> bool:
        """Tell whether the round that answers names a model that has not arrived: of a client that drifted alone."""
        opened = self.opened
        if opened is None or self._next is not None:
            return False
        named = [slot for slot in opened.slots if (slot.name, slot.version) == (message.slot, message.version)]
        return bool(named) and not self._models.published.has(opened.registry, named)

    def _wait(self, message: Published) -> None:
        self._waiting.append(message)
        self._kept += message.memory
        while len(self._waiting) > MOST_WAITING or (self._kept > MOST_KEPT and len(self._waiting) > 1):
            self._kept -= self._waiting.pop(0).memory

    def _advance(self) -> list[PeerError]:
        """Move to the round that was opened last, if all that it names is here."""
        following = self._next
        if following is None:
            return []
        errors = self._follow(following.round)
        if following.round > 1 and self._can_follow(following):  # in round 1 nothing has been learnt
            self._models.published.forget_before(following.slots)
            self.opened, self._next = following, None
            self._serving = {following.serves: self._served_by(following, following.serves)}
        return errors

    def _can_follow(self, opened: RoundOpened) -> bool:
        """Tell whether all that a round names is here, and answers what is to be answered: labels, or targets."""
        registry, online = self._models.published.registries.get(opened.registry), self._models.online
        link = self.learner.model.link
        if registry is None or bool(registry.labels) == (link == "identity"):
            return False
        if (link == "logistic" and len(registry.labels) > 2) or opened.online != (online is not None):
            return False
        if online is not None and (online.version != opened.round or bool(online.labels) == (link == "identity")):
            return False  # a change did not fit: a whole state follows
        return self._models.has(opened)

    def _follow(self, round_: int) -> list[PeerError]:
        """Follow what is published up to a round, version by version."""
        due = [message for message in self._waiting if message.version <= round_]
        self._waiting = [message for message in self._waiting if message.version > round_]
        self._kept -= sum(message.memory for message in due)
        errors = []
        for message in sorted(due, key=_version):
            errors += self._models.keep(message)
            if isinstance(message, OnlinePublished) and self._models.online is not None:
                try:
                    self._models.online.follow(message.version)
                except PeerError as error:  # a whole state follows
                    errors.append(error)
        return errors

    def predictions(self, batch: Batch, client: str = "") -> tuple[FloatArray, tuple[str, ...]]:
        """Return predictions of records, and their labels.

        Parameters
        ----------
        batch
            The records; their truth is not used.
        client
            Their client, if it is known. One that has drifted alone is answered with the model of its branch, and
            with what learns online as the clients of the branch mix it.

        Returns
        -------
        Probabilities, shape (n, labels), or targets, shape (n, 1); and the labels, empty for targets.

        Raises
        ------
        PeerError
            There are no models yet.
        """
        serving, online = self.serving(client), self._models.online
        branch = serving.opened.branch_of(client) if serving is not self.serving() else ""
        if online is None or not online.mix_as(branch):
            return serving.predictions(batch), serving.registry.labels
        return online.answer(batch, serving), online.labels

    def serving(self, client: str = "") -> Serving:
        """Return the model of rounds of a client; that of all clients if its own has not arrived.

        Raises
        ------
        PeerError
            There are no models yet.
        """
        opened = self.opened
        if opened is None:
            raise PeerError("no models were published yet")
        name = opened.served_by(client)
        slots = [slot for slot in opened.slots if slot.name == name]
        if name not in self._serving:
            if not self._models.published.has(opened.registry, slots, self.learner.model.columns):
                return self.serving()
            self._serving[name] = self._served_by(opened, name)
        return self._serving[name]

    def _served_by(self, opened: RoundOpened, name: str) -> Serving:
        published = self._models.published
        W = published.weights([slot for slot in opened.slots if slot.name == name])[name]
        return Serving(opened, published.registry(opened.registry), self.learner.model, W)


def _version(message: Published) -> int:
    return message.version
