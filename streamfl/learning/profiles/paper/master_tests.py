"""Tests 1 and 2 of Master-FL."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamfl.errors import UsageError
from streamfl.learning.profiles.paper.schedule import PlacedInstance, rho_hat
from streamfl.protocol.alarm import Alarm


@dataclass(frozen=True, slots=True)
class PaperTests:
    """The two tests of Algorithm 3, on the losses of one block.

    Test 1, for every instance that ends at t, active or paused: the largest optimistic loss of the block so far, U,
    is at least the mean served loss over all rounds of the instance's span plus 9 rho_hat(2^k). Test 2: over the
    block's n rounds so far, the mean of served loss less optimistic loss is at least 3 rho_hat(n).

    References
    ----------
    Ganguly and Aggarwal, Algorithm 3; Wei and Luo 2021, Tests 1 and 2 of MASTER. Test 1 is read as a mean, as
    the proof divides by 2^k.
    """

    horizon: int  # T
    delta: float = 0.05  # probability of failure

    # Factor of rho_hat; 1 as in the paper. Then neither test can fire before T is in the hundreds of millions
    # (`first_horizon`).
    rho_scale: float = 1.0
    # Further factors of the threshold of each test; 1 as in the paper.
    kappa1: float = 1.0
    kappa2: float = 1.0

    def threshold1(self, order: int) -> float:
        """Return 9 rho_hat(2^k) kappa1.

        >>> round(PaperTests(500).threshold1(7), 1)
        438.1
        """
        return self.kappa1 * 9.0 * self._rho_hat(2**order)

    def threshold2(self, rounds: int) -> float:
        """Return 3 rho_hat(rounds) kappa2.

        >>> round(PaperTests(500).threshold2(250), 1)
        104.5
        """
        return self.kappa2 * 3.0 * self._rho_hat(rounds)

    def test1(
        self, ending: PlacedInstance, *, block_start: int, served: Sequence[float], optimistic: Sequence[float]
    ) -> Alarm | None:
        """Test one instance that ends now.

        Parameters
        ----------
        ending
            The instance.
        block_start
            The round of `served[0]`.
        served, optimistic
            F and Ft of every round of the block so far.
        """
        span = served[ending.start - block_start : ending.end - block_start + 1]
        statistic = max(optimistic) - sum(span) / len(span)
        threshold = self.threshold1(ending.order)
        return Alarm("test1", statistic, threshold, since=ending.start) if statistic >= threshold else None

    def test2(self, *, block_start: int, served: Sequence[float], optimistic: Sequence[float]) -> Alarm | None:
        """Test the block so far; arguments as for `test1`."""
        rounds = len(served)
        statistic = (sum(served) - sum(optimistic)) / rounds
        threshold = self.threshold2(rounds)
        return Alarm("test2", statistic, threshold, since=block_start) if statistic >= threshold else None

    def _rho_hat(self, rounds: int) -> float:
        return rho_hat(rounds, horizon=self.horizon, delta=self.delta, scale=self.rho_scale)


def first_horizon(
    *, rho_scale: float = 1.0, delta: float = 0.05, max_order: int | None = None, above: int = 2
) -> int | None:
    """Return the least T, from `above` on and to within 1%, at which a test can fire: a threshold of at most 1.

    Losses lie in [0, 1], so no statistic exceeds 1. Blocks have at most T / 2 rounds, and at most 2^max_order.
    The result is None if no T below 1e15 is large enough: with capped blocks the thresholds only grow with T.

    >>> f"{first_horizon():.2g}", first_horizon(max_order=8)
    ('2.8e+08', None)
    """
    if rho_scale < 0.0:
        raise UsageError(f"rho_scale is {rho_scale}: it must be 0 or more")
    horizon = float(max(2, above))
    while horizon < 1e15:
        longest = horizon / 2.0 if max_order is None else min(horizon / 2.0, 2.0**max_order)
        tests = PaperTests(int(horizon), delta, rho_scale)
        if tests.threshold2(max(1, int(longest))) <= 1.0:
            return int(horizon)
        horizon *= 1.01
    return None
