"""The nearest of a client's own last records: local experts that are not sent."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray, IntArray
from streamfl.core.between.native.kernels.neighbours import NEAREST, Memory, ask_neighbours, remember
from streamfl.core.protocol.native.settings import MEMORIES


@dataclass
class Neighbours:
    """The last records, and what the nearest of them say: two experts, with a short and a long memory.

    The five nearest, and all that are as near as the fifth; one at distance r weighs R / (r + R / 10), R the distance
    of the fifth. The memory has an order of features and labels of its own, in which they were first met: a round
    that ends may bring another one, and take names away.

    Examples
    --------
    >>> near = Neighbours()
    >>> near.over(("x",), ("a", "b"))
    >>> near.learn(np.array([0.0]), 0.0)
    >>> near.learn(np.array([1.0]), 1.0)
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.192, 0.808],
           [0.192, 0.808]])
    >>> near.over(("x",), ("b", "a"))
    >>> near.probabilities(np.array([0.9])).round(3)
    array([[0.808, 0.192],
           [0.808, 0.192]])
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    Z: FloatArray = field(default_factory=lambda: np.zeros((MEMORIES[-1], 0), order="F"))
    y: FloatArray = field(default_factory=lambda: np.zeros(MEMORIES[-1]))
    seen: int = 0
    _features: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _columns: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    _codes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        """Take arrays that were read from a file as loops do: to be written to, a feature's values side by side."""
        self.Z, self.y = np.array(self.Z, order="F"), np.array(self.y)

    def over(self, features: tuple[str, ...], labels: tuple[str, ...]) -> None:
        """Take it that from now on features and label indices count in these names; no labels: targets."""
        known, kept = dict(self._features), dict(self._labels)
        columns = np.array([known.setdefault(name, len(known)) for name in features], np.int64)
        codes = np.array([kept.setdefault(name, len(kept)) for name in labels], np.int64)
        more = len(known) - self.Z.shape[1]
        # What had no such feature was at its mean, 0.
        Z = np.asfortranarray(np.pad(self.Z, ((0, 0), (0, more)))) if more else self.Z
        self._features, self._labels, self._columns, self._codes, self.Z = known, kept, columns, codes, Z

    @property
    def kept_labels(self) -> tuple[str, ...]:
        """Return the labels that were ever kept, in the order in which they were met."""
        return tuple(self._labels)

    @property
    def is_sound(self) -> bool:
        """Tell whether every record fits the names: to compiled loops, an index that is too large is other memory."""
        places = (self._features.values(), self._labels.values())
        codes = self.y[: max(0, self.seen)]
        return (
            self.Z.shape == (MEMORIES[-1], len(self._features))
            and self.y.shape == MEMORIES[-1:]
            and self.seen >= 0
            and all(sorted(numbers) == list(range(len(numbers))) for numbers in places)
            and (not self._labels or bool(np.isin(codes, list(self._labels.values())).all()))
        )

    @property
    def memory(self) -> Memory:
        """Return the records, and how their names count now."""
        place = np.full(len(self._labels), -1)
        place[self._codes] = np.arange(len(self._codes))
        at, distance, nearest = np.zeros(self.Z.shape[1]), np.zeros(len(self.y)), np.zeros(NEAREST)
        return Memory(self.Z.T, self.y, self._columns, self._codes, place, at, distance, nearest)

    def learn(self, z: FloatArray, y: float) -> None:
        """Keep a record in place of the oldest: features, shape (d,), and its label index or target."""
        remember(self.memory, self.seen, np.append(1.0, z), y, not len(self._codes))
        self.seen += 1

    def probabilities(self, z: FloatArray) -> FloatArray:
        """Return what each expert says of a record, shape (experts, labels)."""
        said = np.zeros((len(MEMORIES), len(self._codes)))
        ask_neighbours(self.memory, self.seen, np.append(1.0, z), said, 0, targets=False)
        return said

    def targets(self, z: FloatArray) -> FloatArray:
        """Return the target that each expert says, shape (experts,); 0 before any record."""
        said = np.zeros((len(MEMORIES), 1))
        ask_neighbours(self.memory, self.seen, np.append(1.0, z), said, 0, targets=True)
        return said[:, 0]


# Of nobody, who is asked nothing.
_NO_NAMES = np.zeros(0, np.int64)
NO_MEMORY = Memory(
    np.zeros((0, 0)), np.zeros(0), _NO_NAMES, _NO_NAMES, _NO_NAMES, np.zeros(0), np.zeros(0), np.zeros(0)
)
