"""Rounds in a row in which more updates came too late than in time: the deadline is too short."""

from dataclasses import dataclass, field
from typing import Literal

from streamfl.run.report.words import count
from streamfl.run.summary import RoundSummary

# Of the last so many entries, in how many more updates came too late than in time before that is no accident.
# docs/choices.md, "How long a round waits".
LAST, OFTEN = 5, 3

REMEDY = "raise `[rounds] deadline`, or `quorum` if it is a number"


@dataclass
class Lateness:
    r"""In which of the last entries more messages came too late than updates counted.

    Examples
    --------
    >>> lateness = Lateness([True, True])
    >>> lateness.reason
    >>> lateness.were_late.append(True)
    >>> print(*lateness.reason.split("; "), sep="\n")
    in 3 of the last 3 rounds more updates came too late than in time
    raise `[rounds] deadline`, or `quorum` if it is a number
    """

    were_late: list[bool] = field(default_factory=list)

    def take(self, closed: RoundSummary) -> Literal["began", "ended"] | None:
        """Take an entry into account; return whether lateness that is no accident began or ended with it."""
        before = self.reason
        self.were_late.append(closed.late > closed.clients)
        del self.were_late[:-LAST]
        if (before is None) == (self.reason is None):
            return None
        return "began" if before is None else "ended"

    @property
    def reason(self) -> str | None:
        """Return how often more updates were late than in time and what to do; None while that may be an accident."""
        late = sum(self.were_late)
        if late < OFTEN:
            return None
        of = count(len(self.were_late))
        return f"in {late} of the last {of} rounds more updates came too late than in time; {REMEDY}"
