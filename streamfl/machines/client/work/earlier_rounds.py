"""What a client keeps of earlier rounds: old records to score models on, and the last label for NoChange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamfl.learning.history import History, KeptRound
from streamfl.machines.client.intake.no_change import NoChange
from streamfl.machines.client.intake.waiting import pair
from streamfl.machines.client.work.comparison import Comparison
from streamfl.machines.client.work.held_out import Holdout
from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.protocol.messages import Accepted, HeldRecord, Joined, RoundClosed, SampledRound
from streamfl.protocol.records import Batch


@dataclass
class EarlierRounds:
    """Records of earlier rounds, as the ledger lists them. A client that starts again reads them again."""

    history: History = field(default_factory=History)  # the sample of old rounds
    comparison: Comparison = field(default_factory=Comparison)  # the held-out records
    no_change: NoChange = field(default_factory=NoChange)  # the baseline predictor
    awaited: Joined | None = None  # the Joined whose records are being read again; None if there is none

    def differs_from(self, joined: Joined) -> bool:
        """Tell whether the records here differ from those the ledger lists, so that some must be read again."""
        return bool(self._missing(joined)) or set(joined.held) != set(self.comparison.holdout.places())

    def await_records(self, joined: Joined) -> Mapping[str, Sequence[int]]:
        """Wait for the records that Joined lists; return their positions by partition, sorted, each once."""
        self.awaited = joined
        listed = _together(self._missing(joined), joined.held)
        if joined.watermark is None:
            return listed
        return {**listed, joined.watermark.partition: tuple(sorted(set(_beside(joined).values())))}

    def restore(self, joined: Joined, batches: Sequence[Batch]) -> None:
        """Take the records that were read again, in halves if labels come later."""
        if joined.watermark is not None:
            batches = pair(batches, _beside(joined))
        self.history.restore(self._missing(joined), batches)
        self.comparison = Comparison(Holdout.restore(joined.held, batches))
        self.awaited = None

    def accept(self, sent: SentUpdate, accepted: Accepted, closed: RoundClosed) -> None:
        """Keep the records of an accepted update."""
        if sent.kept:
            self.history.rounds[closed.round] = KeptRound(accepted.records / closed.records, sent.kept)
        self.comparison = sent.comparison
        self.no_change.learn(sent.truth, sent.labels)

    def _missing(self, joined: Joined) -> tuple[SampledRound, ...]:
        return tuple(kept for kept in joined.sample if kept.round not in self.history.rounds)


def _beside(joined: Joined) -> dict[tuple[str, int], int]:
    """Return where the features of the listed records are, by the partition and position of the label."""
    beside = {(held.partition, held.position): held.beside for held in joined.held if held.beside is not None}
    for kept in joined.sample:
        for partition, positions in kept.positions.items():
            places = kept.beside.get(partition, ())
            beside.update({(partition, at): place for at, place in zip(positions, places, strict=False)})
    return beside


def _together(sample: tuple[SampledRound, ...], held: tuple[HeldRecord, ...]) -> Mapping[str, tuple[int, ...]]:
    positions: dict[str, set[int]] = {}
    for kept in sample:
        for partition, places in kept.positions.items():
            positions.setdefault(partition, set()).update(places)
    for record in held:
        positions.setdefault(record.partition, set()).add(record.position)
    return {partition: tuple(sorted(places)) for partition, places in positions.items()}
