"""The announcements of a closed round: noticed changes, restarts, and local drift, with positions and times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_high, median_low

from streamfl.learning.profiles.base import Decision, Decisions
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.places import WINDOW
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import InputsMoved, InputsStuck, LocalDrift, Noticed, Restarted, RoundClosed

Announcement = Noticed | Restarted | LocalDrift | InputsMoved | InputsStuck

# The most partitions that an announcement names: with names of 256 bytes, 32 KiB.
MOST_NAMED = 100

# The most labels of which it is said what they were called.
MOST_RENAMED = 20


def announcements(
    closed: RoundClosed,
    alarm: Alarm | None,
    decided: Decisions,
    members: Mapping[str, Member],
    labels: Sequence[str] = (),
) -> tuple[Announcement, ...]:
    """Return the announcements of a round next to its ledger entry.

    Parameters
    ----------
    alarm
        A change that is no reason for a restart; None if there was none.
    members
        The ledger after the entry, by client.
    labels
        The labels of the round, in the order of models' columns.
    """
    noticed = () if alarm is None else (_notice(closed, alarm),)
    made = (*noticed, *(_announce(each, labels) for each in decided))
    return tuple(with_places(each, members) for each in made)


def with_places(made: Announcement, members: Mapping[str, Member]) -> Announcement:
    """Return an announcement with the positions and times of its clients: see `Finding`."""
    since = max(made.since, made.round - WINDOW + 1)
    named = () if isinstance(made, Noticed) else tuple(name for name in made.clients if name in members)
    alone = isinstance(made, LocalDrift | InputsStuck) or (isinstance(made, InputsMoved) and named)
    others = () if alone else sorted(members.keys() - set(named))
    return replace(
        made,
        positions=_positions([members[name] for name in (*named, *others)], since),
        times=_times([members[name] for name in named or others], since),
        known_since=since,
    )


def _positions(members: Sequence[Member], since: int) -> dict[str, tuple[int, int]]:
    """Return by partition the positions between which the records of these members lie since a round."""
    found: dict[str, tuple[int, int]] = {}
    for member in members:
        for partition, end in sorted(member.positions.items()):
            first = member.places.first(partition, since, otherwise=end)
            before = found.get(partition)
            if before is not None:  # several clients in one partition
                found[partition] = min(before[0], first), max(before[1], end)
            elif first < end and len(found) < MOST_NAMED:
                found[partition] = first, end
    return found


def _times(members: Sequence[Member], since: int) -> tuple[int, int] | None:
    """Return the median times of the first and the last record since a round."""
    known = [span for span in (member.places.span(since) for member in members) if span is not None]
    if not known:
        return None
    return median_low([first for first, _ in known]), median_high([last for _, last in known])


def _notice(closed: RoundClosed, alarm: Alarm) -> Noticed:
    return Noticed(
        round=closed.round,
        epoch=closed.epoch,
        cause=alarm.cause,
        statistic=alarm.statistic,
        threshold=alarm.threshold,
        since=alarm.since,
        labels=alarm.labels,
    )


def _announce(decision: Decision, labels: Sequence[str]) -> Restarted | LocalDrift | InputsMoved:
    if isinstance(decision, LocalDrift | InputsMoved):
        return decision
    alarm = decision.alarm
    return Restarted(
        round=decision.round,
        epoch=decision.epoch,
        cause=alarm.cause,
        statistic=alarm.statistic,
        threshold=alarm.threshold,
        chosen=decision.chosen,
        since=alarm.since,
        clients=alarm.clients,
        labels=alarm.labels,
        scores=decision.scores,
        clients_better=decision.clients_better if decision.clients_better[1] > 1 else (0, 0),
        renamed=_renamed(decision.permutation, labels),
        online_models_begin_again=decision.begins_again,
    )


def _renamed(permutation: Sequence[int], labels: Sequence[str]) -> dict[str, str]:
    """Return what labels were called before, of those that were called otherwise.

    >>> _renamed((0, 2, 1), ("good", "scrap", "rework"))
    {'scrap': 'rework', 'rework': 'scrap'}
    """
    if len(permutation) > len(labels):
        return {}
    moved = [(labels[a], labels[b]) for a, b in enumerate(permutation) if a != b]
    return dict(moved[:MOST_RENAMED])
