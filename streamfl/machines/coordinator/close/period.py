"""The period of event time that a round takes."""

from collections.abc import Iterable
from statistics import median_low


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
