"""What the native models of several clients share, if they learn in the same thread."""

from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.online.native.ferns import Ferns
from streamfl.online.native.tables import AgreedTables


@dataclass(eq=False)
class Shared:
    """What is the same at several clients, and room for what each computes again.

    Examples
    --------
    >>> shared = Shared()
    >>> ferns = shared.ferns(Ferns(0), ("x", "y"))
    >>> shared.ferns(Ferns(0), ("x", "y")) is ferns, shared.square(2).shape
    (True, (2, 2))
    """

    tables: AgreedTables = field(default_factory=AgreedTables)  # the tables of ferns
    loaded: bool = False  # whether the compiled loops have been loaded for them
    _ferns: "WeakValueDictionary[tuple[int, tuple[str, ...]], Ferns]" = field(default_factory=WeakValueDictionary)
    _square: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def __reduce__(self) -> tuple[type["Shared"], tuple[AgreedTables]]:
        """Return what makes a copy, which shares nothing with this one."""
        return Shared, (self.tables,)

    def ferns(self, before: Ferns, features: tuple[str, ...]) -> Ferns:
        """Return the ferns over some features; `before` are those over the first of them, or over others."""
        ferns = self._ferns.get((before.seed, features))
        if ferns is None:
            continues = features[: len(before.features)] == before.features
            ferns = (before if continues else Ferns(before.seed)).over(features)
            self._ferns[before.seed, features] = ferns
        return ferns

    def square(self, size: int) -> FloatArray:
        """Return an array of shape (size, size) for what each call computes again."""
        if len(self._square) != size:
            self._square = np.zeros((size, size))
        return self._square
