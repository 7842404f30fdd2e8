"""What a client may tell in totals of masked sums, by the law in `streamfl.learning.pooling.masks`."""

from collections.abc import Sequence

from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.protocol.messages import Disclosed, RoundOpened, Unmask, digest_of, ends_of
from streamfl.protocol.records import Batch


def repeats(opened: RoundOpened, disclosed: Disclosed) -> bool:
    """Tell whether a round is the one for which a total was told about pending records, or repeats that."""
    return disclosed.entry in (opened.entry, opened.totals.repeats)


def are_new(batches: Sequence[Batch], disclosed: Disclosed | None, min_records: int) -> bool:
    """Tell whether a total about records keeps the law, or there are none that one could be told about.

    Parameters
    ----------
    disclosed
        The pending records over which a total was told.
    min_records
        Minimum number of good records in what is published.
    """
    if disclosed is None:
        return True
    new = [batch.after(disclosed.ends.get(batch.span.partition, 0)) for batch in batches]
    return sum(map(len, new)) >= min_records or not any(map(len, batches))


def may_tell(asked: Unmask, sent: SentUpdate, opened: RoundOpened, min_records: int) -> bool:
    """Tell whether a client may tell seeds for the total that is asked for."""
    before = sent.disclosed
    if before is not None and repeats(opened, before):
        return digest_of(asked.attempts) == before.clients and ends_of(sent.update.spans) == before.ends
    return are_new(sent.batches, before, min_records)
