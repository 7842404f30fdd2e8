"""The interface of external models: a model of another library learns record by record and exports its state."""

from typing import Protocol

from streamfl.arrays import FloatArray
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported
from streamfl.protocol.records import Batch


class ExternalPass(Protocol):
    """An external model at one client, during one round."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the agreed labels, then those that are new at this client; empty in regression."""
        ...

    @property
    def records(self) -> int:
        """Count the records passed to `learn`."""
        ...

    @property
    def failure(self) -> str:
        """Return why a record could not be learnt, or the state not sent, the last such reason; "" for none."""
        ...

    def learn(self, batch: Batch) -> FloatArray:
        """Predict every record, then learn it, in order.

        Returns
        -------
        The predicted label indices in `labels` as they are after the call (-1 while it knows none), or targets;
        shape (n,).
        """
        ...

    def answer(self, batch: Batch) -> FloatArray:
        """Return its present predictions: probabilities of `labels`, all 0 while it knows none, or targets.

        Returns
        -------
        Shape (n, labels), or (n, 1).
        """
        ...

    def learnt(self) -> ExternalLearnt:
        """Return its state, which includes the agreed state, and the numbers of records."""
        ...


class ExternalModel(Protocol):
    """A model of another library: immutable, and the same at every client and at the coordinator."""

    def check(self, labels: tuple[str, ...]) -> None:
        """Check labels that are known beforehand.

        Raises
        ------
        UsageError
            The model cannot tell so many labels apart.
        """
        ...

    @property
    def name(self) -> str:
        """Return its name in reports, such as the shares of the predictions served."""
        ...

    def initial(self, known: Exported | None = None) -> Exported:
        """Return the state of a model that has learnt nothing.

        After a restart `known` is the state before, of which it may keep names.
        """
        ...

    def begin(self, agreed: ExternalState) -> ExternalPass:
        """Return a model that continues from an agreed state, and depends on nothing else.

        Raises
        ------
        PeerError
            The state does not belong to this model.
        """
        ...

    def refusal(self, state: Exported, began: ExternalState | None = None) -> str | None:
        """Return why a state cannot be loaded into this model, or None if it can.

        `began` is the agreed state at which the client began that has learnt it.
        """
        ...
