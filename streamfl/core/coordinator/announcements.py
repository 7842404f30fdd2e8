"""What is announced of a closed round: a change that was noticed, restarts, and clients that drifted alone."""

from collections.abc import Sequence

from streamfl.core.profiles.base import Restart
from streamfl.core.protocol.alarm import Alarm
from streamfl.core.protocol.messages import LocalDrift, Noticed, Restarted, RoundClosed

Announcement = Noticed | Restarted | LocalDrift


def announcements(
    closed: RoundClosed, alarm: Alarm | None, decided: Sequence[Restart | LocalDrift]
) -> tuple[Announcement, ...]:
    """Return what is announced of a round beside its entry in the ledger.

    Parameters
    ----------
    closed
        The entry.
    alarm
        A change that is no reason for a restart, if there was one.
    decided
        What the profile has decided.
    """
    return (*(() if alarm is None else (_noticed(closed, alarm),)), *map(_decided, decided))


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


def _decided(said: Restart | LocalDrift) -> Restarted | LocalDrift:
    if isinstance(said, LocalDrift):
        return said
    alarm = said.alarm
    return Restarted(
        round=said.round,
        epoch=said.epoch,
        cause=alarm.cause,
        statistic=alarm.statistic,
        threshold=alarm.threshold,
        chosen=said.chosen,
        since=alarm.since,
        clients=alarm.clients,
        labels=alarm.labels,
    )
