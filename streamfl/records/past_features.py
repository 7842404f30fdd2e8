"""Lags and rolling means: what the features of a client's records were before, as more features of its next ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamfl.arrays import FloatArray, IntArray, Numbers
from streamfl.bounds import NAME_BYTES, REACH, is_name
from streamfl.errors import UsageError
from streamfl.records.values.made_features import with_made

_LONGEST = NAME_BYTES - len("mean1000()")  # of a feature's name, so that what is made of it can have one


@dataclass(frozen=True)
class PastFeatures:
    """How the records of a client before a record become more features of it.

    Each number `x` has:

    - `x[-k]` for each k of `lags`: its value k good records before;
    - `mean10(x)` for a window of 10: its mean over the last 10 good records, this one included;
    - `rate10(x)`: its change per record over the last 10 records, `(x - x[-10]) / 10`.

    They depend on the client's log alone: on the positions of its good records and what is in them. What lies more
    than `REACH` positions before a record is missing. A lag or rate is missing if a value of it is, a mean if all of
    its values are. Values of texts, `colour=red`, have no past. Means and rates are exact in 32 bits.

    Parameters
    ----------
    lags
        How many records before; from 1 to 1,000.
    window
        Of how many records means and rates are made, from 2 to 1,000; 0: there are none.
    without
        Features that have no past, such as those that are made of times.

    Raises
    ------
    UsageError
        A lag or the window is out of range, a lag is named twice, or there is neither.

    Examples
    --------
    >>> past = PastFeatures(lags=(1,), window=2)
    >>> past.names(("x", "colour=red"))
    ('x[-1]', 'mean2(x)', 'rate2(x)')
    >>> past.of(np.array([0, 1, 2]), np.array([[1.0], [4.0], [5.0]]))
    array([[nan, 1. , nan],
           [1. , 2.5, nan],
           [4. , 4.5, 2. ]])
    """

    lags: tuple[int, ...] = ()
    window: int = 0
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.lags)) != len(self.lags):
            raise UsageError("a lag is named more than once; name each once")
        if wrong := [lag for lag in self.lags if not 1 <= lag <= REACH]:
            raise UsageError(f"there is no lag of {wrong[0]} records; give numbers from 1 to {REACH}")
        if self.window != 0 and not 2 <= self.window <= REACH:
            raise UsageError(f"there is no window of {self.window} records; give a number from 2 to {REACH}")
        if not self.lags and not self.window:
            raise UsageError("there is neither a lag nor a window; give one of them")

    @property
    def longest(self) -> int:
        """How many records before one are needed at most."""
        return max((*self.lags, self.window))

    @property
    def made_of_each(self) -> int:
        """How many features are made of each number."""
        return len(self._made_of(("x",)))

    def _made_of(self, features: Sequence[str]) -> tuple[str, ...]:
        of_lags = [f"{name}[-{lag}]" for lag in self.lags for name in features]
        kinds = ("mean", "rate") if self.window else ()
        return (*of_lags, *(f"{kind}{self.window}({name})" for kind in kinds for name in features))

    def bases(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return the features that have a past."""
        numbers = [f for f in features if "=" not in f and f not in self.without and is_name(f, _LONGEST)]
        made = {*self._made_of(numbers)}
        return tuple(name for name in numbers if name not in made)

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return the names of what is made of the past of some features."""
        return self._made_of(self.bases(features))

    def of(self, positions: IntArray, X: Numbers, first: int = 0) -> FloatArray:
        """Return what is made of the past of good records of a client, from the record with index `first` on.

        Parameters
        ----------
        positions
            Where they are in its log, increasing, shape (n,).
        X
            The values of features that have a past, shape (n, d).
        """
        found = [_before(positions, X, lag, first) for lag in self.lags]
        if self.window:
            now = X[first:].astype(np.float64)
            mean = _mean(_before(positions, X, lag, first) for lag in range(self.window))
            with np.errstate(over="ignore"):  # of numbers that no sensor has
                rate = (now - _before(positions, X, self.window, first)) / self.window
                found += [each.astype(np.float32).astype(np.float64) for each in (mean, rate)]
        made: FloatArray = np.hstack(found)
        made[np.isinf(made)] = np.nan
        return made


@dataclass(eq=False)
class PastRecords:
    """The last good records of a client, as far as the next ones need them.

    Examples
    --------
    >>> before = PastRecords(PastFeatures(lags=(2,)))
    >>> before.extended(np.array([0, 1]), ("x",), np.array([[5.0], [6.0]]))[1]
    array([[ 5., nan],
           [ 6., nan]])
    >>> before.extended(np.array([3]), ("x", "y"), np.array([[7.0, 1.0]]))
    (('x', 'y', 'x[-2]', 'y[-2]'), array([[ 7.,  1.,  5., nan]]))
    """

    past: PastFeatures
    positions: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    features: tuple[str, ...] = ()  # those that have a past
    X: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def extended(
        self, positions: IntArray, features: tuple[str, ...], X: Numbers
    ) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
        """Return names and values of the next records, and of what is made of their past; they are then the last."""
        names, made = self.made(positions, features, X)
        return with_made(features, X, names, made)

    def made(self, positions: IntArray, features: tuple[str, ...], X: Numbers) -> tuple[tuple[str, ...], FloatArray]:
        """Return names and values of what is made of the past of the next records; they are then the last ones."""
        bases = tuple(dict.fromkeys((*self.past.bases(features), *self.features)))
        first = len(self.positions)
        every = np.concatenate([self.positions, positions])
        values = np.vstack([_ordered(self.features, self.X, bases), _ordered(features, X, bases)])
        made = self.past.of(every, values, first)
        self._keep(every[-self.past.longest :], bases, values[-self.past.longest :])
        return self.past.names(bases), made

    def _keep(self, positions: IntArray, bases: tuple[str, ...], values: FloatArray) -> None:
        """Keep the last records, without features of which they know nothing: of these there may be ever more."""
        known = np.flatnonzero(~np.isnan(values).all(axis=0)).tolist()
        self.positions, self.features, self.X = positions, tuple(bases[j] for j in known), values[:, known]


@dataclass(eq=False)
class PastOfClients:
    """The last records of each client of a file, for the next ones; every record has the same features.

    Examples
    --------
    >>> before = PastOfClients(PastFeatures(lags=(1,)))
    >>> before.extended(["e", "w", "e"], ("x",), np.array([[1.0], [2.0], [3.0]]))[1][:, 1]
    array([nan, nan,  1.])
    """

    past: PastFeatures
    _bases: tuple[str, ...] = ()
    _last: dict[str, PastRecords] = field(default_factory=dict)
    _read: dict[str, int] = field(default_factory=dict)

    def extended(
        self, clients: Sequence[str], features: tuple[str, ...], X: FloatArray
    ) -> tuple[tuple[str, ...], npt.NDArray[Any]]:
        """Return names and values of the next records, whose clients are named, with what is made of their past."""
        self._bases = tuple(dict.fromkeys((*self._bases, *self.past.bases(features))))
        names, values = self.past.names(self._bases), _ordered(features, X, self._bases)
        made, owner = np.empty((len(X), len(names))), np.array(clients, np.object_)
        for client in dict.fromkeys(clients):
            rows, read = np.flatnonzero(owner == client), self._read.get(client, 0)
            self._read[client] = read + len(rows)
            last = self._last.setdefault(client, PastRecords(self.past))
            made[rows] = last.made(read + np.arange(len(rows)), self._bases, values[rows])[1]
        return with_made(features, X, names, made)


def _ordered(features: Sequence[str], X: Numbers, wanted: Sequence[str]) -> FloatArray:
    """Return the columns of some features, NaN where there is none."""
    places = {name: j for j, name in enumerate(features)}
    found = np.full((len(X), len(wanted)), np.nan)
    for j, name in enumerate(wanted):
        if name in places:
            found[:, j] = X[:, places[name]]
    return found


def _before(positions: IntArray, X: Numbers, lag: int, first: int) -> FloatArray:
    """Return what records from an index on had so many records before; NaN where that is too far away."""
    found = np.full((len(X) - first, X.shape[1]), np.nan)
    start = max(first, lag)
    if start < len(X):
        near = positions[start:] - positions[start - lag : len(X) - lag] <= REACH
        found[start - first :][near] = X[start - lag : len(X) - lag][near]
    return found


def _mean(each: Iterable[FloatArray]) -> FloatArray:
    """Return the mean of arrays where they have values, added in their order.

    >>> _mean([np.array([1.0, np.nan, np.nan]), np.array([2.0, 5.0, np.nan])])
    array([1.5, 5. , nan])
    """
    total: FloatArray | float = 0.0
    count: IntArray | int = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for values in each:
            known = ~np.isnan(values)
            total, count = total + np.where(known, values, 0.0), count + known
        mean: FloatArray = np.asarray(total) / count
    return mean
