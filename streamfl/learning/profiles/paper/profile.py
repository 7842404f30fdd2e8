"""Profile `paper`: Master-FL with the active runner, and Tests 1 and 2 with the paper's thresholds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.evidence import LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.base import (
    HIGHEST_ORDER,
    Answer,
    Deliberation,
    Optimistic,
    OrderAfterAlarm,
    Profile,
    ProfileOptions,
    Restart,
    RoundPlan,
    Start,
)
from streamfl.learning.profiles.paper.block import Block, Instance
from streamfl.learning.profiles.paper.master_tests import PaperTests, first_horizon
from streamfl.learning.profiles.paper.optimistic import history_estimate, radius, regret_estimate
from streamfl.learning.profiles.paper.schedule import active, placed
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.messages import LocalDrift
from streamfl.sampling import generator, sampled_rounds


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """What the paper leaves open, with its own choices as defaults: docs/choices.md, "Experts and the paper"."""

    horizon: int = 500  # T; doubled each time it is passed
    delta: float = 0.05  # probability of failure
    # Factor of rho_hat in both tests, and of the radius of the optimistic loss; 1 as in the paper.
    rho_scale: float = 1.0

    # How Ft is estimated. `history`: the current model's loss on old rounds. `regret`: the served losses less Theorem
    # 1's bound.
    optimistic: Optimistic = "history"
    # Where models start on three occasions: `scratch`, or `warm` from the model that served last.
    new_instance: Start = "scratch"
    new_block: Start = "scratch"
    after_alarm: Start = "scratch"
    # `reset` to 0, as the proof requires, or `continue` with the next order, as the paper's text says.
    order_after_alarm: OrderAfterAlarm = "reset"
    max_order: int = 8  # the longest blocks have 2^max_order rounds, so that a round's cost does not grow with t
    step: float = 1.0  # s: an instance of order k has the step s / sqrt(2^k)
    distance: float = 1.0  # D of `regret`
    # Size of the history sample: its rounds, and the records that a client keeps of each.
    history_rounds: int = 32
    history_records: int = 64
    seed: int = 0  # seed of the schedules

    def outlook(self) -> str:
        """Return whether the tests can fire at all, and from which T on.

         print(PaperSettings(horizon=104).outlook())
        profile paper: Tests 1 and 2 cannot fire at T = 104: their least threshold is 165.4, no statistic exceeds 1;
        with blocks of T/2 rounds they could at T = 2.8e+08 (--rho-scale lowers every threshold)
        """
        tests = PaperTests(self.horizon, self.delta, self.rho_scale)
        # Before the first alarm blocks have 1, 2, 4, .. rounds; the last one may be cut short by the end.
        order = min(self.max_order, int(math.log2((self.horizon + 1) / 2)) if self.horizon > 0 else 0)
        cut_short = min(1 << self.max_order, self.horizon + 1 - (2 << order))
        least = min(tests.threshold2(max(1 << order, cut_short)), tests.threshold1(order))
        if least <= 1.0:
            return (
                f"profile paper: Tests 1 and 2 can fire: their least threshold at T = {self.horizon} is {least:.3g}"
            )
        first = first_horizon(rho_scale=self.rho_scale, delta=self.delta, above=self.horizon)
        when = f"they could at T = {first:.2g}" if first else "they could not at any practical T"
        return (
            f"profile paper: Tests 1 and 2 cannot fire at T = {self.horizon}: their least threshold is {least:.1f},"
            f" no statistic exceeds 1; with blocks of T/2 rounds {when}"
            " (--rho-scale lowers every threshold)"
        )


@dataclass(frozen=True)
class Settled:
    """A deliberation that asks for no scores."""

    alarm: Alarm
    round: int

    def ask(self) -> None:
        """Ask for nothing."""

    def answer(self, answer: Answer) -> None:
        """Ignore answers: nothing was asked."""


@dataclass
class Paper(Profile):
    """Algorithms 2 and 3: blocks of order 0, 1, 2, .., one active instance a round, two tests, restarts.

    Examples
    --------
    >>> import numpy as np
    >>> paper = Paper(PaperSettings(horizon=100))
    >>> [live.name for live in paper.open(1, np.zeros((1, 2)), 1.0).live]
    ['order-0']
    """

    takes: ClassVar[tuple[str, ...]] = ("rho_scale", "optimistic", "start", "order_after_alarm", "max_order")
    constants: ClassVar[tuple[str, ...]] = ("settings",)

    settings: PaperSettings
    profile: Literal["paper"] = "paper"
    epoch: int = 1
    horizon: int = 0
    block: Block | None = None
    last_served: FloatArray | None = None
    next_order: int = 0
    next_start: Start = "scratch"
    blocks: int = 0

    @classmethod
    def of(cls, options: ProfileOptions) -> Self:
        """Return a new profile."""
        start = options.start or "scratch"
        return cls(
            PaperSettings(
                horizon=max(2, options.horizon),
                rho_scale=options.rho_scale,
                optimistic=options.optimistic,
                new_instance=start,
                new_block=start,
                after_alarm=start,
                order_after_alarm=options.order_after_alarm,
                max_order=HIGHEST_ORDER if options.max_order is None else options.max_order,
                step=options.step or 1.0,
                seed=options.learner.seed,
            )
        )

    def outlook(self) -> str:
        """Return whether the tests can fire at all, and from which T on."""
        return self.settings.outlook()

    def wrong_beside(self, configured: Profile) -> str | None:
        """Return why this cannot have come from a configured profile, or None: a schedule has 2^order rounds."""
        orders = [self.next_order, *([self.block.order] if self.block is not None else [])]
        possible = self.horizon >= 0 and 0 <= min(orders) <= max(orders) <= self.settings.max_order
        return super().wrong_beside(configured) or (None if possible else "orders that a block cannot have")

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        """Begin round t: begin a block if the last has ended, and let the active instance play."""
        self.horizon = _doubled(self.horizon or self.settings.horizon, t)
        if self.block is None:
            self.block = self._new_block(t)
        block = self.block
        instance = self._active(block, t, scratch)
        sampled = self._sample(block, t)
        old = tuple(r for r in instance.active_rounds if r in block.sampled)
        live = LiveModel(
            name=f"order-{instance.placement.order}",
            W=instance.W,
            eta=self._eta(instance.placement.order),
            history=old,
        )
        keep = self.settings.history_records if t in sampled else 0
        return RoundPlan((live,), live.name, block.number, keep, tuple(r for r in sampled if r != t))

    def close(self, observed: RoundEvidence) -> Alarm | None:
        """Record the active instance's loss, step it, and run both tests."""
        block = self._block()
        instance = self._playing(block, observed.round)
        served = observed.models[f"order-{instance.placement.order}"]
        instance.active_rounds.append(observed.round)
        instance.records += observed.records
        instance.served += served.loss
        instance.W = served.stepped
        self.last_served = served.stepped
        block.served.append(served.loss)
        block.optimistic.append(self._optimistic(instance, served, observed))
        block.sampled = self._sample(block, observed.round)
        return self._test(block, observed.round)

    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> "Settled":
        """Return a settled deliberation: where the next epoch starts is a setting, not a choice by loss."""
        return Settled(alarm, observed.round)

    def conclude(self, deliberation: Deliberation) -> Restart:
        """Begin a new epoch with the next round."""
        if not isinstance(deliberation, Settled):
            raise BrokenInvariantError("a deliberation of another profile")
        self.next_order = 0 if self.settings.order_after_alarm == "reset" else self._following_order()
        wanted = deliberation.alarm.wanted
        self.next_start = "scratch" if wanted == "scratch" else "warm" if wanted else self.settings.after_alarm
        self.block = None
        self.blocks = 0
        self.epoch += 1
        chosen = "scratch" if self.next_start == "scratch" else "incumbent"
        return Restart(deliberation.round, self.epoch, deliberation.alarm, chosen)

    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """End the block after its last round."""
        if t >= self._block().end:
            self.next_order = self._following_order()
            self.next_start = self.settings.new_block
            self.block = None
        return ()

    def readings(self) -> Mapping[str, Reading]:
        """Return Test 2's statistic and threshold; Test 1 has them only when an instance ends."""
        if self.block is None or not self.block.served:
            return {}
        rounds = len(self.block.served)
        statistic = (sum(self.block.served) - sum(self.block.optimistic)) / rounds
        return {"test2": Reading(statistic, self._tests().threshold2(rounds))}

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express the models of all instances, also paused ones, and the one that served last."""
        for instance in self.block.instances.values() if self.block else ():
            instance.W = change(instance.W)
        if self.last_served is not None:
            self.last_served = change(self.last_served)

    def _block(self) -> Block:
        if self.block is None:
            raise BrokenInvariantError("a round was closed that was not open")
        return self.block

    def _new_block(self, t: int) -> Block:
        self.blocks += 1
        rng = generator(self.settings.seed, "schedule", self.epoch, t)
        return Block(self.next_order, t, self.blocks, placed(self.next_order, t, rng))

    def _following_order(self) -> int:
        return min(self._block().order + 1, self.settings.max_order)

    def _active(self, block: Block, t: int, scratch: FloatArray) -> Instance:
        """Return the instance that plays round t, begun now if it is new, and drop those that have ended."""
        block.instances = {k: i for k, i in block.instances.items() if i.placement.end >= t}
        placement = active(block.schedule, t)
        instance = block.instances.get(placement.order)
        if instance is None:
            instance = Instance(placement, self._first_model(block, scratch))
            block.instances[placement.order] = instance
        return instance

    def _playing(self, block: Block, t: int) -> Instance:
        return block.instances[active(block.schedule, t).order]

    def _first_model(self, block: Block, scratch: FloatArray) -> FloatArray:
        start = self.settings.new_instance if block.served else self.next_start
        return self.last_served if start == "warm" and self.last_served is not None else scratch

    def _eta(self, order: int) -> float:
        return self.settings.step / math.sqrt(2**order)

    def _sample(self, block: Block, t: int) -> tuple[int, ...]:
        if self.settings.optimistic != "history":
            return ()
        return sampled_rounds(self.settings.seed, (*block.sampled, t), self.settings.history_rounds)

    def _optimistic(self, instance: Instance, served: ModelEvidence, observed: RoundEvidence) -> float:
        rounds = len(instance.active_rounds)
        if self.settings.optimistic == "history":
            records = observed.records + served.history_records
            estimate = history_estimate(served.loss, served.history_loss, rounds)
        else:
            records = instance.records
            estimate = regret_estimate(
                instance.served / rounds,
                rounds,
                self._eta(instance.placement.order),
                distance=self.settings.distance,
                lipschitz=math.sqrt(2.0) * observed.largest_norm,
                bound=observed.loss_bound,
            )
        delta, scale = self.settings.delta, self.settings.rho_scale
        # Losses are at least 0, so a lower estimate need not be below 0, and no statistic exceeds 1.
        return max(0.0, estimate - radius(records, horizon=self.horizon, delta=delta, scale=scale))

    def _tests(self) -> PaperTests:
        return PaperTests(self.horizon, self.settings.delta, self.settings.rho_scale)

    def _test(self, block: Block, t: int) -> Alarm | None:
        tests = self._tests()
        for ending in (p for p in block.schedule if p.end == t):
            alarm = tests.test1(ending, block_start=block.start, served=block.served, optimistic=block.optimistic)
            if alarm is not None:
                return alarm
        return tests.test2(block_start=block.start, served=block.served, optimistic=block.optimistic)


def _doubled(horizon: int, t: int) -> int:
    while t > horizon:
        horizon *= 2
    return horizon
