"""Adaptive-FedAvg: FedAvg whose step follows the variance of the global model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records
from streamfl_benchmarks.peers.fedavg import averaged
from streamfl_benchmarks.peers.local_work import LocalWork

Moment = TypeVar("Moment", float, FloatArray)


@dataclass
class AdaptiveFedAvg(LinearPeer):
    """FedAvg; a drift moves the global model, its variance grows, and the clients' step with it, up to eta0.

    After round t, with theta the new global model, in turn, each corrected by 1 - beta^t like Adam's moments:
    m = beta1 m + (1 - beta1) theta; v = beta2 v + (1 - beta2) mean((theta - m_prev)^2);
    g = beta3 g + (1 - beta3) v / v_prev; then eta = min(eta0, eta0 g), or min(eta0, eta0 g / t).

    In round 1 there is no variance before, and after a round without movement it may be 0: v / v_prev is then 1.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta0
        Largest step size, that of round 1.
    over_t
        Divide the step by the round, as the source does.
    beta
        beta1, beta2, beta3; the source's 0.5.
    work
        Local steps and their batches.
    l2
        Weight of the penalty.

    References
    ----------
    Canonaco, Bergamasco, Mongelluzzo and Roveri, "Adaptive federated learning in presence of concept drift",
    IJCNN 2021, Algorithm 1.

    Examples
    --------
    >>> peer = AdaptiveFedAvg(np.zeros((1, 2)), eta0=1.0)
    >>> for theta in (1.0, 1.5, 1.5):
    ...     peer.follow(np.full((1, 2), theta))
    >>> round(peer.eta, 4)  # v, corrected: 1, 0.5, 0.2302; ratios 1, 0.5, 0.4603
    0.5488
    """

    W: FloatArray
    eta0: float
    over_t: bool = False
    beta: tuple[float, float, float] = (0.5, 0.5, 0.5)
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    eta: float = field(init=False)
    rounds: int = 0
    mean: FloatArray = field(init=False)
    variance: float = 0.0
    ratio: float = 0.0

    def __post_init__(self) -> None:
        """Begin with the largest step, before any movement."""
        self.eta = self.eta0
        self.mean = np.zeros_like(self.W)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t with the step that the rounds before gave."""
        if records(clients):
            self.W = averaged(self.W, t, clients, eta=self.eta, work=self.work, l2=self.l2)
            self.follow(self.W)
        return None

    def follow(self, theta: FloatArray) -> None:
        """Set the next round's step from the new global model."""
        b1, b2, b3 = self.beta
        before = _corrected(self.variance, b2, self.rounds)
        moved = float(np.mean((theta - _corrected(self.mean, b1, self.rounds)) ** 2))
        self.rounds += 1
        self.mean = b1 * self.mean + (1.0 - b1) * theta
        self.variance = b2 * self.variance + (1.0 - b2) * moved
        now = _corrected(self.variance, b2, self.rounds)
        self.ratio = b3 * self.ratio + (1.0 - b3) * (now / before if before else 1.0)
        growth = _corrected(self.ratio, b3, self.rounds)
        self.eta = min(self.eta0, self.eta0 * growth / (self.rounds if self.over_t else 1))


def _corrected(moment: Moment, beta: float, rounds: int) -> Moment:
    """Return a moment that started at 0, without that bias; before any round, itself."""
    return moment / (1.0 - beta**rounds) if rounds else moment
