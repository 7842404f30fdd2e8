"""Whether federating helps: how well the same records are predicted by a federation, and by what could replace it."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.run.evaluation.by_client import Measure
from streamfl.run.evaluation.part import ResultPart

# By client, the error of each of its good records in order: 0 or 1 for labels, absolute for targets; NaN if nothing
# predicted it.
Misses = Mapping[str, FloatArray]

# Whether federating is worth it.
Worth = Literal["yes", "level", "unsure", "no"]

# The columns of a comparison.
WAYS = ("federated", "alone", "central", "static", "majority", "no_change")

# A client is better off alone if its accuracy is so much higher, or its error lower by this part; and only then if it
# has this many records: differences over fewer are mostly chance.
WORSE, ENOUGH = 0.02, 200

# The records, one client after another, in this many stretches: neighbours are alike, stretches less so.
STRETCHES = 30

# Over all records so much makes no difference: of the accuracy, and as a part of the error.
LEVEL = {"accuracy": 0.005, "mae": 0.03}


class WaysFigures(ResultPart):
    """The accuracy or mean absolute error over the same records, by each way; None if one predicted only some.

    `federated`: the federation. `alone`: the same learner at each client, with its own records only. `central`: one
    such learner with the records of all clients. `static`: the same, but it stops learning after the first tenth.
    `majority`: the label that each client has had most often so far, or the mean of its targets. `no_change`: each
    client's last label or target.
    """

    records: int
    federated: float | None
    alone: float | None
    central: float | None
    static: float | None
    majority: float | None
    no_change: float | None


class ClientWays(WaysFigures):
    """The figures of one client."""

    client: str


class Compared(ResultPart):
    """The figures over all records, and of every client, those with the most records first.

    `chance` is by how much `federated` and `alone` may differ over all records by chance; None with too few records.

    >>> some = {"c0": np.zeros(300), "c1": np.ones(300)}
    >>> other = {"c0": np.ones(300), "c1": np.repeat([0.0, 1.0], 150)}
    >>> told = Compared.of("accuracy", {"federated": some, "alone": other})
    >>> told.total.federated, told.total.alone, told.total.central, told.better_alone, told.worth
    (0.5, 0.25, None, ('c1',), 'unsure')
    """

    measure: Measure
    total: WaysFigures
    clients: tuple[ClientWays, ...]
    chance: float | None = None

    @classmethod
    def of(cls, measure: Measure, misses: Mapping[str, Misses]) -> Self:
        """Return the comparison of the errors by way; the records are those that the federation predicted."""
        each = by_client(measure, misses)
        lines = [ClientWays(client=client, **figures) for client, figures in each.items()]
        return cls(
            measure=measure,
            total=WaysFigures(**in_total(measure, misses)),
            clients=tuple(sorted(lines, key=lambda line: (-line.records, line.client))),
            chance=_chance(misses["federated"], misses["alone"]),
        )

    @property
    def worth(self) -> Worth:
        """Return whether federating is better than each client alone; `level`: too little to matter."""
        if self.beats("federated", "alone"):
            return "yes" if self._is_sure else "unsure"
        if self.beats("alone", "federated"):
            return "no" if self._is_sure else "unsure"
        return "level"

    @property
    def _is_sure(self) -> bool:
        """Tell whether the difference to alone is larger than chance may make it."""
        ours, alone = self.total.federated, self.total.alone
        return None not in (ours, alone, self.chance) and abs(ours - alone) > self.chance  # type: ignore[operator]

    def beats(self, one: str, other: str) -> bool:
        """Tell whether one way is better than another over all records, by more than makes no difference."""
        return is_better(self.measure, getattr(self.total, one), getattr(self.total, other), LEVEL[self.measure])

    @property
    def better_alone(self) -> tuple[str, ...]:
        """Return the clients with enough records that would clearly be better off alone."""
        return tuple(
            line.client
            for line in self.clients
            if line.records >= ENOUGH and is_better(self.measure, line.alone, line.federated, WORSE)
        )

    @property
    def too_few(self) -> int:
        """Return how many clients have too few records to tell."""
        return sum(line.records < ENOUGH for line in self.clients)


def is_better(measure: Measure, one: float | None, other: float | None, by: float) -> bool:
    """Tell whether a figure is better than another by more than some accuracy, or than some part of the error."""
    if one is None or other is None:
        return False
    return one - other > by if measure == "accuracy" else one < other * (1.0 - by)


def by_client(measure: Measure, misses: Mapping[str, Misses]) -> dict[str, dict[str, Any]]:
    """Return by client its records that the federation predicted, and the figure over them of each way."""
    told = {client: ~np.isnan(own) for client, own in misses["federated"].items()}
    return {
        client: _figures(measure, {way: by[client][these] for way, by in misses.items()})
        for client, these in told.items()
    }


def in_total(measure: Measure, misses: Mapping[str, Misses]) -> dict[str, Any]:
    """Return the same over all clients together."""
    told = {client: ~np.isnan(own) for client, own in misses["federated"].items()}
    whole = {way: np.concatenate([by[client][these] for client, these in told.items()]) for way, by in misses.items()}
    return _figures(measure, whole)


def _chance(ours: Misses, alone: Misses) -> float | None:
    """Return two standard errors of the mean difference of the errors.

    >>> flips = {"c0": np.tile([0.0, 1.0], 300)}
    >>> _chance(flips, {"c0": np.ones(600)}), _chance({"c0": np.ones(5)}, {"c0": np.ones(5)})
    (0.0, None)
    """
    differences = np.concatenate([own - alone[client] for client, own in ours.items()])
    differences = differences[~np.isnan(differences)]
    if len(differences) < STRETCHES:
        return None
    means = [stretch.mean() for stretch in np.array_split(differences, STRETCHES)]
    return float(2.0 * np.std(means, ddof=1) / np.sqrt(STRETCHES))


def _figures(measure: Measure, misses: Mapping[str, FloatArray]) -> dict[str, Any]:
    missing = dict.fromkeys(WAYS)
    return (
        {"records": len(misses["federated"])} | missing | {way: _figure(measure, own) for way, own in misses.items()}
    )


def _figure(measure: Measure, misses: FloatArray) -> float | None:
    if not len(misses) or np.isnan(misses).any():
        return None
    mean = float(misses.mean())
    return 1.0 - mean if measure == "accuracy" else mean
