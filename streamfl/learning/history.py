"""A client's bounded sample of old rounds, chosen by a hash of ordinals, so that it can be restored."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import IntArray
from streamfl.protocol.messages import SampledRound
from streamfl.protocol.records import Batch
from streamfl.sampling import ranks


def chosen(
    batches: Sequence[Batch], *, t: int, first: int, keep: int, seed: int, client: str
) -> tuple[tuple[Batch, ...], SampledRound]:
    """Return the records of round t that a history sample keeps, and their positions.

    Parameters
    ----------
    first
        The ordinal of the round's first record: the number of records that the client read before, also bad ones.
    keep
        The largest number of records to keep, at least 1: those whose ordinals have the smallest hashes.
    seed, client
        Key of the hash.

    Raises
    ------
    ValueError
        `keep` is less than 1.
    """
    if keep < 1:
        raise ValueError(f"a sample of {keep} records")
    ordinals = _ordinals(batches, first)
    hashes = ranks(seed, client, np.concatenate([np.zeros(0, np.int64), *ordinals]))
    bar = np.partition(hashes, keep - 1)[keep - 1] if len(hashes) > keep else np.uint64(2**64 - 1)
    parts: list[Batch] = []
    kept: list[int] = []
    positions: dict[str, tuple[int, ...]] = {}
    beside: dict[str, tuple[int, ...]] = {}
    at = 0
    for batch, own in zip(batches, ordinals, strict=True):
        rows = np.flatnonzero(hashes[at : at + len(batch)] <= bar)
        at += len(batch)
        parts.append(batch.only(rows))
        kept += own[rows].tolist()
        partition = batch.span.partition
        positions[partition] = (*positions.get(partition, ()), *parts[-1].positions.tolist())
        if parts[-1].beside is not None:
            beside[partition] = (*beside.get(partition, ()), *parts[-1].beside.tolist())
    sampled = SampledRound(round=t, share=0.0, positions=positions, ordinals=tuple(kept), beside=beside)
    return tuple(parts), sampled


def _ordinals(batches: Sequence[Batch], first: int) -> list[IntArray]:
    ordinals: list[IntArray] = []
    for batch in batches:
        ordinals.append(batch.ordinals(first))
        first += batch.read
    return ordinals


@dataclass
class KeptRound:
    """The kept records of one round; `share` is the client's share of all records of that round."""

    share: float
    batches: tuple[Batch, ...]

    @property
    def records(self) -> int:
        """Count the records kept."""
        return sum(map(len, self.batches))


@dataclass
class History:
    """The rounds kept so far, as raw records, which stay valid when the scaler changes.

    >>> from streamfl.protocol.records import Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> history = History()
    >>> history.restore([SampledRound(round=4, share=0.5, positions={"p": (0, 2)})], [batch])
    >>> history.rounds[4].records, history.rounds[4].share
    (2, 0.5)
    >>> history.retain([7])
    >>> history.rounds
    {}
    """

    rounds: dict[int, KeptRound] = field(default_factory=dict)

    def retain(self, sampled: Sequence[int]) -> None:
        """Forget every round that is no longer sampled."""
        self.rounds = {t: kept for t, kept in self.rounds.items() if t in sampled}

    def restore(self, sample: Sequence[SampledRound], batches: Sequence[Batch]) -> None:
        """Take over records that were read again; records that the source no longer has are lost."""
        for kept in sample:
            parts = [_at(b, kept.positions.get(b.span.partition, ())) for b in batches]
            self.rounds[kept.round] = KeptRound(kept.share, tuple(p for p in parts if len(p)))


def _at(batch: Batch, positions: Sequence[int]) -> Batch:
    return batch.only(np.flatnonzero(np.isin(batch.positions, np.asarray(positions, np.int64))))
