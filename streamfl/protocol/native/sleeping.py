"""Experts without a share in the predictions sleep, and wake now and then. Asleep, they cost no time and no bytes.

Experts that share work sleep as a group: whitened models, neighbours. Models on ferns also share cells, but what they
learn is most of what clients send, so each sleeps alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from streamfl.arrays import FloatArray

# A smaller share counts as none.
LEAST_PART = 0.01

# Rounds in a row without a share after which a group falls asleep; for how many it sleeps at first, and at most.
IDLE, FIRST, LONGEST = 8, 2, 16


@dataclass(frozen=True, slots=True)
class Rest:
    """The sleep of a group of experts.

    Examples
    --------
    >>> asleep = Rest(idle=7).after()
    >>> asleep, asleep.after().after()
    (Rest(idle=0, left=2, next=4), Rest(idle=7, left=0, next=4))
    >>> asleep.after().after().after()
    Rest(idle=0, left=4, next=8)
    """

    idle: int = 0  # rounds in a row without a share, while awake
    left: int = 0  # rounds of sleep left; 0 while awake
    next: int = FIRST  # rounds of the next sleep

    @property
    def is_sound(self) -> bool:
        """Tell whether `after` can lead to these numbers."""
        return 0 <= self.idle < IDLE and 0 <= self.left <= LONGEST and FIRST <= self.next <= LONGEST

    def after(self) -> "Rest":
        """Return the sleep after one more round without a share; a group that wakes has one round to earn one."""
        if self.left:
            return replace(self, left=self.left - 1, idle=IDLE - 1 if self.left == 1 else 0)
        if self.idle + 1 < IDLE:
            return replace(self, idle=self.idle + 1)
        return Rest(left=self.next, next=min(2 * self.next, LONGEST))


def together(expert: str) -> str:
    """Return the name of the group that an expert sleeps with.

    >>> together("fern-24-0.3"), together("whitened-0.1"), together("rounds")
    ('fern-24-0.3', 'whitened', 'rounds')
    """
    return expert if expert.startswith("fern") else expert.rpartition("-")[0] or expert


def unused(experts: Iterable[str], parts: FloatArray) -> tuple[str, ...]:
    """Return the groups without a share in the predictions.

    Parameters
    ----------
    experts, parts
        The experts and the share of each; a group has the largest share of its experts.

    Examples
    --------
    >>> import numpy as np
    >>> unused(("fern-8-0.3", "fern-8-10", "whitened-0.01", "whitened-0.1"), np.array([0.0, 1.0, 0.0, 1.0]))
    ('fern-8-0.3',)
    """
    most: dict[str, float] = {}
    for expert, part in zip(experts, parts.tolist(), strict=True):
        most[together(expert)] = max(part, most.get(together(expert), 0.0))
    return tuple(name for name, part in most.items() if part < LEAST_PART)


def rested(before: Mapping[str, Rest], unused: Collection[str]) -> dict[str, Rest]:
    """Return the sleep of all groups after a round in which the groups `unused` had no share at any client.

    >>> rested({"rounds": Rest(idle=3), "fern-8": Rest(idle=7)}, ["rounds", "neighbours"])
    {'rounds': Rest(idle=4, left=0, next=2), 'neighbours': Rest(idle=1, left=0, next=2)}
    """
    return {name: before.get(name, Rest()).after() for name in unused}
