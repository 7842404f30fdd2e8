"""The clocks: a real one, and one that is moved by hand. This is the only file that reads the time."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class SystemClock:
    """The machine's clock: seconds since 1970, so that the closing time of a round means the same everywhere."""

    def now(self) -> float:
        """Return the time."""
        return time.time()

    def sleep_until(self, moment: float) -> None:
        """Sleep until it is that time."""
        time.sleep(max(0.0, moment - time.time()))


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
        """Make it that time, never earlier."""
        self.time = max(self.time, moment)


def stopwatch() -> float:
    """Return seconds that only grow, for measuring durations."""
    return time.perf_counter()
