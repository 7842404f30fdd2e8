"""The small federation with delayed labels, in every kind of disorder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from worlds.faulty import Faults
from worlds.simulation import Simulation

from simulation.federation import federation
from streamfl.arrays import FloatArray, IntArray
from streamfl.machines.client.intake.waiting import SLACK
from streamfl.protocol.delayed import Half
from streamfl.protocol.records import Batch, Rejection
from streamfl.run.dealing.delayed import HalvesSource
from streamfl.run.dealing.source import TableSource
from streamfl.runtime.log.recorded import Recorded
from streamfl.sampling import generator

# Milliseconds between two records, where the log says when they were written.
APART = 10_000


class DisorderedHalves(HalvesSource):
    """Halves of which some are bad, or labels with a key that no record has; they may come a few at a time."""

    unknown: frozenset[int] = frozenset()
    unreadable: frozenset[int] = frozenset()  # labels
    rejected: frozenset[int] = frozenset()  # records
    nameless: frozenset[int] = frozenset()  # those of them whose key is not known
    written: tuple[IntArray, IntArray] | None = None  # when features and labels were written
    most: int = 1000

    @property
    def due(self) -> int:
        """Count the labels that come before the next features and the slack."""
        return int(np.searchsorted(self._comes, self.asked - SLACK / APART))

    def poll_halves(self, labels: int, features: int, *, waits: bool = False) -> Sequence[Batch]:
        """Return the next halves, at most `most` of each kind."""
        return super().poll_halves(min(labels, self.most), min(features, self.most), waits=waits)

    def _labels(self, start: int, end: int) -> Batch:
        batch = super()._labels(start, end)
        if batch.half is None:
            raise AssertionError("labels are halves")
        keys = [
            f"nobody {position}" if position in self.unknown else key
            for position, key in zip(batch.positions.tolist(), batch.half.keys.tolist(), strict=True)
        ]
        times = None if self.written is None else self.written[1][batch.positions]
        half = Half("labels", np.array(keys, dtype=np.object_), times)
        return _without(replace(batch, half=half), self.unreadable)

    def _features_of(self, whole: Batch) -> Batch:
        batch = super()._features_of(whole)
        if self.written is not None and batch.half is not None:
            batch = replace(batch, half=replace(batch.half, written=self.written[0][batch.positions]))
        return _without(batch, self.rejected, self.nameless)


def _without(batch: Batch, bad: frozenset[int], nameless: frozenset[int] = frozenset()) -> Batch:
    """Return a half with the records or labels at some positions rejected, some of them without their keys."""
    is_bad = np.array([position in bad for position in batch.positions.tolist()], np.bool_)
    if batch.half is None or not is_bad.any():
        return batch
    wrong = [
        Rejection(position, "no number", key="" if position in nameless else key)
        for position, key in zip(batch.positions[is_bad].tolist(), batch.half.keys[is_bad].tolist(), strict=True)
    ]
    rejected = sorted([*batch.rejected, *wrong], key=lambda one: one.position)
    return replace(batch.only(np.flatnonzero(~is_bad)), rejected=tuple(rejected))


@dataclass(frozen=True)
class Disorder:
    """How labels come.

    Parameters
    ----------
    delays
        How many records later than their own labels come, drawn for each; below 1 it comes before.
    missing, twice, unknown
        The share of labels that never come, that come a second time, and whose key no record has.
    rejected, unreadable
        The share of records that are rejected, every other one without its key, and of labels.
    lies
        The share of records and labels that are said to have been written at any other time; None if the log does not
        say when any of them was written.
    most
        How many halves of each kind a client reads at once.
    backlog
        Whether all labels lie in the log before the first record, in the order in which they would have come.
    """

    delays: tuple[int, ...] = (7,)
    missing: float = 0.0
    twice: float = 0.0
    unknown: float = 0.0
    rejected: float = 0.0
    unreadable: float = 0.0
    lies: float | None = None
    most: int = 1000
    backlog: bool = False

    def halves(self, seed: int) -> Callable[[TableSource, Recorded], HalvesSource]:
        """Return what makes the halves of a client, the same whenever it starts."""

        def make(source: TableSource, recorded: Recorded) -> HalvesSource:
            rng = generator(seed, "labels", source.name)
            of = np.flatnonzero(rng.random(source.length) >= self.missing)
            of = np.sort(np.concatenate([of, of[rng.random(len(of)) < self.twice]]))
            comes = np.maximum(of + rng.choice(self.delays, len(of)), 0)
            order = np.argsort(comes, kind="stable")
            halves = DisorderedHalves(source, comes[order] * (not self.backlog), of[order], recorded)
            halves.unknown = frozenset(np.flatnonzero(rng.random(len(of)) < self.unknown).tolist())
            halves.most = self.most
            halves.rejected = frozenset(np.flatnonzero(rng.random(source.length) < self.rejected).tolist())
            halves.nameless = frozenset(position for position in halves.rejected if position % 2)
            halves.unreadable = frozenset(np.flatnonzero(rng.random(len(of)) < self.unreadable).tolist())
            if self.lies is not None:
                halves.written = self._written(np.arange(source.length), rng), self._written(comes[order] - 0.5, rng)
            return halves

        return make

    def _written(self, at: FloatArray | IntArray, rng: np.random.Generator) -> IntArray:
        """Return when halves were written that come at some positions of features."""
        true = (at * APART).astype(np.int64) + 100 * APART
        lying = rng.random(len(at)) < (self.lies or 0.0)
        return np.where(lying, rng.integers(0, 1000 * APART, len(at)), true)


def late(
    disorder: Disorder, *, window: int, labels: int = 0, seed: int = 0, faults: Faults | None = None, **settings
) -> Simulation:
    """Return the federation with delayed labels; `labels` is the seed of their disorder, `seed` that of the
    faults."""
    simulation = federation(seed=seed, faults=faults, **settings)
    simulation.client = replace(simulation.client, window=window)
    simulation.halves = disorder.halves(labels)
    return simulation
