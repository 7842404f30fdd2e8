"""What a detector reports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector's finding after a round.

    Parameters
    ----------
    cause
        The detector's name: `glr`, `test1`, `test2`.
    statistic, threshold
        The number that reached the other.
    since
        The round with which the change began, as far as the detector can tell.
    clients, labels
        The evidence: whose records, of which labels, changed; empty where a detector sees only the total.
    local
        Whether only the clients named have drifted.
    """

    cause: str
    statistic: float
    threshold: float
    since: int
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    local: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a detector's statistic stands after a round, alarm or not."""

    statistic: float
    threshold: float
