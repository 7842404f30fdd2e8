"""The predictions for records whose labels come late, until these are learnt."""

from dataclasses import dataclass, field

from streamfl.arrays import IntArray
from streamfl.online.native.private.last_answer import PastPrediction
from streamfl.sampling import digest

# The most numbers that are kept for records without labels: 8 MB a client. Without room for more, one record in so
# many takes the place of others. docs/choices.md, "The last answer".
MOST_NUMBERS, ONE_IN = 2**20, 4


@dataclass
class PastPredictions:
    """What the experts predicted for records, by their positions, until the records are in the ledger.

    When a record's label comes, the other experts have learnt labels that they did not know when they predicted the
    record. Compared then, they would always look better than what follows the last answer. So the outer mixture
    learns by what each expert predicted when the record was answered. A restart of the process loses that, and
    such records only change what the last answer is. So do records for which there was no room. Chance draws which
    these are: if the oldest were forgotten, none would be left where labels come later than room lasts.

    Examples
    --------
    >>> import numpy as np
    >>> prediction = PastPrediction("a", 0.0, 0.0, ("a", "b"), np.full((12, 2), 0.5))
    >>> past = PastPredictions()
    >>> past.keep(7, prediction)
    >>> [one is prediction for one in past.of(np.array([6, 7]))]
    [False, True]
    >>> past.forget_learnt()
    >>> past.of(np.array([7]))
    [None]
    """

    _kept: dict[int, PastPrediction] = field(default_factory=dict)
    _positions: list[int] = field(default_factory=list)  # of what is kept, in any order
    _places: dict[int, int] = field(default_factory=dict)  # of each position in this list
    _numbers: int = 0
    _learnt: set[int] = field(default_factory=set)

    def keep(self, position: int, prediction: PastPrediction | None) -> None:
        """Keep the prediction for the record at a position, if there is room or it takes the place of others."""
        self._forget(position)
        if prediction is None:
            return
        drawn = digest("place", position)
        while self._numbers + prediction.parts.size > MOST_NUMBERS:
            if drawn % ONE_IN or not self._positions:
                return
            self._forget(self._positions[drawn // ONE_IN % len(self._positions)])
        self._kept[position], self._places[position] = prediction, len(self._positions)
        self._positions.append(position)
        self._numbers += prediction.parts.size

    def of(self, positions: IntArray) -> list[PastPrediction | None]:
        """Return the predictions for records that are learnt now, and again if their update is made again."""
        known = positions.tolist()
        self._learnt.update(position for position in known if position in self._kept)
        return [self._kept.get(position) for position in known]

    def forget_learnt(self) -> None:
        """Forget the records that have been learnt: they are in the ledger."""
        for position in self._learnt:
            self._forget(position)
        self._learnt = set()

    def _forget(self, position: int) -> None:
        prediction = self._kept.pop(position, None)
        if prediction is None:
            return
        self._numbers -= prediction.parts.size
        place, last = self._places.pop(position), self._positions.pop()
        if last != position:
            self._positions[place], self._places[last] = last, place
