"""What clients agree on after a round: names, scale, unit of targets; and which labels are known."""

from collections.abc import Callable
from dataclasses import dataclass

from streamfl.arrays import FloatArray
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.saved.agreement import Agreement, middle_unit
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.registry import TargetUnit, re_expression


@dataclass(frozen=True, eq=False)
class Agreed:
    """What is agreed on after a round.

    Parameters
    ----------
    agreement
        Names, scale, unit and norm.
    known_labels
        The labels that were registered when the epoch began.
    restarted, rescaled
        The rounds of the last restart, and of the last one that made the scaler follow the records again.
    re_expression
        What turns the kept models into models of the new registry; None if it has not changed.
    """

    agreement: Agreement
    known_labels: int
    restarted: int
    rescaled: int
    re_expression: Callable[[FloatArray], FloatArray] | None = None


def agreed(closing: Closing, state: CoordinatorState, settings: CoordinatorSettings, *, restarted: bool) -> Agreed:
    """Return what is agreed on after a round with records; `restarted` tells whether an epoch begins with it."""
    before, counted = state.agreed, closing.counted
    frozen = not is_warming_up(state, settings)
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
    return Agreed(
        after.restarted() if rescaled else after,
        known,
        state.round if restarted else state.restarted,
        state.round if rescaled else state.rescaled,
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


def is_warming_up(state: CoordinatorState, settings: CoordinatorSettings) -> bool:
    """Tell whether the scaler follows the records of the open round."""
    warm_up, rounds = settings.warm_up, state.round - state.rescaled
    if not settings.scaling:
        return False
    return warm_up is None or rounds <= warm_up or (state.agreed.knows_little and warm_up > 0)
