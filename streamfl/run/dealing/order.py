"""The order in which the records of a table came, and the rounds that keep it.

A round of the same number of records at every client keeps the order only if all clients have records equally often:
else the records of a slow client are predicted when models have learnt much later ones of the others. Rounds by time
keep it at any rates: each takes what all clients recorded in one period.
"""

from collections.abc import Mapping

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import FEWEST, Log, usual_size

# The times of a file are its order if at each client no more than this part of them lie before the one above.
BACKWARDS = 0.05

# Clients follow each other if their records last, added up, at most this many times as long as all of them.
TOGETHER = 1.25

# The most records of a client in a round by event time, as in a live federation.
MOST_OF_PERIOD = 10_000

# A client can have this many times its usual records in a period before its buffer is full.
ROOM = 2


def row_times(table: Table, logs: Mapping[str, Log]) -> FloatArray:
    """Return when each row came: its time, or its place in the file if there are no times in order; shape (n,).

    >>> table = Table("t", (), np.zeros((3, 0)), np.zeros(3), (), np.array([0, 1, 4]))
    >>> row_times(table, {"c0": Log(np.array([0, 2]), np.zeros(2)), "c1": Log(np.array([1]), np.zeros(1))})
    array([0., 1., 4.])
    """
    times = table.times
    if not np.isnan(times).all() and all(_is_in_order(times[log.rows]) for log in logs.values()):
        return times
    return table.places.astype(np.float64)


def _is_in_order(times: FloatArray) -> bool:
    times = times[~np.isnan(times)]
    return bool(np.count_nonzero(np.diff(times) < 0.0) <= BACKWARDS * len(times))


def arrival_times(log: Log, at: FloatArray) -> FloatArray:
    """Return when each good record of a client came, shape (n,).

    What an imposed drift has put into another order came in that order. A time that is not known is that of the
    record before it.
    """
    when = at[log.rows]
    known = ~np.isnan(when)
    if not known.all():
        before = np.maximum.accumulate(np.where(known, np.arange(len(when)), int(known.argmax())))
        when = np.nan_to_num(when[before])
    return when if (np.diff(log.rows) > 0).all() else np.sort(when)


def keeps_order(logs: Mapping[str, Log], at: FloatArray, size: int) -> bool:
    """Tell whether rounds of `size` records of each client learn no record before an earlier one is predicted.

    Where all clients have the same number of records, as in a file that is dealt in turn, a few that are bad or come
    a little early do not matter: a model may then be ahead by less than a round.

    >>> logs = {"c0": Log(np.array([0, 1, 3, 4]), np.zeros(4)), "c1": Log(np.array([2, 5]), np.zeros(2))}
    >>> keeps_order(logs, np.arange(6.0), size=2), keeps_order(logs, np.arange(6.0), size=4)
    (False, True)
    """
    rounds = max((-(-len(log.rows) // size) for log in logs.values()), default=0)
    first, last = np.full(rounds, np.inf), np.full(rounds, -np.inf)
    for log in logs.values():
        when, starts = arrival_times(log, at), np.arange(0, len(log.rows), size)
        if len(starts):
            n = len(starts)
            first[:n] = np.fmin(first[:n], np.fmin.reduceat(when, starts))
            last[:n] = np.fmax(last[:n], np.fmax.reduceat(when, starts))
    lengths = [len(log) for log in logs.values()]
    within = 1 if max(lengths, default=0) - min(lengths, default=0) > 1 else 2
    return bool((np.maximum.accumulate(last)[:-within] <= first[within:]).all())


def follow_each_other(logs: Mapping[str, Log], at: FloatArray) -> bool:
    """Tell whether one client's records end, all in all, before those of the next one begin.

    >>> logs = {"c0": Log(np.array([0, 1, 2]), np.zeros(3)), "c1": Log(np.array([3, 4, 5]), np.zeros(3))}
    >>> follow_each_other(logs, np.arange(6.0)), follow_each_other(logs, np.array([1.0, 3.0, 5.0, 2.0, 4.0, 6.0]))
    (True, False)
    """
    ends = [(when.min(), when.max()) for when in (arrival_times(log, at) for log in logs.values()) if len(when)]
    if len(ends) < 2:
        return False
    first, last = np.array(ends).T
    return float((last - first).sum()) <= TOGETHER * float(last.max() - first.min())


def usual_period(logs: Mapping[str, Log], at: FloatArray, size: int, most: int) -> float | None:
    """Return the length of a period with about `size` records of a client on average; None if all came at once.

    It is the median length of this many records of all clients, so that neither gaps nor false clocks matter.

    Parameters
    ----------
    most
        The most records of a client that one round can take.

    >>> logs = {"c0": Log(np.array([0, 1, 3, 4]), np.zeros(4)), "c1": Log(np.array([2, 5]), np.zeros(2))}
    >>> usual_period(logs, np.arange(6.0), size=1, most=100)
    2.0
    """
    own = {name: np.sort(at[log.rows][~np.isnan(at[log.rows])]) for name, log in logs.items()}
    together = np.sort(np.concatenate([np.zeros(0), *own.values()]))
    busiest = max(own.values(), key=len, default=together)
    if not len(together):
        return None
    share = len(busiest) / len(together)
    n = max(1, min(size * len(logs), int(most / ROOM / share), len(together) - 1))
    lasted = float(np.median(together[n:] - together[:-n])) if len(together) > n else 0.0
    if not lasted:  # more records have the same time than a round takes
        steps = np.diff(np.unique(together))
        lasted = float(np.median(steps)) if len(steps) else 0.0
    return max(0.001, float(f"{lasted:.3g}")) if lasted else None


def usual_rounds(
    table: Table, logs: Mapping[str, Log], given: int | None, *, min_records: int, fewest: int = FEWEST
) -> tuple[int, float | None]:
    """Return the records of a client's round, and the length of rounds by time where size would not keep the order.

    Parameters
    ----------
    given
        The records of a round, if they were asked for.
    """
    size = given or usual_size(len(table), len(logs), min_records=min_records, fewest=fewest)
    at = row_times(table, logs)
    return size, None if keeps_order(logs, at, size) else usual_period(logs, at, size, MOST_OF_PERIOD)
