"""Profile `experts`: the weighted mean of models that began at different times serves. It never alarms."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.drift.evidence import LiveModel, RoundEvidence
from streamfl.learning.profiles.adaptive.ladder import ladder_for
from streamfl.learning.profiles.base import Deliberation, Profile, ProfileOptions, Restart, RoundPlan, Start
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.messages import LocalDrift

MIXTURE = "mixture"


@dataclass(frozen=True, slots=True)
class ExpertsSettings:
    """The constants of the mixture: docs/choices.md, "Experts and the paper"."""

    # The longest instances have 2^max_order rounds, so at most max_order + 1 are live and a round's cost does not
    # grow with t. None: no cap, as the theorem requires; 1 + log2(t) instances are live.
    max_order: int | None = 8
    # s: an instance of order k has the step s / sqrt(2^k) in whitened features, or that over their mean squared norm.
    step: float = 64.0

    # Where an instance starts: `warm` from the mixture after its step, or `scratch`. The theorem holds with either,
    # since models stay in a ball: its bound has |x*|^2 for scratch, and the squared diameter for warm.
    start: Start = "warm"
    whitened: bool = False  # whether steps are whitened by the features' second moments


@dataclass(frozen=True, slots=True)
class Coin:
    """A bettor on the gains g of one expert over the others, by the Krichevsky-Trofimov estimate.

    Its wealth begins at 1, and it stakes the share (sum of g) / (rounds + 1) of it. A positive stake is the expert's
    claim to weight. While the stake is not positive, losses do not count: g = max(gain, 0).

    Examples
    --------
    >>> coin = Coin().after(0.5)
    >>> coin.stake, coin.after(0.2)
    (0.25, Coin(rounds=2, gains=0.7, wealth=1.05))
    >>> Coin().after(-0.5).gains
    0.0
    """

    rounds: int = 0
    gains: float = 0.0
    wealth: float = 1.0

    @property
    def stake(self) -> float:
        """Return the amount that is bet on the next round."""
        return self.gains / (self.rounds + 1) * self.wealth

    def after(self, gain: float) -> "Coin":
        """Return the bettor after a round in which its expert was better by `gain`, in [-1, 1]."""
        g = gain if self.stake > 0.0 else max(gain, 0.0)
        return Coin(self.rounds + 1, self.gains + g, self.wealth + g * self.stake)


def covering(t: int, max_order: int | None) -> tuple[tuple[int, int], ...]:
    """Return the order and the first round of every interval of the geometric cover that contains round t.

    Intervals of order k are the rounds i 2^k .. (i + 1) 2^k - 1, i = 1, 2, .. Once t >= 2^k, one of each order
    contains t. Every run of rounds is a union of such intervals, at most two of each order.

    >>> covering(6, None), covering(6, 1)
    (((0, 6), (1, 6), (2, 4)), ((0, 6), (1, 6)))
    """
    longest = t.bit_length() - 1 if max_order is None else min(t.bit_length() - 1, max_order)
    return tuple((k, t >> k << k) for k in range(longest + 1))


def prior(start: int) -> float:
    """Return the prior weight of an instance, up to a factor: 1 / (start^2 (1 + floor(log2 start))).

    The sum over all starts and orders is finite, since at most 1 + log2(start) instances start together.

    >>> prior(1), prior(2)
    (1.0, 0.125)
    """
    return 1.0 / (start**2 * start.bit_length())


@dataclass
class Expert:
    """A model that trains in the rounds of one interval of the cover, and the bets on it."""

    order: int
    start: int
    W: FloatArray
    coin: Coin = field(default_factory=Coin)


@dataclass
class Experts(Profile):
    """The mean of one model for each order of the geometric cover, weighted by coin betting (CBCE).

    In each round the weights are p ~ prior x max(stake, 0) over the live instances, or the priors where no stake is
    positive. With F the losses of the live instances, the gain of an instance is <p, F> less its own F.

    Proven: with convex losses in [0, 1], one full-batch step a round and no cap on orders, the regret on every run of
    rounds I against its best fixed model is about sqrt(|I|), up to logarithms. Hence the dynamic regret is
    min{sqrt(L T), Delta^(1/3) T^(2/3) + sqrt(T)} without any test. Unclipped losses divided by their bound on the
    models' ball are such losses.

    As it runs here, weights come from clipped scores, which are not convex. The guarantee still holds for <p, F>, but
    the loss of the mean model may exceed <p, F>. So with clipped scores, several local steps or `max_order`, the
    profile is measured, not proven.

    References
    ----------
    Jun, Orabona, Wright and Willett, "Improved strongly adaptive online learning using coin betting", 2017, for the
    bets; Daniely, Gonen and Shalev-Shwartz, "Strongly adaptive online learning", 2015, for the cover.

    Examples
    --------
    >>> experts = Experts()
    >>> [(live.name, live.trained) for live in experts.open(2, np.zeros((1, 2)), 1.0).live]
    [('mixture', False), ('order-0', True), ('order-1', True)]
    """

    takes: ClassVar[tuple[str, ...]] = ("start", "max_order")
    restarts: ClassVar[bool] = False
    constants: ClassVar[tuple[str, ...]] = ("settings",)

    settings: ExpertsSettings = field(default_factory=ExpertsSettings)
    profile: Literal["experts"] = "experts"
    epoch: int = 1
    instances: list[Expert] = field(default_factory=list)
    mixture: FloatArray | None = None

    @classmethod
    def of(cls, options: ProfileOptions) -> Self:
        """Return a new profile; its largest step is that of the ladder."""
        ladder = ladder_for(options.learner, options.step)
        return cls(ExpertsSettings(options.max_order, ladder.step, options.start or "warm", ladder.whitened))

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> RoundPlan:
        """Begin round t: end and begin instances, and average those that are live."""
        live = {(instance.order, instance.start): instance for instance in self.instances}
        self.instances = [
            live.get((order, start)) or Expert(order, start, self._first(scratch))
            for order, start in covering(t, self.settings.max_order)
            if start == t or (order, start) in live
        ]
        whitened = self.settings.whitened
        step = self.settings.step / (1.0 if whitened else squared_norm)
        trained = (LiveModel(_name(i), i.W, step / 2 ** (i.order / 2), whitened=whitened) for i in self.instances)
        mixture = LiveModel(MIXTURE, self._mean([i.W for i in self.instances]), eta=0.0, trained=False)
        return RoundPlan((mixture, *trained), MIXTURE)

    def close(self, observed: RoundEvidence) -> Alarm | None:
        """Settle the bets, step every instance, and never alarm."""
        evidence = [observed.models[_name(instance)] for instance in self.instances]
        mean = math.fsum(p * result.proper for p, result in zip(self.weights(), evidence, strict=True))
        for instance, result in zip(self.instances, evidence, strict=True):
            instance.coin = instance.coin.after(mean - result.proper)
            instance.W = result.stepped
        self.mixture = self._mean([instance.W for instance in self.instances])
        return None

    def weights(self) -> list[float]:
        """Return the weight of each live instance, summing to 1."""
        priors = [prior(instance.start) for instance in self.instances]
        claims = [p * max(i.coin.stake, 0.0) for p, i in zip(priors, self.instances, strict=True)]
        if not any(claims):
            claims = priors
        total = math.fsum(claims)
        return [claim / total for claim in claims]

    def deliberate(self, alarm: Alarm, observed: RoundEvidence, scratch: FloatArray) -> Deliberation:
        """Raise: an instance begins in every round, so there is nothing to restart."""
        raise BrokenInvariantError("profile experts was asked to restart, but it never alarms")

    def conclude(self, deliberation: Deliberation) -> Restart:
        """Raise, as `deliberate` does."""
        raise BrokenInvariantError("profile experts was asked to restart, but it never alarms")

    def advance(self, t: int) -> tuple[LocalDrift, ...]:
        """Do nothing: instances end and begin as rounds open."""
        return ()

    def readings(self) -> Mapping[str, Reading]:
        """Return nothing: there is no detector."""
        return {}

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every instance, and the mixture from which the next ones start."""
        for instance in self.instances:
            instance.W = change(instance.W)
        if self.mixture is not None:
            self.mixture = change(self.mixture)

    def _first(self, scratch: FloatArray) -> FloatArray:
        return self.mixture if self.settings.start == "warm" and self.mixture is not None else scratch

    def _mean(self, models: list[FloatArray]) -> FloatArray:
        mean: FloatArray = np.tensordot(self.weights(), np.stack(models), axes=1)
        return mean


def _name(instance: Expert) -> str:
    return f"order-{instance.order}"
