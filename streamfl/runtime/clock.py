"""The clocks: a real one and a manual one. This is the only file that reads the time."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamfl.errors import BrokenInvariantError

# The longest wait of a service (seconds), after which it checks whether to stop.
LONGEST_WAIT = 0.5


@dataclass(frozen=True)
class SystemClock:
    """The system's monotonic clock: nobody sets it, so rounds continue when the time of day is set, ahead or back."""

    def now(self) -> float:
        """Return the time, in seconds from when this machine was started, or the like."""
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        """Sleep until that time."""
        time.sleep(max(0.0, moment - self.now()))


@dataclass(frozen=True)
class ListeningClock(SystemClock):
    """The system clock for a service that listens while it waits."""

    listen: Callable[[float], None]  # returns when a message may have arrived, or after this many seconds

    def sleep_until(self, moment: float) -> None:
        """Wait until that time, or until something may have arrived."""
        self.listen(max(0.0, min(moment - self.now(), LONGEST_WAIT)))


@dataclass
class ManualClock:
    """A clock that moves only when it is set, or when a node waits for a time.

    >>> clock = ManualClock()
    >>> clock.sleep_until(2.5)
    >>> clock.now()
    2.5
    """

    time: float = 0.0

    def now(self) -> float:
        """Return the time."""
        return self.time

    def sleep_until(self, moment: float) -> None:
        """Advance to that time; never go back.

        Raises
        ------
        BrokenInvariantError
            The time is infinite: every machine waits for another one.
        """
        if moment == math.inf:
            raise BrokenInvariantError("every machine waits for another one")
        self.time = max(self.time, moment)


def stopwatch() -> float:
    """Return monotonic seconds, for measuring durations."""
    return time.perf_counter()
