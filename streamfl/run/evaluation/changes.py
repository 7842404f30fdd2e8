"""What moved when the concept changed: the features' means before and since, at the clients concerned."""

import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import Field

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.part import ResultPart
from streamfl.run.summary import RoundSummary

# A mean has moved if it differs by half a standard deviation, and by more than chance explains: three standard errors
# beyond the largest of this many means. The result names the features that moved most.
LEAST, SURE, MOST = 0.5, 3.0, 3
# That none has moved is not said if chance alone may move a mean by a whole deviation.
ENOUGH = 1.0
# Compared are the newest records before a change and before its alarm: this many rounds back, and this many values.
ROUNDS, VALUES = 64, 500_000
# Bars of a histogram.
BARS = 12
# A value is far out if it lies this many times as far from the median as three quarters of the values; if these are
# all equal, as all but a fortieth. Far values, such as -9999 for "no value", are left out.
FAR, NEAR, NEARLY_ALL = 10.0, 0.75, 0.975
# Up to this part of a stretch they are left out; more of them only if both stretches have about as many, by a factor:
# else it is they that moved.
RARE, ALIKE = 0.025, 2.0
# A feature is a counter if this many steps from record to record, and half of all, are changes, of which this part
# goes the same way, and at most one in a stretch of a client does not: a meter that was exchanged, or that began
# again.
CHANGES, OFTEN, ONE_WAY = 8, 0.5, 0.95
# A clock is set back by at least this part of its range, and its other steps are smaller.
FAR_BACK = 0.5

Kind = Literal["restart", "local drift"]


class Moved(ResultPart):
    """A feature whose mean moved: `before` the change, and `since`.

    `deviations` is their difference in standard deviations of all the records compared. `counts` are histograms of
    the records before and since, of BARS bars from the lowest to the highest value of both, the `span`.
    """

    feature: str
    before: float
    since: float
    deviations: float
    span: tuple[float, float] | None = Field(default=None, repr=False)
    counts: tuple[tuple[int, ...], ...] = Field(default=(), repr=False)


class Change(ResultPart):
    """What is known of a change: since when, and what moved.

    `kind`: whether all clients restarted. `round`: that of the alarm. `since`: the round in which it began.
    `moved`: at most three features, the one that moved most first; None if there were too few records to tell.
    `sentence`: all in words.
    """

    kind: Kind
    round: int
    since: int
    moved: tuple[Moved, ...] | None = None
    sentence: str = ""


def moved(features: Sequence[str], before: FloatArray, since: FloatArray) -> tuple[Moved, ...]:
    """Return the features whose mean moved, the one that moved most first; values far out do not count.

    Parameters
    ----------
    features
        The names of the features, length d.
    before, since
        The records before a change and since, shapes (n, d) and (m, d); NaN is a missing value.

    >>> before = np.array([[0.0, 5.0], [2.0, 7.0]] * 50)
    >>> moved(("a", "b"), before, before + [4.0, 0.1])
    (Moved(feature='a', before=1.0, since=5.0, deviations=1.789),)
    """
    before, since = _without_far(before, since)
    means, deviations = _compared(before, since)
    least = np.maximum(LEAST, _chance(np.isfinite(before).sum(axis=0), np.isfinite(since).sum(axis=0)))
    size = np.where(np.abs(deviations) >= least, np.abs(deviations), 0.0)
    order = np.argsort(-size, kind="stable")[:MOST]
    return tuple(
        Moved(
            feature=features[j],
            before=float(f"{means[0][j]:.4g}"),
            since=float(f"{means[1][j]:.4g}"),
            deviations=round(float(deviations[j]), 3),
            **_histograms(before[:, j], since[:, j]),
        )
        for j in order.tolist()
        if size[j] > 0.0
    )


def _histograms(before: FloatArray, since: FloatArray) -> dict[str, Any]:
    """Return the histograms of the values of one feature before and since, over the range of both."""
    known = [values[np.isfinite(values)] for values in (before, since)]
    both = np.concatenate(known)
    span = float(both.min()), float(both.max())
    if not math.isfinite(span[1] - span[0]) or span[0] == span[1]:
        return {}
    counts = (np.histogram(values, BARS, span)[0].tolist() for values in known)
    return {"span": tuple(float(f"{end:.4g}") for end in span), "counts": tuple(map(tuple, counts))}


def _without_far(before: FloatArray, since: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return records, shapes (n, d) and (m, d), in which values far out are missing."""
    both, far = (before, since), [_far(X) for X in (before, since)]
    parts = np.array([of_one.mean(axis=0) for of_one in far])
    dropped = (parts.max(axis=0) <= RARE) | (parts.max(axis=0) <= ALIKE * parts.min(axis=0))
    first, second = (np.where(of_one & dropped, np.nan, X) for X, of_one in zip(both, far, strict=True))
    return first, second


def _far(X: FloatArray) -> BoolArray:
    """Return which values lie far beyond most of their column, shape (n, d)."""
    known = np.where(np.isfinite(X), X, np.nan)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value has no median
        distance = np.abs(known - np.nanmedian(known, axis=0))
        near, nearly_all = np.nanquantile(distance, (NEAR, NEARLY_ALL), axis=0, method="lower")
        limit = FAR * np.where(near > 0.0, near, nearly_all)
        far: BoolArray = (limit > 0.0) & (distance > limit)
    return far


def counters(stretches: Sequence[FloatArray]) -> BoolArray:
    """Return which features rise, or fall, all the time: a number of a record, a time, a meter. Shape (d,).

    Parameters
    ----------
    stretches
        Records of one client each, in their order, shapes (n, d).

    >>> counters([np.array([[float(i), i % 2] for i in range(20)])])
    array([ True, False])
    """
    steps = [np.diff(X, axis=0) for X in stretches]
    rises, falls = (np.array([way(step, 0.0).sum(axis=0) for step in steps]) for way in (np.greater, np.less))
    of_all = sum(np.isfinite(step).sum(axis=0) for step in steps)
    changes, one_way = (rises + falls).sum(axis=0), np.maximum(rises.sum(axis=0), falls.sum(axis=0))
    found: BoolArray = (
        (changes >= np.maximum(CHANGES, OFTEN * of_all))
        & (one_way >= ONE_WAY * changes)
        & (np.minimum(rises, falls).max(axis=0) <= 1)
    )
    return found


def clocks(stretches: Sequence[FloatArray]) -> BoolArray:
    """Return which features go one way, far back, and the same way again: an hour, a day of the week. Shape (d,).

    Parameters
    ----------
    stretches
        Records of one client each, in their order, shapes (n, d).

    >>> clocks([np.array([[i // 12 % 24, i % 2, i] for i in range(600)], float)])
    array([ True, False, False])
    """
    together = np.concatenate(stretches)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a feature without any value
        far = FAR_BACK * (np.nanmax(together, axis=0) - np.nanmin(together, axis=0))
    steps = [np.diff(X, axis=0) for X in stretches]

    def count(is_so: Callable[[FloatArray], BoolArray]) -> IntArray:
        counts: IntArray = np.array([is_so(step).sum(axis=0) for step in steps]).sum(axis=0)
        return counts

    on, back = count(lambda step: (step > 0.0) & (step < far)), count(lambda step: step <= -far)
    down, up = count(lambda step: (step < 0.0) & (step > -far)), count(lambda step: step >= far)
    found = np.zeros(len(far), np.bool_)
    for way, other, turns, wrong in ((on, down, back, up), (down, on, up, back)):
        changes, against = way + other + turns + wrong, other + wrong
        goes_on = (changes >= CHANGES) & (against <= (1.0 - ONE_WAY) * changes)
        found |= goes_on & (turns > 0) & (way >= 2 * turns)
    return found


def _compared(before: FloatArray, since: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the means of each column, and their difference in standard deviations of both together."""
    both = np.concatenate([before, since])
    with np.errstate(all="ignore"):  # no value at all, or values too large to be squared: NaN, which has not moved
        means = [_mean(X) for X in (before, since, both)]
        spread = np.sqrt(_mean((both - means[2]) ** 2))
        return means, (means[1] - means[0]) / spread


def _mean(X: FloatArray) -> FloatArray:
    known = np.isfinite(X)
    mean: FloatArray = np.where(known, X, 0.0).sum(axis=0) / known.sum(axis=0)
    return mean


def _chance(before: IntArray, since: IntArray) -> FloatArray:
    """Return by how many deviations means of these counts, shape (d,), may differ by chance; infinite for 0."""
    with np.errstate(divide="ignore"):
        error = np.sqrt(1.0 / before + 1.0 / since)
    chance: FloatArray = (SURE + math.sqrt(2.0 * math.log(max(len(error), 1)))) * error
    return chance


@dataclass
class Changes:
    """Where the records of the latest rounds are, so that those before a change are compared with those since.

    It keeps a number a client for each of the latest 64 entries of the ledger, and reads records only after an alarm.
    """

    # The records, and the rows of each client in order.
    table: Table
    logs: Mapping[str, Log]
    _at: Mapping[str, int] = field(init=False)
    _ends: deque[tuple[int, IntArray]] = field(default_factory=lambda: deque(maxlen=ROUNDS + 1))
    _epoch: int = 1

    def __post_init__(self) -> None:
        self._at = {client: at for at, client in enumerate(self.logs)}
        self._ends.append((0, np.zeros(len(self.logs), np.int64)))

    def closed(self, closed: RoundSummary) -> None:
        """Note how many good records of each client the closed rounds have."""
        ends = self._ends[-1][1].copy()
        for accepted in closed.accepted:
            for span in accepted.spans:
                ends[self._at[span.partition]] = self.logs[span.partition].good_before(span.end)
        self._ends.append((closed.round, ends))  # a round that is opened again counts as it ended last

    def found(self, kind: Kind, at: int, since: int, clients: Sequence[str]) -> Change:
        """Return what moved between the rounds of this epoch before `since` and those from `since` to `at`.

        A restart begins an epoch: the records before it are of another concept.

        Parameters
        ----------
        kind
            Whether all clients restarted.
        at
            The round of the alarm, which is closed.
        since
            The round in which the change began.
        clients
            The clients concerned; empty: all.
        """
        clients = clients or tuple(self.logs)
        now = self._rows(since, at, clients)
        before = self._rows(max(self._epoch, self._ends[0][0] + 1), since - 1, clients)
        if kind == "restart":
            self._epoch = at
        known = self._moved(self._records(before), self._records(now))
        return Change(kind=kind, round=at, since=since, moved=known)

    def _moved(self, before: Sequence[FloatArray], since: Sequence[FloatArray]) -> tuple[Moved, ...] | None:
        """Return what moved between some records of each client; a counter or a clock has not moved."""
        if not sum(map(len, before)) or not sum(map(len, since)):
            return None
        whole = [np.concatenate(both) for both in zip(before, since, strict=True)] if before else since
        lasting = ~(counters([*before, *since]) | clocks(whole))
        if not lasting.any():
            return ()
        features = [name for name, lasts in zip(self.table.features, lasting, strict=True) if lasts]
        found = moved(features, np.concatenate(before)[:, lasting], np.concatenate(since)[:, lasting])
        values = [sum(np.isfinite(X[:, lasting]).sum(axis=0) for X in each) for each in (before, since)]
        known = values[0] > 0  # a feature that never had a value cannot have moved
        return found if found or (_chance(*values)[known] < ENOUGH).all() else None

    def _records(self, rows: Sequence[IntArray]) -> list[FloatArray]:
        """Return the newest of some records of each client."""
        most = max(1, VALUES // max(1, len(rows) * len(self.table.features)))
        return [self.table.X[each[-most:]].astype(np.float64) for each in rows]

    def _rows(self, first: int, last: int, clients: Sequence[str]) -> list[IntArray]:
        """Return the rows of some rounds, first and last among them, client by client."""
        ends = dict(self._ends)
        if first - 1 not in ends or last not in ends:
            return []
        begin, end = ends[first - 1], ends[last]
        return [self.logs[name].rows[begin[self._at[name]] : end[self._at[name]]] for name in clients]
