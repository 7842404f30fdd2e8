"""The open round: what the profile asks for, and what clients are told of it."""

from dataclasses import dataclass

from streamfl.core.coordinator.state import Standing
from streamfl.core.drift.evidence import LiveModel
from streamfl.core.learning.second_moments import wanted
from streamfl.core.profiles.base import Opening
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

    opening: Opening
    told: RoundOpened
    models: tuple[ModelPublished, ...]
    since: float

    @classmethod
    def of(
        cls, standing: Standing, opening: Opening, *, now: float, interval: float | None, moments: bool
    ) -> "OpenRound":
        """Open the round at which a standing is.

        Parameters
        ----------
        standing
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
        rounds = standing.round - standing.restarted
        told = RoundOpened(
            entry=standing.entry,
            round=standing.round,
            epoch=standing.master.epoch,
            block=opening.block,
            registry=standing.registry.version,
            slots=tuple(slot(live, standing) for live in opening.live),
            serves=opening.serves,
            known_labels=standing.known_labels,
            closes=None if interval is None else now + interval,
            apart=opening.apart,
            moments=moments,
            second_moments=any(live.whitened for live in opening.live) and wanted(rounds, standing.registry.rows),
            keep=opening.keep,
            sampled=opening.sampled,
            held=opening.held,
            between=standing.between is not None,
        )
        return cls(opening, told, published(opening.live, standing), now)

    @property
    def apart(self) -> frozenset[str]:
        """Return the clients that have a branch of their own."""
        return frozenset(client for group in self.told.apart for client in group.clients)

    def whole(self, standing: Standing, between: tuple[BetweenPublished, ...]) -> tuple[FromCoordinator, ...]:
        """Return everything that a client needs that knows nothing of the round."""
        registry = RegistryPublished(registry=standing.registry)
        return (registry, *self.models, *between, self.told)

    def following(
        self, standing: Standing, since: int, between: tuple[BetweenPublished, ...]
    ) -> tuple[FromCoordinator, ...]:
        """Return what a client needs that was there in the round before.

        Parameters
        ----------
        standing
            Where the federation stands.
        since
            The version of the registry then; a newer one is told.
        between
            What became of the models that learn between rounds.
        """
        newer = standing.registry.version > since
        registry = (RegistryPublished(registry=standing.registry),) if newer else ()
        return (*registry, *self.models, *between, self.told)


def slot(live: LiveModel, standing: Standing) -> Slot:
    """Return what clients are told of a model beside its weights."""
    return Slot(
        name=live.name,
        version=standing.round,
        eta=live.eta,
        trained=live.trained,
        clients=live.clients,
        history=live.history,
        whitened=live.whitened,
    )


def published(models: tuple[LiveModel, ...], standing: Standing) -> tuple[ModelPublished, ...]:
    """Return the weights of models, as clients hear them."""
    version, registry = standing.round, standing.registry.version
    return tuple(
        ModelPublished(slot=live.name, version=version, registry=registry, weights=live.W) for live in models
    )
