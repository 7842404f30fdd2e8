"""The alarm for frequent labels that are new to the epoch: no test of scores can know them."""

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.protocol.alarm import Alarm

# A new label is an alarm if more than SPREAD of the clients have it, and there are fewer than KNOWN earlier records
# of it. docs/choices.md, "Influence", "Excess".
SPREAD, KNOWN = 0.2, 10


def new_label_alarm(
    observed: RoundEvidence, labels: tuple[str, ...], n: FloatArray, before: FloatArray, least: float
) -> Alarm | None:
    """Return an alarm for frequent labels that are new to the epoch.

    Parameters
    ----------
    n
        Its records by client and label, shape (clients, labels).
    before
        Earlier records by label, shape (labels,).
    least
        The part of the round's records from which on a label is frequent.
    """
    share, having = n.sum(axis=0) / max(1, observed.records), (n > 0.0).sum(axis=0)
    unseen = (before < KNOWN) & (share > least) & (having > SPREAD * len(n))
    known = set(observed.known_labels)
    found = {name: float(x) for name, x, new in zip(labels, share, unseen, strict=True) if new and name not in known}
    if not found or not known:
        return None
    return Alarm("new-label", max(found.values()), least, since=observed.round, labels=tuple(found))
