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


# Bytes of a feature as float32.
RAW = 4


@dataclass(frozen=True, slots=True)
class SentSize:
    """What an update took, or several together."""

    size: int  # in bytes
    budget: float  # what it might have taken, in bytes
    records: int  # its good records


@dataclass(slots=True)
class SentSizes:
    """What a client's latest updates took, and might have taken, by round; `TOGETHER` rounds at most.

    Parameters
    ----------
    coarser
        How many updates were rounded more coarsely than without a budget.
    over
        After how many updates the latest ones had taken more than their budgets.
    """

    latest: dict[int, SentSize] = field(default_factory=dict)
    coarser: int = 0
    over: int = 0

    def add(self, round_: int, size: int, budget: float, records: int) -> None:
        """Add an update; one for the same round replaces the one before."""
        self.latest[round_] = SentSize(size, budget, records)
        if len(self.latest) > TOGETHER:
            del self.latest[min(self.latest)]
        self.over += self.exceeds

    @property
    def exceeds(self) -> bool:
        """Tell whether the latest updates together take more than their budgets; not while there are too few.

        >>> taken = SentSizes({round_: SentSize(900, 900.0, 10) for round_ in range(5, 5 + TOGETHER)})
        >>> taken.exceeds
        False
        >>> taken.add(5 + TOGETHER, 2500, 900.0, 10)
        >>> taken.exceeds, taken.total
        (True, SentSize(size=16000, budget=14400.0, records=160))
        """
        return len(self.latest) == TOGETHER and self.total.size > self.total.budget

    @property
    def total(self) -> SentSize:
        """Return what the latest updates took together."""
        sent = self.latest.values()
        return SentSize(
            sum(one.size for one in sent), sum(one.budget for one in sent), sum(one.records for one in sent)
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The most bytes of an update.

    Parameters
    ----------
    size_of
        Returns the bytes of an update as it is sent.
    of_record, of_value
        Bytes for each of its good records, and for each value of one: the number of registered features.
    """

    size_of: Callable[[Update], int]
    of_record: float = 0.0
    of_value: float = 0.0

    def of(self, records: int, features: int) -> float:
        """Return the most bytes of an update about this many records.

        >>> Budget(lambda update: 0, of_record=12.5).of(75, 8), Budget(lambda update: 0, of_value=4).of(75, 8)
        (937.5, 2400.0)
        """
        return (self.of_record + self.of_value * features) * records

    def fit(self, update: Update, features: int, coarser: Callable[[Update, int], Update], coarsest: int) -> Update:
        """Return an update as exact as the budget allows; the coarsest one if none keeps it.

        A killed client makes the same update again, so nothing counts that may then differ: there is room for it.

        Parameters
        ----------
        features
            How many are registered.
        coarser
            Returns it with what was learnt this many times coarser.
        """
        room = self.of(update.records, features) - AGAIN
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
