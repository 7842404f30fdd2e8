"""Rounds begin: the first with the Joins of all clients, every other when the one before it has closed."""

from collections.abc import Sequence
from dataclasses import replace

from streamfl.errors import PeerError
from streamfl.machines.coordinator.round.open_round import OpenRound, online_messages
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.standing import Standing
from streamfl.protocol.decisions import Commit, CoordinatorDecision
from streamfl.protocol.messages import FromCoordinator, Join


def begin(standing: Standing, joins: Sequence[Join], now: float) -> list[CoordinatorDecision]:
    """Open round 1: the Joins of all clients determine features, labels and scale."""
    state, settings = standing.state, standing.settings
    state.agreement = Agreement.of(
        joins, scaling=settings.scaling, limits=settings.limits, fewest=standing.kind.min_clients_per_name
    )
    state.members = {join.client: replace(Member().held_by(join.nonce), key=join.key) for join in joins}
    state.known_labels = len(state.registry.labels)
    state.period = standing.clock.next_period(None, [join.period for join in joins])
    online = settings.learner.online
    state.online = None if online is None else online.initial(state.registry.labels)
    standing.unsaved.introductions, standing.unsaved.introduced = {}, 0
    open_round(standing, now)
    answers = tuple(state.answer(join, state.members[join.client]) for join in joins)
    return [Commit((*answers, *messages(standing, now)))]


def open_round(standing: Standing, now: float) -> OpenRound:
    """Open the round of the state, and collect for it.

    The profile gives the same plan however often it is asked.

    Raises
    ------
    PeerError
        The state's models do not fit its registry: the saved state is damaged.
    """
    state, kind, settings, untrained = standing.state, standing.kind, standing.settings, standing.untrained
    plan = state.profile.open(state.round, untrained, state.agreed.squared_norm)
    if any(live.W.shape != untrained.shape for live in plan.live):
        raise PeerError("the state holds models that do not fit its registry: it is damaged")
    for name, member in state.members.items():
        member.retain(plan.sampled, held_since=plan.held.since_at(name) if plan.held else None)
    state.roster = kind.roster(state)
    state.repeats = kind.entry_to_repeat(state)
    opened = OpenRound.of(
        state,
        plan,
        now=now,
        interval=standing.clock.seconds,
        moments=state.is_warming_up(settings) or bool(state.registry.unscaled),
        pooled=kind.sends_sums,
        noisy=settings.noise is not None,
        decision=settings.objective.rule(state.seen, state.registry.labels),
        on_grids=kind.on_grids,
    )
    if standing.unsaved.open is not None and settings.deadline is not None:
        standing.unsaved.end_deadline(settings.deadline)
    standing.unsaved.collect_for(opened)
    return opened


def messages(standing: Standing, now: float) -> tuple[FromCoordinator, ...]:
    """Return all messages that a new client needs for the open round."""
    unsaved, state = standing.unsaved, standing.state
    if unsaved.open is None:
        return ()
    alarm, enquiry = unsaved.pending_alarm, unsaved.enquiry
    online = online_messages(state, standing.settings.learner.online)
    return (
        *unsaved.open.all_messages(state, online, now),
        *(() if alarm is None else (*alarm.models, alarm.asked)),
        *(() if enquiry is None else (enquiry.asked,)),
    )
