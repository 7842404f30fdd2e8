"""The limit: the best linear model of each segment between drifts, fitted in hindsight."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from streamfl.arrays import FloatArray, IntArray
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, LinearPeer, pooled, records

RoundsOf = Callable[[int], Sequence[ClientRecords]]


@dataclass
class Limit(LinearPeer):
    """Plays, from the first round of every segment, the model fitted on that segment's own rounds; learns nothing.

    No peer can reach it in the first round of a segment, and a linear model hardly anywhere.

    Parameters
    ----------
    d, labels
        Shape of a model.
    rounds
        T, the last round.
    at
        The first round of each new concept.
    rounds_of
        Returns the records of a round, any round at any time.
    l2
        Weight of the penalty.
    most_rounds, most_records
        A fit takes rounds spread evenly over its segment: at most so many, and fewer where they are large.

    Examples
    --------
    >>> def rounds_of(t):
    ...     return [ClientRecords(np.ones((4, 1)), np.array([0.0, 1.0, 1.0, 1.0]) if t < 3 else np.zeros(4))]
    >>> peer = Limit(1, 2, rounds=4, at=(3,), rounds_of=rounds_of, l2=0.01)
    >>> before = peer.W
    >>> for t in (1, 2):
    ...     _ = peer.learn(t, rounds_of(t), 0.5)
    >>> before.round(3), peer.W.round(3)
    (array([[-0.535,  0.535]]), array([[ 1.957, -1.957]]))
    """

    d: int
    labels: int
    rounds: int
    at: tuple[int, ...]
    rounds_of: RoundsOf
    l2: float = 2e-4
    most_rounds: int = 10
    most_records: int = 50_000
    segment: int = -1
    W: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        """Fit the segment of round 1."""
        self._play(1)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Go on to the next segment's model if round t + 1 is its first."""
        if t < self.rounds:
            self._play(t + 1)
        return None

    def fitted_on(self, segment: int) -> tuple[int, ...]:
        """Return the rounds that a segment's model is fitted on, segments counted from 0."""
        bounds = [1, *self.at, self.rounds + 1]
        span = np.arange(bounds[segment], bounds[segment + 1])
        size = max(1, records(self.rounds_of(int(span[0]))))
        most = min(self.most_rounds, max(1, self.most_records // size))
        return tuple(int(t) for t in _spread(span, most))

    def _play(self, t: int) -> None:
        segment = bisect_right(self.at, t)
        if segment != self.segment:
            self.segment = segment
            own = pooled([client for s in self.fitted_on(segment) for client in self.rounds_of(s)])
            self.W = fit(own, self.d, self.labels, l2=self.l2)


def fit(own: ClientRecords, d: int, labels: int, *, l2: float) -> FloatArray:
    """Return the W of the least mean cross-entropy plus l2/2 |W|^2 on the records, by L-BFGS, shape (d, labels).

    References
    ----------
    Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained optimization", 1995, in SciPy.
    """

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        W = flat.reshape(d, labels)
        losses, slopes = SOFTMAX.losses_and_derivative(own.Z @ W, own.y)
        slope = own.Z.T @ slopes / len(own.y) + l2 * W
        return float(losses.mean() + 0.5 * l2 * np.sum(W * W)), slope.ravel()

    # Accuracies are compared to three digits; a gradient of 1e-5 leaves them at least two more.
    found = minimize(
        objective,
        np.zeros(d * labels),
        method="L-BFGS-B",
        jac=True,
        options={"maxiter": 1000, "gtol": 1e-5, "ftol": 1e-12},
    )
    W: FloatArray = found.x.reshape(d, labels)
    return W


def _spread(span: IntArray, most: int) -> IntArray:
    """Return at most so many elements at even distances."""
    if len(span) <= most:
        return span
    return span[np.linspace(0, len(span) - 1, most).round().astype(np.int64)]
