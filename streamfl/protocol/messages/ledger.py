"""Places in the records of a client that the ledger keeps: watermarks, sampled rounds, held-out records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Watermark:
    """How far a client has come in the features of its records, whose labels come later.

    What a record is learnt from lies at a position of its label; the watermark says which records still wait for
    theirs. It tells nothing about a record but its position, and takes some 14 bytes of an update.
    """

    partition: str  # the partition of the features
    features: int  # the watermark: see `streamfl.machines.client.intake.waiting`
    # The position of the first label of a record in the window; at most the ledger's position among the labels.
    labels: int = 0
    # Records that were written off: no label came in time. In an update those of its round, else all so far.
    expired: int = 0

    # Rejected labels whose record was not found, of a record that had one, and of a record that was rejected as well;
    # like `expired` of a round, or all.
    unmatched: int = 0
    repeated: int = 0
    unusable: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return all numbers: none is ever below 0."""
        return (self.features, self.labels, self.expired, *self.released)

    @property
    def released(self) -> tuple[int, int, int]:
        """Return how many labels found no record: `unmatched`, `repeated` and `unusable`."""
        return (self.unmatched, self.repeated, self.unusable)

    def after(self, before: "Watermark | None") -> "Watermark":
        """Return a round's watermark with the counts of all rounds, given the watermark before the round.

        >>> Watermark("f", 9, 4, expired=2, repeated=1).after(Watermark("f", 5, 3, expired=1))
        Watermark(partition='f', features=9, labels=4, expired=3, unmatched=0, repeated=1, unusable=0)
        """
        if before is None:
            return self
        return replace(
            self,
            expired=before.expired + self.expired,
            unmatched=before.unmatched + self.unmatched,
            repeated=before.repeated + self.repeated,
            unusable=before.unusable + self.unusable,
        )


@dataclass(frozen=True, kw_only=True)
class SampledRound:
    """The records of one client in the history sample of one round."""

    round: int
    share: float  # p_n of that round: the client's records over the records of all clients, in [0, 1]
    positions: Mapping[str, tuple[int, ...]]  # the positions of the records kept, by partition
    ordinals: tuple[int, ...] = ()
    # If labels come later: where the features of these records are, in the same order, by the same partition.
    beside: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HeldRecord:
    """A record of a client's holdout, which is kept out of training."""

    round: int  # the round in which it was held out
    ordinal: int
    # Where it can be read again; if labels come later, where its label can.
    partition: str
    position: int
    beside: int | None = None  # if labels come later: the position of its features in their partition
