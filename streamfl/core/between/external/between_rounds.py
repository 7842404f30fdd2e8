"""A model of another library that learns between rounds, as the machines know it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from streamfl.core.arrays import IntArray
from streamfl.core.between.external.admission import wrong_external
from streamfl.core.between.external.agreed import agreed_after
from streamfl.core.between.external.at_client import ExternalAtClient
from streamfl.core.bounds import Limits
from streamfl.core.learning.between_rounds import BetweenRounds, Covered, Renewal
from streamfl.core.protocol.external.interface import ExternalModel
from streamfl.core.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.core.protocol.messages import BetweenPublished


@dataclass(frozen=True)
class ExternalBetweenRounds(BetweenRounds[ExternalState, ExternalLearnt]):
    """A model of another library: it learns and answers alone.

    Parameters
    ----------
    model
        The model.
    """

    state = ExternalState
    learnt = ExternalLearnt

    model: ExternalModel

    @property
    def names(self) -> AbstractSet[str]:
        """Return the name of the model."""
        return {self.model.name}

    def initial(self, labels: tuple[str, ...]) -> ExternalState:
        """Return the state of a model that has learnt nothing, of these labels."""
        return ExternalState(self.model.initial(), labels)

    def has_made(self, agreed: ExternalState) -> bool:
        """Tell whether an agreed state can be put into this model."""
        return self.model.refusal(agreed.state) is None

    def wrong(self, learnt: ExternalLearnt, agreed: ExternalState, covered: Covered) -> str | None:
        """Return why what a client has learnt cannot be used, or None."""
        return wrong_external(learnt, agreed, self.model, records=covered.records, limits=covered.limits)

    def after(
        self,
        agreed: ExternalState,
        learnt: Mapping[str, ExternalLearnt],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[ExternalState, IntArray | None]:
        """Return what the clients not apart have learnt; with an epoch that begins anew, it does, too."""
        if renewal is not None and not renewal.goes_on:
            return self.initial(labels), None
        parts = [part for client, part in learnt.items() if client not in apart]
        return agreed_after(agreed, parts, labels, most=limits.external_names), None

    def published(self, agreed: ExternalState, version: int, changed: IntArray | None = None) -> BetweenPublished:
        """Return the agreed state as clients are told it."""
        return BetweenPublished(version=version, agreed=agreed)

    def unusable(self, published: BetweenPublished) -> str | None:
        """Return why a client cannot use what was published, or None if it can."""
        agreed = published.agreed
        return self.model.refusal(agreed.state) if isinstance(agreed, ExternalState) else None

    def at_client(self) -> ExternalAtClient:
        """Return it at a client that has learnt nothing yet."""
        return ExternalAtClient(self.model)
