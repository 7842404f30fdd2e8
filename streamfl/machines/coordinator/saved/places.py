"""Where and when the last rounds of each client began, by which announcements tell positions and times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from streamfl.protocol.messages import Update

# The rounds of which beginnings are known, the newest included.
WINDOW = 32

# The partitions of a client of which beginnings are known.
MOST_PARTITIONS = 100

R = TypeVar("R", bound=tuple[int, ...])


@dataclass(frozen=True)
class Places:
    """Where and when the last rounds of one client began.

    Examples
    --------
    >>> places = Places({"p": ((7, 100), (9, 140))}, ((7, 1000, 1900), (9, 2000, 2900)))
    >>> places.first("p", 8, otherwise=180), places.first("p", 10, otherwise=180), places.span(8)
    (140, 180, (2000, 2900))
    """

    # By partition, each round in which its positions moved, with the position before.
    begun: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    # Each round whose records have times, with those of the first and the last record, as in `Numbers.times`.
    times: tuple[tuple[int, int, int], ...] = ()

    def after(self, update: Update) -> "Places":
        """Return the places after an update: at most `WINDOW` rounds, and none before the window."""
        t, begun, times = update.round, dict(self.begun), self.times
        for span in update.spans:
            known = begun.get(span.partition, ())
            if (known and known[-1][0] == t) or (not known and len(begun) >= MOST_PARTITIONS):
                continue  # an entry without good records moved positions in the same round before
            begun[span.partition] = (*_within(known, t), (t, span.start))
        if update.numbers.times is not None:
            times = (*_within(times, t), (t, *update.numbers.times))
        return Places(begun, times)

    def first(self, partition: str, since: int, *, otherwise: int) -> int:
        """Return the position at which a round began; `otherwise` if none has moved it since."""
        return next((position for t, position in self.begun.get(partition, ()) if t >= since), otherwise)

    def span(self, since: int) -> tuple[int, int] | None:
        """Return the times of the first and the last record from a round on; None if they are not known."""
        known = [(first, last) for t, first, last in self.times if t >= since]
        return (known[0][0], known[-1][1]) if known else None


def _within(rounds: tuple[R, ...], t: int) -> tuple[R, ...]:
    """Return rounds without the first one if it is before the window: each update adds one, so this is enough."""
    return rounds[1:] if rounds and rounds[0][0] <= t - WINDOW else rounds
