"""What clients agree on after a round: names, scale, unit of targets, known labels, and what was learnt online."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamfl.arrays import FloatArray
from streamfl.learning.online_models import Renewal
from streamfl.learning.profiles.base import Restart
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.saved.agreement import Agreement, middle_unit
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import AgreedState
from streamfl.protocol.registry import TargetUnit, re_expression


@dataclass(frozen=True, eq=False)
class NextAgreement:
    """What is agreed on after a round."""

    agreement: Agreement  # names, scale, unit and norm
    known_labels: int  # the labels that were registered when the epoch began
    # The rounds of the last restart, and of the last one that made the scaler follow the records again.
    restarted: int
    rescaled: int
    # The agreed state of the online models, and its change; None: all of it.
    online: AgreedState | None
    change: Any = None
    # What turns the kept models into models of the new registry; None if it has not changed.
    re_expression: Callable[[FloatArray], FloatArray] | None = None


def next_agreement(
    closing: Closing, state: CoordinatorState, settings: CoordinatorSettings, restart: Restart | None
) -> NextAgreement:
    """Return what is agreed on after a round with records; `restart` is the one with which an epoch begins.

    What was learnt online is merged under the labels that are agreed on from now on.
    """
    restarted = restart is not None
    before, counted = state.agreed, closing.counted
    frozen = not state.is_warming_up(settings)
    unit = _unit_after(closing, state, settings, restarted=restarted)
    clients = len(counted.pooled) or None
    after = before.after(counted.updates, t=state.round, frozen=frozen, unit=unit, clients=clients)
    changed = None
    if after.registry is not before.registry:
        columns = settings.learner.model.columns(len(after.registry.labels))
        changed = re_expression(before.registry, after.registry, columns)
    # A client may have joined with too few records to name labels.
    begins = restarted or (state.round == 1 and not state.known_labels)
    known = len(after.registry.labels) if begins else state.known_labels
    rescaled = restarted and (frozen or after.settled)  # a scaler that never froze needs no new start
    online, change = _merge_online(closing, state, after.registry.labels, restart, settings)
    return NextAgreement(
        after.restarted() if rescaled else after,
        known,
        state.round if restarted else state.restarted,
        state.round if rescaled else state.rescaled,
        online,
        change,
        changed,
    )


def _unit_after(
    closing: Closing, state: CoordinatorState, settings: CoordinatorSettings, *, restarted: bool
) -> TargetUnit | None:
    """Return the new unit of targets; None if it does not change."""
    if settings.task != "regression":
        return None
    unit = middle_unit((update.records, update.numbers.target) for update in closing.counted.updates)
    return unit if restarted or state.registry.target.gives_way_to(unit) else None


def _merge_online(
    closing: Closing,
    state: CoordinatorState,
    labels: tuple[str, ...],
    restart: Restart | None,
    settings: CoordinatorSettings,
) -> tuple[AgreedState | None, Any]:
    """Return the agreed state of the online models after the round, and its change."""
    online = settings.learner.online
    if online is None or state.online is None:
        return (None if online is None else online.initial(labels)), None
    merged: tuple[AgreedState, Any] = online.after(
        state.online,
        {
            update.client: update.numbers.learnt
            for update in closing.counted.updates
            if update.numbers.learnt is not None
        },
        labels,
        apart=closing.opened.apart,
        branches=closing.opened.clients_of_branches,
        renewal=None
        if restart is None
        else Renewal(restart.chosen == "incumbent", restart.permutation, restart.begins_again),
        limits=settings.limits,
    )
    return merged
