"""The announcements of a closed round: noticed changes, restarts, and local drift."""

from collections.abc import Sequence

from streamfl.core.profiles.base import Restart
from streamfl.core.protocol.alarm import Alarm
from streamfl.core.protocol.messages import LocalDrift, Noticed, Restarted, RoundClosed

Announcement = Noticed | Restarted | LocalDrift


def announcements(
    closed: RoundClosed, alarm: Alarm | None, decided: Sequence[Restart | LocalDrift]
) -> tuple[Announcement, ...]:
    """Return the announcements of a round beside its ledger entry.

    Parameters
    ----------
    closed
        The entry.
    alarm
        A change that is no reason for a restart; None if there was none.
    decided
        The decisions of the profile.
    """
    return (*(() if alarm is None else (_noticed(closed, alarm),)), *map(_restarted, decided))


def _noticed(closed: RoundClosed, alarm: Alarm) -> Noticed:
    return Noticed(
        round=closed.round,
        epoch=closed.epoch,
        cause=alarm.cause,
        statistic=alarm.statistic,
        threshold=alarm.threshold,
        since=alarm.since,
        labels=alarm.labels,
    )


def _restarted(decision: Restart | LocalDrift) -> Restarted | LocalDrift:
    if isinstance(decision, LocalDrift):
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
    )
