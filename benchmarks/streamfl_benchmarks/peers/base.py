"""The interface of a peer: a model that predicts the records of a round, then learns them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.models import Softmax

SOFTMAX = Softmax()


@dataclass(frozen=True, slots=True, eq=False)
class ClientRecords:
    """One client's records of a round.

    Parameters
    ----------
    Z
        Features, shape (n, d), the last column the constant 1; n may be 0.
    y
        Label indices, shape (n,).
    """

    Z: FloatArray
    y: FloatArray


class Peer(Protocol):
    """A method under comparison, client side and server side in one object."""

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return the outputs of the model that predicts the records of the next round, shape (n, K)."""
        ...

    def learn(self, t: int, clients: Sequence[ClientRecords], loss: float) -> str | None:
        """Learn round t, after its records were predicted, and return the cause of a restart, or None.

        `loss` is the mean score of the predictions, in [0, 1]. A round without records changes nothing.
        """
        ...


class LinearPeer:
    """A peer with a linear model W, shape (d, K)."""

    W: FloatArray

    def outputs(self, Z: FloatArray) -> FloatArray:
        """Return Z W."""
        return Z @ self.W


def scores(outputs: FloatArray, own: ClientRecords) -> FloatArray:
    """Return the scores of a model's outputs for records, each in [0, 1]: those of the cross-entropy, clipped.

    >>> scores(np.zeros((3, 4)), ClientRecords(np.ones((3, 1)), np.zeros(3)))
    array([0.5, 0.5, 0.5])
    """
    return SOFTMAX.scores(SOFTMAX.losses(outputs, own.y), outputs.shape[1])


def records(clients: Sequence[ClientRecords]) -> int:
    """Count the records of a round."""
    return sum(len(client.y) for client in clients)


def shares(clients: Sequence[ClientRecords]) -> FloatArray:
    """Return p_n, each client's share of a round's records, shape (clients,).

    >>> three, one = (ClientRecords(np.ones((n, 1)), np.zeros(n)) for n in (3, 1))
    >>> shares([three, one])
    array([0.75, 0.25])
    """
    sizes = np.array([len(client.y) for client in clients], dtype=np.float64)
    p: FloatArray = sizes / sizes.sum()
    return p


def pooled(clients: Sequence[ClientRecords]) -> ClientRecords:
    """Return the records of all clients as those of one."""
    return ClientRecords(np.concatenate([c.Z for c in clients]), np.concatenate([c.y for c in clients]))
