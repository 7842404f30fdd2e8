"""Algorithm 1: the schedule of a block, and the rates by which instances are placed."""

import math
from dataclasses import dataclass

import numpy as np


def rho(t: float) -> float:
    """Return 1 / sqrt(t), the average regret allowed to a base algorithm after t rounds.

    >>> rho(16)
    0.25
    """
    return 1.0 / math.sqrt(t)


def rho_hat(t: float, *, horizon: int, delta: float = 0.05, scale: float = 1.0) -> float:
    """Return 6 (log2 T + 1) ln(T / delta) rho(t), the same for a base algorithm that runs at many scales.

    Parameters
    ----------
    t
        Rounds.
    horizon
        T, the number of rounds in all.
    delta
        Probability that the bounds fail.
    scale
        `rho_scale`; 1 as in the paper.

    Examples
    --------
    The paper's thresholds at T = 500: 3 rho_hat(250) of Test 2 and 9 rho_hat(128) of Test 1. Their statistics never
    exceed 1.

    >>> round(3 * rho_hat(250, horizon=500), 1), round(9 * rho_hat(128, horizon=500), 1)
    (104.5, 438.1)
    """
    return scale * 6.0 * (math.log2(horizon) + 1.0) * math.log(horizon / delta) * rho(t)


@dataclass(frozen=True, slots=True, order=True)
class PlacedInstance:
    """An instance of order k: the 2^k rounds `start` .. `end`, both included.

    >>> instance = PlacedInstance(order=2, start=5, end=8)
    >>> instance.covers(8), instance.covers(9), instance.rounds
    (True, False, 4)
    """

    end: int
    order: int
    start: int

    def covers(self, t: int) -> bool:
        """Return whether round t is one of its rounds."""
        return self.start <= t <= self.end

    @property
    def rounds(self) -> int:
        """Return 2^k."""
        return self.end - self.start + 1


def placed(order: int, start: int, rng: np.random.Generator) -> tuple[PlacedInstance, ...]:
    """Return the schedule of a block: Algorithm 1.

    For every offset tau of the block's 2^m rounds, and every order k = m .. 0 for which 2^k divides tau, an instance
    of 2^k rounds is placed with probability rho(2^m) / rho(2^k). Offsets count within the block, so a block may start
    at any round. The instance of order m is always placed.

    Parameters
    ----------
    order
        m.
    start
        The block's first round.

    Examples
    --------
    >>> schedule = placed(2, 5, np.random.default_rng(3))
    >>> [(p.order, p.start, p.end) for p in schedule]
    [(2, 5, 8), (1, 5, 6), (1, 7, 8), (0, 7, 7), (0, 8, 8)]
    """
    rounds = 2**order
    chances = [rho(rounds) / rho(2**k) for k in range(order + 1)]
    return tuple(
        PlacedInstance(start=start + offset, end=start + offset + 2**k - 1, order=k)
        for offset in range(rounds)
        for k in range(order, -1, -1)
        if offset % 2**k == 0 and rng.random() < chances[k]
    )


def active(schedule: tuple[PlacedInstance, ...], t: int) -> PlacedInstance:
    """Return the instance that plays round t: of those that cover it, the first to end, then the lowest order.

    >>> active((PlacedInstance(start=1, end=4, order=2), PlacedInstance(start=3, end=4, order=1)), 4).order
    1
    """
    return min(p for p in schedule if p.covers(t))
