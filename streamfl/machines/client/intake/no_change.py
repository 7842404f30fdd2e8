"""NoChange, the baseline of every stream: predict the client's previous label or target again."""

from dataclasses import dataclass

import numpy as np

from streamfl.arrays import FloatArray


@dataclass
class NoChange:
    """Predicts the last label a client saw. Its first prediction is wrong, in regression 0.

    Examples
    --------
    >>> no_change = NoChange()
    >>> no_change.predictions(np.array([0.0, 0.0, 1.0]), ("a", "b"))
    array([-1.,  0.,  0.])
    >>> no_change.learn(np.array([0.0, 0.0, 1.0]), ("a", "b"))
    >>> no_change.last
    'b'
    """

    last: str | float | None = None  # the last label's name, or the last target

    def predictions(self, y: FloatArray, labels: tuple[str, ...]) -> FloatArray:
        """Return its predictions of successive records: indices into `labels`, or targets if there are none."""
        repeated = np.empty(len(y))
        repeated[:1], repeated[1:] = self._first(labels), y[:-1]
        return repeated

    def learn(self, y: FloatArray, labels: tuple[str, ...]) -> None:
        """Remember the last label or target."""
        if len(y):
            self.last = labels[int(y[-1])] if labels else float(y[-1])

    def _first(self, labels: tuple[str, ...]) -> float:
        if not labels:
            return self.last if isinstance(self.last, float) else 0.0
        return float(labels.index(self.last)) if isinstance(self.last, str) and self.last in labels else -1.0
