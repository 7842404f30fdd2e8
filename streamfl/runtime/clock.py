"""The clocks: a real one, and one that is moved by hand. This is the only file that reads the time."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamfl.core.errors import BrokenInvariantError

# A service looks at least so often (seconds) whether it is to stop.
LONGEST_WAIT = 0.5


@dataclass(frozen=True)
class SystemClock:
    """The machine's clock: seconds since 1970, so that the closing time of a round means the same everywhere."""

    def now(self) -> float:
        """Return the time."""
        return time.time()

    def sleep_until(self, moment: float) -> None:
        """Sleep until it is that time."""
        time.sleep(max(0.0, moment - time.time()))


@dataclass(frozen=True)
class ListeningClock(SystemClock):
    """The machine's clock of a service, which listens while it waits.

    Parameters
    ----------
    listen
        Returns when something may have arrived, or after so many seconds.
    """

    listen: Callable[[float], None]

    def sleep_until(self, moment: float) -> None:
        """Return when it is that time, or earlier when there may be something to do."""
        self.listen(max(0.0, min(moment - time.time(), LONGEST_WAIT)))


@dataclass
class ManualClock:
    """A clock that only moves when told to, or when something waits for it.

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
        """Make it that time, never earlier.

        Raises
        ------
        BrokenInvariantError
            It is never that time: everyone waits for another one.
        """
        if moment == math.inf:
            raise BrokenInvariantError("every machine waits for another one")
        self.time = max(self.time, moment)


def stopwatch() -> float:
    """Return seconds that only grow, for measuring durations."""
    return time.perf_counter()
