"""The content of a client's Join: sums over its first records, their labels, and the unit of their targets."""

import numpy as np

from streamfl.learning.local_round import labels_in
from streamfl.machines.client.work.round import targets_in
from streamfl.protocol.messages import Join
from streamfl.protocol.moments import moments_of
from streamfl.protocol.records import Batch
from streamfl.protocol.registry import TargetUnit


def introduction(
    client: str,
    nonce: str,
    after: int,
    first: tuple[Batch, ...],
    question: int,
    *,
    period: int | None = None,
    pooled: bool = False,
    key: str = "",
) -> Join:
    """Return the Join that introduces a client and asks for its place in the ledger.

    Parameters
    ----------
    first
        Its first records; none once the coordinator knows the client.
    period
        With rounds by event time, the period of the first record, if it is known.
    pooled
        Whether numbers about records are only sent as sums over all clients: then features are only named.
    key
        The public key for masks, if there are any.

    Examples
    --------
    >>> from streamfl.protocol.records import Span
    >>> X = np.array([[1.0, np.nan], [2.0, np.nan]])
    >>> first = Batch(Span("p", 0, 2), np.arange(2), ("x", "empty"), X, np.zeros(2), ("a",))
    >>> join = introduction("c0", "7f", 0, (first,), question=1)
    >>> join.records, join.labels, join.moments.features, join.moments.mean
    (2, ('a',), ('x',), array([1.5]))
    """
    valued = {name for batch in first for name in batch.valued()}
    labels, moments = labels_in(first), moments_of(first).among(valued)
    return Join(
        client=client,
        nonce=nonce,
        after=after,
        moments=moments.only(np.zeros(len(moments.features), np.bool_)) if pooled else moments,
        labels=labels,
        target=TargetUnit() if labels else TargetUnit.of(targets_in(first)),
        records=sum(map(len, first)),
        question=question,
        period=period,
        key=key,
    )
