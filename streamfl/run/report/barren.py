"""Entries in a row that have taught the model nothing, and why: the federation runs, and is of no use."""

from dataclasses import dataclass

from streamfl.run.report.words import counted
from streamfl.run.summary import RoundSummary

# So many entries in a row without a record are no accident: a single one moves positions past bad records.
MOST_BARREN = 3


@dataclass
class Barren:
    """Counts entries in a row that have learnt no record."""

    entries: int = 0  # how many there are
    # Their bad records, refused messages, those that came too late, and records that the model could not learn.
    rejected: int = 0
    refused: int = 0
    late: int = 0
    unlearnt: int = 0
    awaits_labels: bool = False  # whether labels come later than records

    def take(self, closed: RoundSummary) -> None:
        """Take an entry into account."""
        if closed.records > closed.unlearnt:
            self.entries = self.rejected = self.refused = self.late = self.unlearnt = 0
            return
        self.entries += 1
        self.awaits_labels = closed.awaits_labels
        self.rejected += closed.rejected
        self.refused += closed.refused
        self.late += closed.late
        self.unlearnt += closed.unlearnt

    @property
    def reason(self) -> str | None:
        """Return that nothing is learnt, and what happened instead; None while that may be an accident.

        >>> Barren(3, rejected=120).reason
        'nothing was learnt in the last 3 entries: 120 records were rejected'
        >>> Barren(4, refused=1, late=2).reason
        'nothing was learnt in the last 4 entries: 1 message was refused, 2 messages were too late'
        >>> Barren(2, rejected=9).reason
        >>> Barren(6, awaits_labels=True).reason
        'nothing was learnt in the last 6 entries: no label has arrived for any record'
        """
        if self.entries < MOST_BARREN:
            return None
        return f"nothing was learnt in the last {self.entries} entries: {self.why}"

    @property
    def why(self) -> str:
        """Return what happened in these entries, in place of learning.

        >>> Barren(1, rejected=1).why, Barren(2).why
        ('1 record was rejected', 'no update had any record')
        """
        happened = (
            (self.rejected, "record", "rejected"),
            (self.refused, "message", "refused"),
            (self.late, "message", "too late"),
            (self.unlearnt, "record", "of no use to the model"),
        )
        parts = [f"{counted(n, noun)} {'was' if n == 1 else 'were'} {what}" for n, noun, what in happened if n]
        nothing = "no label has arrived for any record" if self.awaits_labels else "no update had any record"
        return ", ".join(parts) or nothing
