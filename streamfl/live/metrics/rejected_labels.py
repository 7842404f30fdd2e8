"""What a host logs of labels that were rejected: now and then, for all its clients at once."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

import structlog

from streamfl.protocol.messages import Accepted
from streamfl.run.report.words import listed
from streamfl.run.summary import late_labels

LOG = structlog.get_logger("streamfl.client")

# Why labels are rejected because they had no record: see `Watermark`.
REASONS = ("unmatched", "repeated", "unusable")

# Seconds between two lines, however many labels are rejected.
# docs/choices.md, "Labels whose record does not come".
EVERY = 300.0


@dataclass
class RejectedLabels:
    """Adds up the rejected labels of a host's clients, from the entries that reject them, until a line is due.

    An entry is heard once, so what was reported before a restart is not reported again.
    """

    _counts: Counter[str] = field(default_factory=Counter)  # by reason and by client, since the last line
    _clients: Counter[str] = field(default_factory=Counter)
    _due: float = -inf

    def take(self, accepted: Iterable[Accepted]) -> None:
        """Take what an entry has accepted of this host's clients."""
        for one in accepted:
            rejected = {name: count for name, count in late_labels([one]).items() if name in REASONS and count}
            self._counts.update(rejected)
            if rejected:
                self._clients[one.client] += sum(rejected.values())

    def log(self, now: float, complaint: Callable[[str], str]) -> None:
        """Log the sums, if there are any and a line is due.

        Parameters
        ----------
        now
            Seconds.
        complaint
            Returns why the last label of a client was rejected; "" if that is not known.
        """
        if not self._clients or now < self._due:
            return
        names = [name for name, _ in self._clients.most_common()]
        last = next((why for name in names if (why := complaint(name))), "")
        counts = {reason: self._counts[reason] for reason in REASONS}
        # A producer that writes at least once repeats labels now and then.
        log = LOG.info if self._counts.keys() == {"repeated"} else LOG.warning
        log("labels rejected", **counts, clients=listed(names), last=last)
        self._counts, self._clients, self._due = Counter(), Counter(), now + EVERY
