"""The open round: the profile's round plan, and the messages that clients receive."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import LiveModel
from streamfl.learning.grid import weight_exponents, weights_in_short, weights_on_grid
from streamfl.learning.online_models import OnlineModels
from streamfl.learning.profiles.base import RoundPlan
from streamfl.learning.second_moments import wanted
from streamfl.machines.coordinator.round.turns import ALL_MEASURED, is_turn_of_all
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.changes import WHOLE_EVERY, changed
from streamfl.protocol.fingerprint import fingerprint
from streamfl.protocol.messages import (
    EarlierRecords,
    FromCoordinator,
    ModelPublished,
    ModelsChanged,
    MomentsAsked,
    OnlinePublished,
    RegistryPublished,
    Roster,
    RoundOpened,
    Slot,
    TotalsAsked,
)
from streamfl.protocol.messages.decision_rule import LIKELIEST, DecisionRule


@dataclass(frozen=True)
class OpenRound:
    """A round that clients work on."""

    plan: RoundPlan  # the profile's round plan
    message: RoundOpened  # the RoundOpened that clients receive when the round is opened
    # Its live models, as they are published: all that clients compute, and what serves, is of these.
    models: tuple[ModelPublished, ...]
    since: float  # when it was opened, in seconds; or its last deadline that passed without updates
    # When clients close their buffers, in seconds; None: each closes when its own buffer is full.
    closes: float | None = None
    # The steps of the published weights by row, as powers of two; None: they are not on a grid.
    grid: FloatArray | None = None
    roster: Roster | None = None  # the clients that mask their sums; None if these are not masked

    @classmethod
    def of(
        cls,
        state: CoordinatorState,
        plan: RoundPlan,
        *,
        now: float,
        interval: float | None,
        moments: bool,
        pooled: bool = False,
        noisy: bool = False,
        decision: DecisionRule = LIKELIEST,
        on_grids: bool = True,
    ) -> "OpenRound":
        """Open the round of a state.

        Parameters
        ----------
        interval
            Seconds after which clients close their buffers; None closes them when they are full.
        moments
            Whether clients send the moments of their features.
        pooled
            Whether clients send sums that are added up over all of them.
        noisy
            Whether noise hides single records in these: then gradients are on no grid.
        on_grids
            Whether what is published, and what clients send, is rounded to fit in few bytes.
        """
        rounds = state.round - state.restarted
        whitened = any(live.whitened for live in plan.live)
        in_all = not pooled or is_turn_of_all(state, rounds)
        second = whitened and wanted(rounds, state.registry.rows) and in_all
        in_turn = second or moments or state.online is not None
        message = RoundOpened(
            entry=state.entry,
            round=state.round,
            epoch=state.profile.epoch,
            block=plan.block,
            registry=state.registry.version,
            slots=tuple(slot(live, state) for live in plan.live),
            serves=plan.serves,
            known_labels=state.known_labels,
            closes=interval,
            period=state.period,
            apart=plan.apart,
            asks=MomentsAsked(
                moments=moments,
                second_moments=second,
                measured=state.measured if rounds > ALL_MEASURED and in_turn and not pooled else None,
                exponents=state.agreed.exponents if whitened and on_grids and not noisy else (),
            ),
            earlier=EarlierRecords(keep=plan.keep, sampled=plan.sampled, held=plan.held),
            totals=TotalsAsked(
                pooled=pooled,
                roster=0 if state.roster is None else state.roster.version,
                repeats=state.repeats or None,
            ),
            decision=decision,
            resumed=state.resumed,
            online=state.online is not None,
            tested=plan.tested,
        )
        closes = None if interval is None else now + interval
        models = model_messages(plan.live, state, on_grids=on_grids)
        return cls(plan, message, models, now, closes, grid_of(plan.live, state) if on_grids else None, state.roster)

    @property
    def waited_from(self) -> float:
        """Return from when on clients are waited for: since they closed their buffers, or a deadline passed."""
        return self.since if self.closes is None else max(self.since, self.closes)

    @property
    def weights(self) -> Mapping[str, FloatArray]:
        """Return the published weights by slot."""
        return {model.slot: model.weights for model in self.models}

    @property
    def serving(self) -> FloatArray:
        """Return the weights of the model that serves."""
        return self.weights[self.plan.serves]

    @property
    def branches(self) -> dict[str, FloatArray]:
        """Return the weights of the model of the branch of each client that has one, by client."""
        return {client: self.weights[self.plan.served_by(client)] for client in self.branch_of}

    @property
    def branch_of(self) -> dict[str, str]:
        """Return the name of the branch of each client that has one, by client; latched clients have none."""
        return {client: name for name, clients in self.clients_of_branches.items() for client in clients}

    def digest(self, state: CoordinatorState) -> str:
        """Return the fingerprint of the model that serves."""
        return fingerprint(state.registry, self.serving, chain=state.online_digest)

    def not_finite(self, state: CoordinatorState) -> str | None:
        """Return what clients would continue from though it is not finite, or None."""
        numbers: Mapping[str, FloatArray] = {
            "a model": self.serving,
            "a scale": state.registry.scale,
            "the features' norm": np.array(state.agreed.squared_norm),
        }
        return next((name for name, array in numbers.items() if not np.isfinite(array).all()), None)

    @property
    def is_whole(self) -> bool:
        """Tell whether everything of this round is published whole, not as changes."""
        return self.message.round % WHOLE_EVERY == 0

    @property
    def apart(self) -> frozenset[str]:
        """Return the clients that have a branch of their own."""
        return frozenset(client for group in self.message.apart for client in group.clients)

    @property
    def clients_of_branches(self) -> dict[str, tuple[str, ...]]:
        """Return the clients of each branch, by its name."""
        return {group.branch: group.clients for group in self.message.apart if group.branch}

    def all_messages(
        self, state: CoordinatorState, online: tuple[OnlinePublished, ...], now: float
    ) -> tuple[FromCoordinator, ...]:
        """Return all messages that a new client needs for the round."""
        registry = RegistryPublished(registry=state.registry)
        left = None if self.closes is None else max(0.0, self.closes - now)
        return (registry, *self._rosters(None), *self.models, *online, replace(self.message, closes=left))

    def _rosters(self, before: "OpenRound | None") -> tuple[Roster, ...]:
        """Return the roster, if it is another one than before."""
        known = None if before is None else before.roster
        return () if self.roster is None or self.roster is known else (self.roster,)

    def new_messages(
        self, state: CoordinatorState, before: "OpenRound", online: tuple[OnlinePublished, ...]
    ) -> tuple[FromCoordinator, ...]:
        """Return the messages that a reader of the previous entry needs, a client or any other.

        Parameters
        ----------
        before
            The open round of that entry. If it is the same round, its models are published whole again, and so they
            are one round in `WHOLE_EVERY`.
        """
        newer = state.registry.version > before.message.registry
        registry = (RegistryPublished(registry=state.registry),) if newer else ()
        again = before.message.round == self.message.round
        models = self.models if again or self.is_whole else self._changes(None if newer else before)
        return (*registry, *self._rosters(before), *models, *online, self.message)

    def _changes(self, before: "OpenRound | None") -> tuple[ModelsChanged | ModelPublished, ...]:
        """Return the models as differences, from those of the round before if they have the same coordinates."""
        if self.grid is None:
            return self.models
        if before is None or before.grid is None:
            message = changed(self.message.round, {}, self.weights, self.grid)
        else:
            message = changed(self.message.round, before.weights, self.weights, np.minimum(self.grid, before.grid))
        return self.models if message is None else (message,)


def online_messages(
    state: CoordinatorState, online: OnlineModels[Any, Any] | None, change: Any = None
) -> tuple[OnlinePublished, ...]:
    """Return the message with the agreed state of online models: all of it, or its change."""
    if online is None or state.online is None:
        return ()
    return (online.published(state.online, state.round, change),)


def slot(live: LiveModel, state: CoordinatorState) -> Slot:
    """Return the slot of a model: what RoundOpened and Score say about it."""
    return Slot(
        name=live.name,
        version=state.round,
        eta=live.eta,
        trained=live.trained,
        clients=live.clients,
        history=live.history,
        whitened=live.whitened,
    )


def model_messages(
    models: tuple[LiveModel, ...], state: CoordinatorState, *, on_grids: bool = True
) -> tuple[ModelPublished, ...]:
    """Return the messages with the weights of models.

    Where steps are whitened, weights are rounded, by what is saved with the state: a round that is opened again has
    the same. The profile keeps the exact models, so that errors do not add up over rounds. Targets have any size,
    which no grid foresees: weights of their models are floats of 32 bits. For a client that is alone nothing is
    rounded.
    """
    if not models:
        return ()
    version, registry = state.round, state.registry.version
    weights, grid = np.stack([live.W for live in models]), grid_of(models, state) if on_grids else None
    if grid is not None:
        weights = weights_on_grid(weights, grid)
    elif on_grids and any(live.whitened for live in models) and not state.registry.labels:
        weights = weights_in_short(weights)
    return tuple(
        ModelPublished(slot=live.name, version=version, registry=registry, weights=W)
        for live, W in zip(models, weights, strict=True)
    )


def grid_of(models: tuple[LiveModel, ...], state: CoordinatorState) -> FloatArray | None:
    """Return the steps of published weights by row, as powers of two; None: they are not on a grid."""
    deviation = state.agreed.deviation
    rounded = any(live.whitened for live in models) and state.registry.labels
    return weight_exponents(deviation) if rounded and deviation is not None else None
