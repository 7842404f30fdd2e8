"""What a federation needs of a model of another library: that it learns record by record, and can be told."""

from typing import Protocol

from streamfl.core.arrays import FloatArray
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.external.tables import Exported
from streamfl.core.protocol.records import Batch


class ExternalPass(Protocol):
    """An external model at one client, between two merges."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the agreed labels and then those that it saw first; none for targets."""
        ...

    @property
    def records(self) -> int:
        """Count the records that came."""
        ...

    def learn(self, batch: Batch) -> FloatArray:
        """Predict every record, then learn it, in order.

        Returns
        -------
        The predicted label indices in `labels` as they are afterwards (-1 where it knows none), or targets; shape
        (n,).
        """
        ...

    def answer(self, batch: Batch) -> FloatArray:
        """Return what it says of records now: probabilities of `labels`, 0 where it knows none, or targets.

        Returns
        -------
        Shape (n, labels), or (n, 1).
        """
        ...

    def learnt(self) -> ExternalLearnt:
        """Return what it has learnt, the agreed state included."""
        ...


class ExternalModel(Protocol):
    """A model of another library; the same at every client and at the coordinator, and never changed."""

    @property
    def name(self) -> str:
        """Return what it is called where it is told what serves."""
        ...

    def initial(self) -> Exported:
        """Return the state of a model that has learnt nothing."""
        ...

    def begin(self, agreed: ExternalState) -> ExternalPass:
        """Return a model that goes on from an agreed state, and from nothing else that came before.

        Raises
        ------
        PeerError
            It is no state of this model.
        """
        ...

    def refusal(self, state: Exported) -> str | None:
        """Return why a state cannot be put into this model, or None if it can."""
        ...
