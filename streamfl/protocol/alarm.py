"""What a detector reports."""

from dataclasses import dataclass

from streamfl.protocol.digits import significant


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector's finding after a round."""

    cause: str  # the detector's name: `glr`, `test1`, `test2`
    # The detector's statistic, and the threshold that it reached.
    statistic: float
    threshold: float
    since: int  # the round in which the change began, as the detector estimates it
    # The evidence: the clients and labels whose records changed; empty if the detector sees only the total.
    clients: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    local: bool = False  # whether only these clients drifted
    wanted: str = ""  # the model that an operator wants the epoch to begin with; empty: the best


@dataclass(frozen=True, slots=True)
class Reading:
    """A detector's statistic after a round, with or without an alarm, and its threshold."""

    statistic: float
    threshold: float

    def for_people(self) -> "Reading":
        """Return both in six digits: nothing is decided by what an entry says of them.

        >>> Reading(2 / 3, 9.21034037).for_people()
        Reading(statistic=0.666667, threshold=9.21034)
        """
        return Reading(significant(self.statistic), significant(self.threshold))
