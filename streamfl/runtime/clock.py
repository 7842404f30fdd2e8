"""The clocks: a real one and a manual one. This is the only file that reads the time."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamfl.core.errors import BrokenInvariantError

# The longest wait of a service (seconds), after which it checks whether to stop.
LONGEST_WAIT = 0.5


@dataclass(frozen=True)
class SystemClock:
    """The system clock: seconds since 1970, so that the closing time of a round means the same on every host."""

    def now(self) -> float:
        """Return the time."""
        return time.time()

    def sleep_until(self, moment: float) -> None:
        """Sleep until that time."""
        time.sleep(max(0.0, moment - time.time()))


@dataclass(frozen=True)
class ListeningClock(SystemClock):
    """The system clock for a service that listens while it waits.

    Parameters
    ----------
    listen
        Returns when a message may have arrived, or after so many seconds.
    """

    listen: Callable[[float], None]

    def sleep_until(self, moment: float) -> None:
        """Wait until that time, or until something may have arrived."""
        self.listen(max(0.0, min(moment - time.time(), LONGEST_WAIT)))


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
