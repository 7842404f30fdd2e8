"""Profile `calibrated`: the thresholds of Tests 1 and 2 from replays of the stream's first rounds in random order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.profiles.paper.master_tests import MasterTests
from streamfl.core.profiles.paper.schedule import Placement, placed
from streamfl.core.sampling import generator


@dataclass(frozen=True, slots=True)
class Power:
    """Of the replays in which played losses rose by `rise` halfway, the share in which a test then fired."""

    rise: float
    found: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What came of it: the factor of each test's threshold, and what the tests can find with it.

    >>> print(Calibrated(2e-4, 3e-4, (Power(0.1, 0.02), Power(0.3, 0.5))).summary())
    thresholds of the paper times 0.0002 (Test 1) and 0.0003 (Test 2); they would find a rise of the loss by 0.1 in
    2% of replays, by 0.3 in 50%
    """

    kappa1: float
    kappa2: float
    powers: tuple[Power, ...]

    def summary(self) -> str:
        """Return it as a sentence for people."""
        found = ", ".join(f"by {power.rise:g} in {power.found:.0%}" for power in self.powers)
        return (
            f"thresholds of the paper times {self.kappa1:.2g} (Test 1) and {self.kappa2:.2g} (Test 2);"
            f" they would find a rise of the loss {found.replace('%', '% of replays', 1)}"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """How thresholds are found.

    The first rounds are one block of 2^m rounds. A replay is such a block too: pairs of played and optimistic loss
    drawn from those rounds, under a schedule of its own. They are drawn with replacement: a shuffle would keep the
    mean over the whole block, so that Test 2 would end each replay with one and the same statistic. Each test's
    factor kappa is the 1 - rate quantile, over the replays, of the largest statistic / threshold in the block; blocks
    are never longer than the replays. So a test fires in some `rate` of the blocks of a stream that goes on like its
    first rounds, and in up to a few times as many, for these are a sample too.

    Where losses fall while the model learns, or short instances play untrained models, first rounds vary more than
    those before and after a drift. Then the power is low, or none, and it says so.

    Parameters
    ----------
    rounds
        The first rounds, in which no test acts.
    shuffles
        How many replays.
    rate
        Of false alarms, for each test and longest block.
    margin
        A statistic at the end of the longest block that is too small to matter: no threshold is lower there. Without
        it, a stream whose first rounds were predicted perfectly would alarm for ever.
    rises
        Each is implanted to measure the power: added to the played losses of the second half of a replay, and to
        an optimistic loss in so far as its instance was active in that half, for it is a mean over those rounds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses = rng.uniform(0.2, 0.3, 64)
    >>> plan = Calibration()
    >>> found = plan.run(losses, np.full(64, 0.2), tests=MasterTests(500), order=6, seed=0)
    >>> [power.found for power in found.powers]
    [0.495, 1.0]
    """

    rounds: int = 64
    shuffles: int = 200
    rate: float = 0.05
    margin: float = 0.001
    rises: tuple[float, ...] = (0.1, 0.3)

    @property
    def order(self) -> int:
        """Return m: the order of the longest block that the first rounds fill."""
        return self.rounds.bit_length() - 1

    def outlook(self) -> str:
        """Say what will happen, before it can be said what the tests can find.

        >>> print(Calibration().outlook())
        profile calibrated: Tests 1 and 2 do not act in the first 64 rounds; from then on each has the threshold that
        its statistic reaches in 5% of 200 replays of them in random order, and blocks have at most 64 rounds
        """
        return (
            f"profile calibrated: Tests 1 and 2 do not act in the first {self.rounds} rounds; from then on each has"
            f" the threshold that its statistic reaches in {self.rate:.0%} of {self.shuffles} replays of them in"
            f" random order, and blocks have at most {1 << self.order} rounds"
        )

    def run(
        self,
        played: Sequence[float] | FloatArray,
        optimistic: Sequence[float] | FloatArray,
        *,
        tests: MasterTests,
        order: int,
        seed: int,
    ) -> Calibrated:
        """Return the factors and the power.

        Parameters
        ----------
        played, optimistic
            F and Ft of the first rounds.
        tests
            The tests whose thresholds are to be multiplied.
        order
            Of the block that is replayed.
        seed
            Draws rounds and schedules.
        """
        pairs = np.array([played, optimistic])
        replays = [Replay.drawn(pairs, order, seed, i) for i in range(self.shuffles)]
        kappa = self.factors(replays, tests=tests, order=order)
        half = (1 << order) // 2
        shares = [replay.shares_after(half) for replay in replays]
        powers = []
        for rise in self.rises:
            risen = (replay.risen(rise, share) for replay, share in zip(replays, shares, strict=True))
            found = [(drifted.ratios(tests)[:, half:] >= kappa[:, None]).any() for drifted in risen]
            powers.append(Power(rise, float(np.mean(found))))
        return Calibrated(float(kappa[0]), float(kappa[1]), tuple(powers))

    def factors(self, replays: Sequence["Replay"], *, tests: MasterTests, order: int) -> FloatArray:
        """Return kappa of Tests 1 and 2, shape (2,), from replays of a block of 2^order rounds."""
        largest = [replay.ratios(tests).max(axis=1) for replay in replays]
        # A test fires at equality: a hair more, or equal losses would be an alarm.
        kappa = np.quantile(largest, 1.0 - self.rate, axis=0, method="higher") + 1e-9
        least = [self.margin / tests.threshold1(order), self.margin / tests.threshold2(1 << order)]
        factors: FloatArray = np.maximum(kappa, least)
        return factors


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One block of rounds 1, 2, ..: its schedule, and F and Ft, each of shape (rounds,)."""

    schedule: tuple[Placement, ...]
    played: FloatArray
    optimistic: FloatArray

    @classmethod
    def drawn(cls, pairs: FloatArray, order: int, seed: int, number: int) -> "Replay":
        """Return a replay of 2^order rounds drawn from some, whose F and Ft are `pairs` of shape (2, rounds)."""
        rng = generator(seed, "calibration", number)
        played, optimistic = pairs[:, rng.integers(pairs.shape[1], size=1 << order)]
        return cls(placed(order, 1, rng), played, optimistic)

    def shares_after(self, start: int) -> FloatArray:
        """Return for each round the share of the active instance's active rounds that came after round `start`."""
        playing = np.zeros(len(self.played), dtype=np.int64)
        for i, p in enumerate(sorted(self.schedule, reverse=True)):
            playing[p.start - 1 : p.end] = i  # the least of those that cover a round is active, and written last
        shares = np.empty(len(self.played))
        for i in np.unique(playing):
            rounds = np.flatnonzero(playing == i)
            shares[rounds] = (rounds >= start).cumsum() / np.arange(1, len(rounds) + 1)
        return shares

    def risen(self, rise: float, shares: FloatArray) -> "Replay":
        """Return it with a rise of the loss, at most to 1, in the rounds in which `shares` is positive."""
        played = self.played + rise * (shares > 0.0)
        return Replay(self.schedule, played.clip(max=1.0), (self.optimistic + rise * shares).clip(max=1.0))

    def ratios(self, tests: MasterTests) -> FloatArray:
        """Return statistic / threshold of Tests 1 and 2 after each round, shape (2, rounds).

        Test 1's is that of the instance for which it is largest; -inf in a round in which none ends.
        """
        rounds = len(self.played)
        summed = np.concatenate([[0.0], self.played.cumsum()])
        best = np.maximum.accumulate(self.optimistic)
        ratios = np.full((2, rounds), -np.inf)
        for p in self.schedule:
            statistic = best[p.end - 1] - (summed[p.end] - summed[p.start - 1]) / p.rounds
            ratios[0, p.end - 1] = max(ratios[0, p.end - 1], statistic / tests.threshold1(p.order))
        counts = np.arange(1, rounds + 1)
        thresholds = [tests.threshold2(n) for n in range(1, rounds + 1)]
        ratios[1] = (self.played - self.optimistic).cumsum() / counts / thresholds
        return ratios
