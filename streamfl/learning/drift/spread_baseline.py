"""Decides whether features surely vary more, or less, than since clients began to hold out records.

Where easy and hard records take turns, predictions get worse although every feature keeps its mean: so the means of
`streamfl.learning.drift.input_baseline` explain nothing. What changes is how far records lie from the middle. Every
update says that, as the sum of |z|^2 over its records, z being the scaled features; so all clients are compared in
every round, and what chance does to it is measured by how much it changes from one round of a client to the next.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median, median_high, median_low
from typing import ClassVar, NamedTuple

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.learning.drift.input_baseline import MIN_STANDARD_ERRORS, as_normal, together
from streamfl.learning.drift.means import PAIRS
from streamfl.protocol.digits import significant

# The deviation over all features must differ by at least this factor, at half of the clients in the same direction.
# docs/choices.md, "When only the inputs move".
MIN_FACTOR = 1.25

# A client's variance counts as at most so many times the median one: a client of spread that swings, or of a thousand
# times as many records, would hide what all others show.
# docs/choices.md, "When only the inputs move".
MOST_VARIANCE = 8.0

_SINCE, _REGISTRY, _RECORDS, _MEAN, _LAST_RECORDS, _LAST, _STEPS, _SQUARES = range(8)


class Spread(NamedTuple):
    """How far the records of a client's round lie from the middle."""

    records: int
    square: float  # the mean of z^2 over records and features


@dataclass(frozen=True, eq=False)
class SpreadBaseline:
    """By client, the mean logarithm of `Spread.square` since its held-out records have been gathered.

    Cost: O(clients) a round, and 64 bytes in the saved state for each client.

    Examples
    --------
    >>> def day(square):
    ...     return {f"machine-{i}": Spread(50, square * (1.0 + 0.1 * (i % 2))) for i in range(6)}
    >>> baseline = SpreadBaseline()
    >>> for square in (1.0, 1.1, 0.9, 1.0):
    ...     baseline = baseline.after(day(square), registry=3, since=lambda _: 1)
    >>> baseline.moved(day(1.2), registry=3), baseline.moved(day(0.25), registry=3)
    (None, (1.02283, 0.512057))
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    clients: tuple[str, ...] = ()  # the names of columns

    # By client: the round since which it is gathered, and the version of the registry that scales the features; the
    # records, and the mean over them of the logarithm; the records of the last round, and its logarithm; how many
    # steps there were from one round to the next, and the sum of their squares. A square is of the step in units of
    # its standard error if the logarithm of one record had a deviation of 1. Shape (8, clients).
    sums: FloatArray = field(default_factory=lambda: np.zeros((8, 0)))

    @property
    def fits(self) -> bool:
        """Tell whether the arrays have the shapes that the names ask for; those of a saved state may not."""
        return self.sums.shape == (8, len(self.clients))

    def moved(self, sent: Mapping[str, Spread], *, registry: int) -> tuple[float, float] | None:
        """Return the root mean square of z before and now, over the clients compared, if it surely differs.

        It must be sure by the sum over clients, of which each counts for at most `MIN_STANDARD_ERRORS`, or by the
        median client, with one client fewer than there are; and half of them must be off by `MIN_FACTOR` in the same
        direction. So a minority can neither make features differ nor hide that they do. Medians are returned.

        Parameters
        ----------
        sent
            By client, the spread of its records in the round.
        registry
            The version of the registry that scales their features.
        """
        places = {name: i for i, name in enumerate(self.clients)}
        same = self.sums[_REGISTRY] == registry
        known = [name for name in sent if name in places and same[places[name]] and sent[name].square > 0.0]
        steps = float(self.sums[_STEPS, same].sum())
        if not known or not steps:
            return None
        variance = _usual_variance(self.sums[:, same])
        own = self.sums[:, [places[name] for name in known]]
        records, now = np.array([[sent[name].records, math.log(sent[name].square)] for name in known]).T
        by, deviation = now - own[_MEAN], math.sqrt(max(variance, _TINY))
        off = as_normal(by / (deviation * np.sqrt(1.0 / records + 1.0 / own[_RECORDS])), np.full(len(by), steps))
        way = math.copysign(1.0, median(by.tolist()))
        of_all = way * float(together(off[:, None])[0])
        of_half = median_low((way * off).tolist()) * math.sqrt(len(off) - 1) / _MEDIAN
        differs = median_low((way * by).tolist()) >= 2.0 * math.log(MIN_FACTOR)
        if max(of_all, of_half) < MIN_STANDARD_ERRORS - 1e-9 or not differs:
            return None
        before, after = (math.exp(median(each.tolist()) / 2.0) for each in (own[_MEAN], now))
        return significant(before), significant(after)

    def after(self, sent: Mapping[str, Spread], *, registry: int, since: Callable[[str], int]) -> "SpreadBaseline":
        """Return the baseline after a round.

        Parameters
        ----------
        sent, registry
            As in `moved`.
        since
            Returns the round since which a client's held-out records are gathered.
        """
        before = set(self.clients)
        new = [name for name in sent if name not in before][: PAIRS - len(self.clients)]
        clients, sums = (*self.clients, *new), np.pad(self.sums, ((0, 0), (0, len(new))))
        places = {name: i for i, name in enumerate(clients)}
        for name, spread in sent.items():
            if name in places and spread.square > 0.0:
                _add(sums[:, places[name]], spread, registry, since(name))
        return SpreadBaseline(clients, sums)

    def among(self, clients: Collection[str]) -> "SpreadBaseline":
        """Return what is remembered of some clients alone."""
        kept = [i for i, name in enumerate(self.clients) if name in clients]
        return replace(self, clients=tuple(self.clients[i] for i in kept), sums=self.sums[:, kept])


# The least variance of a logarithm: that of rounding. The standard error of a median of many normal numbers, in that
# of their mean.
_TINY, _MEDIAN = 1e-12, math.sqrt(math.pi / 2.0)


def _usual_variance(sums: FloatArray) -> float:
    """Return the variance of the logarithm of one record, by the steps of all clients, shape (8, clients).

    >>> sums = np.zeros((8, 4))
    >>> sums[_STEPS], sums[_SQUARES] = (3.0, 3.0, 1.0, 0.0), (6.0, 3.0, 900.0, 0.0)
    >>> _usual_variance(sums)
    6.333333333333333
    """
    of_steps = sums[_STEPS] > 0.0
    each = sums[_SQUARES, of_steps] / sums[_STEPS, of_steps]
    return float(np.minimum(each, MOST_VARIANCE * median_high(each.tolist())).mean())


def _add(own: FloatArray, spread: Spread, registry: int, since: int) -> None:
    """Add a round to what is remembered of a client, shape (8,); it begins again with held-out records or scales."""
    if own[_REGISTRY] != registry or own[_SINCE] < since:
        own[:] = 0.0
        own[_SINCE], own[_REGISTRY] = since, registry
    n, now = float(spread.records), math.log(spread.square)
    if own[_RECORDS]:
        own[_STEPS] += 1.0
        own[_SQUARES] += (now - own[_LAST]) ** 2 / (1.0 / n + 1.0 / own[_LAST_RECORDS])
    own[_RECORDS] += n
    own[_MEAN] += n / own[_RECORDS] * (now - own[_MEAN])
    own[_LAST_RECORDS], own[_LAST] = n, now
