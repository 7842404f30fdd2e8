"""The methods of the regret benchmark: each plays a model, then learns from the loss of the round."""

import math
from collections.abc import Callable
from typing import Literal, Protocol, get_args

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.algorithms.fedavg import onto_ball
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.experts import Experts, ExpertsSettings
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl_benchmarks.regret_driver import Driven
from streamfl_benchmarks.regret_streams import GROWTH, RADIUS, RoundLoss, Stream, pooled

MethodName = Literal[
    "adaptive", "experts", "experts-theorem", "constant", "fedavg", "oracle", "paper", "paper-uncapped"
]
METHODS: tuple[MethodName, ...] = get_args(MethodName)

# The candidates for the constant step; the best is chosen after the run.
STEPS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

# Models may leave the ball of the minimisers; no method knows its radius.
BALL = 2.0 * RADIUS


class Player(Protocol):
    """A method in a stream."""

    def play(self) -> FloatArray:
        """Return x(t), before the round's loss is known: shape (d,), or (clients, d) with a model for each client."""
        ...

    def learn(self, loss: RoundLoss) -> None:
        """Take the round's loss."""
        ...


class ConstantFedAvg:
    """FedAvg with a constant step, begun again from x = 0 at given rounds.

    Parameters
    ----------
    features
        d.
    eta
        The step, on the loss in nats.
    restarts
        The rounds.

    Examples
    --------
    >>> player = ConstantFedAvg(1, eta=2.0, restarts=frozenset({3}))
    >>> for _ in range(3):
    ...     print(player.play())
    ...     player.learn(RoundLoss(np.ones((1, 1, 1)), np.array([[0.25]])))
    [0.]
    [-0.5]
    [0.]
    """

    def __init__(self, features: int, eta: float, restarts: frozenset[int] = frozenset()) -> None:
        self._x = np.zeros(features)
        self._eta, self._restarts, self._t = eta, restarts, 1

    def play(self) -> FloatArray:
        """Return x(t)."""
        if self._t in self._restarts:
            self._x = np.zeros_like(self._x)
        return self._x

    def learn(self, loss: RoundLoss) -> None:
        """Take one step on the mean of the clients' gradients."""
        slope = loss.slopes(self._x[:, None]).mean(axis=0)[:, 0]
        self._x = onto_ball(self._x - self._eta * slope, BALL)
        self._t += 1


def adaptive(stream: Stream) -> Driven:
    """Return the profile `adaptive` as it is."""
    return Driven(Promotion(), stream.Z, radius=BALL)


def experts(stream: Stream) -> Driven:
    """Return the profile `experts` as it is: clipped scores, orders capped."""
    return Driven(Experts(), stream.Z, radius=BALL)


def experts_theorem(stream: Stream) -> Driven:
    """Return `experts` under the assumptions of its theorem.

    Instances of every order begin from scratch, with the step D / (mu sqrt(2^k)), and are weighed by the unclipped
    loss over its bound on the ball, ln(1 + exp(D |z|)), D the ball's radius and mu the largest |z|.
    """
    norms = np.linalg.norm(pooled(stream.Z), axis=1)
    largest, squared = float(norms.max()), float(np.mean(norms**2))
    settings = ExpertsSettings(max_order=None, step=BALL / largest * squared, start="scratch")
    bound = float(np.logaddexp(0.0, BALL * largest))
    return Driven(Experts(settings), stream.Z, radius=BALL, bound=bound)


def constant(step: float) -> Callable[[Stream], ConstantFedAvg]:
    """Return a factory of FedAvg with a constant step.

    >>> played = Stream("abrupt", np.ones((1, 1, 1)), np.zeros((1, 1)), np.zeros(4, dtype=np.int64))
    >>> constant(3.0)(played).play()
    array([0.])
    """
    return lambda stream: ConstantFedAvg(stream.Z.shape[2], step)


def paper(stream: Stream) -> Driven:
    """Return the profile `paper` as it is, knowing T: blocks of at most 256 rounds, unreachable thresholds."""
    return Driven(Paper(PaperSettings(horizon=stream.rounds)), stream.Z, radius=BALL)


def paper_uncapped(stream: Stream) -> Driven:
    """Return `paper` with blocks that double without a limit, as its theorem assumes."""
    return Driven(Paper(PaperSettings(horizon=stream.rounds, max_order=20)), stream.Z, radius=BALL)


def fedavg(stream: Stream) -> ConstantFedAvg:
    """Return FedAvg with step 1/sqrt(T)."""
    return ConstantFedAvg(stream.Z.shape[2], 1.0 / math.sqrt(stream.rounds))


def oracle(stream: Stream) -> ConstantFedAvg:
    """Return FedAvg begun again at every change, with the step 1/sqrt(rounds between changes).

    Where every round changes, it begins again every (T / Delta)^(2/3) rounds, the length that balances what is lost
    by learning and by drifting, so that the regret is at most of the order Delta^(1/3) T^(2/3).
    """
    T = stream.rounds
    if stream.name != "moving":
        length, starts = T / len(stream.starts), stream.starts
    else:
        length = math.ceil(T ** ((1.0 - GROWTH) * 2.0 / 3.0))
        starts = list(range(1, T + 1, length))
    return ConstantFedAvg(stream.Z.shape[2], 1.0 / math.sqrt(length), frozenset(starts))


# The variants of every method; the one of least regret counts.
PLAYERS: dict[MethodName, tuple[Callable[[Stream], Player], ...]] = {
    "adaptive": (adaptive,),
    "experts": (experts,),
    "experts-theorem": (experts_theorem,),
    "constant": tuple(constant(step) for step in STEPS),
    "fedavg": (fedavg,),
    "oracle": (oracle,),
    "paper": (paper,),
    "paper-uncapped": (paper_uncapped,),
}
