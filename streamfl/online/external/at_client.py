"""An external model at a client: from the agreed state on, it learns the client's records as they come."""

from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.learning.online_models import AtClient
from streamfl.learning.serving import Serving
from streamfl.online.external.admission import within
from streamfl.protocol.arrived import Arrived
from streamfl.protocol.external.interface import ExternalModel, ExternalPass
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.records import Batch


@dataclass
class ExternalAtClient(AtClient):
    """The external model as it has learnt the pending records of the open round.

    It alone makes the client's predictions.
    """

    model: ExternalModel
    # The version of the agreed state; 0 before any: until the first round it learns from an untrained state.
    version: int = 0
    _agreed: ExternalState = field(init=False)
    _pass: ExternalPass = field(init=False)
    _served: list[FloatArray] = field(default_factory=list)
    _published: Arrived[ExternalState] = field(default_factory=Arrived)

    def __post_init__(self) -> None:
        self._agreed = ExternalState(self.model.initial())
        self.forget()

    def take(self, published: OnlinePublished) -> None:
        """Store a published state until its round opens."""
        if isinstance(published.agreed, ExternalState):
            self._published.take(published.version, published.agreed)

    def has(self, version: int) -> bool:
        """Tell whether it can continue from a version."""
        return version == self.version or self._published.get(version) is not None

    def begin(self, version: int, epoch: int, branch: str = "") -> None:
        """Continue from the agreed state of a version; pending records are then learnt again."""
        agreed = self._published.get(version)
        if version != self.version and agreed is not None:
            self.version, self._agreed = version, agreed
            self._published.forget_before(version + 1)
            self.forget()

    def forget(self) -> None:
        """Go back to the agreed state, because pending records will be read again."""
        self._pass = self.model.begin(self._agreed)
        self._served = []

    @property
    def records(self) -> int:
        """Count the pending records that have been learnt."""
        return self._pass.records

    def learn_next(self, batch: Batch, _: Serving | None = None) -> FloatArray:
        """Learn the next records; return their predictions, as `served`."""
        self._served.append(self._pass.learn(batch))
        return self._in_columns(self._served[-1])

    def answer(self, batch: Batch, _: Serving | None = None) -> FloatArray:
        """Return the present predictions of records: probabilities by label, or targets; shape (n, columns)."""
        return self._pass.answer(batch)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the predictions' columns; empty in regression."""
        return self._pass.labels

    @property
    def served(self) -> FloatArray:
        """Return the prediction of each record just before it was learnt, shape (records, columns).

        Of labels the model tells which one it answers, and no probabilities.
        """
        return self._in_columns(np.concatenate([np.zeros(0), *self._served]))

    def _in_columns(self, served: FloatArray) -> FloatArray:
        return (served[:, None] == np.arange(len(self.labels))).astype(np.float64) if self.labels else served[:, None]

    def learnt(self, limits: Limits, client: str, *, measured: bool = True, coarser: int = 0) -> ExternalLearnt:
        """Return the state after the pending records; without it if it has too many names to be sent."""
        return within(self._pass.learnt(), limits)

    def shares(self) -> dict[str, float]:
        """Return the model's share of the predictions: all of them."""
        return {self.model.name: 1.0}
