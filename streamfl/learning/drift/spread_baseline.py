"""Decides whether features surely vary more, or less, than since clients began to hold out records.

Where easy and hard records take turns, predictions get worse although every feature keeps its mean: so the means of
`streamfl.learning.drift.input_baseline` explain nothing. What changes is how far records lie from the middle. Every
update says that, as the sum of |z|^2 over its records, z being the scaled features; so all clients are compared in
every round, and what chance does to it is measured by how much it changes from one round of a client to the next.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import ClassVar, NamedTuple

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.learning.drift.input_baseline import MIN_STANDARD_ERRORS, as_normal, together
from streamfl.learning.drift.means import PAIRS
from streamfl.protocol.digits import significant

# The deviation over all features must differ by at least this factor, at half of the clients in the same direction.
# docs/choices.md, "When only the inputs move".
MIN_FACTOR = 1.25

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

    def moved(self, sent: Mapping[str, Spread], *, registry: int) -> tuple[float, float] | None:
        """Return the root mean square of z before and now, over the clients compared, if it surely differs.

        As for means: a client counts for at most `MIN_STANDARD_ERRORS`, so of several none alone decides.

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
        own = self.sums[:, [places[name] for name in known]]
        records, now = np.array([[sent[name].records, math.log(sent[name].square)] for name in known]).T
        by, deviation = now - own[_MEAN], math.sqrt(max(float(self.sums[_SQUARES, same].sum()) / steps, _TINY))
        off = as_normal(by / (deviation * np.sqrt(1.0 / records + 1.0 / own[_RECORDS])), np.full(len(by), steps))
        sure = float(together(off[:, None])[0])
        differs = median_low((by * np.sign(sure)).tolist()) >= 2.0 * math.log(MIN_FACTOR)
        if abs(sure) < MIN_STANDARD_ERRORS - 1e-9 or not differs:
            return None
        return significant(math.exp(float(own[_MEAN].mean()) / 2.0)), significant(math.exp(float(now.mean()) / 2.0))

    def after(self, sent: Mapping[str, Spread], *, registry: int, since: Callable[[str], int]) -> "SpreadBaseline":
        """Return the baseline after a round.

        Parameters
        ----------
        sent, registry
            As in `moved`.
        since
            Returns the round since which a client's held-out records are gathered.
        """
        new = [name for name in sent if name not in set(self.clients)][: PAIRS - len(self.clients)]
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


# The least variance of a logarithm: that of rounding.
_TINY = 1e-12


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
