"""Peers that keep a matrix for each client, which corrects the client's steps."""

from collections.abc import Callable, Sequence

import numpy as np

from streamfl.arrays import BoolArray, FloatArray
from streamfl_benchmarks.peers.base import ClientRecords, LinearPeer
from streamfl_benchmarks.peers.local_work import LocalWork, copies


class CorrectedPeer(LinearPeer):
    """A linear peer whose clients take local steps w <- w - eta (grad F_i(w) - own_i + further(w)) from w = W.

    `own` has a matrix for each client, shape (clients, d, K); none before the first round.
    """

    eta: float
    work: LocalWork
    l2: float
    own: FloatArray

    def __post_init__(self) -> None:
        """Begin without corrections."""
        self.own = np.zeros((0, *self.W.shape))

    def took_part(self, clients: Sequence[ClientRecords]) -> BoolArray:
        """Return which clients have records, shape (clients,). In the first round every client gets a matrix of 0."""
        if not len(self.own):
            self.own = copies(np.zeros_like(self.W), clients)
        return np.array([len(client.y) > 0 for client in clients])

    def moved(
        self, t: int, clients: Sequence[ClientRecords], further: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return by how much each client's steps of round t move the model, shape (clients, d, K).

        Parameters
        ----------
        t
            The round.
        clients
            Their records; a client without records takes no step.
        further
            Returns what is added to the gradients at m models w, shape (m, d, K).
        """
        models = copies(self.W, clients)
        for step in self.work.plan(t, clients):
            w = models[step.clients]
            models[step.clients] = w - self.eta * (step.gradients(w, self.l2) - self.own[step.clients] + further(w))
        return models - self.W
