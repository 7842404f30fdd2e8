"""Experts on the nearest of a client's last records; these never leave the client."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, FloatArray, IntArray
from streamfl.protocol.native.settings import MEMORIES

# The records for which there is room at first.
ROOM = 16

# Compiled loops are imported where they are called: a saved estimator names this class, and most compile nothing.
if TYPE_CHECKING:
    from streamfl.online.native.kernels.neighbours import Memory


@dataclass
class Neighbours:
    """Two experts, which predict from the nearest of the last 100 and of the last 1000 records.

    Room is taken as records come, at most for twice as many.

    The five nearest records count, and all that are as near as the fifth; a record at distance r weighs
    R / (r + R / 10), R the distance of the fifth. The memory keeps features and labels in the order of their first
    record, because the agreed order may change at the end of a round, and lose names.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    Z: FloatArray = field(default_factory=lambda: np.zeros((ROOM, 0), order="F"))
    y: FloatArray = field(default_factory=lambda: np.zeros(ROOM))
    seen: int = 0
    _features: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _columns: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    _codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Make arrays that were read from a file writable, with the values of a feature contiguous."""
        self.Z, self.y = np.array(self.Z, order="F"), np.array(self.y)

    def over(self, features: tuple[str, ...], labels: tuple[str, ...]) -> None:
        """Set the names to which features and label indices refer from now on; without labels: targets."""
        known, kept = dict(self._features), dict(self._labels)
        columns = np.array([known.setdefault(name, len(known)) for name in features], np.int64)
        codes = np.array([kept.setdefault(name, len(kept)) for name in labels], np.int64)
        more = len(known) - self.Z.shape[1]
        # Records without a feature are at its mean, 0.
        Z = np.asfortranarray(np.pad(self.Z, ((0, 0), (0, more)))) if more else self.Z
        self._features, self._labels, self._columns, self._codes, self.Z = known, kept, columns, codes, Z

    def has_room_for(self, records: int) -> bool:
        """Tell whether so many more records can be learnt."""
        return len(self.y) >= min(self.seen + records, MEMORIES[-1])

    def make_room_for(self, records: int) -> None:
        """Take larger arrays, if so many more records need them; their size depends on the number of all records."""
        if not self.has_room_for(records):
            room = min(2 ** (self.seen + records).bit_length(), MEMORIES[-1])
            self.Z = np.asfortranarray(np.pad(self.Z, ((0, room - len(self.Z)), (0, 0))))
            self.y = np.pad(self.y, (0, room - len(self.y)))  # last: an interrupted call can be repeated

    @property
    def kept_labels(self) -> tuple[str, ...]:
        """Return all labels so far, in the order of their first record."""
        return tuple(self._labels)

    @property
    def is_sound(self) -> bool:
        """Tell whether all records fit the names; compiled loops do not check indices."""
        places = (self._features.values(), self._labels.values())
        codes = self.y[: max(0, self.seen)]
        return (
            self.Z.shape == (len(self.y), len(self._features))
            and self.y.shape == (len(self.y),)
            and 0 <= min(self.seen, MEMORIES[-1]) <= len(self.y) <= MEMORIES[-1]
            and len(self.y) > 0
            and all(sorted(numbers) == list(range(len(numbers))) for numbers in places)
            and (not self._labels or bool(np.isin(codes, list(self._labels.values())).all()))
        )

    @property
    def memory(self) -> "Memory":
        """Return the records with the maps to the present names, as the compiled loops take them."""
        from streamfl.online.native.kernels.neighbours import NEAREST, Memory  # noqa: PLC0415

        place = np.full(len(self._labels), -1)
        place[self._codes] = np.arange(len(self._codes))
        at, distance, nearest = np.zeros(self.Z.shape[1]), np.zeros(len(self.y)), np.zeros(NEAREST)
        return Memory(self.Z.T, self.y, self._columns, self._codes, place, at, distance, nearest)
