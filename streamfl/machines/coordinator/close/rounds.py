"""A round closes, as a chain of values: granted -> counted -> observed -> decided -> concluded -> opened.

Each step takes the `Closing` of the step before. Two of them may have to ask clients first: what counts of what they
have sent, for some kinds of rounds; and what the profile decides, after an alarm. Nothing here catches exceptions:
`recovery` undoes a step that raises, and finds the update that caused it.
"""

from collections.abc import Sequence
from dataclasses import replace

from streamfl.errors import BrokenInvariantError
from streamfl.learning.profiles.base import Answer, Decisions, Deliberation
from streamfl.machines.coordinator.close.conclusion import conclusion
from streamfl.machines.coordinator.close.decision import decide
from streamfl.machines.coordinator.names import Grant
from streamfl.machines.coordinator.opening import open_round
from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.open_round import model_messages, online_messages, slot
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.round_kinds.base import NoTotal
from streamfl.machines.coordinator.standing import Standing
from streamfl.protocol.decisions import Commit, CoordinatorDecision, Finished, Publish, Refused
from streamfl.protocol.messages import Score


def close(standing: Standing, now: float) -> list[CoordinatorDecision]:
    """Close the round with the updates that have come; some kinds ask clients first, and are called again."""
    kind, state, unsaved = standing.kind, standing.state, standing.unsaved
    counted: CountedUpdates | Enquiry | NoTotal
    enquiry, unsaved.enquiry = unsaved.enquiry, None
    if enquiry is not None and enquiry.closing is not None:
        closing = enquiry.closing
        counted = kind.count_after(enquiry, closing, state)
    else:
        closing = _grant_names(standing)
        unsaved.waiting = closing.grant.waiting
        if not closing.senders:
            return _conclude(standing, closing, (), now)
        counted = kind.count(closing, state)
    match counted:
        case NoTotal():
            return abort(standing, now, counted)
        case Enquiry(asked=asked, closing=asked_about):
            unsaved.enquiry = replace(counted, since=now)
            if asked_about is not None:
                unsaved.updates = dict(asked_about.updates)
            return [Commit((asked,))]
    closing, decided = decide(replace(closing, counted=counted), standing)
    if isinstance(decided, Sequence):
        return _conclude(standing, closing, decided, now)
    return _deliberate(standing, closing, decided, (), now)


def abort(standing: Standing, now: float, why: NoTotal | None = None) -> list[CoordinatorDecision]:
    """Close the entry without learning anything: its records stay pending, and the round is opened again.

    Parameters
    ----------
    why
        Why no total can be told; None: for another reason.
    """
    state, unsaved, why = standing.state, standing.unsaved, why or NoTotal()
    updates = unsaved.updates
    unsaved.enquiry, unsaved.pending_alarm = None, None
    closing = Closing(
        unsaved.open_round,
        {name: updates[name] for name in sorted(updates) if not updates[name].records},
        Grant(state.registry, frozenset(), frozenset()),
        excluded=frozenset(name for name, update in updates.items() if update.records) - why.silent,
    )
    if why.periods is not None:
        state.period = standing.clock.next_period(state.period, why.periods)
    for refusal in why.left_out:
        unsaved.refusals.announce_instead(refusal)
    left_out = [Refused(refusal.client, refusal.reason) for refusal in why.left_out]
    return [*left_out, *_conclude(standing, closing, (), now)]


def settle(standing: Standing, now: float) -> list[CoordinatorDecision]:
    """Pass the scores to the profile; clients that have sent none are left out, and some kinds ask first."""
    unsaved, alarm = standing.unsaved, standing.unsaved.pending_alarm
    if alarm is None or alarm.closing.aggregation is None:
        raise BrokenInvariantError("a round without an alarm is to be settled")
    enquiry, unsaved.enquiry = unsaved.enquiry, None
    scored = standing.kind.count_scores(alarm, unsaved.scores, enquiry, standing.state.registry)
    if isinstance(scored, Enquiry):
        unsaved.enquiry = replace(scored, since=now)
        return [Publish((scored.asked,))]
    answer = alarm.closing.aggregation.answer(scored, alarm.live)
    alarm.deliberation.answer(answer)
    return _deliberate(standing, alarm.closing, alarm.deliberation, (*alarm.answers, answer), now)


def close_without_scores(standing: Standing, now: float) -> list[CoordinatorDecision]:
    """Close the round, without any scores after an alarm."""
    decisions = close(standing, now)
    while standing.is_scoring:
        standing.unsaved.scores = {}
        decisions = settle(standing, now)
    return decisions


def _grant_names(standing: Standing) -> Closing:
    """Return the round as it closes: its updates, and which of their names are granted."""
    state, unsaved = standing.state, standing.unsaved
    updates = {client: unsaved.updates[client] for client in sorted(unsaved.updates)}
    grant = Grant.of(
        list(updates.values()),
        state.registry,
        standing.settings.limits,
        spent={name: state.members[name].spent for name in state.active() | updates.keys()},
        t=state.round,
        fewest=standing.kind.min_clients_per_name,
    )
    return Closing(unsaved.open_round, updates, grant)


def _deliberate(
    standing: Standing, closing: Closing, deliberation: Deliberation, answers: tuple[Answer, ...], now: float
) -> list[CoordinatorDecision]:
    """Publish the next candidates to be scored; if there are none, let the profile conclude."""
    state, unsaved, ask = standing.state, standing.unsaved, deliberation.ask()
    if ask is None:
        unsaved.pending_alarm = None
        decision = state.profile.conclude(deliberation)
        decided = state.profile.advance(state.round) if decision is None else (decision,)
        return _conclude(standing, closing, decided, now)
    asked = Score(
        entry=state.entry,
        round=state.round,
        epoch=state.profile.epoch,
        registry=state.registry.version,
        slots=tuple(slot(model, state) for model in ask.models),
        stage=len(answers) + 1,
        relabel=ask.relabel,
        wants_untrained_loss=ask.wants_untrained_loss,
        resumed=state.resumed,
    )
    models = model_messages(ask.models, state, on_grids=standing.kind.on_grids)
    unsaved.pending_alarm = PendingAlarm(closing, deliberation, asked, models, ask.models, now, answers)
    unsaved.scores = {}
    return [Publish((*models, asked))]


def _conclude(standing: Standing, closing: Closing, decided: Decisions, now: float) -> list[CoordinatorDecision]:
    """Enter the round into the ledger and open the next, in one transaction."""
    unsaved, kind, settings = standing.unsaved, standing.kind, standing.settings
    made = conclusion(
        closing, kind.with_known_clients(decided), standing.state, unsaved.refusals, settings, unsaved.logs
    )
    state, agreed = made.state, made.agreement
    if agreed is not None and agreed.re_expression is not None:
        state.profile.transform(agreed.re_expression)
    if closing.excluded is None:
        periods = [update.period for update in closing.updates.values()]
        state.period = standing.clock.next_period(state.period, periods)
    for refusal in made.evicted:
        unsaved.refusals.announce_instead(refusal)
    standing.state = state
    opened = open_round(standing, now)
    # Published once: when a round is opened again, clients have it.
    change = None if opened.is_whole or agreed is None else agreed.change
    learnt = () if agreed is None else online_messages(state, settings.learner.online, change)
    entry = replace(made.entry, model=opened.digest(state), promotions=state.profile.promotions)
    messages = opened.new_messages(state, before=closing.opened, online=learnt)
    ended = [Finished()] if made.evicted and not state.active() else []
    return [Commit((entry, *made.announced, *messages)), *ended]
