"""Tests 1 and 2 of Master-FL on the losses of a single model that is only watched."""

import math
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.profiles.paper.block import Block
from streamfl.learning.profiles.paper.calibration import Calibration, ReplayBlock
from streamfl.learning.profiles.paper.master_tests import PaperTests
from streamfl.learning.profiles.paper.schedule import placed
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.sampling import generator

# The tests without factors. Their T and delta do not matter, since the factors are calibrated to them.
# docs/choices.md, "Thresholds of the paper's tests, calibrated".
PLAIN = PaperTests(horizon=500)


@dataclass
class WatchedTests:
    """Tests 1 and 2 with calibrated thresholds, over blocks of Algorithm 1 in which one model plays every round.

    Input: the loss of each round, in [0, 1]. Guarantee: none proven; if the stream continues like its first rounds,
    each test fires in about `calibration.rate` of the blocks. Cost: O(rounds of a block) a round.

    Master-FL runs a copy of its base algorithm on every instance. A watched model has no copies, and cannot be scored
    again on old rounds. So an instance is only its span of rounds, and the optimistic loss Ft is the mean loss of the
    block so far. That equals the `history` estimate of the instance of the block's order, which is always placed and
    here never pauses, if the current model's losses on old rounds were those of that time. The tests become

    - Test 1, at the end of every instance: the mean over its span lies below the largest Ft. The loss *fell*, on any
      of the scales of Algorithm 1.
    - Test 2, after every round: the mean of loss - Ft over the block is large. The loss *rose*.

    A rise in the first rounds of a block has no earlier loss to compare with. That does no harm where models start
    again with the block, but a watched model does not. So a new block begins every half block, two are watched at any
    time, and no rise lies in the first rounds of both.

    The first block only calibrates: `calibration.replays` replays are drawn from its rounds, each with a schedule of
    its own, and each test's threshold is the one reached in `calibration.rate` of them. All blocks have the length of
    the first.

    References
    ----------
    Ganguly and Aggarwal, Algorithms 1 and 3; Wei and Luo, "Non-stationary reinforcement learning without prior
    knowledge: an optimal black-box approach", 2021.

    Examples
    --------
    >>> tests = WatchedTests()
    >>> rng = np.random.default_rng(0)
    >>> losses = [*rng.uniform(0.2, 0.3, 100).tolist(), *rng.uniform(0.3, 0.4, 20).tolist()]
    >>> next(alarm for t, loss in enumerate(losses, start=1) if (alarm := tests.update(t, loss, records=1)))
    Alarm(cause='test2', statistic=0.0111..., threshold=0.0105..., since=65, ...)
    """

    # The length of a block, and how thresholds are calibrated.
    calibration: Calibration = field(default_factory=Calibration)
    falls: bool = True  # whether Test 1 is run
    seed: int = 0  # seed of schedules and replays
    tests: PaperTests | None = None  # the calibrated tests; None in the first block
    blocks: list[Block] = field(default_factory=list)  # the two blocks that are watched, the older first
    # The reading of Test 2 in the block where it is nearest to its threshold; None before it is calibrated.
    reading: Reading | None = None

    def update(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the loss of round t over `records` records, and return an alarm if there is one."""
        if not self.blocks or t == self.blocks[-1].start + self._half:
            self._begin_block(t)
        for block in self.blocks:
            block.served.append(loss)
            block.optimistic.append(math.fsum(block.served) / len(block.served))
        return None if self.tests is None else self._test(self.tests, t)

    def reset(self) -> None:
        """Forget every loss, and the thresholds: after a restart."""
        self.tests, self.reading, self.blocks = None, None, []

    @property
    def _half(self) -> int:
        return 1 << (self.calibration.order - 1)

    def _begin_block(self, t: int) -> None:
        order = self.calibration.order
        if self.tests is None and len(self.blocks) == 2:
            self.tests = self._calibrated(np.array(self.blocks[0].served), t)
        number = self.blocks[-1].number + 1 if self.blocks else 1
        schedule = placed(order, t, generator(self.seed, "schedule", t))
        self.blocks = [*self.blocks, Block(order, t, number, schedule)][-2:]

    def _calibrated(self, losses: FloatArray, t: int) -> PaperTests:
        order = self.calibration.order
        replays = [
            ReplayBlock.drawn(losses, order, generator(self.seed, "calibration", t, i))
            for i in range(self.calibration.replays)
        ]
        kappa1, kappa2 = self.calibration.factors(replays, PLAIN)
        return PaperTests(PLAIN.horizon, PLAIN.delta, kappa1=float(kappa1), kappa2=float(kappa2))

    def _test(self, tests: PaperTests, t: int) -> Alarm | None:
        alarms = [alarm for block in self.blocks for alarm in self._alarms(tests, block, t)]
        readings = [_reading(tests, block) for block in self.blocks]
        self.reading = max(readings, key=lambda reading: reading.statistic / reading.threshold)
        return max(alarms, key=lambda alarm: alarm.statistic / alarm.threshold, default=None)

    def _alarms(self, tests: PaperTests, block: Block, t: int) -> list[Alarm]:
        start, served, optimistic = block.start, block.served, block.optimistic
        ending = [p for p in block.schedule if p.end == t] if self.falls else []
        results = [tests.test1(p, block_start=start, served=served, optimistic=optimistic) for p in ending]
        results.append(tests.test2(block_start=start, served=served, optimistic=optimistic))
        return [alarm for alarm in results if alarm is not None]


def _reading(tests: PaperTests, block: Block) -> Reading:
    rounds = len(block.served)
    statistic = (math.fsum(block.served) - math.fsum(block.optimistic)) / rounds
    return Reading(statistic, tests.threshold2(rounds))
