"""An observer that reads every topic of a federation whose sums are masked, and adds and subtracts what it has read.

It knows a total once the seeds of all its clients were sent, whenever that was. A total is a sum over blocks of
records: what a client's records add to it. What it and others tell together is every combination of them in which
blocks cancel; so a combination tells about few clients if all blocks of the others do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.machines.coordinator.gate.checks import tells_of_records
from streamfl.protocol.messages import (
    FromClient,
    FromCoordinator,
    Join,
    RegistryPublished,
    RoundOpened,
    Unmask,
    Unmasked,
    Update,
)
from streamfl.protocol.records import Span
from streamfl.testing.violation import Violation, expect

# A total, by client the records whose numbers are in it.
Total = dict[str, tuple[Span, ...]]


@dataclass
class Observer:
    """What somebody knows who reads everything.

    Examples
    --------
    >>> a, b, late = (Span("p", 0, 9),), (Span("q", 0, 9),), (Span("r", 0, 9),)
    >>> few([{"c0": a, "c1": b, "c2": late}, {"c0": a, "c1": b}], fewest=2)
    ('c2',)
    >>> more = (Span("p", 0, 18),), (Span("q", 0, 18),)
    >>> few([{"c0": a, "c1": b, "c2": late}, {"c0": more[0], "c1": more[1]}], fewest=2)
    ()
    """

    fewest: int  # the fewest clients about whom anything may be told
    named: dict[str, set[str]] = field(default_factory=dict)  # by feature and label, the clients that have named it
    # By entry, client and attempt, the records of an update.
    spans: dict[tuple[int, str, str], tuple[Span, ...]] = field(default_factory=dict)
    # The totals that were asked for: entry, stage, and the attempts by client.
    asked: list[Unmask] = field(default_factory=list)
    # The entry, stage, client and attempt of all seeds that were sent.
    told: set[tuple[int, int, str, str]] = field(default_factory=set)

    def hear(self, message: FromClient | FromCoordinator) -> None:
        """Read a message.

        Raises
        ------
        Violation
            It has numbers about the records of one client, or totals will have some about what few clients have.
        """
        match message:
            case Join():
                expect(not message.moments.count.any(), f"the Join of {message.client} has moments of its own")
                self._names(message.client, (*message.labels, *message.moments.features))
            case RoundOpened():
                expect(not message.scores_again, f"totals of round {message.round} are about records of earlier ones")
            case RegistryPublished(registry=registry):
                names = (*registry.labels, *registry.features)
                few_have = [name for name in names if len(self.named.get(name, ())) < self.fewest]
                expect(
                    not few_have, f"totals are about {few_have}, which fewer than {self.fewest} clients have named"
                )
            case Update() if message.records:
                self._names(message.client, (*message.new_labels, *message.new_features))
                expect(
                    tells_of_records(message) is None, f"the update of {message.client} has numbers beside its sums"
                )
                self.spans[message.entry, message.client, message.attempt] = message.spans
            case Unmask():
                self.asked.append(message)
            case Unmasked():
                self.told.add((message.entry, message.stage, message.client, message.attempt))
            case _:
                pass

    def _names(self, client: str, names: Sequence[str]) -> None:
        for name in names:
            self.named.setdefault(name, set()).add(client)

    def totals(self) -> list[Total]:
        """Return the totals that it knows."""
        return [
            {name: self.spans[asked.entry, name, attempt] for name, attempt in asked.attempts.items()}
            for asked in self.asked
            if all((asked.entry, asked.stage, *one) in self.told for one in asked.attempts.items())
        ]

    def check(self) -> None:
        """Check that nothing that it knows is about fewer clients.

        Raises
        ------
        Violation
            Totals differ by the numbers of fewer clients.
        """
        clients = few(self.totals(), self.fewest)
        if clients:
            raise Violation(f"totals tell about {' and '.join(clients)} alone")


def few(totals: Sequence[Total], fewest: int) -> tuple[str, ...]:
    """Return fewer than `fewest` clients about whom alone some combination of totals tells; none if none does."""
    owners, rows = _blocks(totals)
    rank = np.linalg.matrix_rank(rows) if rows.size else 0
    names = sorted(set(owners))
    for size in range(1, min(fewest, len(names))):
        for group in combinations(names, size):
            others = rows[:, [owner not in group for owner in owners]]
            if rank > (np.linalg.matrix_rank(others) if others.size else 0):
                return group
    return ()


def _blocks(totals: Sequence[Total]) -> tuple[list[str], FloatArray]:
    """Return the owner of each block of records, and which blocks are in each total, shape (totals, blocks)."""
    places = sorted({(name, span.partition) for total in totals for name, spans in total.items() for span in spans})
    owners, columns = [], []
    for name, partition in places:
        own = [[s for s in total.get(name, ()) if s.partition == partition] for total in totals]
        cuts = sorted({at for spans in own for span in spans for at in (span.start, span.end)})
        for start, end in pairwise(cuts):
            owners.append(name)
            columns.append([float(any(s.start <= start and end <= s.end for s in spans)) for spans in own])
    return owners, np.array(columns).T.reshape(len(totals), len(owners))
