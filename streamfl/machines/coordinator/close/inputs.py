"""What moved or stands still in the features themselves, by the moments that updates carry anyway."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.input_baseline import InputBaseline
from streamfl.learning.drift.inputs import NAMED, Inputs
from streamfl.learning.drift.spread_baseline import Spread, SpreadBaseline
from streamfl.learning.profiles.base import Decisions, Restart
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.saved.announcements import MOST_NAMED, Announcement, with_places
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import (
    FeatureMoved,
    FeatureStuck,
    HoldoutRule,
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Restarted,
    RoundClosed,
    Update,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.registry import Registry
from streamfl.protocol.time_features import OF_TIME

# Sums are rounded to steps of at most a quarter of their deviation (`second_steps`). So the values of a round count
# as at least half a step apart, in scales of their feature: equal ones would seem to move with the rounding.
# docs/choices.md, "Inputs".
_ROUNDED = 1 / 8


def inputs_after(
    closing: Closing, decided: Decisions, state: CoordinatorState, sent: Mapping[str, Moments]
) -> tuple[Inputs, tuple[FeatureMoved, ...]]:
    """Return what is remembered of the means of features after a round, and which of them moved."""
    if are_arrivals_compared(closing):
        is_whole = 2 * len(sent) >= len(closing.senders)
    else:
        is_whole = bool(closing.counted.pooled) or closing.opened.message.asks.measured is None
    return state.inputs.after(state.round, sent, is_whole=is_whole, is_drift=any(map(_is_drift, decided)))


def described(closing: Closing, registry: Registry) -> dict[str, Moments]:
    """Return by client the moments in which a round is compared with those before.

    Where only a total of all clients is known, it counts as one client. If labels come later, they are those of the
    records that have come, and not of those whose labels have.
    """
    if are_arrivals_compared(closing):
        return _by_client(closing, lambda update: update.numbers.arrived)
    return sent_moments(closing, registry)


def are_arrivals_compared(closing: Closing) -> bool:
    """Tell whether records are compared as they come: clients describe them if labels come later.

    Labels come later if most clients have a watermark. Clients that must describe more records at once than they keep
    of those that come describe none.
    """
    senders = closing.senders
    delayed = 2 * sum(update.watermark is not None for update in senders) > len(senders)
    described = any(update.numbers.arrived is not None for update in senders)
    return delayed and described and not closing.counted.pooled


def baseline_after(
    closing: Closing, decided: Decisions, state: CoordinatorState, announced: Sequence[Announcement]
) -> InputBaseline:
    """Return the means since held-out records have been gathered, or if there are none since the last restart."""
    held = _held(closing, state)
    after = state.input_baseline.after(closing.means, since=held.since, renewed=held.renewed)
    if any(isinstance(one, InputsMoved) for one in decided):
        after = replace(after, explained=state.round)
    if any(isinstance(one, Restart) for one in decided):
        after = replace(after, announced=())
    for each in announced:
        explains = isinstance(each, InputsMoved) and bool(each.cause)
        most = 0 if explains else math.ceil(len(closing.senders) / 2)
        after = after.with_announced(state.round, _moves(each), most=most)
    return after


def spread_baseline_after(closing: Closing, state: CoordinatorState) -> SpreadBaseline:
    """Return how far records lie from the middle since held-out records have been gathered, as `baseline_after`."""
    held, explained = _held(closing, state), state.input_baseline.explained
    return state.spread_baseline.after(
        closing.spreads,
        registry=state.registry.version,
        since=lambda client: max(held.since_at(client), explained + 1),
    )


def _held(closing: Closing, state: CoordinatorState) -> HoldoutRule:
    """Return which records clients hold out, or since when there are any if they hold out none."""
    return closing.opened.plan.held or HoldoutRule(per_label=0, since=state.restarted + 1)


def spreads(closing: Closing, registry: Registry) -> dict[str, Spread]:
    """Return by client how far the records of its update lie from the middle; nothing of totals."""
    updates = () if closing.counted.pooled or not registry.features else closing.senders
    return {
        update.client: Spread(
            update.records, (update.numbers.squared_norm / update.records - 1.0) / len(registry.features)
        )
        for update in updates
    }


def lasting_moments(closing: Closing, registry: Registry) -> dict[str, Moments]:
    """Return by client the moments of features, in the form that its updates have from round to round.

    Without the moments of the first rounds, and of features that are new: these are of the values that are there,
    where second moments count a missing value as the mean. And without features of the time: a round of less than a
    day, or a year, always differs in them, so they explain no alarm.
    """
    sent = _by_client(closing, lambda update: _of_learnt(update) or _of_sums(update, registry))
    if OF_TIME.isdisjoint(registry.feature_names):
        return sent
    return {client: moments.among({*moments.features} - OF_TIME) for client, moments in sent.items()}


def sent_moments(closing: Closing, registry: Registry) -> dict[str, Moments]:
    """Return by client the moments of features that a round's updates carry, of those whose turn it was."""
    return _by_client(closing, lambda update: _of_scaling(update) or _of_learnt(update) or _of_sums(update, registry))


def _by_client(closing: Closing, moments: Callable[[Update], Moments | None]) -> dict[str, Moments]:
    updates = closing.counted.updates if closing.counted.pooled else closing.senders
    return {update.client: found for update in updates if (found := moments(update)) is not None}


def with_news(made: Sequence[Announcement], baseline: InputBaseline) -> tuple[Announcement, ...]:
    """Return the announcements of a round, without those of moved inputs that were announced before."""

    def is_known(each: Announcement) -> bool:
        moves = each.moved or _moves(each)  # features that move also vary more from what they were
        return isinstance(each, InputsMoved) and bool(moves) and not baseline.is_news(each.round, moves)

    return tuple(each for each in made if not is_known(each))


def _moves(made: Announcement) -> list[FeatureMoved]:
    """Return what has moved by an announcement; how far records lie from the middle counts as a feature.

    >>> found = InputsMoved(round=9, epoch=1, since=9, statistic=12.0, threshold=9.2, spread=(1.0, 4.0))
    >>> [(one.feature, one.before, round(one.after, 3)) for one in _moves(found)]
    [('', 0.0, 1.386)]
    """
    if not isinstance(made, InputsMoved) or made.spread is None:
        return [*made.moved]
    before, after = map(math.log, made.spread)
    return [*made.moved, FeatureMoved("", before, after, since=made.since)]


def with_moved(
    made: Sequence[Announcement],
    moved: tuple[FeatureMoved, ...],
    closed: RoundClosed,
    inputs: Inputs,
    members: Mapping[str, Member],
) -> tuple[Announcement, ...]:
    """Return the announcements of a round with the features that moved, in those of drifts or in one of its own.

    Parameters
    ----------
    members
        The ledger after the entry, which says where and when the records of the round were; empty if the features are
        of other records.
    """
    if not moved:
        return tuple(made)
    if any(map(_is_drift, made)):
        return tuple(replace(each, moved=moved) if _is_drift(each) else each for each in made)
    if any(isinstance(each, InputsMoved) for each in made):
        return tuple(_with_more(each, moved) if isinstance(each, InputsMoved) else each for each in made)
    clients = sorted({name for one in moved for name in one.clients})
    alone = InputsMoved(
        round=closed.round,
        epoch=closed.epoch,
        statistic=moved[0].evidence,
        threshold=inputs.threshold(closed.round),
        since=min(one.since for one in moved),
        drift=inputs.drift_before(closed.round),
        moved=moved,
        clients=tuple(clients[:MOST_NAMED]) if all(one.clients for one in moved) else (),
    )
    return (*made, with_places(alone, members) if members else alone)


def with_stuck(
    made: Sequence[Announcement],
    stuck: tuple[FeatureStuck, ...],
    closed: RoundClosed,
    threshold: float,
    members: Mapping[str, Member],
) -> tuple[Announcement, ...]:
    """Return the announcements of a round with one of the stuck sensors; `members` as of `with_moved`."""
    if not stuck:
        return tuple(made)
    found = InputsStuck(
        round=closed.round,
        epoch=closed.epoch,
        statistic=stuck[0].evidence,
        threshold=threshold,
        since=min(one.since for one in stuck),
        clients=tuple(sorted({one.client for one in stuck})),
        stuck=stuck,
    )
    return (*made, with_places(found, members) if members else found)


def _with_more(made: InputsMoved, moved: tuple[FeatureMoved, ...]) -> InputsMoved:
    """Return an announcement with further features."""
    names = {one.feature for one in made.moved}
    more = (one for one in moved if one.feature not in names)
    return replace(made, moved=(*made.moved, *more)[:NAMED])


def _is_drift(found: Restart | Announcement) -> bool:
    """Tell whether a decision or an announcement is of a drift, when it is found."""
    match found:
        case Restart(alarm=Alarm(cause="new-label")) | Restarted(cause="new-label"):
            return False
        case LocalDrift():
            return found.state == "latched"
    return isinstance(found, Restart | Restarted)


def _of_scaling(update: Update) -> Moments | None:
    moments = update.numbers.moments
    return moments if moments is not None and moments.count.size else None


def _of_learnt(update: Update) -> Moments | None:
    learnt = update.numbers.learnt
    return learnt.moments if isinstance(learnt, NativeLearnt) and learnt.moments.count.size else None


def _of_sums(update: Update, registry: Registry) -> Moments | None:
    C = update.numbers.second_moments
    return None if C is None else _of_second(C, registry)


def _of_second(C: FloatArray, registry: Registry) -> Moments:
    """Return the moments of registered features from the sum of z z^T, whose last row is the sum of z."""
    n = max(float(C[-1, -1]), 1.0)
    z = C[-1, :-1] / n
    variance = np.maximum(np.diag(C)[:-1] / n - z * z, _ROUNDED**2)
    count = np.where(np.isnan(registry.mean), 0.0, n)
    mean = np.nan_to_num(registry.mean) + registry.scale * z
    return Moments(registry.features, count, mean, n * variance * registry.scale**2)
