"""The open round: what the profile asks for, and what clients are told of it."""

from dataclasses import dataclass

from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.drift.evidence import LiveModel
from streamfl.core.learning.second_moments import wanted
from streamfl.core.profiles.base import RoundPlan
from streamfl.core.protocol.messages import (
    BetweenPublished,
    FromCoordinator,
    ModelPublished,
    RegistryPublished,
    RoundOpened,
    Slot,
)


@dataclass(frozen=True)
class OpenRound:
    """A round that clients work on.

    Parameters
    ----------
    opening
        What the profile asks for.
    told
        What clients are told of it.
    models
        Its live models, as they are published.
    since
        When it was opened, in seconds; later if nothing came until the deadline.
    """

    opening: RoundPlan
    told: RoundOpened
    models: tuple[ModelPublished, ...]
    since: float

    @classmethod
    def of(
        cls, state: CoordinatorState, opening: RoundPlan, *, now: float, interval: float | None, moments: bool
    ) -> "OpenRound":
        """Open the round at which a state is.

        Parameters
        ----------
        state
            Where the federation stands.
        opening
            What the profile asks for.
        now
            The time, in seconds.
        interval
            Seconds after which clients close their buffers; None when these are full.
        moments
            Whether clients tell the moments of their features.
        """
        rounds = state.round - state.restarted
        told = RoundOpened(
            entry=state.entry,
            round=state.round,
            epoch=state.master.epoch,
            block=opening.block,
            registry=state.registry.version,
            slots=tuple(slot(live, state) for live in opening.live),
            serves=opening.serves,
            known_labels=state.known_labels,
            closes=None if interval is None else now + interval,
            apart=opening.apart,
            moments=moments,
            second_moments=any(live.whitened for live in opening.live) and wanted(rounds, state.registry.rows),
            keep=opening.keep,
            sampled=opening.sampled,
            held=opening.held,
            between=state.between is not None,
        )
        return cls(opening, told, published(opening.live, state), now)

    @property
    def apart(self) -> frozenset[str]:
        """Return the clients that have a branch of their own."""
        return frozenset(client for group in self.told.apart for client in group.clients)

    def whole(self, state: CoordinatorState, between: tuple[BetweenPublished, ...]) -> tuple[FromCoordinator, ...]:
        """Return everything that a client needs that knows nothing of the round."""
        registry = RegistryPublished(registry=state.registry)
        return (registry, *self.models, *between, self.told)

    def following(
        self, state: CoordinatorState, since: int, between: tuple[BetweenPublished, ...]
    ) -> tuple[FromCoordinator, ...]:
        """Return what a client needs that was there in the round before.

        Parameters
        ----------
        state
            Where the federation stands.
        since
            The version of the registry then; a newer one is told.
        between
            What became of the models that learn between rounds.
        """
        newer = state.registry.version > since
        registry = (RegistryPublished(registry=state.registry),) if newer else ()
        return (*registry, *self.models, *between, self.told)


def slot(live: LiveModel, state: CoordinatorState) -> Slot:
    """Return what clients are told of a model beside its weights."""
    return Slot(
        name=live.name,
        version=state.round,
        eta=live.eta,
        trained=live.trained,
        clients=live.clients,
        history=live.history,
        whitened=live.whitened,
    )


def published(models: tuple[LiveModel, ...], state: CoordinatorState) -> tuple[ModelPublished, ...]:
    """Return the weights of models, as clients hear them."""
    version, registry = state.round, state.registry.version
    return tuple(
        ModelPublished(slot=live.name, version=version, registry=registry, weights=live.W) for live in models
    )
