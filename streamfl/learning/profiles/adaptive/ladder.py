"""A ladder of step sizes: models trained side by side, their averages, and the one of them that serves."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import LiveModel, ModelEvidence
from streamfl.learning.local_round import Learner
from streamfl.protocol.registry import widened

# s for bounded gradients, and s for a single plain step on a whole round. docs/choices.md, "The ladder".
STEP, LONG_STEP = 16.0, 256.0

# A rung that begins again from a model gets this many times that model's loss, so that it does not serve at once.
# docs/choices.md, "The ladder".
BEHIND = 1.02


@dataclass(frozen=True, slots=True)
class LadderSettings:
    """The constants of a ladder. None is meant to be tuned: docs/choices.md, "Steps and averages", "The ladder"."""

    # A rung of order k has the step s / sqrt(2^k). Choosing among rungs tunes the step to the speed of the drift.
    orders: tuple[int, ...] = (0, 4, 8)
    # Orders of further rungs that step with momentum. They follow shallow directions that a plain step does not.
    heavy: tuple[int, ...] = (4,)
    momentum: float = 0.8  # the part of its last step that such a rung takes again (Polyak 1964)

    # s: used as it is in whitened features, otherwise divided by the mean squared feature norm. Scale-free either
    # way.
    step: float = STEP
    whitened: bool = True  # whether steps are whitened by the features' second moments
    averages: bool = True  # whether a running average of each rung is scored and may serve
    memory: int = 20  # the rounds over which an average reaches back, approximately
    # Decay a round of each model's discounted loss, a sum of proper scores, by which models compete.
    discount: float = 0.7
    # The least number of records over which the discounted loss reaches back: small rounds decay more slowly.
    remembered: int = 1000
    hysteresis: float = 1e-4  # the margin by which a challenger's discounted loss must be lower

    # A rung begins again from the serving model when its loss and its average's both exceed this many times that of
    # the serving model.
    hopeless: float = 1.15
    # The shadow has the step of this order, and starts from scratch every `shadow_rounds` rounds.
    shadow_order: int = 4
    shadow_rounds: int = 16
    shadow_youth: int = 3  # rounds before the shadow is compared with the rungs

    def eta(self, order: int, squared_norm: float) -> float:
        """Return the step of an order, given the features' mean squared norm.

        >>> LadderSettings().eta(4, 55.0), LadderSettings(whitened=False, step=256.0).eta(0, 10.0)
        (4.0, 25.6)
        """
        return self.step / math.sqrt(2**order) / (1.0 if self.whitened else squared_norm)

    def keeps(self, records: int) -> float:
        """Return the part of a discounted loss that is left after a round of `records` records.

        Small rounds decay it more slowly, or noise would choose: the mean loss of 25 records has four times the
        standard error of that of 400.

        >>> LadderSettings().keeps(2000), LadderSettings().keeps(25)
        (0.7, 0.975)
        """
        return max(self.discount, 1.0 - records / self.remembered)


def ladder_settings(
    *, bounded_gradient: bool, one_full_step: bool, whitened: bool = True, step: float | None = None
) -> LadderSettings:
    """Return the ladder for a loss and a way of stepping.

    Whole-round gradient steps are whitened where the algorithm allows it (`whitened`). There, least squares have
    curvature 1, so s is 1; a cross-entropy has a bounded gradient and takes longer steps. Other mirror maps shape
    their steps themselves, and a single step on a whole round may be long. With many local steps a round, predictions
    come from the locally adapted model, which averages would lose.

    >>> ladder_settings(bounded_gradient=False, one_full_step=True).step
    1.0
    """
    if one_full_step and whitened:
        return LadderSettings(step=step or (STEP if bounded_gradient else 1.0))
    top = step or ((LONG_STEP if one_full_step else STEP) if bounded_gradient else 1.0)
    return LadderSettings(orders=(0, 2, 4, 6, 8), heavy=(), step=top, whitened=False, averages=False)


def ladder_for(learner: Learner, step: float | None) -> LadderSettings:
    """Return the ladder for a learner; `step` is s, or None for the default."""
    return ladder_settings(
        bounded_gradient=learner.model.link != "identity",
        one_full_step=learner.one_full_step,
        whitened=learner.algorithm.may_be_whitened,
        step=step,
    )


@dataclass
class Rung:
    """A model of one order, its average, and their discounted losses; `age` counts rounds since its reset.

    `velocity` is the last step of a rung with momentum, and None for a plain rung.
    """

    order: int
    W: FloatArray
    average: FloatArray
    velocity: FloatArray | None = None
    age: int = 0
    loss: float = 0.0
    average_loss: float = 0.0

    def begin(self, W: FloatArray, loss: float) -> None:
        """Begin again from a model."""
        self.W = self.average = W
        self.loss = self.average_loss = loss
        self.age = 0
        self.velocity = None if self.velocity is None else np.zeros_like(W)


@dataclass
class Ladder:
    """The live models of one group of clients.

    Examples
    --------
    >>> import numpy as np
    >>> ladder = Ladder()
    >>> ladder.reset(np.zeros((2, 1)), np.zeros((2, 1)))
    >>> [(live.name, live.eta) for live in ladder.live(1.0) if live.trained]
    [('step 16', 16.0), ('step 4', 4.0), ('step 1', 1.0), ('step 4 with momentum', 4.0), ('shadow', 4.0)]
    """

    settings: LadderSettings = field(default_factory=LadderSettings)  # the ladder's constants
    prefix: str = ""  # the prefix of its slot names
    rungs: list[Rung] = field(default_factory=list)  # its models; empty until the first reset
    serving: tuple[int, bool] = (0, False)  # the number of the rung that serves, and whether its average does
    weight: float = 0.0  # discounted number of rounds since the reset

    # A model that starts from scratch regularly. It never serves. Once it is clearly better than the serving model,
    # hopeless rungs begin again from it. It is also a candidate at restarts.
    shadow: FloatArray | None = None
    shadow_age: int = 0
    shadow_loss: float = 0.0
    shadow_weight: float = 0.0
    promotions: int = 0  # the number of times that another model took over

    def reset(self, W: FloatArray, scratch: FloatArray) -> None:
        """Start every rung from W, and the shadow from scratch."""
        plain = [Rung(order, W, W) for order in self.settings.orders]
        self.rungs = [*plain, *(Rung(order, W, W, np.zeros_like(W)) for order in self.settings.heavy)]
        self.weight = 0.0
        self._begin_shadow(scratch)

    def _begin_shadow(self, scratch: FloatArray) -> None:
        self.shadow, self.shadow_age, self.shadow_loss, self.shadow_weight = scratch, 0, 0.0, 0.0

    def live(self, squared_norm: float, clients: tuple[str, ...] | None = None) -> tuple[LiveModel, ...]:
        """Return the models to score and to train in a round."""
        etas = {rung.order: self.settings.eta(rung.order, squared_norm) for rung in self.rungs}
        shadow_eta = self.settings.eta(self.settings.shadow_order, squared_norm)
        whitened = self.settings.whitened
        live = [LiveModel(self._name(r), r.W, etas[r.order], clients=clients, whitened=whitened) for r in self.rungs]
        if self.settings.averages:
            live += [LiveModel(self._name(r, averaged=True), r.average, 0.0, False, clients) for r in self.rungs]
        if self.shadow is not None:
            live.append(LiveModel(self.shadow_name, self.shadow, shadow_eta, clients=clients, whitened=whitened))
        return tuple(live)

    @property
    def serves(self) -> str:
        """Return the name of the model that serves."""
        return self._name(self.rungs[self.serving[0]], averaged=self.serving[1])

    @property
    def shadow_name(self) -> str:
        """Return the name of the shadow's slot."""
        return f"{self.prefix}shadow"

    @property
    def incumbent(self) -> FloatArray:
        """Return the model that serves."""
        rung = self.rungs[self.serving[0]]
        return rung.average if self.serving[1] else rung.W

    def step(self, evidence: Mapping[str, ModelEvidence], scratch: FloatArray, records: int) -> None:
        """Take a round's stepped models and their losses; models that no client scored stay as they are.

        Parameters
        ----------
        scratch
            The model from which a shadow begins.
        records
            The round's records at the clients of this ladder.
        """
        keeps = self.settings.keeps(records)
        for rung in self.rungs:
            self._step(rung, evidence, keeps)
        if self.serves in evidence:
            self.weight = keeps * self.weight + 1.0
        if self.shadow is None or self.shadow_age >= self.settings.shadow_rounds - 1:
            self._begin_shadow(scratch)
        elif self.shadow_name in evidence:
            result = evidence[self.shadow_name]
            self.shadow, self.shadow_age = result.stepped, self.shadow_age + 1
            self.shadow_loss = keeps * self.shadow_loss + result.proper
            self.shadow_weight = keeps * self.shadow_weight + 1.0

    def _step(self, rung: Rung, evidence: Mapping[str, ModelEvidence], keeps: float) -> None:
        own, mean = evidence.get(self._name(rung)), evidence.get(self._name(rung, averaged=True))
        if own is None:
            return
        rung.W = own.stepped if rung.velocity is None else self._pushed(rung, rung.velocity, own.stepped)
        rung.age += 1
        rung.loss = keeps * rung.loss + own.proper
        if mean is None:
            return
        rung.average_loss = keeps * rung.average_loss + mean.proper
        # Later models weigh more while the average is young, as the first ones are untrained (Shamir and Zhang 2013).
        weight = max(2.0 / (rung.age + 1.0), 1.0 / self.settings.memory)
        rung.average = mean.stepped + weight * (rung.W - mean.stepped)

    def _pushed(self, rung: Rung, velocity: FloatArray, stepped: FloatArray) -> FloatArray:
        """Return the model after its step and a part of its last one, both widened to today's columns."""
        before, last = widened(rung.W, stepped.shape[1]), widened(velocity, stepped.shape[1])
        rung.velocity = self.settings.momentum * last + (stepped - before)
        return before + rung.velocity

    def promote(self) -> None:
        """Let the model with the least discounted loss serve, and begin hopeless rungs again from it."""
        best = min(self._losses().items(), key=lambda item: item[1])
        serving = self._losses()[self.serving]
        if best[1] < serving - self.settings.hysteresis:
            self.serving, serving = best[0], best[1]
            self.promotions += 1
        model, least = self.incumbent, serving
        if self.shadow is not None and self.settings.hopeless * self._shadow_loss() < serving:
            model, least = self.shadow, self._shadow_loss()
        for rung in self.rungs:
            own = min(rung.loss, rung.average_loss) if self.settings.averages else rung.loss
            if own > self.settings.hopeless * least:
                rung.begin(model, BEHIND * least)

    def _shadow_loss(self) -> float:
        """Return the shadow's discounted loss scaled to the rungs' age; infinite while it is too young."""
        if self.shadow_age < self.settings.shadow_youth:
            return math.inf
        return self.shadow_loss * self.weight / self.shadow_weight

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every model."""
        for rung in self.rungs:
            if rung.velocity is not None:
                rung.velocity = change(rung.W + rung.velocity) - change(rung.W)  # a change may also shift
            rung.W, rung.average = change(rung.W), change(rung.average)
        self.shadow = None if self.shadow is None else change(self.shadow)

    def _losses(self) -> dict[tuple[int, bool], float]:
        own = {(i, False): rung.loss for i, rung in enumerate(self.rungs)}
        averages = {(i, True): rung.average_loss for i, rung in enumerate(self.rungs)}
        return {**own, **averages} if self.settings.averages else own

    def _name(self, rung: Rung, *, averaged: bool = False) -> str:
        momentum = "" if rung.velocity is None else " with momentum"
        name = f"step {self.settings.step / math.sqrt(2**rung.order):.4g}{momentum}"
        return f"{self.prefix}average of {name}" if averaged else f"{self.prefix}{name}"
