"""Flash: an adaptive server that takes longer steps where differences suddenly grow, as they do after drift."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, records
from streamfl_benchmarks.peers.fedavg import averaged
from streamfl_benchmarks.peers.local_work import LocalWork


@dataclass
class Flash(LinearPeer):
    """x <- x + server_step m / (sqrt(v) - d + tau), where m and v are those of FedAdam and d grows as differences do.

    m <- beta1 m + (1 - beta1) D and v <- beta2 v + (1 - beta2) D^2 for the mean difference D; with
    beta3 = |v before| / (|D^2 - v| + |v before|), d <- beta3 d + (1 - beta3) (D^2 - v). All elementwise. The
    denominator is at least tau. Clients take the steps of FedAvg; that they stop early in the source is left out.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    server_step
        About how far a weight moves in a round.
    tau
        Degree of adaptivity: smaller is more adaptive.
    eta
        The clients' step size.
    work
        Local steps and their batches.
    l2
        Weight of the penalty.

    References
    ----------
    Panchal, Choudhary, Mitra, Mukherjee, Sarkhel, Mitra and Guan, "Flash: concept drift adaptation in federated
    learning", ICML 2023, from its description.

    Examples
    --------
    >>> peer = Flash(np.zeros((1, 2)), server_step=0.1, tau=0.01, l2=0.0)
    >>> peer.learn(1, [ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))], 0.5)
    >>> peer.W.round(4)  # 0.1 * 0.025 / tau: v is 0.000724, and d nearly 0.0617
    array([[ 0.25, -0.25]])
    """

    W: FloatArray
    server_step: float
    tau: float
    beta1: float = 0.9
    beta2: float = 0.99
    eta: float = 1.0
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    m: FloatArray = field(init=False)
    v: FloatArray = field(init=False)
    d: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Start the moments."""
        self.m, self.v, self.d = np.zeros_like(self.W), np.full_like(self.W, self.tau**2), np.zeros_like(self.W)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t."""
        if not records(clients):
            return None
        difference = averaged(self.W, t, clients, eta=self.eta, work=self.work, l2=self.l2) - self.W
        before, square = self.v, difference**2
        self.m = self.beta1 * self.m + (1.0 - self.beta1) * difference
        self.v = self.beta2 * self.v + (1.0 - self.beta2) * square
        away = square - self.v
        beta3 = before / (np.abs(away) + before)
        self.d = beta3 * self.d + (1.0 - beta3) * away
        self.W = self.W + self.server_step * self.m / np.maximum(np.sqrt(self.v) - self.d + self.tau, self.tau)
        return None
