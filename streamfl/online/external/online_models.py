"""External models behind the interface of `streamfl.learning.online_models`."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from streamfl.bounds import Limits
from streamfl.learning.online_models import NO_BRANCHES, Covered, OnlineModels, Renewal
from streamfl.online.external.admission import wrong_external
from streamfl.online.external.agreed import agreed_after
from streamfl.online.external.at_client import ExternalAtClient
from streamfl.protocol.external.interface import ExternalModel
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.messages import OnlinePublished


@dataclass(frozen=True)
class ExternalOnlineModels(OnlineModels[ExternalState, ExternalLearnt]):
    """An external model, which learns and predicts without any other."""

    state = ExternalState
    learnt = ExternalLearnt

    model: ExternalModel

    @property
    def names(self) -> AbstractSet[str]:
        """Return the name of the model."""
        return {self.model.name}

    def initial(self, labels: tuple[str, ...]) -> ExternalState:
        """Return the state of a model that has learnt nothing, for these labels."""
        return ExternalState(self.model.initial(), labels)

    def has_made(self, agreed: ExternalState) -> bool:
        """Tell whether an agreed state can be loaded into this model."""
        return self.model.refusal(agreed.state) is None

    def wrong(self, learnt: ExternalLearnt, agreed: ExternalState, covered: Covered) -> str | None:
        """Return why what a client learnt cannot be merged, or None if it can."""
        return wrong_external(learnt, agreed, self.model, records=covered.records, limits=covered.limits)

    def after(
        self,
        agreed: ExternalState,
        learnt: Mapping[str, ExternalLearnt],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        branches: Mapping[str, Collection[str]] = NO_BRANCHES,
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[ExternalState, None]:
        """Return the agreed state after a round, merged over all clients that are not in `apart`.

        At a restart it is untrained again, unless the incumbent continues.
        """
        if renewal is not None and not renewal.goes_on:
            return ExternalState(self.model.initial(agreed.state), labels), None
        parts = [part for client, part in learnt.items() if client not in apart]
        return agreed_after(agreed, parts, labels, most=limits.external_names), None

    def published(self, agreed: ExternalState, version: int, change: None = None) -> OnlinePublished:
        """Return the agreed state as it is published."""
        return OnlinePublished(version=version, agreed=agreed)

    def unusable(self, published: OnlinePublished) -> str | None:
        """Return why a client cannot use a published state, or None if it can."""
        agreed = published.agreed
        return self.model.refusal(agreed.state) if isinstance(agreed, ExternalState) else None

    def at_client(self) -> ExternalAtClient:
        """Return the model at a client that has learnt nothing yet."""
        return ExternalAtClient(self.model)
