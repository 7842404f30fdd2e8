"""The model that serves a client's round, and its predictions."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.errors import PeerError
from streamfl.learning.model import Model
from streamfl.protocol.messages import RoundOpened
from streamfl.protocol.records import Batch
from streamfl.protocol.registry import Registry


@dataclass(frozen=True, eq=False)
class Serving:
    """The model that serves a round at one client."""

    opened: RoundOpened  # the round
    registry: Registry  # its features, labels and scaler
    # The kind of model, and its weights, shape (d + 1, columns).
    model: Model
    W: FloatArray

    def predictions(self, batch: Batch) -> FloatArray:
        """Return probabilities of the registry's labels, shape (n, labels), or targets, shape (n, 1)."""
        Z = self.registry.design([batch])
        if self.registry.labels:
            known = self.model.probabilities(Z @ self.W)
            known = known[:, : len(self.registry.labels)]  # logistic always returns two
            shares: FloatArray = known / known.sum(axis=1, keepdims=True)
            return shares
        target = self.registry.target
        # One product for each record: that of a matrix is rounded otherwise for other batches.
        outputs: FloatArray = np.vecdot(Z, self.W[:, 0])[:, None]
        return (self.model.predict(outputs) * target.scale + target.centre)[:, None]

    @cached_property
    def arrays(self) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        """Means, scales, the farthest scaled value, and weights, as copies in C order for compiled loops.

        Raises
        ------
        PeerError
            Shapes do not fit the features, which compiled loops do not check.
        """
        mean, scale, features = self.registry.mean, self.registry.scale, len(self.registry.features)
        if not mean.shape == scale.shape == (features,) or self.W.shape != (features + 1, len(self.registry.labels)):
            raise PeerError("a model that serves rounds does not fit its features: its sender is broken")
        return np.array(mean), np.array(scale), self.registry.farthest, np.array(self.W, order="C")
