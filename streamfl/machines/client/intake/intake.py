"""How a client's records come in until a round takes them: with their labels, or before them; chosen once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.intake.arrivals import Arrivals
from streamfl.machines.client.intake.buffer import Buffer
from streamfl.machines.client.intake.waiting import Awaited, Waiting
from streamfl.machines.client.ledger.evaluated import earlier_answers
from streamfl.machines.client.ledger.known_ledger import LedgerPlace
from streamfl.protocol.decisions import ClientDecision
from streamfl.protocol.events import ClientEvent, FeaturesEnded, SourceEnded, WindowFull
from streamfl.protocol.messages import Joined, Update, Watermark
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Batch

# Answers records whose labels come later, the last known label given: the records with their answers, and decisions.
Answer = Callable[[Batch, str | float | None], tuple[Batch, list[ClientDecision]]]


@dataclass
class Intake:
    """Records that come with their labels."""

    buffer: Buffer  # the pending records, which rounds take

    def take(self, batches: Sequence[Batch], answer: Answer) -> list[ClientDecision]:
        """Take what was read."""
        self.buffer.add([batch.sound() for batch in batches])
        return []

    def note(self, event: ClientEvent) -> None:
        """Note what is said of the source."""

    def room(self, size: Callable[[], int]) -> int:
        """Return how many more records, or labels, may be read; `size` returns how many a round takes."""
        return self.buffer.room

    @property
    def features_room(self) -> int:
        """Return how many more positions of features may be read apart from labels."""
        return 0

    @property
    def queued(self) -> int:
        """Count the labels that wait for their records, or behind one that does."""
        return 0

    @property
    def features_ended(self) -> bool:
        """Tell whether it knows that no features will follow."""
        return False

    @property
    def is_stuck(self) -> bool:
        """Tell whether it knows that features beyond the window are the next to be read."""
        return False

    @property
    def must_move(self) -> bool:
        """Tell whether no more records come before an entry of the ledger has moved the watermark."""
        return False

    @property
    def waiting(self) -> int:
        """Count the records that were answered, and whose labels the ledger has not passed."""
        return 0

    @property
    def is_restored(self) -> bool:
        """Tell whether the records that wait for their labels are here; after a restart they are read again."""
        return True

    @property
    def awaited(self) -> Awaited | None:
        """Return the label that waits for its record, so that those after it wait as well, and what it waits for."""
        return None

    @property
    def complaint(self) -> str:
        """Return why the last label without a record, or of a labelled one, was rejected; "" while none was."""
        return ""

    def read_again(self, joined: Joined) -> tuple[dict[str, int], dict[str, int]]:
        """Begin again where an answer to Join says; return where to read, and what of it is needed first.

        Only positions other than the ledger's are returned.
        """
        self.buffer.clear()
        return {}, {}

    def follow(self, place: LedgerPlace, accepted: Update) -> None:
        """Follow the ledger, which has accepted an update of this client."""

    def needed(self, place: LedgerPlace) -> Mapping[str, int]:
        """Return the position by partition before which nothing is needed."""
        return dict(place.positions)

    def watermark(self, batches: Sequence[Batch]) -> Watermark | None:
        """Return the watermark after an update about some records; None if labels come with records."""
        return None

    def arrived(self, features: Sequence[str], least: int) -> Moments | None:
        """Return the moments of records that have come since the last update; None if labels come with records."""
        return None

    def predictions(
        self, batches: Sequence[Batch], records: RoundRecords, served: FloatArray, repeated: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return what was predicted for a round's records, and what NoChange said, when they came.

        Parameters
        ----------
        batches, records
            The round's records, as they were read, and as the round takes them.
        served, repeated
            What is predicted for them now, and what NoChange says now. The first records may have been too few to
            be sent in an earlier round, which has answered them.
        """
        before = [batch for batch in batches if batch.answered_early]
        if not before or not len(served):
            return served, repeated
        known, _ = earlier_answers(before, records)
        return np.concatenate([known, served[len(known) :]]), repeated


@dataclass
class DelayedLabels(Intake):
    """Records whose labels come later, in a partition of their own."""

    window: int  # see `Waiting`
    by_size: bool  # whether a round ends with a number of records: then labels of one round are read at a time
    _waiting: Waiting = field(init=False)
    _arrivals: Arrivals = field(default_factory=Arrivals)

    def __post_init__(self) -> None:
        self._waiting = Waiting(self.window)

    def take(self, batches: Sequence[Batch], answer: Answer) -> list[ClientDecision]:
        """Answer records, and let them wait for their labels; labels wait for their records."""
        decisions: list[ClientDecision] = []
        for batch in batches:
            if batch.half is not None and batch.half.kind == "features":
                known, told = answer(batch, self._waiting.known.last)
                decisions += told
                if batch.answers is None:  # they come for the first time
                    self._arrivals.add(known)
                self._waiting.take_features(known)
            else:
                self._waiting.take_labels(batch.sound())
            self.buffer.add(self._waiting.joined())
        return decisions

    def note(self, event: ClientEvent) -> None:
        """Note where the features end, or the window."""
        self._waiting.is_stuck |= isinstance(event, WindowFull)
        self._waiting.ended |= isinstance(event, SourceEnded | FeaturesEnded)
        self.buffer.add(self._waiting.joined())

    def room(self, size: Callable[[], int]) -> int:
        """Return how many more labels may be read."""
        room = max(0, self.buffer.room - self.queued)
        return max(0, min(room, size() - self.buffer.size - self.queued)) if self.by_size else room

    @property
    def features_room(self) -> int:
        """Return how many more positions of features may be read."""
        return self._waiting.room

    @property
    def queued(self) -> int:
        """Count the labels that wait for their records, or behind one that does."""
        return self._waiting.queued

    @property
    def features_ended(self) -> bool:
        """Tell whether it knows that no features will follow."""
        return self._waiting.ended

    @property
    def is_stuck(self) -> bool:
        """Tell whether it knows that features beyond the window are the next to be read."""
        return self._waiting.is_stuck

    @property
    def must_move(self) -> bool:
        """Tell whether no more records come before an entry of the ledger has moved the watermark."""
        return self._waiting.must_move

    @property
    def waiting(self) -> int:
        """Count the records that were answered, and whose labels the ledger has not passed."""
        return self._waiting.records

    @property
    def is_restored(self) -> bool:
        """Tell whether the records that wait for their labels are here; after a restart they are read again."""
        return self._waiting.is_restored

    @property
    def awaited(self) -> Awaited | None:
        """Return the label that waits for its record, so that those after it wait as well, and what it waits for."""
        return self._waiting.awaited

    @property
    def complaint(self) -> str:
        """Return why the last label without a record, or of a labelled one, was rejected; "" while none was."""
        return self._waiting.complaint

    def read_again(self, joined: Joined) -> tuple[dict[str, int], dict[str, int]]:
        """Forget the records that wait; return where features and labels are to be read again."""
        self.buffer.clear()
        self._arrivals.forget_described()  # the ledger has moved: by the update that described them, for all it knows
        watermark, needed = joined.watermark, dict(joined.positions)
        self._waiting.begin(watermark, _next_label(joined.positions))
        return ({} if watermark is None else self._from(watermark, joined.positions)), needed

    def follow(self, place: LedgerPlace, accepted: Update) -> None:
        """Follow the watermark of the ledger."""
        if accepted.numbers.arrived is not None:
            self._arrivals.forget_described()
        if place.watermark is not None:
            self._waiting.follow(place.watermark, _next_label(place.positions))
            self.buffer.clear()
            self.buffer.add(self._waiting.joined())

    def needed(self, place: LedgerPlace) -> Mapping[str, int]:
        """Return the beginning of the window of features, and that of their labels."""
        return super().needed(place) if place.watermark is None else self._from(place.watermark, place.positions)

    def _from(self, watermark: Watermark, positions: Mapping[str, int]) -> dict[str, int]:
        """Return the first positions that may still be needed after a watermark."""
        return {
            **dict.fromkeys(positions, watermark.labels),
            watermark.partition: max(0, watermark.features - self.window),
        }

    def watermark(self, batches: Sequence[Batch]) -> Watermark | None:
        """Return the watermark after an update about some records."""
        return self._waiting.after(batches)

    def arrived(self, features: Sequence[str], least: int) -> Moments | None:
        """Return the moments of records that have come since the last update; None if they are fewer than `least`."""
        return self._arrivals.moments(features, least)

    def predictions(
        self, batches: Sequence[Batch], records: RoundRecords, served: FloatArray, repeated: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return what was answered when the records came."""
        return earlier_answers(batches, records)


def intake(buffer: Buffer, *, window: int | None, by_size: bool) -> Intake:
    """Return how records come in; `window` is None if they come with their labels."""
    return Intake(buffer) if window is None else DelayedLabels(buffer, window, by_size)


def _next_label(positions: Mapping[str, int]) -> int | None:
    """Return the ledger's position among labels: they are in one partition."""
    return next(iter(positions.values()), None)
