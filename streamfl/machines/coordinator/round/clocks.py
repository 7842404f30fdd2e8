"""The clocks of rounds at the coordinator: what ends a round, chosen once by settings."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low

from streamfl.machines.coordinator.settings import CoordinatorSettings


@dataclass(frozen=True)
class RoundClock:
    """Rounds that clients close when their buffers are full, or after some seconds."""

    seconds: float | None = None  # after which clients close their buffers; None: each closes its own when it is full

    def next_period(self, before: int | None, following: Iterable[int | None]) -> int | None:
        """Return the period of event time of the next round; None, as rounds have none."""
        return None


@dataclass(frozen=True)
class PeriodClock(RoundClock):
    """Rounds that take one period of event time after another."""

    def next_period(self, before: int | None, following: Iterable[int | None]) -> int | None:
        """Return the next period: see the function of this name."""
        return next_period(before, following)


def clock_of(settings: CoordinatorSettings) -> RoundClock:
    """Return the clock that settings name."""
    return PeriodClock(settings.interval) if settings.by_event_time else RoundClock(settings.interval)


def next_period(before: int | None, following: Iterable[int | None]) -> int:
    """Return the next period: that of the middle client, and at least the one after the last.

    So neither a gap nor a client far ahead or behind holds the others up: what comes too late for its period goes to
    the round that is open.

    Parameters
    ----------
    before
        The last period; None before the first.
    following
        By client, the period of its next record; None if it does not know one.

    >>> next_period(None, [7, 3, None]), next_period(4, [3, 9, 9]), next_period(4, [None])
    (3, 9, 5)
    """
    known = [period for period in following if period is not None]
    least = min(known, default=0) if before is None else before + 1
    return max(least, median_low(known)) if known else least
