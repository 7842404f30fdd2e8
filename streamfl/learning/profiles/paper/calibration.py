"""Thresholds of Tests 1 and 2, calibrated on replays drawn from a stream's first rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.profiles.paper.master_tests import PaperTests
from streamfl.learning.profiles.paper.schedule import PlacedInstance, placed


@dataclass(frozen=True, slots=True)
class Calibration:
    """How thresholds are calibrated for the tests of a single model.

    The first rounds are one block of 2^m rounds. A replay is a block of as many losses drawn from them, with a
    schedule of its own. Losses are drawn with replacement: a shuffle would keep the mean over the whole block, and
    Test 2 would end each replay with the same statistic. Each test's factor kappa is the 1 - rate quantile, over the
    replays, of the largest statistic / threshold in the block. So if a stream continues like its first rounds, a test
    fires in about `rate` of its blocks; since the first rounds are a sample, it may be a few times as many.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses, plan = rng.uniform(0.2, 0.3, 64), Calibration()
    >>> replays = [ReplayBlock.drawn(losses, plan.order, rng) for _ in range(plan.replays)]
    >>> plan.factors(replays, PaperTests(500)).round(6)
    array([7.2e-05, 3.7e-05])
    """

    rounds: int = 64  # the number of first rounds, in which nothing is tested
    replays: int = 200
    rate: float = 0.05  # the rate of false alarms, for each test and block

    # The lowest threshold at the end of a block. Without it, a stream whose first rounds were predicted perfectly
    # would alarm for ever.
    margin: float = 0.001

    @property
    def order(self) -> int:
        """Return m: the order of the block that the first rounds fill."""
        return self.rounds.bit_length() - 1

    def factors(self, replays: Sequence["ReplayBlock"], tests: PaperTests) -> FloatArray:
        """Return kappa of Tests 1 and 2, shape (2,), the factors for the thresholds of `tests`."""
        largest = [replay.ratios(tests).max(axis=1) for replay in replays]
        # A test fires at equality, so add a little: equal losses must not alarm.
        kappa = np.quantile(largest, 1.0 - self.rate, axis=0, method="higher") + 1e-9
        least = [self.margin / tests.threshold1(self.order), self.margin / tests.threshold2(1 << self.order)]
        factors: FloatArray = np.maximum(kappa, least)
        return factors


@dataclass(frozen=True, slots=True, eq=False)
class ReplayBlock:
    """One block of rounds 1, 2, ..: its schedule, and F and Ft, each of shape (rounds,)."""

    schedule: tuple[PlacedInstance, ...]
    served: FloatArray
    optimistic: FloatArray

    @classmethod
    def drawn(cls, losses: FloatArray, order: int, rng: np.random.Generator) -> "ReplayBlock":
        """Return a block of 2^order rounds whose losses are drawn from `losses`; Ft is their mean so far."""
        served = losses[rng.integers(len(losses), size=1 << order)]
        return cls(placed(order, 1, rng), served, served.cumsum() / np.arange(1, len(served) + 1))

    def ratios(self, tests: PaperTests) -> FloatArray:
        """Return statistic / threshold of Tests 1 and 2 after each round, shape (2, rounds).

        For Test 1 it is the largest over the instances that end in the round; -inf if none ends.
        """
        rounds = len(self.served)
        summed = np.concatenate([[0.0], self.served.cumsum()])
        best = np.maximum.accumulate(self.optimistic)
        ratios = np.full((2, rounds), -np.inf)
        for p in self.schedule:
            statistic = best[p.end - 1] - (summed[p.end] - summed[p.start - 1]) / p.rounds
            ratios[0, p.end - 1] = max(ratios[0, p.end - 1], statistic / tests.threshold1(p.order))
        counts = np.arange(1, rounds + 1)
        thresholds = [tests.threshold2(n) for n in range(1, rounds + 1)]
        ratios[1] = (self.served - self.optimistic).cumsum() / counts / thresholds
        return ratios
