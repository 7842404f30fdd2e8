"""Whether a drift is the one that was found at other clients before: it began at one time, and reached them later.

In a round every client has about as many records, however long they took it. So a drift that begins at one time for
all reaches clients with few records in early rounds, and the others in later ones; by the clock it is the reverse.
Findings are one drift if their clients had records of the same time: between the beginning of the round before the
one to which the change is dated, and the end of the round of the alarm. Times of records decide this. Without them
rounds do, where a client that was silent for some rounds has records of all of these.

Nothing that learns depends on it: it corrects what is told.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_high, median_low

from streamfl.machines.coordinator.saved.announcements import Announcement, with_places
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.messages import LocalDrift, Restarted

# The last drifts that later findings are compared with.
MOST_DRIFTS = 16

# The last findings of a drift whose dates are kept.
MOST_FINDINGS = 100

# A drift is not local once so large a part of the clients was named for it, in one round or in several: the same part
# that the detector `excess` demands of a round's records.
MOST_LOCAL = 0.3

Interval = tuple[int, int]


@dataclass(frozen=True)
class Extent:
    """Between which rounds a change lies, and between which times if these are known, in milliseconds since 1970."""

    rounds: Interval
    times: Interval | None = None

    def meets(self, other: "Extent") -> bool:
        """Tell whether two changes may lie at one time: by their times, or by rounds if one has no times.

        >>> Extent((58, 59), (100, 200)).meets(Extent((58, 59), (201, 300)))
        False
        >>> Extent((58, 59), (100, 200)).meets(Extent((59, 62)))
        True
        """
        if self.times is not None and other.times is not None:
            return _meet(self.times, other.times)
        return _meet(self.rounds, other.rounds)


@dataclass(frozen=True)
class Drift:
    """A drift that was announced, and the clients that were named for it."""

    first: LocalDrift | Restarted  # the announcement that found it, without positions and clients
    extent: Extent  # where the change lies at the clients of that announcement: the medians over them
    clients: tuple[str, ...] = ()  # the clients named as having drifted alone, for as long as that may be so
    is_common: bool = False  # whether it is not local: it led to a restart, or many clients were named
    # The rounds to which its last findings date it, by which the later states of a branch are known to be of it.
    since: tuple[int, ...] = ()


def in_one_drift(
    drifts: Sequence[Drift], made: Iterable[Announcement], members: Mapping[str, Member]
) -> tuple[tuple[Drift, ...], tuple[Announcement, ...]]:
    """Return the last drifts, and the announcements with the drift that each belongs to and corrections behind them.

    Parameters
    ----------
    drifts
        The drifts announced before, the oldest first.
    made
        The announcements of a round, with positions.
    members
        The ledger after the round, by client.
    """
    known, told = list(drifts), list[Announcement]()
    for each in made:
        if not isinstance(each, LocalDrift | Restarted) or (
            isinstance(each, Restarted) and each.cause == "new-label"
        ):
            told.append(each)
        elif isinstance(each, LocalDrift) and each.state != "latched":
            told.append(replace(each, drift=_of_clients(known, each)))
        else:
            told += _enter(known, each, members)
    return tuple(known[-MOST_DRIFTS:]), tuple(told)


def _enter(known: list[Drift], found: LocalDrift | Restarted, members: Mapping[str, Member]) -> list[Announcement]:
    """Enter a finding among the drifts; return it, and the correction of those that it shows not to be local."""
    extents = _extents(found, members)
    at = next((i for i in reversed(range(len(known))) if _is_same(known[i], found, extents)), len(known))
    if at == len(known):
        known.append(Drift(replace(found, positions={}, clients=()), _middle(found, extents)))
    drift = known[at]
    alone = found.clients if isinstance(found, LocalDrift) else ()
    named = tuple(sorted({*drift.clients, *alone}))
    is_several = bool(set(named).difference(alone)) and len(named) >= MOST_LOCAL * len(members)
    is_common = drift.is_common or isinstance(found, Restarted) or is_several
    since = (*drift.since, found.since)[-MOST_FINDINGS:]
    known[at] = replace(drift, clients=() if is_common else named, is_common=is_common, since=since)
    told: list[Announcement] = [replace(found, drift=drift.first.round)]
    if isinstance(found, LocalDrift):
        told = [replace(found, drift=drift.first.round, behind=_behind(found, extents, members))]
    return [*told, with_places(_correction(drift.first, named, found), members)] if is_common and named else told


def _is_same(drift: Drift, found: LocalDrift | Restarted, extents: Mapping[str, Extent]) -> bool:
    """Tell whether more than half of the clients of a finding had records of the time of an earlier drift.

    One client with wrong times decides alone only of itself.
    """
    new = [extent for client, extent in extents.items() if client not in drift.clients]
    if not new:
        return bool(extents) and found.since <= drift.first.round
    return 2 * sum(drift.extent.meets(extent) for extent in new) > len(new)


def _of_clients(known: Sequence[Drift], local: LocalDrift) -> int:
    """Return the drift for which clients were latched: a finding of it is dated to the same round; 0 if forgotten."""
    return next((drift.first.round for drift in reversed(known) if local.since in drift.since), 0)


def _correction(first: LocalDrift | Restarted, clients: tuple[str, ...], found: LocalDrift | Restarted) -> LocalDrift:
    return LocalDrift(
        round=found.round,
        epoch=found.epoch,
        clients=clients,
        labels=first.labels,
        since=first.since,
        state="corrected",
        statistic=first.statistic,
        threshold=first.threshold,
        drift=first.round,
    )


# --- where a change lies -------------------------------------------------------------------------------------------


def _extents(found: LocalDrift | Restarted, members: Mapping[str, Member]) -> dict[str, Extent]:
    """Return where a change lies at each client concerned: those named, or if none is, all that are present."""
    names = found.clients or sorted(name for name, member in members.items() if not member.left)
    known = {name: _extent(members[name], found.since, found.round) for name in names if name in members}
    return {name: extent for name, extent in known.items() if extent is not None}


def _extent(member: Member, since: int, t: int) -> Extent | None:
    """Return where a change lies at one client, from the beginning of the round before `since` on."""
    rounds = sorted({r for begun in member.places.begun.values() for r, _ in begun})
    later = [r for r in rounds if r >= since]
    if not later:
        return None
    before = [r for r in rounds if r < since][-2:]
    # The one before `since` has records of all rounds in which the client was silent before it.
    first = before[0] + 1 if len(before) == 2 else min([*before, since])
    return Extent((first, t), member.places.span(min([*before[-1:], since])))


def _middle(found: LocalDrift | Restarted, extents: Mapping[str, Extent]) -> Extent:
    """Return the medians over the clients concerned."""
    rounds = [extent.rounds for extent in extents.values()] or [(found.since, found.round)]
    times = [extent.times for extent in extents.values() if extent.times is not None]
    return Extent(_medians(rounds), _medians(times) if times else None)


def _medians(intervals: Collection[Interval]) -> Interval:
    return median_low([first for first, _ in intervals]), median_high([last for _, last in intervals])


def _behind(found: LocalDrift, extents: Mapping[str, Extent], members: Mapping[str, Member]) -> int:
    """Count the other present clients whose records all are of before the change."""
    times = _middle(found, extents).times
    if times is None:
        return 0
    others = [member for name, member in members.items() if name not in found.clients and not member.left]
    return sum(1 for member in others if member.places.times and member.places.times[-1][2] < times[0])


def _meet(a: Interval, b: Interval) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
