"""Logs unusable messages without filling the log: the first ones each, later ones ever more seldom."""

from collections import Counter
from typing import Any

from streamfl.bounds import bounded

# So many of a kind are logged one by one; later only the 100th, the 1,000th and so on, with the count.
ONE_BY_ONE = 10


class Tally:
    """Counts unusable messages by kind.

    Examples
    --------
    >>> from structlog.testing import capture_logs
    >>> import structlog
    >>> with capture_logs() as logged:
    ...     tally = Tally(structlog.get_logger(), "unusable message")
    ...     for offset in range(1000):
    ...         tally.note("f.models", "no model", offset=offset)
    >>> len(logged), logged[-1]["count"], tally.total
    (12, 1000, 1000)
    """

    def __init__(self, log: Any, event: str) -> None:
        self._log = log
        self._event = event
        self._counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return the number of messages of all kinds."""
        return self._counts.total()

    def note(self, kind: str, reason: str, **place: object) -> None:
        """Count one more message of a kind; log it if its number is due."""
        self._counts[kind] += 1
        count = self._counts[kind]
        if count <= ONE_BY_ONE or str(count).strip("0") == "1":
            self._log.warning(self._event, topic=kind, reason=bounded(reason), count=count, **place)
