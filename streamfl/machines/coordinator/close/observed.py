"""What a round has shown: its counted updates, aggregated."""

from streamfl.learning.drift.evidence import Observed
from streamfl.machines.coordinator.round.aggregation import Aggregation, outliers_in
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings


def observed(
    closing: Closing, state: CoordinatorState, settings: CoordinatorSettings
) -> tuple[Observed, Aggregation]:
    """Return what the counted updates show, and how they are aggregated.

    Losses of clients that stand out, and of clients whose steps do not count, are no evidence.
    """
    opened, counted = closing.opened, closing.counted
    live, serves = opened.plan.live, opened.plan.serves
    without = {client for client, share in counted.shares.items() if share == 0.0}
    common = [update for update in counted.updates if update.client not in opened.apart]
    outliers = outliers_in(((u.client, u.records, u.numbers.losses) for u in common), live) | without
    aggregation = Aggregation.of(
        settings.learner, state.agreed, counted.updates, opened.apart, outliers, settings.aggregation
    )
    known = state.registry.labels[: state.known_labels]
    seen = aggregation.observed(counted.updates, live, t=state.round, known_labels=known, serves=serves)
    return seen, aggregation
