"""The model that serves a client's round, as an expert on its records."""

from dataclasses import dataclass

import numpy as np

from streamfl.core.arrays import FloatArray
from streamfl.core.messages import RoundOpened
from streamfl.core.model import Model
from streamfl.core.records import Batch
from streamfl.core.registry import Registry


@dataclass(frozen=True, eq=False)
class Serving:
    """What serves a round at one client.

    Parameters
    ----------
    opened
        The round.
    registry
        Its names, and how features are scaled.
    model, W
        What its weights are of, and they, shape (d + 1, columns).
    """

    opened: RoundOpened
    registry: Registry
    model: Model
    W: FloatArray

    def says(self, batch: Batch) -> FloatArray:
        """Return probabilities of the registry's labels, shape (n, labels), or targets, shape (n, 1)."""
        outputs = self.registry.design([batch]) @ self.W
        logs = self.model.log_likelihoods(outputs)
        if logs.shape[1]:
            return np.exp(logs)
        target = self.registry.target
        return (self.model.predict(outputs) * target.scale + target.centre)[:, None]
