"""The counts of a run by client and round, the same for federations and peers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.run.evaluation.result import Figures
from streamfl_benchmarks.records import Drawn

COUNTS = ("records", "served", "at_start", "post_update", "no_change")


@dataclass
class Meter:
    """Counts of right predictions, shape (clients, rounds) each, and the sum of losses of each round.

    Parameters
    ----------
    names
        The clients, in the order of rows.
    rounds
        How many rounds.

    Examples
    --------
    >>> meter = Meter(("c0",), 2)
    >>> meter.add("c0", 1, records=4, served=3, at_start=2)
    >>> meter.figures().prequential, meter.figures().round_start, meter.figures().post_update
    (0.75, 0.5, 0.0)
    """

    names: Sequence[str]
    rounds: int
    records: IntArray = field(init=False)
    served: IntArray = field(init=False)
    at_start: IntArray = field(init=False)
    post_update: IntArray = field(init=False)
    no_change: IntArray = field(init=False)
    loss_sums: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start all counts at 0."""
        self._row = {name: i for i, name in enumerate(self.names)}
        for counts in COUNTS:
            setattr(self, counts, np.zeros((len(self.names), self.rounds), np.int64))
        self.loss_sums = np.zeros(self.rounds)

    @classmethod
    def of(cls, drawn: Drawn) -> "Meter":
        """Return a meter for a stream, NoChange counted already."""
        meter = cls(tuple(drawn.clients), drawn.stream.rounds)
        for name, own in drawn.clients.items():
            for t in range(1, drawn.stream.rounds + 1):
                meter.add(name, t, no_change=own.repeats(t))
        return meter

    @classmethod
    def joined(cls, meters: Sequence["Meter"]) -> "Meter":
        """Return the counts of different clients in one meter."""
        whole = cls(tuple(name for meter in meters for name in meter.names), meters[0].rounds)
        for counts in COUNTS:
            setattr(whole, counts, np.concatenate([getattr(meter, counts) for meter in meters]))
        whole.loss_sums = np.sum([meter.loss_sums for meter in meters], axis=0)
        return whole

    def add(self, client: str, t: int, **counts: int) -> None:
        """Count what a client got right in round t, each count by the name of its field."""
        for name, count in counts.items():
            getattr(self, name)[self._row[client], t - 1] += count

    def accuracy(self, clients: Iterable[str], rounds: Iterable[int]) -> tuple[int, int]:
        """Return right served predictions and records of some clients in some rounds."""
        where = np.ix_([self._row[name] for name in clients], [t - 1 for t in rounds])
        return int(self.served[where].sum()), int(self.records[where].sum())

    def figures(self) -> Figures:
        """Return the four accuracies over all records."""
        n = int(self.records.sum())
        counts = (self.served, self.at_start, self.post_update, self.no_change)
        prequential, round_start, post_update, no_change = (int(c.sum()) / n if n else None for c in counts)
        return Figures(prequential=prequential, round_start=round_start, post_update=post_update, no_change=no_change)

    def add_losses(self, t: int, losses: FloatArray) -> None:
        """Take the losses of some records of round t."""
        self.loss_sums[t - 1] += losses.sum()

    def mean_loss(self) -> float:
        """Return the mean loss over all records."""
        return float(self.loss_sums.sum() / self.records.sum())

    def losses(self) -> FloatArray:
        """Return the mean loss of each round, shape (rounds,); NaN for one without records."""
        n = self.records.sum(axis=0)
        means: FloatArray = np.where(n > 0, self.loss_sums / np.maximum(n, 1), np.nan)
        return means
