"""Profile `adaptive` by promotion: one model serves, others train beside it, and a better one takes over."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamfl.core.alarm import Alarm, Reading
from streamfl.core.arrays import FloatArray
from streamfl.core.detectors.glr import GLR
from streamfl.core.master import LiveModel, Observed, Opening, Played, Restart


@dataclass(frozen=True, slots=True)
class PromotionSettings:
    """The constants of promotion; none is meant to be tuned.

    Parameters
    ----------
    orders
        The rungs: a model of order k steps with s / sqrt(2^k), so choosing among rungs tunes the step to the
        speed of the drift.
    step
        s in units of the mean squared feature norm: scale-free.
    discount
        Decay a round of each model's discounted loss, by which models compete.
    hysteresis
        By how much a challenger's discounted loss must be lower.
    hopeless
        A rung whose discounted loss is above this many times the incumbent's is reset to the incumbent's model.
    """

    orders: tuple[int, ...] = (0, 2, 4, 6, 8)
    step: float = 256.0
    discount: float = 0.7
    hysteresis: float = 1e-4
    hopeless: float = 1.15


def ladder_top(*, bounded_gradient: bool, one_full_step: bool) -> float:
    """Return the step s of the top rung, over the mean squared feature norm.

    A gradient that grows with the residual allows at most s = 2 before steps diverge, so least squares start at 1.
    That of a cross-entropy is bounded: one step on a whole round may be long, many steps a round may not (on the
    streams tried the best rung lay between 4 and 256 for one step, and between 1 and 16 for one record a step).

    >>> ladder_top(bounded_gradient=True, one_full_step=True)
    256.0
    """
    if not bounded_gradient:
        return 1.0
    return 256.0 if one_full_step else 16.0


@dataclass
class Rung:
    """A live model of one order and its discounted loss."""

    order: int
    W: FloatArray
    discounted: float = 0.0


@dataclass
class Promotion:
    """A ladder of step sizes: the rung with the least discounted loss serves; a detector's alarm restarts all.

    Examples
    --------
    >>> import numpy as np
    >>> adaptive = Promotion()
    >>> [(live.name, round(live.eta, 1)) for live in adaptive.open(1, np.zeros((1, 2)), 10.0).live]
    [('rung-0', 25.6), ('rung-2', 12.8), ('rung-4', 6.4), ('rung-6', 3.2), ('rung-8', 1.6)]
    """

    settings: PromotionSettings = field(default_factory=PromotionSettings)
    detector: GLR = field(default_factory=GLR)
    profile: Literal["adaptive"] = "adaptive"
    epoch: int = 1
    promotions: int = 0
    rungs: list[Rung] = field(default_factory=list)
    serving: int = 0

    def open(self, t: int, scratch: FloatArray, squared_norm: float) -> Opening:
        """Begin round t: every rung is scored and trained."""
        if not self.rungs:
            self._reset(scratch)
        step = self.settings.step / squared_norm
        live = tuple(LiveModel(_name(r.order), r.W, step / math.sqrt(2**r.order)) for r in self.rungs)
        return Opening(live, live[self.serving].name)

    def close(self, observed: Observed) -> Alarm | None:
        """Score the incumbent for the detector, and step every rung."""
        served = observed.played[_name(self.rungs[self.serving].order)]
        for rung in self.rungs:
            played = observed.played[_name(rung.order)]
            rung.W = played.stepped
            rung.discounted = self.settings.discount * rung.discounted + played.loss
        return self.detector.update(observed.round, served.loss, observed.records)

    def candidates(self, scratch: FloatArray) -> Mapping[str, FloatArray]:
        """Return an untrained model: the live ones have been scored already."""
        return {"scratch": scratch}

    def restart(self, alarm: Alarm, observed: Observed, scored: Mapping[str, Played], scratch: FloatArray) -> Restart:
        """Begin a new epoch from the candidate with the least loss on the alarm round, copied to every rung."""
        incumbent = observed.played[_name(self.rungs[self.serving].order)]
        others = {name: played for name, played in observed.played.items() if played is not incumbent}
        field_ = {"incumbent": incumbent, **others, **scored}
        chosen = min(field_, key=lambda name: field_[name].loss)
        self._reset(field_[chosen].stepped)
        self.detector.reset()
        self.epoch += 1
        return Restart(observed.round, self.epoch, alarm, chosen)

    def advance(self, t: int) -> None:
        """Promote a better rung, and reset hopeless ones."""
        best = min(range(len(self.rungs)), key=lambda i: self.rungs[i].discounted)
        incumbent = self.rungs[self.serving]
        if self.rungs[best].discounted < incumbent.discounted - self.settings.hysteresis:
            self.serving = best
            self.promotions += 1
        self._reset_hopeless(self.rungs[self.serving])

    def readings(self) -> Mapping[str, Reading]:
        """Return where the detector stands."""
        return {"glr": self.detector.reading} if self.detector.reading else {}

    def transform(self, change: Callable[[FloatArray], FloatArray]) -> None:
        """Re-express every rung."""
        for rung in self.rungs:
            rung.W = change(rung.W)

    def _reset(self, W: FloatArray) -> None:
        self.rungs = [Rung(order, W) for order in self.settings.orders]
        self.serving = min(self.serving, len(self.rungs) - 1)

    def _reset_hopeless(self, incumbent: Rung) -> None:
        for rung in self.rungs:
            if rung.discounted > self.settings.hopeless * incumbent.discounted:
                rung.W = incumbent.W
                rung.discounted = 1.02 * incumbent.discounted


def _name(order: int) -> str:
    return f"rung-{order}"
