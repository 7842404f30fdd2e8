"""A closed round enters the ledger: the state after it, as a function of the state before it.

The data flow says what depends on what. The entry names the registry under which the clients worked. What was learnt
online is merged under the labels that are agreed on after it. Only then does the next round begin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamfl.learning.online_models import Renewal
from streamfl.learning.profiles.base import Restart
from streamfl.machines.coordinator.close.agreed import Agreed, agreed
from streamfl.machines.coordinator.close.entry import entered, evicted
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.round.open_round import next_measured
from streamfl.machines.coordinator.round.refusals import Refusals
from streamfl.machines.coordinator.saved.announcements import Announcement, announcements
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.one_drift import in_one_drift
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import AgreedState, LocalDrift, Refusal, RoundClosed

Decided = Sequence[Restart | LocalDrift]


@dataclass(frozen=True, eq=False)
class Concluded:
    """What follows from a closed round.

    Parameters
    ----------
    state
        The state after it, in which the next round is not open yet. The profile is the same object as before.
    entry
        The ledger entry, without the fields that depend on the next round.
    announced
        What people are told beside it.
    evicted
        What is told of members that are evicted.
    change
        The change of the agreed state of the online models; None: all of it.
    agreed
        What clients agree on from now on; None if nothing was learnt.
    """

    state: CoordinatorState
    entry: RoundClosed
    announced: tuple[Announcement, ...]
    evicted: list[Refusal]
    change: Any = None
    agreed: Agreed | None = None


def concluded(
    closing: Closing,
    decided: Decided,
    state: CoordinatorState,
    refusals: Refusals,
    settings: CoordinatorSettings,
    logs: Mapping[str, str],
) -> Concluded:
    """Return what follows from a closed round.

    Parameters
    ----------
    closing
        The round; without records nothing is learnt from it.
    decided
        The decisions of the profile.
    state
        The state before it.
    refusals
        The refusals since the entry was opened.
    settings
        How the coordinator works.
    logs
        By partition, the identity of the log that the updates are about, where it is known.
    """
    entry, members = entered(closing, state.members, refusals.count)
    members, told = evicted(members, refusals, closing.updates, entry.entry)
    after = replace(state, entry=state.entry + 1, members=members, logs=_logs(closing, logs) | state.logs)
    if closing.observed is None:
        return Concluded(after, entry, (), told)
    made = announcements(entry, state.profile.noticed, decided, members)
    drifts, announced = in_one_drift(state.drifts, made, members)
    restart = next((decision for decision in decided if isinstance(decision, Restart)), None)
    now_agreed = agreed(closing, state, settings, restarted=restart is not None)
    online, change = _merged(closing, state, now_agreed, restart, settings)
    influence = closing.counted.influence
    after = replace(
        after,
        round=state.round + 1,
        members=_with_costs(members, closing.grant.cost),
        drifts=drifts,
        restart=None if restart is not None else state.restart,
        influence=state.influence if influence is None else influence.hidden(settings.secret),
        agreement=now_agreed.agreement,
        known_labels=now_agreed.known_labels,
        restarted=now_agreed.restarted,
        rescaled=now_agreed.rescaled,
        online=online,
        repeats=0,
    )
    after = replace(after, measured=next_measured(after))
    return Concluded(after, entry, announced, told, change, now_agreed)


def _logs(closing: Closing, logs: Mapping[str, str]) -> dict[str, str]:
    reached = (name for update in closing.updates.values() for name in update.reached)
    return {name: logs[name] for name in reached if name in logs}


def _with_costs(members: Mapping[str, Member], cost: Mapping[str, int]) -> dict[str, Member]:
    """Return the ledger in which members have paid for the names that they have brought alone."""
    paid = {name: replace(members[name], spent=members[name].spent + more) for name, more in cost.items()}
    return {**members, **paid}


def _merged(
    closing: Closing, state: CoordinatorState, now: Agreed, restart: Restart | None, settings: CoordinatorSettings
) -> tuple[AgreedState | None, Any]:
    """Return the agreed state of the online models after the round, and its change."""
    online, labels = settings.learner.online, now.agreement.registry.labels
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
        renewal=None if restart is None else Renewal(restart.chosen == "incumbent", restart.permutation),
        limits=settings.limits,
    )
    return merged
