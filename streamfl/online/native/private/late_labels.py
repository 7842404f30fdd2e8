"""What was said of records whose labels come late, until they are learnt."""

from dataclasses import dataclass, field

from streamfl.arrays import IntArray
from streamfl.online.native.private.last_answer import PastPrediction

# The most numbers that are kept for records without labels: 8 MB a client.
MOST_NUMBERS = 2**20


@dataclass
class PastPredictions:
    """What the outer mixture said of records, by their positions, until the records are in the ledger.

    When a record's label comes, the other experts have learnt labels that they did not know when they predicted the
    record. Compared then, they would always look better than what follows the last answer. So the outer mixture
    learns by what each expert said when the record was answered. After a restart of the process that is lost, and
    such records only change what the last answer is.

    Examples
    --------
    >>> import numpy as np
    >>> said = PastPrediction("a", 0.0, 0.0, ("a", "b"), np.full((12, 2), 0.5))
    >>> past = PastPredictions()
    >>> past.keep(7, said)
    >>> [one is said for one in past.of(np.array([6, 7]))]
    [False, True]
    >>> past.forget_learnt()
    >>> past.of(np.array([7]))
    [None]
    """

    _kept: dict[int, PastPrediction] = field(default_factory=dict)
    _numbers: int = 0
    _learnt: list[int] = field(default_factory=list)

    def keep(self, position: int, said: PastPrediction | None) -> None:
        """Keep what was said of the record at a position; the oldest is forgotten if all would be too large."""
        self._forget(position)
        if said is None:
            return
        self._kept[position] = said
        self._numbers += said.parts.size
        while self._numbers > MOST_NUMBERS:
            self._forget(next(iter(self._kept)))

    def of(self, positions: IntArray) -> list[PastPrediction | None]:
        """Return what was said of records that are learnt now, and again if their update is made again."""
        known = positions.tolist()
        self._learnt += [position for position in known if position in self._kept]
        return [self._kept.get(position) for position in known]

    def forget_learnt(self) -> None:
        """Forget the records that have been learnt: they are in the ledger."""
        for position in self._learnt:
            self._forget(position)
        self._learnt = []

    def _forget(self, position: int) -> None:
        said = self._kept.pop(position, None)
        self._numbers -= 0 if said is None else said.parts.size
