"""CDA-FedAvg: FedAvg on each client's memory, which a client empties when its model has become less sure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer, pooled, records
from streamfl_benchmarks.peers.confidence_test import change_point
from streamfl_benchmarks.peers.fedavg import averaged
from streamfl_benchmarks.peers.local_work import LocalWork

# Smallest relative fall of the mean confidence that may be a drift. With 0.05 it is as accurate on swaps in covtype,
# and some of 20 clients alarms falsely in nearly every second round.
SENSITIVITY = 0.1
# Largest number of confidences in a client's short-term memory: four times the smallest part that the test takes.
SHORT = 400


@dataclass
class CDAFedAvg(LinearPeer):
    """Each client has a short-term memory of confidences that it tests, and a long-term one of records to train on.

    A confidence is the largest probability that the round's model gave a record before it learnt it. After an alarm
    both memories keep only what came after the change. Labels play no part in the test.

    Simplified: a client trains in every round, not only when its records have changed, and in step with the others;
    and it keeps the newest records of its concept, none of earlier concepts: after a swap their labels are wrong.

    Parameters
    ----------
    W
        The first model, shape (d, K).
    eta
        Step size.
    memory
        Largest number of records in a client's long-term memory.
    work
        Local steps.
    l2
        Weight of the penalty.

    References
    ----------
    Casado et al., "Concept drift detection and adaptation for federated and continual learning", Multimedia Tools and
    Applications 81, 2022.

    Examples
    --------
    >>> coin = ClientRecords(np.ones((4, 1)), np.array([0.0, 0.0, 0.0, 1.0]))
    >>> peer = CDAFedAvg(np.zeros((1, 2)), eta=1.0, memory=6, l2=0.0)
    >>> [peer.learn(t, [coin], 0.5) for t in (1, 2)]
    [None, None]
    >>> peer.long[0].y.tolist(), peer.short_of[0].round(4).tolist()
    ([0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5, 0.6225, 0.6225, 0.6225, 0.6225])
    """

    W: FloatArray
    eta: float
    memory: int
    work: LocalWork = field(default_factory=LocalWork)
    l2: float = 2e-4
    # Of each client, the oldest first; none before the first round.
    short_of: list[FloatArray] = field(default_factory=list)
    long: list[ClientRecords] = field(default_factory=list)

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t; the cause is `confidence` if a client has found a drift."""
        if not records(clients):
            return None
        if not self.long:
            self.short_of, self.long = [np.zeros(0) for _ in clients], [_newest(own, 0) for own in clients]
        found = [self._remember(i, own) for i, own in enumerate(clients) if len(own.y)]
        self.W = averaged(self.W, t, self.long, eta=self.eta, work=self.work, l2=self.l2)
        return "confidence" if any(found) else None

    def _remember(self, i: int, own: ClientRecords) -> bool:
        """Put a client's records into its memories, and return whether it has found a drift."""
        sure = softmax(self.outputs(own.Z), axis=1).max(axis=1)
        short = np.concatenate([self.short_of[i], sure])[-SHORT:]
        since = change_point(short, sensitivity=SENSITIVITY)
        self.short_of[i] = short[since:]
        kept = self.memory if since is None else min(self.memory, len(short) - since)
        self.long[i] = _newest(pooled([self.long[i], own]), kept)
        return since is not None


def _newest(own: ClientRecords, n: int) -> ClientRecords:
    first = max(len(own.y) - n, 0)
    return ClientRecords(own.Z[first:], own.y[first:])
