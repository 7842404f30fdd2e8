"""A model of another library that learns between rounds, as the machines know it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from streamfl.core.arrays import IntArray
from streamfl.core.between.external.admission import wrong_guest
from streamfl.core.between.external.agreed import agreed_after
from streamfl.core.between.external.at_client import ExternalAtClient
from streamfl.core.bounds import Limits
from streamfl.core.learning.between_rounds import BetweenRounds, Covered, Renewal
from streamfl.core.protocol.external.interface import Guest
from streamfl.core.protocol.external.state import GuestLearnt, GuestState
from streamfl.core.protocol.messages import BetweenPublished


@dataclass(frozen=True)
class ExternalBetweenRounds(BetweenRounds[GuestState, GuestLearnt]):
    """A model of another library: it learns and answers alone.

    Parameters
    ----------
    model
        The model.
    """

    state = GuestState
    learnt = GuestLearnt

    model: Guest

    @property
    def names(self) -> AbstractSet[str]:
        """Return the name of the model."""
        return {self.model.name}

    def initial(self, labels: tuple[str, ...]) -> GuestState:
        """Return the state of a model that has learnt nothing, of these labels."""
        return GuestState(self.model.initial(), labels)

    def has_made(self, agreed: GuestState) -> bool:
        """Tell whether an agreed state can be put into this model."""
        return self.model.refusal(agreed.state) is None

    def wrong(self, learnt: GuestLearnt, agreed: GuestState, covered: Covered) -> str | None:
        """Return why what a client has learnt cannot be used, or None."""
        return wrong_guest(learnt, agreed, self.model, records=covered.records, limits=covered.limits)

    def after(
        self,
        agreed: GuestState,
        learnt: Mapping[str, GuestLearnt],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[GuestState, IntArray | None]:
        """Return what the clients not apart have learnt; with an epoch that begins anew, it does, too."""
        if renewal is not None and not renewal.goes_on:
            return self.initial(labels), None
        parts = [part for client, part in learnt.items() if client not in apart]
        return agreed_after(agreed, parts, labels, most=limits.guest_names), None

    def published(self, agreed: GuestState, version: int, changed: IntArray | None = None) -> BetweenPublished:
        """Return the agreed state as clients are told it."""
        return BetweenPublished(version=version, agreed=agreed)

    def unusable(self, published: BetweenPublished) -> str | None:
        """Return why a client cannot use what was published, or None if it can."""
        agreed = published.agreed
        return self.model.refusal(agreed.state) if isinstance(agreed, GuestState) else None

    def at_client(self) -> ExternalAtClient:
        """Return it at a client that has learnt nothing yet."""
        return ExternalAtClient(self.model)
