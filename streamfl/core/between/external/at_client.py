"""A model of another library at a client: it learns its records as they come, from the agreed state on."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.between.external.admission import within
from streamfl.core.bounds import Limits
from streamfl.core.learning.between_rounds import AtClient
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.arrived import Arrived
from streamfl.core.protocol.external.interface import ExternalModel, ExternalPass
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.messages import BetweenPublished
from streamfl.core.protocol.records import Batch


@dataclass
class ExternalAtClient(AtClient):
    """What the model has learnt since the round began, of the records that are pending.

    It alone serves: what else is known of records is not looked at.

    Parameters
    ----------
    model
        The model.
    version
        Of the agreed state; 0 before any: then it learns from nothing, to begin again with the first round.
    """

    model: ExternalModel
    version: int = 0
    _agreed: ExternalState = field(init=False)
    _pass: ExternalPass = field(init=False)
    _served: list[FloatArray] = field(default_factory=list)
    _published: Arrived[ExternalState] = field(default_factory=Arrived)

    def __post_init__(self) -> None:
        self._agreed = ExternalState(self.model.initial())
        self.forget()

    def take(self, published: BetweenPublished) -> None:
        """Keep what was published until its round is open."""
        if isinstance(published.agreed, ExternalState):
            self._published.take(published.version, published.agreed)

    def has(self, version: int) -> bool:
        """Tell whether it can go on from a version."""
        return version == self.version or self._published.get(version) is not None

    def begin(self, version: int) -> None:
        """Go on from the agreed state of a version; what is pending is learnt again, from there."""
        agreed = self._published.get(version)
        if version != self.version and agreed is not None:
            self.version, self._agreed = version, agreed
            self._published.forget_before(version + 1)
            self.forget()

    def forget(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""
        self._pass = self.model.begin(self._agreed)
        self._served = []

    @property
    def records(self) -> int:
        """Count the pending records that it has learnt."""
        return self._pass.records

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

    def learnt(self, limits: Limits) -> ExternalLearnt:
        """Return what the records made of the agreed state; nothing where it has more names than may be told."""
        return within(self._pass.learnt(), limits)

    def shares(self) -> dict[str, float]:
        """Return what part the model has in the predictions served: all."""
        return {self.model.name: 1.0}
