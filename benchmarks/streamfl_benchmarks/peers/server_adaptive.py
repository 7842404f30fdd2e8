"""FedAdagrad, FedAdam, FedYogi and Flash: the server takes an adaptive step along the clients' mean difference."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records
from streamfl_benchmarks.peers.fedavg import averaged
from streamfl_benchmarks.peers.local_work import LocalWork


@dataclass
class ServerAdaptive(LinearPeer):
    """m <- beta1 m + (1 - beta1) D; v by the rule; x <- x + server_step m / (sqrt(v) + tau), elementwise.

    D is the mean of the clients' differences, weighted by records. v starts at tau^2, and D^2 enters it by
    adagrad: v + D^2; adam: beta2 v + (1 - beta2) D^2; yogi: v - (1 - beta2) D^2 sign(v - D^2).

    Flash is adam with longer steps where differences suddenly grow, as they do after drift: its denominator is
    max(sqrt(v) - d + tau, tau), with d <- beta3 d + (1 - beta3) (D^2 - v) and
    beta3 = |v before| / (|D^2 - v| + |v before|). That clients stop early in its source is left out.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    rule
        How v follows D^2.
    server_step
        eta of the source: about how far a weight moves in a round.
    tau
        Degree of adaptivity: smaller is more adaptive.
    beta1, beta2
        Decay of m and v. The source takes 0 (adagrad) or 0.9 for beta1, and 0.99 for beta2.
    eta
        The clients' step size. With one full step it only rescales D and may stay 1, as tau is tuned.
    work
        Local steps and their batches.
    l2
        Weight of the penalty.

    References
    ----------
    Reddi et al., "Adaptive federated optimization", ICLR 2021, Algorithm 2; Panchal et al., "Flash: concept drift
    adaptation in federated learning", ICML 2023, from its description.

    Examples
    --------
    >>> peer = ServerAdaptive(np.zeros((1, 2)), "adagrad", server_step=0.1, tau=0.01, l2=0.0)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W.round(4)  # 0.1 * 0.25 / (sqrt(0.01^2 + 0.25^2) + 0.01)
    array([[ 0.0961, -0.0961]])
    """

    W: FloatArray
    rule: Literal["adagrad", "adam", "yogi", "flash"]
    server_step: float
    tau: float
    beta1: float = 0.0
    beta2: float = 0.99
    eta: float = 1.0
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    m: FloatArray = field(init=False)
    v: FloatArray = field(init=False)
    d: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start the moments."""
        self.m, self.d = np.zeros_like(self.W), np.zeros_like(self.W)
        self.v = np.full_like(self.W, self.tau**2)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if records(clients):
            difference = averaged(self.W, t, clients, eta=self.eta, work=self.work, l2=self.l2) - self.W
            before, square = self.v, difference**2
            self.m = self.beta1 * self.m + (1.0 - self.beta1) * difference
            self.v = self._second_moment(square)
            if self.rule == "flash":
                away = square - self.v
                beta3 = before / (np.abs(away) + before)
                self.d = beta3 * self.d + (1.0 - beta3) * away
            divisor = np.maximum(np.sqrt(self.v) - self.d + self.tau, self.tau)
            self.W = self.W + self.server_step * self.m / divisor
        return None

    def _second_moment(self, square: FloatArray) -> FloatArray:
        if self.rule == "adagrad":
            return self.v + square
        if self.rule == "yogi":
            yogi: FloatArray = self.v - (1.0 - self.beta2) * square * np.sign(self.v - square)
            return yogi
        return self.beta2 * self.v + (1.0 - self.beta2) * square
