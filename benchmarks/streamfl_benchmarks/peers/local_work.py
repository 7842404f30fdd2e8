"""The local steps of a round, taken by all clients in parallel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.sampling import generator
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords


@dataclass(frozen=True, slots=True, eq=False)
class LocalStep:
    """One local step of every client that takes it.

    The clients' models are a stack of shape (clients, d, K): the softmax of all their outputs is one call, which for
    a hundred records a client is several times faster than one client after the other.

    Parameters
    ----------
    clients
        Positions of the clients that take the step, shape (m,).
    batches
        The records of each of these steps, at least one.
    """

    clients: IntArray
    batches: tuple[ClientRecords, ...]

    def gradients(self, models: FloatArray, l2: float) -> FloatArray:
        """Return the gradient of the mean loss plus l2/2 |W|^2 at each of m models, shape (m, d, K).

        >>> record = ClientRecords(np.ones((1, 1)), np.zeros(1))
        >>> LocalStep(np.array([0]), (record,)).gradients(np.zeros((1, 1, 2)), 0.0)
        array([[[-0.5,  0.5]]])
        """
        outputs = np.concatenate([batch.Z @ W for batch, W in zip(self.batches, models, strict=True)])
        slopes = SOFTMAX.derivative(outputs, np.concatenate([batch.y for batch in self.batches]))
        ends = np.cumsum([len(batch.y) for batch in self.batches])
        parts = np.split(slopes, ends[:-1])
        means = [batch.Z.T @ part / len(part) for batch, part in zip(self.batches, parts, strict=True)]
        stack: FloatArray = np.stack(means) + l2 * models
        return stack


@dataclass(frozen=True, slots=True)
class LocalWork:
    """How many local steps a client takes in a round, and on which of its records.

    Parameters
    ----------
    steps
        With `batch` None the number of steps, each on all records of the round; else the number of passes over them.
    batch
        Records a step; None: all. A client with more records takes more steps.
    seed
        Seed of the order in which a pass takes the records.

    Examples
    --------
    >>> five, two = (ClientRecords(np.ones((n, 1)), np.zeros(n)) for n in (5, 2))
    >>> steps = LocalWork(batch=2).plan(1, [five, two])
    >>> [(step.clients.tolist(), [len(batch.y) for batch in step.batches]) for step in steps]
    [([0, 1], [2, 2]), ([0], [2]), ([0], [1])]
    """

    steps: int = 1
    batch: int | None = None
    seed: int = 0

    @property
    def one_full_step(self) -> bool:
        """Return whether a round is a single step on all records, for which the pooled gradient suffices."""
        return self.steps == 1 and self.batch is None

    def plan(self, t: int, clients: Sequence[ClientRecords]) -> Iterator[LocalStep]:
        """Yield the steps of round t; a client that has no records takes none."""
        batches = {i: self._batches(t, i, client) for i, client in enumerate(clients) if len(client.y)}
        for j in range(max(map(len, batches.values()), default=0)):
            taking = [i for i, own in batches.items() if j < len(own)]
            yield LocalStep(np.array(taking), tuple(batches[i][j] for i in taking))

    def taken(self, clients: Sequence[ClientRecords]) -> IntArray:
        """Return tau, the number of local steps of each client, shape (clients,)."""
        sizes = np.array([len(client.y) for client in clients])
        a_pass = (sizes > 0).astype(np.int64) if self.batch is None else -(-sizes // self.batch)
        return self.steps * a_pass

    def orders(self, t: int, i: int, client: ClientRecords) -> list[IntArray]:
        """Return the order in which each pass of round t takes the records of the i-th client."""
        return [generator(self.seed, "local", t, i, e).permutation(len(client.y)) for e in range(self.steps)]

    def _batches(self, t: int, i: int, client: ClientRecords) -> list[ClientRecords]:
        if self.batch is None:
            return [client] * self.steps
        chunks = [
            order[at : at + self.batch]
            for order in self.orders(t, i, client)
            for at in range(0, len(order), self.batch)
        ]
        return [ClientRecords(client.Z[chunk], client.y[chunk]) for chunk in chunks]


def copies(W: FloatArray, clients: Sequence[ClientRecords]) -> FloatArray:
    """Return a copy of W for each client, shape (clients, d, K)."""
    return np.repeat(W[None], len(clients), axis=0)


def weighted(p: FloatArray, models: FloatArray) -> FloatArray:
    """Return sum p_n x_n, shape (d, K)."""
    mean: FloatArray = np.tensordot(p, models, axes=1)
    return mean
