"""FedNova: clients' differences are divided by the work behind them before they are averaged."""

from dataclasses import dataclass
from typing import ClassVar

from streamfl.learning.algorithms.fedavg import FedAvg


@dataclass(frozen=True, slots=True)
class FedNova(FedAvg):
    """x <- x + (sum p_n tau_n) sum p_n (x_n - x) / tau_n, where client n has taken tau_n gradient steps to x_n.

    So a client with many steps does not draw the average towards its own optimum. Steps differ where clients have
    different numbers of records and `local_batch` is set. With one step a round it is FedAvg.

    References
    ----------
    Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated optimization", NeurIPS 2020,
    Section 4, with plain gradient steps.

    Examples
    --------
    >>> FedNova().work(3)
    3.0
    """

    of_several_steps: ClassVar[bool] = True

    def work(self, steps: int) -> float:
        """Return the number of steps."""
        return float(steps)
