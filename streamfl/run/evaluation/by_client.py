"""How well each client's records were predicted, from the same counts as the headline."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from streamfl.run.evaluation.errors import Errors
from streamfl.run.evaluation.part import ResultPart

# A federation may have thousands of clients: the result lists this many, and sums up the others.
MOST_CLIENTS = 50

Measure = Literal["accuracy", "mae"]


class ClientLine(ResultPart):
    """The prequential figures of one client, in the unit that the table names."""

    client: str
    records: int
    prequential: float | None
    no_change: float | None


class OtherClients(ResultPart):
    """The prequential figures of all clients that have no line, over all their records together."""

    clients: int
    records: int
    prequential: float | None
    no_change: float | None


class ByClient(ResultPart):
    """The figures by client; the records of all lines and of the others are those of the headline.

    `measure`: what `prequential` and `no_change` are, `accuracy` or `mae`. `clients`: those with the most records,
    the worst first among equals. `others`: the rest; None if there are no more.
    """

    measure: Measure
    clients: tuple[ClientLine, ...]
    others: OtherClients | None = None


@dataclass
class ClientErrors:
    """The errors of each client: a few numbers for each, so it grows with clients, not with records.

    >>> import numpy as np
    >>> def some(correct, wrong):
    ...     return Errors.of(np.zeros(correct + wrong), np.repeat([0.0, 1.0], [correct, wrong]))
    >>> errors = ClientErrors()
    >>> for client, correct in (("c0", 6), ("c1", 8), ("c0", 4)):
    ...     errors.add(client, some(correct, 2), some(5, 5))
    >>> [(line.client, line.records, round(line.prequential, 3)) for line in errors.table("accuracy").clients]
    [('c0', 14, 0.714), ('c1', 10, 0.8)]
    >>> errors.table("accuracy", most=1).others
    OtherClients(clients=1, records=10, prequential=0.8, no_change=0.5)
    """

    _of: dict[str, tuple[Errors, Errors]] = field(default_factory=dict)

    def add(self, client: str, served: Errors, no_change: Errors) -> None:
        """Add the errors of one client's round: those of the predictions served, and those of NoChange."""
        for total, more in zip(self._of.setdefault(client, (Errors(), Errors())), (served, no_change), strict=True):
            total.join(more)

    def table(self, measure: Measure, most: int = MOST_CLIENTS) -> ByClient:
        """Return the figures of the `most` largest clients, and of the rest together."""

        def rank(client: str) -> tuple[int, float, str]:
            served = self._of[client][0]
            return -served.records, served.correct if measure == "accuracy" else -served.absolute, client

        ordered = sorted(self._of, key=rank)
        lines = (ClientLine(client=name, **self._figures([name], measure)) for name in ordered[:most])
        rest = ordered[most:]
        others = OtherClients(clients=len(rest), **self._figures(rest, measure)) if rest else None
        return ByClient(measure=measure, clients=tuple(lines), others=others)

    def _figures(self, names: list[str], measure: Measure) -> dict[str, Any]:
        served, no_change = (_sum(self._of[name][kind] for name in names) for kind in (0, 1))
        return {
            "records": served.records,
            "prequential": getattr(served, measure),
            "no_change": getattr(no_change, measure),
        }


def _sum(several: Iterable[Errors]) -> Errors:
    total = Errors()
    for errors in several:
        total.join(errors)
    return total
