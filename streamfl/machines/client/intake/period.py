"""Rounds by event time: a round ends where a client's records reach the next period.

Time is cut into periods of equal length, numbered from 1970 on; all clients work on the same one. A client's records
keep their order: the round takes those before the first one of a later period. One that comes after it, though it was
measured before, is late: it goes to the round that is open. A lone record does not end a round: of it and those after
it most must be of a later period, so that one false clock cannot.
"""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.records import Batch

# A period ends at a record of a later one if most of this many records from it on are of later ones as well.
AGREEING = 5


def periods(batches: Sequence[Batch], length: float) -> FloatArray:
    """Return the period of each good record, NaN without a time; shape (n,).

    Parameters
    ----------
    length
        Seconds of a period.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> times = np.array([0.0, 59.9, 60.0, np.nan])
    >>> batch = Batch(Span("p", 0, 4), np.arange(4), (), np.ones((4, 0)), np.zeros(4), times=times)
    >>> periods([batch], 60.0)
    array([ 0.,  0.,  1., nan])
    """
    times = [np.full(len(batch), np.nan) if batch.times is None else batch.times for batch in batches]
    return np.floor(np.concatenate([np.zeros(0), *times]) / length)


def count_before_end(of: FloatArray, period: int, *, ended: bool) -> int | None:
    """Return how many records come before the end of a period; None if it is not known yet.

    Parameters
    ----------
    of
        The period of each record, shape (n,).

    Examples
    --------
    >>> of = np.array([3.0, 3.0, 9.0, 3.0, 3.0, 4.0, 3.0, 4.0, 4.0, 4.0])
    >>> count_before_end(of, 3, ended=False), *(count_before_end(of[:8], 3, ended=end) for end in (False, True))
    (5, None, 5)
    """
    later = of > period  # false also of NaN
    for i in np.flatnonzero(later).tolist():
        agreeing = later[i : i + AGREEING]
        if len(agreeing) < AGREEING and not ended:
            return None
        if 2 * np.count_nonzero(agreeing) > len(agreeing):
            return i
    return len(of) if ended else None


def next_period(of: FloatArray) -> int | None:
    """Return the period of the next records, the middle one of the first few; None if none of them has a time.

    >>> next_period(np.array([np.nan, 9.0, 4.0, 4.0])), next_period(np.array([np.nan]))
    (4, None)
    """
    known = np.sort(of[~np.isnan(of)][:AGREEING])
    return int(known[(len(known) - 1) // 2]) if len(known) else None


def count_late(of: FloatArray, period: int) -> int:
    """Count the records of a round that were measured in earlier periods.

    >>> count_late(np.array([2.0, 3.0, np.nan]), 3)
    1
    """
    return int(np.count_nonzero(of < period))
