"""Earlier models: the incumbents of past rounds, and those of past concepts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.learning.profiles.base import model_of_round

# SLOTS keep incumbents up to an age of 2^8 - 2 rounds. At most MOST models of past concepts are kept.
# docs/choices.md, "A restart".
SLOTS, MOST = 8, 8

# A full pool drops models of the running epoch first if it has more of them than these: they are of other inputs, not
# of other concepts. docs/choices.md, "When only the inputs move".
MOST_OF_EPOCH = 2


@dataclass
class Trail:
    """A few incumbents of past rounds: slot k holds one that is 2^k - 1 to 2^(k+1) - 2 rounds old.

    Examples
    --------
    >>> import numpy as np
    >>> trail = Trail()
    >>> for t in range(1, 101):
    ...     trail.keep(t, np.array([[float(t)]]))
    >>> [t for t, _ in trail.kept], float(trail.before(90)[0, 0])
    ([100, 99, 97, 89, 81, 65, 1], 89.0)
    """

    # By slot, the round in which a model was the incumbent, and the model itself.
    kept: list[tuple[int, FloatArray]] = field(default_factory=list)

    def keep(self, t: int, W: FloatArray) -> None:
        """Add round t's incumbent; every second model of a slot moves on to the next slot."""
        for k in range(SLOTS - 1, 0, -1):
            if t % 2**k == 0 and len(self.kept) >= k:
                self.kept[k : k + 1] = [self.kept[k - 1]]
        self.kept[:1] = [(t, W)]

    def before(self, t: int) -> FloatArray | None:
        """Return the youngest incumbent from before round t; None if there is none."""
        return next((W for kept, W in self.kept if kept < t), None)

    def named(self, name: str) -> dict[str, FloatArray]:
        """Return the model that is named by its round, see `model_of_round`; nothing if it is not kept."""
        models = {model_of_round(t): W for t, W in self.kept}
        return {name: models[name]} if name in models else {}

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every model."""
        self.kept = [(t, change(W)) for t, W in self.kept]


@dataclass
class Recalled:
    """The model of a past concept; `used` is the last epoch in which it was chosen."""

    W: FloatArray
    used: int


@dataclass
class RecallPool:
    """The models of past concepts, candidates at every restart.

    Examples
    --------
    >>> import numpy as np
    >>> pool = RecallPool()
    >>> pool.add(np.ones((1, 1)), epoch=1, chosen="scratch")
    >>> pool.choose("recall-1", epoch=2)
    >>> pool.add(np.zeros((1, 1)), epoch=2, chosen="scratch")
    >>> {name: float(entry.W[0, 0]) for name, entry in pool.entries.items()}
    {'recall-1': 0.0}
    """

    # The models by name. A full pool drops the least recently chosen one, or the oldest of too many of one epoch.
    entries: dict[str, Recalled] = field(default_factory=dict)

    # The entry from which the epoch began. The epoch's model replaces it; otherwise alternating concepts would fill
    # the pool with copies.
    current: str | None = None
    number: int = 0  # the number of entries made so far

    def add(self, W: FloatArray, *, epoch: int, chosen: str) -> None:
        """Keep the model of the epoch that ends; the one that was just chosen is not dropped for it."""
        if self.current is None or self.current not in self.entries:
            self.number += 1
            self.current = f"recall-{self.number}"
        self.entries[self.current] = Recalled(W, epoch)
        while len(self.entries) > MOST:
            others = {name: e.used for name, e in self.entries.items() if name not in {self.current, chosen}}
            own = [name for name in others if others[name] == epoch]
            del self.entries[own[0] if len(own) > MOST_OF_EPOCH else min(others, key=lambda name: others[name])]

    def of_epoch(self, epoch: int) -> tuple[str, ...]:
        """Return the names of the entries that were kept or chosen in an epoch."""
        return tuple(name for name, entry in self.entries.items() if entry.used == epoch)

    def choose(self, name: str, *, epoch: int, same: bool = False) -> None:
        """Record the entry from which the new epoch begins; any other name is a new concept, unless `same`.

        Parameters
        ----------
        name, epoch
            The chosen candidate, and the epoch that begins with it.
        same
            Whether a model of the ending epoch was chosen: the alarm was false, or no other model fits better.
        """
        if name in self.entries:
            self.current = name
            self.entries[name].used = epoch
        elif not same:
            self.current = None

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every model."""
        for entry in self.entries.values():
            entry.W = change(entry.W)
