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
        The detector's statistic, and the threshold that it reached.
    since
        The round in which the change began, as the detector estimates it.
    clients, labels
        The evidence: the clients and labels whose records changed; empty if the detector sees only the total.
    local
        Whether only these clients drifted.
    wanted
        The model that an operator wants the epoch to begin with; empty: the best.
    """

    cause: str
    statistic: float
    threshold: float
    since: int
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    local: bool = False
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A detector's statistic after a round, with or without an alarm, and its threshold."""

    statistic: float
    threshold: float
