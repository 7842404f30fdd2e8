"""What comes next of the open round: for whom it waits, until when, and whether it is ready to be closed."""

from collections.abc import Iterator
from enum import Enum

from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.recovery import Recovery
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.standing import Standing
from streamfl.protocol.decisions import CoordinatorDecision


class Readiness(Enum):
    """What the open round is ready for."""

    WAIT = "somebody is waited for"
    CLOSE = "it can be closed, or its alarm settled"
    ABORT = "nothing can be learnt in this entry"


def close_if_ready(recovery: Recovery, now: float) -> list[CoordinatorDecision]:
    """Close the round or settle its alarm, unless a client is still waited for."""
    match readiness(recovery.standing, now):
        case Readiness.CLOSE:
            return recovery.close(now)
        case Readiness.ABORT:
            return recovery.abort(now)
        case Readiness.WAIT:
            return []


def close_if_due(recovery: Recovery, now: float) -> list[CoordinatorDecision]:
    """At the deadline close the round with what it has; without anything it stays open."""
    standing = recovery.standing
    due = closes_at(standing)
    if due is None or now < due:
        return []
    if standing.phase is not Phase.COLLECTING:
        return recovery.close(now)
    if _has_something(standing):
        standing.unsaved.pass_deadline()
        return recovery.close(now)
    standing.unsaved.restart_deadline(now)
    return []


def readiness(standing: Standing, now: float) -> Readiness:
    """Return what the open round is ready for."""
    unsaved, quorum = standing.unsaved, standing.settings.quorum
    if unsaved.open is None or _is_held(standing):
        return Readiness.WAIT
    lacks = next(waited_for(standing), None) is not None
    if unsaved.pending_alarm is not None or unsaved.enquiry is not None:
        if lacks:
            return Readiness.WAIT
        return Readiness.ABORT if _has_lost(standing, now) else Readiness.CLOSE
    is_enough = quorum is not None and len(unsaved.updates) >= quorum
    if lacks and not is_enough:
        return Readiness.WAIT
    if not is_enough and _has_newcomers(standing, now):
        return Readiness.ABORT
    return Readiness.CLOSE if _has_something(standing) else Readiness.WAIT


def waited_for(standing: Standing) -> Iterator[str]:
    """Yield the clients that are waited for, the last members first: mostly one of these is still missing.

    These are the present clients that have sent no update for the open round, or after an alarm no scores, or no
    answer to what they were asked. A client that joins later is waited for from its first update on, accepted or too
    late; with a deadline, one that left and comes back is waited for from its Join on. The coordinator does not wait
    for a client whose message was refused for its content.
    """
    unsaved, members, scoring = standing.unsaved, standing.state.members, standing.is_scoring
    at_fault = unsaved.refusals.at_fault
    if unsaved.enquiry is not None:
        asked = unsaved.enquiry.missing_clients
        yield from (name for name in asked if not members[name].left and _is_listed(standing, name, at_fault))
        return
    have = unsaved.scores if scoring else unsaved.updates
    for name in reversed(unsaved.updates if scoring else members):
        if name in have:
            continue
        present = scoring or (members[name].awaited and is_present(standing, members[name]))
        if present and _is_listed(standing, name, at_fault):
            yield name


def closes_at(standing: Standing) -> float | None:
    """Return when the open round closes with what it has; None if no time closes it."""
    unsaved, deadline = standing.unsaved, standing.deadline
    if unsaved.open is None or deadline is None or _is_held(standing):
        return None
    if unsaved.enquiry is not None:
        return unsaved.enquiry.since + deadline
    alarm = unsaved.pending_alarm
    return (unsaved.open.waited_from if alarm is None else alarm.since) + deadline


def _has_something(standing: Standing) -> bool:
    """Tell whether the round can be closed: it has enough updates, or some were refused."""
    unsaved = standing.unsaved
    return bool(unsaved.refusals.at_fault) or standing.kind.is_enough(unsaved.updates, standing.state)


def _is_held(standing: Standing) -> bool:
    """Tell whether an operator holds the open entry; one whose alarm is deliberated is finished first."""
    return standing.state.held and standing.phase is Phase.COLLECTING


def is_present(standing: Standing, member: Member) -> bool:
    """Tell whether a member has neither left nor expired."""
    limit = standing.settings.expire_after
    return not member.left and (limit is None or member.missed < limit)


def _is_listed(standing: Standing, name: str, at_fault: dict[str, str]) -> bool:
    """Tell whether a client can still send what the round waits for."""
    return name not in at_fault and standing.kind.not_listed(name, standing.state) is None


def _has_newcomers(standing: Standing, now: float) -> bool:
    """Tell whether clients that the round waits for can send an update for the next entry only.

    It waits for them as for all others: until the deadline, however often they start.
    """
    if _is_over(standing, now):
        return False
    members = standing.state.members
    awaited = (name for name, member in members.items() if member.awaited and is_present(standing, member))
    return standing.kind.has_newcomers(awaited, standing.state)


def _has_lost(standing: Standing, now: float) -> bool:
    """Tell whether a start is gone without which no total of the closing round can be told."""
    if _is_over(standing, now):
        return False
    alarm, enquiry = standing.unsaved.pending_alarm, standing.unsaved.enquiry
    pooled = () if alarm is None else alarm.closing.counted.pooled
    counted = pooled if enquiry is None else tuple(enquiry.asked.attempts)
    return any(standing.kind.is_lost(name, standing.state) for name in counted)


def _is_over(standing: Standing, now: float) -> bool:
    """Tell whether the deadline of the round has passed since it was opened for the first time."""
    deadline = standing.deadline
    return deadline is not None and now >= standing.unsaved.begun[1] + deadline
