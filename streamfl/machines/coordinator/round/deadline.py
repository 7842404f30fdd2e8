"""How long a round waits for updates: longer than its setting while most of them come too late.

Clients that come too late send their records again. If the next round closes as early, these are too late again, and
all work is lost: after a stop, when every client has a backlog, rounds would be learnt from one client each.

A host that hears that a round has closed begins no more updates for it. So the clients whose turn had not come are
too slow as well, though nothing of theirs comes too late: they are known by their first update for a later round.
"""

from dataclasses import dataclass, replace

# At most so many doublings of the setting. docs/choices.md, "How long a round waits".
MOST_DOUBLINGS = 2


@dataclass(frozen=True)
class Deadline:
    """How long the open round waits.

    Examples
    --------
    >>> deadline = Deadline(has_passed=True).next(in_time=2, took=5.0, least=5.0)
    >>> deadline = deadline.with_late("a").with_late("b").with_late("b")
    >>> deadline.seconds(5.0), deadline.with_late("c").seconds(5.0)
    (5.0, 10.0)
    >>> slow = deadline.with_late("c").next(in_time=5, took=7.0, least=5.0)
    >>> slow.seconds(5.0), slow.next(in_time=5, took=4.0, least=5.0).seconds(5.0)
    (10.0, 5.0)
    """

    # The updates in time of the round that closed last; None if its deadline did not close it.
    in_time: int | None = None
    # The members that have sent an update since then, too late or only for a later round.
    late: frozenset[str] = frozenset()
    doublings: int = 0
    came: float = 0.0  # when the last update of the open round came, in seconds
    has_passed: bool = False  # whether the deadline closes the open round

    def seconds(self, least: float) -> float:
        """Return how long the open round waits; `least` is the setting."""
        return least * float(2**self.doublings)

    def with_late(self, client: str) -> "Deadline":
        """Return the same after an update of a member that was not in time: twice as long once these are most."""
        noted = replace(self, late=self.late | {client})
        doubles = noted.are_most_late and not self.are_most_late
        return replace(noted, doublings=min(self.doublings + doubles, MOST_DOUBLINGS))

    @property
    def are_most_late(self) -> bool:
        """Tell whether more members were late for the round that closed last than in time."""
        return self.in_time is not None and len(self.late) > self.in_time

    def next(self, *, in_time: int, took: float, least: float) -> "Deadline":
        """Return the deadline of the next round: half as long if that was enough for this one.

        Parameters
        ----------
        in_time
            How many updates came in time.
        took
            Seconds from when they were waited for until the last of them came.
        """
        is_too_long = self.doublings > 0 and not self.are_most_late and took <= self.seconds(least) / 2.0
        return Deadline(in_time if self.has_passed else None, doublings=self.doublings - is_too_long)
