"""The interface of base algorithms, and the local steps and the combination that all of them share."""

import abc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.learning.model import Model, gradient

# The radius of the ball that models stay in; large, so that it binds only when a model diverges.
# docs/choices.md, "Bounds and rounding".
RADIUS = 1e3


# The space in which clients' models are averaged: see `FedOMD`.
Average = Literal["primal", "dual"]


@dataclass(frozen=True, slots=True, eq=False)
class LocalProblem:
    """The records of one client's round and the loss on them.

    Examples
    --------
    >>> from streamfl.models import Linear
    >>> problem = LocalProblem(Linear(), np.ones((5, 1)), np.arange(5.0), batch=2)
    >>> [problem.y[rows].tolist() for rows in problem.batches()]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    model: Model  # the loss
    # Records in registry coordinates, shapes (n, d) and (n,).
    Z: FloatArray
    y: FloatArray
    l2: float = 0.0  # weight of the squared penalty, in the gradient of every step
    # Records in a local step. None: one step on the whole round.
    batch: int | None = None
    gamma: float = 1.0  # the part of the round's records that is used, drawn without replacement, in (0, 1]
    rng: np.random.Generator | None = None  # the generator that draws this part; needed only if gamma < 1
    held: BoolArray | None = None  # which records are held out from training, shape (n,); None: none

    def trained(self, rows: IntArray | slice) -> IntArray | slice:
        """Return those of some rows that are trained on."""
        if self.held is None:
            return rows
        return np.arange(len(self.y))[rows][~self.held[rows]]

    def batches(self) -> Iterator[IntArray | slice]:
        """Yield the rows of each local step, in record order."""
        if self.batch is None and self.gamma == 1.0:
            yield slice(None)
            return
        rows = np.arange(len(self.y))
        if self.gamma < 1.0:
            rows = self._part(rows)
        size = self.batch or len(rows)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _part(self, rows: IntArray) -> IntArray:
        if self.rng is None:
            raise ValueError("gamma < 1 draws records, so it needs an rng")
        return np.sort(self.rng.choice(rows, size=drawn(len(rows), self.gamma), replace=False))


def drawn(records: int, gamma: float) -> int:
    """Return how many of a round's records a client trains on: the share gamma, but at least one."""
    return max(1, round(gamma * records))


def local_steps(records: int, batch: int | None, gamma: float) -> int:
    """Return the number of local steps on a round's records, also where all records of a step are held out.

    >>> local_steps(250, batch=100, gamma=1.0), local_steps(250, batch=100, gamma=0.5), local_steps(250, None, 1.0)
    (3, 2, 1)
    """
    return 1 if batch is None else -(-drawn(records, gamma) // batch)


@dataclass(frozen=True, slots=True)
class AlgorithmOptions:
    """The user's options for a base algorithm."""

    radius: float = RADIUS  # the radius of the ball that models stay in
    # See `FedOMD`. An algorithm that uses one names it in `takes`.
    mirror: str = "p-norm"
    average: Average = "primal"
    l1: float = 0.0
    mu: float = 0.01  # see `FedProx`


class Algorithm(abc.ABC):
    """The local step, and the space in which clients' results are averaged, as a frozen dataclass of settings.

    It has no state between steps. `streamfl.testing.check_algorithm` checks a new one.

    Attributes
    ----------
    takes
        The `AlgorithmOptions` that it uses besides the radius. Other options are refused if given.
    of_several_steps
        Whether it differs from FedAvg only where a round is more than one local step.
    """

    takes: ClassVar[tuple[str, ...]] = ()
    of_several_steps: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def of(cls, options: AlgorithmOptions) -> Self:
        """Return the algorithm with these options."""

    @property
    def may_be_whitened(self) -> bool:
        """Whether a step is exactly W - eta slope, so that the coordinator may whiten the slope and take the step."""
        return False

    @abc.abstractmethod
    def step(self, W: FloatArray, slope: FloatArray, eta: float) -> FloatArray:
        """Return the model after one step of size `eta` along the gradient `slope` at W."""

    def pull(self, W: FloatArray, start: FloatArray) -> FloatArray | float:
        """Return what a local step at W adds to the gradient in a round that began at `start`; by default nothing."""
        return 0.0

    def work(self, steps: int) -> float:
        """Return the work of so many local steps, at least one; by default 1, whatever their number.

        A client divides its difference by its own work, and the coordinator multiplies the mean by the mean work.
        """
        return 1.0

    def to_average(self, W: FloatArray) -> FloatArray:
        """Return W in the space where clients' results are averaged; by default W itself."""
        return W

    @abc.abstractmethod
    def from_average(self, mean: FloatArray) -> FloatArray:
        """Return the model for a point of that space, inside the ball."""


Served = Callable[[IntArray | slice, FloatArray], None]


def local_model(
    algorithm: Algorithm,
    problem: LocalProblem,
    W: FloatArray,
    eta: float,
    *,
    served: Served | None = None,
) -> FloatArray:
    """Return a client's model after its local steps from W.

    Parameters
    ----------
    W
        The model at the round's start, shape (d, columns).
    served
        Called before each step with its rows and the model's outputs for them.

    Examples
    --------
    >>> from streamfl.learning.algorithms import FedAvg
    >>> from streamfl.models import Linear
    >>> problem = LocalProblem(Linear(), np.ones((2, 1)), np.array([1.0, 3.0]))
    >>> local_model(FedAvg(), problem, np.zeros((1, 1)), 0.5)
    array([[1.]])
    """
    start = W
    for rows in problem.batches():
        if served is not None:
            served(rows, problem.Z[rows] @ W)
        used = problem.trained(rows)
        Z, y = problem.Z[used], problem.y[used]
        if len(y):
            slope = gradient(problem.model, W, Z, y, l2=problem.l2)
            W = algorithm.step(W, slope + algorithm.pull(W, start), eta)
    return W


def combine(algorithm: Algorithm, W: FloatArray, mean_difference: FloatArray) -> FloatArray:
    """Return the new global model from the weighted mean of the clients' differences.

    The mean of the differences x_n - x, added to x, is the weighted mean of the models x_n.
    """
    return algorithm.from_average(algorithm.to_average(W) + mean_difference)
