"""A test for a rise at a few clients: a mixture over which clients rose, since when, and by how much."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray

# The sizes of a rise in the mixture, in units of the score. docs/choices.md, "Excess".
RISES = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.4])

# The age that a rise may have, in rounds, and the expected part of clients that rise, besides 1 / clients.
# docs/choices.md, "Excess".
WINDOW, PART = 8, 0.1

# The probability from which on a client is named. docs/choices.md, "Local drift".
NAMED = 0.9


@dataclass(frozen=True, slots=True)
class Rise:
    """A client's mean rise above its baseline in a round, its variance, and the variance of the baseline."""

    mean: float
    variance: float
    baseline: float


@dataclass
class FewClients:
    """A Shiryaev-Roberts statistic of a rise at an unknown subset of clients in the last rounds.

    Over rounds s .. t, client i's mean rise x (rounds weighted by precision) has variance V + H. V falls with the
    number of rounds; H is the error of the baseline, which the rounds share. The client's likelihood ratio l_i is the
    mean over rises d of exp((d x - d^2/2) / (V + H)). If each client rose with probability p, the ratio of all
    clients is prod_i (1 - p + p l_i). The statistic is ln of its sum over s, averaged over p = 1/clients and p = 0.1.
    Given a rise, client i belongs to it with probability p l_i / (1 - p + p l_i), averaged likewise.

    Without a rise every term has mean 1, whatever V and H are. So a threshold A is reached by chance in at most 8/A
    of the rounds; the actual rate is measured.

    References
    ----------
    Xie and Siegmund 2013, Sequential multi-sensor change-point detection, for the mixture over subsets.

    Examples
    --------
    >>> few = FewClients()
    >>> few.add({f"c{i}": Rise(0.3 if i < 2 else 0.0, 0.005, 0.001) for i in range(20)})
    >>> round(few.statistic(), 1), few.surely_drifted(["c0", "c2"]), few.age()
    (5.5, ('c0',), 0)
    """

    rounds: list[dict[str, Rise]] = field(default_factory=list)  # by round, oldest first, the rise at each client

    def add(self, rises: Mapping[str, Rise]) -> None:
        """Add a round, and drop the oldest."""
        self.rounds = [*self.rounds, dict(rises)][-WINDOW:]

    def forget(self, clients: Collection[str]) -> None:
        """Forget the rises of some clients."""
        kept = [{c: rise for c, rise in rises.items() if c not in clients} for rises in self.rounds]
        self.rounds = [rises for rises in kept if rises]

    def statistic(self) -> float:
        """Return ln of the mean over both p; minus infinity if no client could be compared."""
        return _log_sum(self._terms()[1]) - math.log(2.0) if any(self.rounds) else -math.inf

    def age(self) -> int:
        """Return how many rounds ago the rise most likely began; 0 is the last round."""
        if not any(self.rounds):
            return 0
        return len(self.rounds) - 1 - int(np.logaddexp.reduce(self._terms()[1], axis=0).argmax())

    def surely_drifted(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely belong to the rise, given that there is one."""
        if not any(self.rounds):
            return ()
        belongs, terms = self._terms()
        chances = np.einsum("pk,pki->i", np.exp(terms - _log_sum(terms)), belongs)
        return tuple(c for c, x in zip(self._clients(), chances.tolist(), strict=True) if x >= NAMED and c in clients)

    def _clients(self) -> list[str]:
        return sorted({client for rises in self.rounds for client in rises})

    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """Return each client's probability by p and start, shape (2, rounds, clients), and ln of the products."""
        return over_subsets(self._ratios())

    def _ratios(self) -> FloatArray:
        """Return ln l_i by first round and client, shape (rounds, clients); 0 without data."""
        clients = self._clients()
        seen = np.array([[_sums(rises.get(client)) for client in clients] for rises in self.rounds])
        precision, total = np.moveaxis(seen[::-1].cumsum(axis=0)[::-1], 2, 0)
        baseline = {client: rise.baseline for rises in self.rounds for client, rise in rises.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(precision > 0.0, total / precision, 0.0)
            variance = 1.0 / precision + np.array([baseline[client] for client in clients])
        d = RISES[:, None, None]
        ratios: FloatArray = np.logaddexp.reduce((d * mean - d**2 / 2.0) / variance, axis=0) - math.log(len(RISES))
        return ratios


def over_subsets(ratios: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mix over which clients have risen.

    Parameters
    ----------
    ratios
        ln of the likelihood ratio of each client's rise, by start, shape (starts, clients).

    Returns
    -------
    FloatArray
        The probability that a client belongs to the rise, by p and start, shape (2, starts, clients).
    FloatArray
        ln of the product over clients of 1 - p + p l, shape (2, starts).
    """
    p = np.array([1.0 / ratios.shape[1], PART])[:, None, None]
    risen = np.log(p) + ratios
    # With a single client, p is 1: either it has risen or there is no rise.
    either = np.logaddexp(np.log1p(-np.minimum(p, 1.0 - 1e-12)), risen)
    return np.exp(risen - either), either.sum(axis=2)


def _sums(rise: Rise | None) -> tuple[float, float]:
    return (0.0, 0.0) if rise is None else (1.0 / rise.variance, rise.mean / rise.variance)


def _log_sum(logs: FloatArray) -> float:
    return float(np.logaddexp.reduce(logs, axis=None))
