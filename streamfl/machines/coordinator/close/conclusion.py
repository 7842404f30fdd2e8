"""A closed round enters the ledger: the state after it, as a function of the state before it.

The data flow says what depends on what. The entry names the registry under which the clients worked. What was learnt
online is merged under the labels that are agreed on after it. Only then does the next round begin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streamfl.learning.pooling.sums import EVERYBODY
from streamfl.learning.profiles.base import Decisions, Restart
from streamfl.machines.coordinator.close.entry import enter, evict
from streamfl.machines.coordinator.close.inputs import (
    are_arrivals_compared,
    baseline_after,
    described,
    inputs_after,
    spread_baseline_after,
    with_moved,
    with_news,
    with_stuck,
)
from streamfl.machines.coordinator.close.next_agreement import NextAgreement, next_agreement
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.round.refusals import Refusals
from streamfl.machines.coordinator.round.turns import next_measured
from streamfl.machines.coordinator.saved.announcements import Announcement, announcements
from streamfl.machines.coordinator.saved.one_drift import in_one_drift
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import Refusal, RoundClosed


@dataclass(frozen=True, eq=False)
class Conclusion:
    """What follows from a closed round."""

    # The state after it, in which the next round is not open yet. The profile is the same object as before.
    state: CoordinatorState
    entry: RoundClosed  # the ledger entry, without the fields that depend on the next round
    announced: tuple[Announcement, ...]  # what else people are told
    evicted: list[Refusal]  # what is told of members that are evicted
    agreement: NextAgreement | None = None  # what clients agree on from now on; None if nothing was learnt


def conclusion(
    closing: Closing,
    decided: Decisions,
    state: CoordinatorState,
    refusals: Refusals,
    settings: CoordinatorSettings,
    logs: Mapping[str, str],
) -> Conclusion:
    """Return what follows from a closed round.

    Parameters
    ----------
    closing
        The round; without records nothing is learnt from it.
    refusals
        The refusals since the entry was opened.
    logs
        By partition, the identity of the log that the updates are about, where it is known.
    """
    found = {name: logs[name] for update in closing.updates.values() for name in update.reached if name in logs}
    entry, members = enter(closing, state.members, refusals)
    members, told = evict(members, refusals, closing.updates, entry.entry)
    after = replace(state, entry=state.entry + 1, resumed=0, members=members, logs=found | state.logs)
    if closing.observed is None:
        return Conclusion(after, entry, (), told)
    sent = described(closing, state.registry)
    inputs, moved = inputs_after(closing, decided, state, sent)
    labels = state.agreement.registry.labels if state.agreement is not None else ()
    made = announcements(entry, state.profile.noticed, decided, members, labels)
    early = are_arrivals_compared(closing)
    made = with_news(with_moved(made, moved, entry, inputs, {} if early else members), state.input_baseline)
    standstill, stuck = state.standstill.after(state.round, sent)
    made = with_stuck(made, stuck, entry, standstill.threshold, {} if early else members)
    drifts, announced = in_one_drift(state.drifts, made, members)
    restart = next((decision for decision in decided if isinstance(decision, Restart)), None)
    agreed, influence = next_agreement(closing, state, settings, restart), closing.counted.influence
    after = replace(
        after,
        round=state.round + 1,
        drifts=drifts,
        restart=None if restart is not None else state.restart,
        inputs=inputs.among({*members, EVERYBODY}, {*after.active(), EVERYBODY}),
        input_baseline=baseline_after(closing, decided, state, announced).among({*after.active(), EVERYBODY}),
        spread_baseline=spread_baseline_after(closing, state).among(after.active()),
        standstill=standstill.among(members, after.active()),
        influence=state.influence if influence is None else influence.hidden(settings.secret),
        agreement=agreed.agreement,
        known_labels=agreed.known_labels,
        restarted=agreed.restarted,
        rescaled=agreed.rescaled,
        online=agreed.online,
        seen=settings.objective.after(state.seen, closing.counted.updates, agreed.agreement.registry.labels),
        repeats=0,
    )
    measured = next_measured(after, asks_all=inputs.are_suspected and not early)
    return Conclusion(replace(after, measured=measured), entry, announced, told, agreed)
