"""How probabilities become an answer: the one place that decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.protocol.delayed import NO_LABEL
from streamfl.protocol.messages.base import FieldGroup
from streamfl.protocol.registry import widened

# The weights that a rule may have: those of shares lie between 1 over the number of labels and that of records.
LEAST, LARGEST = 1e-12, 1e12

# The most powers that a client tries: a round with more would only keep it busy.
MOST_TRIED = 10


@dataclass(frozen=True, kw_only=True)
class DecisionRule(FieldGroup):
    """Which label answers: the one with the largest probability times a power of its weight.

    All who answer in a round have the same. Without weights the likeliest label answers.

    >>> P = np.array([[0.9, 0.1], [0.99, 0.01]])
    >>> rule = DecisionRule(weights={"failure": 20.0}, power=0.5, tried=(0.0, 1.0))
    >>> rule.label_indices(P, ("ok", "failure")), rule.label_indices(P, ("ok", "failure"), power=1.0)
    (array([0., 0.]), array([1., 0.]))
    """

    weights: Mapping[str, float] = field(default_factory=dict)  # by label; of any other label it is 1
    power: float = 1.0  # between 0, with which the likeliest label answers, and 1
    tried: tuple[float, ...] = ()  # powers of which clients tell what they would have answered: see `Tried`

    def label_indices(self, P: FloatArray, labels: Sequence[str], *, power: float | None = None) -> FloatArray:
        """Return the index of the label that answers each record, -1 without any.

        Parameters
        ----------
        P
            Probabilities of labels, shape (n, labels).
        power
            Another power; None: that of the rule.
        """
        if not self.weights:
            return likeliest(P)
        weights = np.array([self.weights.get(label, 1.0) for label in labels])
        return likeliest(P * weights ** (self.power if power is None else power))

    def label_index(self, p: FloatArray, labels: Sequence[str]) -> int:
        """Return the index of the label that answers one record, -1 without any; p has shape (labels,).

        >>> [LIKELIEST.label_index(np.array(p), ("a", "b", "c")) for p in ([0.2, 0.5, 0.5], [0.0, 0.0, 0.0])]
        [1, -1]
        """
        if self.weights:
            return int(self.label_indices(p[None], labels)[0])
        code = int(p.argmax()) if len(p) else 0
        return code if len(p) and p[code] else int(NO_LABEL)

    def wrong(self) -> str | None:
        """Return why no coordinator can have made this rule, or None; a comparison with NaN is false."""
        possible = all(LEAST <= weight <= LARGEST for weight in self.weights.values())
        powers = len(self.tried) <= MOST_TRIED and all(0.0 <= power <= 1.0 for power in (self.power, *self.tried))
        return None if possible and powers else "the weights of labels are out of range"


LIKELIEST = DecisionRule()  # the likeliest label answers


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What a power of the weights would have answered to a client's records of a round."""

    correct: int  # the answers that were right
    answers: Mapping[str, int]  # all of them by label


def likeliest(P: FloatArray) -> FloatArray:
    """Return the index of the largest number of each row, the first among equals; -1 if all are 0, or there are none.

    >>> likeliest(np.array([[0.2, 0.5], [0.5, 0.5], [0.0, 0.0]])), likeliest(np.zeros((1, 0)))
    (array([ 1.,  0., -1.]), array([-1.]))
    """
    if not P.shape[1]:
        return np.full(len(P), NO_LABEL)
    found: FloatArray = P.argmax(axis=1).astype(np.float64)
    found[P.max(axis=1) == 0.0] = NO_LABEL
    return found


def named(codes: FloatArray, labels: Sequence[str]) -> list[str | None]:
    """Return the labels with some indices, None for -1.

    >>> named(np.array([1.0, -1.0]), ("no", "yes"))
    ['yes', None]
    """
    return [labels[code] if code >= 0 else None for code in codes.astype(np.intp).tolist()]


def together(parts: Sequence[FloatArray], columns: int) -> FloatArray:
    """Return predictions of consecutive records as one array; labels that were not known yet have probability 0.

    >>> together([np.zeros((1, 0)), np.ones((1, 1))], 2)
    array([[0., 0.],
           [1., 0.]])
    """
    if len(parts) == 1 and parts[0].shape[1] == columns:
        return parts[0]  # as of a single record
    return np.concatenate([np.zeros((0, columns)), *(widened(part, columns) for part in parts)])
