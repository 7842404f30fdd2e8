"""What a round has shown, and what the profile decides: the next models, or first a question to clients."""

from dataclasses import replace

from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.learning.profiles.base import Decisions, Deliberation
from streamfl.machines.coordinator.close.inputs import lasting_moments, spreads
from streamfl.machines.coordinator.round.aggregation import RoundAggregation, outliers_in
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.standing import Standing


def decide(closing: Closing, standing: Standing) -> tuple[Closing, Decisions | Deliberation]:
    """Pass what the round has shown to the profile: it advances, or after an alarm deliberates."""
    state, profile = standing.state, standing.state.profile
    seen, aggregation = observe(closing, standing)
    alarm = state.alarm_or_order(profile.close(seen))
    closing = replace(
        closing,
        observed=seen,
        aggregation=aggregation,
        readings=dict(profile.readings()),
        means=lasting_moments(closing, state.registry),
        spreads=spreads(closing, state.registry),
    )
    if alarm is None:
        return closing, profile.advance(state.round)
    seen = _with_inputs(seen, closing, standing, aggregation.outliers)
    return closing, profile.deliberate(alarm, seen, standing.untrained)


def _with_inputs(
    seen: RoundEvidence, closing: Closing, standing: Standing, outliers: frozenset[str]
) -> RoundEvidence:
    """Return what a round has shown with how inputs differ at the clients that count; a total may hold noise."""
    if closing.counted.pooled:
        return seen
    state = standing.state
    judges = {update.client for update in closing.counted.updates} - {*closing.opened.apart} - outliers
    means = {name: each for name, each in closing.means.items() if name in judges}
    wide = {name: each for name, each in closing.spreads.items() if name in judges}
    return replace(
        seen,
        moved=state.input_baseline.moved(state.round, means),
        spread=state.spread_baseline.moved(wide, registry=state.registry.version),
    )


def observe(closing: Closing, standing: Standing) -> tuple[RoundEvidence, RoundAggregation]:
    """Return what the counted updates show, and how they are aggregated.

    Losses of clients that stand out, and of clients whose steps do not count, are no evidence.
    """
    state, settings = standing.state, standing.settings
    opened, counted = closing.opened, closing.counted
    plan = opened.plan
    without = {client for client, share in counted.shares.items() if share == 0.0}
    common = [update for update in counted.updates if update.client not in opened.apart]
    outliers = outliers_in(((u.client, u.records, u.numbers.losses) for u in common), plan.compared) | without
    aggregation = RoundAggregation.of(
        settings.learner, state.agreed, counted.updates, opened.apart, outliers, settings.aggregation
    )
    known = state.registry.labels[: state.known_labels]
    seen = aggregation.observed(counted.updates, plan.live, t=state.round, known_labels=known, serves=plan.serves)
    return seen, aggregation
