"""A budget of bytes for a client's updates: what was learnt is rounded so coarsely that they keep it."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from streamfl.protocol.messages import Served, Update

# The first round with a budget: in those before, all clients send second moments. docs/choices.md, "Grids".
FIRST = 5

# Bytes for what may differ when a killed client makes an update again: the name of the attempt, up to forty
# characters, what the client served, which depends on its own memory, and the held-out records that it let go.
AGAIN = 208

# A budget is kept if this many updates of a client keep it together: two of them have second moments.
TOGETHER = 16


@dataclass(slots=True)
class SentSizes:
    """The bytes and the good records of a client's latest updates, by round; `TOGETHER` rounds at most."""

    latest: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, round_: int, size: int, records: int) -> None:
        """Add an update; one for the same round replaces the one before."""
        self.latest[round_] = size, records
        if len(self.latest) > TOGETHER:
            del self.latest[min(self.latest)]

    @property
    def bytes_per_record(self) -> float | None:
        """Return the mean bytes per record; None as long as there are too few updates.

        >>> taken = SentSizes({round_: (900, 10) for round_ in range(5, 5 + TOGETHER)})
        >>> taken.add(5 + TOGETHER, 2500, 10)
        >>> taken.bytes_per_record, SentSizes({5: (900, 10)}).bytes_per_record
        (100.0, None)
        """
        if len(self.latest) < TOGETHER:
            return None
        return sum(size for size, _ in self.latest.values()) / sum(records for _, records in self.latest.values())


@dataclass(frozen=True, slots=True)
class Budget:
    """The most bytes of an update."""

    bytes_per_record: float  # bytes for each good record of the update
    size_of: Callable[[Update], int]  # returns the bytes of an update as it is sent

    def of(self, records: int) -> int:
        """Return the most bytes of an update about this many records.

        >>> Budget(12.5, lambda update: 0).of(75)
        937
        """
        return int(self.bytes_per_record * records)

    def fit(self, update: Update, coarser: Callable[[Update, int], Update], coarsest: int) -> Update:
        """Return an update as exact as the budget allows; the coarsest one if none keeps it.

        A killed client makes the same update again, so nothing counts that may then differ: there is room for it.

        Parameters
        ----------
        coarser
            Returns it with what was learnt this many times coarser.
        """
        room = self.of(update.records) - AGAIN
        made = {0: update}

        def fits(times: int) -> bool:
            if times not in made:
                made[times] = coarser(update, times)
            numbers, kept = replace(made[times].numbers, served=Served()), replace(made[times].kept, let_go=())
            return self.size_of(replace(made[times], attempt="", numbers=numbers, kept=kept)) <= room

        times = least(fits, coarsest)
        return made.get(times) or coarser(update, times)


def least(fits: Callable[[int], bool], most: int) -> int:
    """Return the least of the numbers 0, .., `most` that fits, by bisection; `most` if none is found.

    >>> least(lambda number: number >= 3, 8), least(lambda number: False, 8), least(lambda number: False, 0)
    (3, 8, 0)
    """
    if not most or fits(0):
        return 0
    return bisect_left(range(most), True, lo=1, key=fits)
