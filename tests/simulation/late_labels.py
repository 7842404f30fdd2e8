"""The small federation with labels that come apart from their records, in every kind of disorder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulation.federation import federation
from streamfl.core.client.recorded import Recorded
from streamfl.core.protocol.apart import Half
from streamfl.core.protocol.records import Batch
from streamfl.core.sampling import generator
from streamfl.streams.apart import HalvesSource
from streamfl.streams.source import TableSource
from streamfl.testing import Faults, Simulation


class DisorderedHalves(HalvesSource):
    """Halves of which some labels have a key that no record has, and which may come a few at a time."""

    unknown: frozenset[int] = frozenset()
    most: int = 1000

    def poll_apart(self, labels: int, features: int, *, waits: bool = False) -> Sequence[Batch]:
        """Return the next halves, at most `most` of each kind."""
        return super().poll_apart(min(labels, self.most), min(features, self.most), waits=waits)

    def _labels(self, start: int, end: int) -> Batch:
        batch = super()._labels(start, end)
        if batch.half is None:
            raise AssertionError("labels are halves")
        keys = [
            f"nobody {position}" if position in self.unknown else key
            for position, key in zip(batch.positions.tolist(), batch.half.keys.tolist(), strict=True)
        ]
        return replace(batch, half=Half("labels", np.array(keys, dtype=np.object_)))


@dataclass(frozen=True)
class Disorder:
    """How labels come.

    Parameters
    ----------
    delays
        How many records later than their own labels come, drawn for each; below 1 it comes before.
    missing, twice, unknown
        The share of labels that never come, that come a second time, and whose key no record has.
    most
        How many halves of each kind a client reads at once.
    """

    delays: tuple[int, ...] = (7,)
    missing: float = 0.0
    twice: float = 0.0
    unknown: float = 0.0
    most: int = 1000

    def halves(self, seed: int) -> Callable[[TableSource, Recorded], HalvesSource]:
        """Return what makes the halves of a client, the same whenever it starts."""

        def make(source: TableSource, recorded: Recorded) -> HalvesSource:
            rng = generator(seed, "labels", source.name)
            of = np.flatnonzero(rng.random(source.length) >= self.missing)
            of = np.sort(np.concatenate([of, of[rng.random(len(of)) < self.twice]]))
            comes = np.maximum(of + rng.choice(self.delays, len(of)), 0)
            order = np.argsort(comes, kind="stable")
            halves = DisorderedHalves(source, comes[order], of[order], recorded)
            halves.unknown = frozenset(np.flatnonzero(rng.random(len(of)) < self.unknown).tolist())
            halves.most = self.most
            return halves

        return make


def late(
    disorder: Disorder, *, window: int, labels: int = 0, seed: int = 0, faults: Faults | None = None, **settings
) -> Simulation:
    """Return the federation with labels apart; `labels` is the seed of their disorder, `seed` that of the faults."""
    simulation = federation(seed=seed, faults=faults, **settings)
    simulation.client = replace(simulation.client, window=window)
    simulation.halves = disorder.halves(labels)
    return simulation
