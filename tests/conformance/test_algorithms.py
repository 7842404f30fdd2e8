"""Conformance of every base algorithm, and what the checks find in broken ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.base import Algorithm, AlgorithmOptions
from streamfl.learning.algorithms.fedavg import FedAvg, onto_ball
from streamfl.learning.algorithms.mirror_maps import MIRROR_MAPS
from streamfl.plugins.algorithms import ALGORITHMS
from streamfl.testing import Violation, check_algorithm
from streamfl.testing.algorithms import CHECKS, ignores_the_order_of_clients

OPTIONS = {
    f"{mirror} {average} {l1:g}": AlgorithmOptions(mirror=mirror, average=average, l1=l1)  # type: ignore[arg-type]
    for mirror, average, l1 in product(MIRROR_MAPS, ("primal", "dual"), (0.0, 0.01))
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, options)
        for name, kind in ALGORITHMS.items()
        for options in (OPTIONS if kind.takes else ["p-norm primal 0"])
    ],
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_algorithm_passes_each_conformance_check(
    name: str, options: str, check: Callable[[Callable[[], Algorithm]], None]
) -> None:
    check(lambda: ALGORITHMS[name].of(OPTIONS[options]))


@dataclass(frozen=True)
class Signs(FedAvg):
    """Sign descent: an algorithm in another package."""

    @property
    def may_be_whitened(self) -> bool:
        return False

    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return onto_ball(W - eta * np.sign(slope), self.radius)


def test_an_algorithm_of_another_package() -> None:
    check_algorithm(Signs)


class Flat(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return super().step(W, slope, eta).ravel()


class Lost(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return super().step(W, slope, eta) * np.nan


class Greedy(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        W -= eta * np.sign(slope)
        return W


@dataclass(frozen=True)
class Heavy(Signs):
    """Keeps its last step to itself."""

    last: list[FloatArray] = field(default_factory=list)

    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        self.last.append(slope)
        return super().step(W, np.sum([each for each in self.last if each.shape == slope.shape], axis=0), eta)


@dataclass(frozen=True)
class Random(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return super().step(W, slope * np.random.default_rng().normal(size=slope.shape), eta)


class Shrinking(Signs):
    def from_average(self, mean: FloatArray) -> FloatArray:
        return 0.9 * super().from_average(mean)


class Boastful(Signs):
    may_be_whitened = True  # type: ignore[assignment]


class Deaf(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return W


class Upwards(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return super().step(W, -slope, eta)


class Drawn(Signs):
    def pull(self, W: FloatArray, start: FloatArray) -> FloatArray:
        return W


class Idle(Signs):
    def work(self, steps: int) -> float:
        return steps - 1.0


class Free(Signs):
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        return W - eta * np.sign(slope)

    def from_average(self, mean: FloatArray) -> FloatArray:
        return mean


@pytest.mark.parametrize(
    ("kind", "violation"),
    [
        (Flat, r"step returns shape \(0,\) for shape \(3, 0\)"),
        (Lost, "step returns numbers that are not finite"),
        (Greedy, "it changes an array that was passed to it"),
        (Heavy, "it is random, or depends on other steps"),
        (Random, "it is random, or depends on other steps"),
        (Shrinking, "a round without differences changes the model"),
        (Boastful, "it may be whitened, but its step is not W - eta slope"),
        (Drawn, "it pulls a step at the round's start"),
        (Idle, "the work of 1, 2 and 1000 steps is"),
        (Deaf, "Linear: the loss is .* after 30 rounds"),
        (Upwards, "Linear: the loss is .* after 30 rounds"),
        (Free, "give a norm of .*, but the ball's radius is 1000"),
    ],
)
def test_an_algorithm_that_breaks_a_rule_is_refused_with_the_reason(kind: type[Algorithm], violation: str) -> None:
    with pytest.raises(Violation, match=violation):
        check_algorithm(lambda: kind.of(AlgorithmOptions()))


@dataclass(frozen=True)
class Tiring(FedAvg):
    """Makes each step shorter than the last."""

    taken: list[float] = field(default_factory=list)

    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        self.taken.append(eta)
        return super().step(W, slope, eta / len(self.taken))


def test_an_algorithm_that_remembers_steps_is_found_to_depend_on_the_order_of_clients() -> None:
    with pytest.raises(Violation, match="another order of clients gives other bytes"):
        ignores_the_order_of_clients(Tiring)
