"""What the page is made of: the history and the dead letters that its reader has so far."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from streamfl.live.page.history import PageHistory
from streamfl.live.page.letters import LetterKind, Letters
from streamfl.run.page.health import stalled_minutes
from streamfl.run.page.sections import Sections, sections, update_row
from streamfl.runtime.ports import PartitionReach


@dataclass(eq=False)
class PageSource:
    """The federation as the page shows it.

    Examples
    --------
    >>> source = PageSource("forest")
    >>> source.now()[1]["about"]["name"]
    'forest'
    """

    name: str  # the federation's name
    # What its coordinator told. It may be exchanged for a longer one.
    history: PageHistory = field(default_factory=PageHistory)
    letters: Letters = field(default_factory=Letters)  # its dead letters
    status: Callable[[], Sections] = dict  # what is said of the reading itself: how far it is, and what it left out
    clock: Callable[[], float] = time.time  # seconds since 1970
    # How far the partitions of clients go, and how often that has changed.
    reaches: Mapping[str, PartitionReach] = field(default_factory=dict)
    reach_changes: int = 0

    @property
    def version(self) -> tuple[int, int, int, int, int, str]:
        """Return what differs whenever the page would show something else."""
        history = self.history
        minutes = stalled_minutes(history.now, self._milliseconds)
        return id(history), history.changes, self.letters.changes, minutes, self.reach_changes, repr(self.status())

    @property
    def _milliseconds(self) -> int:
        return int(1000.0 * self.clock())

    def take_reaches(self, reaches: Mapping[str, PartitionReach]) -> None:
        """Take how far the partitions of clients go now."""
        if reaches != self.reaches:
            self.reaches, self.reach_changes = reaches, self.reach_changes + 1

    def partitions(self) -> set[str]:
        """Return the partitions of the clients that take part."""
        with self.history.lock:
            clients = self.history.now.clients.values()
            return {name for client in clients if client.state == "present" for name in client.spans}

    def now(self) -> tuple[Any, Sections]:
        """Return the version and the sections of the page as it is now."""
        return self._now(self.version)

    @lru_cache(maxsize=1)  # noqa: B019  it lives as long as the process, and holds one page
    def _now(self, version: Any) -> tuple[Any, Sections]:
        history = self.history
        with history.lock:
            letters, is_silent = _rows(self.letters.counted()), bool(self.status().get("silent_since"))
            made = sections(history.now, letters, self._milliseconds, self.reaches, is_silent=is_silent)
        return version, made | {"about": self._about(history)}

    def as_of(self, entry: int) -> Sections | None:
        """Return the sections of the page as it was just before the next entry; None if that is not held."""
        history = self.history
        found = history.as_of(entry)
        if found is None:
            return None
        view, until = found
        letters = self.letters.counted(until=until) if until != 0 else []  # 0: nobody knows when it was
        return sections(view, _rows(letters)) | {"about": self._about(history)}

    def updates(self, entry: int) -> Sections | None:
        """Return the accepted updates of an entry, with their spans; None if the page no longer keeps the entry."""
        found = self.history.entry(entry)
        if found is None:
            return None
        updates = [update_row(one) for one in found.taken]
        return {"entry": found.summary.entry, "round": found.summary.round, "updates": updates}

    def _about(self, history: PageHistory) -> Sections:
        return {
            "name": self.name,
            "first": history.first,
            "last": history.now.entry or None,
            "out_of_order": history.out_of_order,
            "beyond": history.beyond,
            "letters_before": self.letters.before,
            "letters_readable": self.letters.readable,
            **self.status(),
        }


def _rows(letters: Sequence[tuple[LetterKind, int]]) -> list[Sections]:
    """Return the rows of the table of dead letters."""
    return [
        {
            "reason": kind.reason,
            "count": count,
            "remedy": kind.remedy,
            "example": f"{kind.topic}/{kind.partition} at {kind.offset}",
        }
        for kind, count in letters
    ]
