"""Streams with a noise-free loss in every round, for measuring regret.

The features of the records are the same in every round; only the concept v moves. Record z has the label 1 with
probability sigma(z.v), and a round holds it with both labels, weighted by their probabilities: as if infinitely many
labels had been drawn. So F(x) = mean over z of ln(1 + e^(z.x)) - sigma(z.v) z.x, in nats, has no noise, its minimiser
is v itself, and between two concepts it differs by a linear function of x, whose supremum over a ball is a norm.

The records are dealt to clients of the same size. With one full-batch step each, the mean of their models is one step
on F.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from streamfl.arrays import FloatArray, IntArray
from streamfl.sampling import generator

StreamName = Literal["abrupt", "moving", "still"]
STREAMS: tuple[StreamName, ...] = get_args(StreamName)

# Cross-entropies are divided by 2 ln K to become scores, K = 2 labels; regret is counted in that unit.
BOUND = 2.0 * math.log(2.0)

CLIENTS, PER_CLIENT = 3, 32
FEATURES = 6
# Length of every concept: the variation of the losses is measured over the ball that all minimisers lie in.
RADIUS = 4.0
GROWTH = 0.4  # L = T^0.4 and Delta = T^0.4


@dataclass(frozen=True, slots=True, eq=False)
class RoundLoss:
    """The loss of a round.

    Parameters
    ----------
    Z
        Features with the constant 1, shape (clients, n, d).
    chance
        The chance of each record's label 1, shape (clients, n).

    Examples
    --------
    >>> loss = RoundLoss(np.ones((1, 1, 1)), np.array([[0.25]]))
    >>> round(loss.mean(np.zeros(1)), 4), loss.slopes(np.zeros((1, 1)))
    (0.6931, array([[[0.25]]]))
    """

    Z: FloatArray
    chance: FloatArray

    def mean(self, x: FloatArray) -> float:
        """Return F(x) in nats; x has shape (d,), or (clients, d) where clients are served by different models."""
        outputs = (self.Z @ x[..., None])[..., 0]
        return float(np.mean(np.logaddexp(0.0, outputs) - self.chance * outputs))

    def slopes(self, X: FloatArray) -> FloatArray:
        """Return each client's gradient at every column of X, shape (clients, d, columns)."""
        p: FloatArray = expit(self.Z @ X)
        return self.pulled(p)

    def pulled(self, p: FloatArray) -> FloatArray:
        """Return the gradients where label 1 is given the probabilities p, shape (clients, n, columns)."""
        slopes: FloatArray = self.Z.transpose(0, 2, 1) @ (p - self.chance[..., None]) / self.Z.shape[1]
        return slopes


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A stream of exact losses.

    Parameters
    ----------
    name
        `abrupt`, `moving` or `still`.
    Z
        Features with the constant 1, the same in every round, shape (clients, n, d).
    concepts
        The minimisers in the order of their first rounds, shape (concepts, d).
    at
        Which of them each round has, shape (T,), counting up from 0.
    """

    name: StreamName
    Z: FloatArray
    concepts: FloatArray
    at: IntArray

    @property
    def rounds(self) -> int:
        """Return T."""
        return len(self.at)

    @property
    def starts(self) -> list[int]:
        """Return the first round, from 1, of every concept."""
        return (1 + np.flatnonzero(np.diff(self.at, prepend=-1))).tolist()

    def losses(self) -> Iterator[tuple[RoundLoss, FloatArray]]:
        """Yield the loss and the minimiser of every round."""
        for concept in self.at:
            v = self.concepts[concept]
            yield RoundLoss(self.Z, expit(self.Z @ v)), v

    def variation(self) -> float:
        """Return Delta: the sum over rounds of sup |F(t)(x) - F(t-1)(x)| over the minimisers' ball, in scores."""
        return float(variations(pooled(self.Z), self.concepts).sum())

    def path(self) -> float:
        """Return C_T: the sum over rounds of |v(t) - v(t-1)|, the length of the minimisers' path."""
        return float(np.linalg.norm(np.diff(self.concepts, axis=0), axis=1).sum())

    def gradient_variability(self) -> float:
        """Return D_T: the sum over rounds of sup |grad F(t)(x) - grad F(t-1)(x)|^2, in scores.

        Between two concepts gradients differ by the same vector g everywhere, and losses over the minimisers' ball by
        RADIUS |g|.
        """
        return float(np.square(variations(pooled(self.Z), self.concepts) / RADIUS).sum())


def pooled(Z: FloatArray) -> FloatArray:
    """Return the records of all clients, shape (records, d)."""
    return Z.reshape(-1, Z.shape[-1])


def variations(Z: FloatArray, concepts: FloatArray) -> FloatArray:
    """Return sup over |x| <= RADIUS of |F'(x) - F(x)| for each concept and the next, over 2 ln 2.

    F' - F is -<g, x> with g the mean of (sigma(z.v') - sigma(z.v)) z, so the supremum is RADIUS |g|.

    >>> Z = np.array([[1.0], [1.0]])
    >>> variations(Z, np.array([[0.0], [np.log(3.0)]])) * BOUND / RADIUS
    array([0.25])
    """
    means = expit(concepts @ Z.T) @ Z / len(Z)
    sizes: FloatArray = RADIUS * np.linalg.norm(np.diff(means, axis=0), axis=1) / BOUND
    return sizes


def stream(name: StreamName, rounds: int, seed: int) -> Stream:
    """Return the stream of a name, of T rounds."""
    made = {"abrupt": abrupt, "moving": moving, "still": still}
    return made[name](rounds, seed)


def still(rounds: int, seed: int) -> Stream:
    """Return a stream that never changes: L = 1, Delta = 0.

    >>> still(128, 0).starts, still(128, 0).variation()
    ([1], 0.0)
    """
    only = abrupt(rounds, seed)
    return Stream("still", only.Z, only.concepts[:1], np.zeros(rounds, dtype=np.int64))


def abrupt(rounds: int, seed: int) -> Stream:
    """Return a stream of L = T^0.4 segments of the same length, each with a concept of its own.

    Concepts have independent, uniformly random directions, so what was learnt in one says nothing about the next.
    Segments of one length are the hardest for a given L, since regret grows less than linearly with length.

    >>> abrupt(128, 0).starts
    [1, 20, 38, 56, 75, 93, 111]
    """
    rng = generator(seed, "regret", "abrupt", rounds)
    segments = round(rounds**GROWTH)
    concepts = rng.normal(size=(segments, FEATURES + 1))
    concepts *= RADIUS / np.linalg.norm(concepts, axis=1, keepdims=True)
    return Stream("abrupt", records(seed), concepts, np.arange(rounds) * segments // rounds)


def moving(rounds: int, seed: int) -> Stream:
    """Return a stream whose concept moves along a great circle, a little in every round; Delta = T^0.4 in total.

    >>> one = moving(128, 0)
    >>> len(one.starts), round(one.variation(), 6), round(128**0.4, 6)
    (128, 6.964405, 6.964405)
    """
    rng = generator(seed, "regret", "moving", rounds)
    Z = records(seed)
    plane = np.linalg.qr(rng.normal(size=(FEATURES + 1, 2)))[0].T
    speed = _speed(pooled(Z), plane, rounds, rounds**GROWTH)
    return Stream("moving", Z, _circle(plane, speed, rounds), np.arange(rounds))


def records(seed: int) -> FloatArray:
    """Return the features, independent standard normals and the constant 1, shape (clients, n, d)."""
    X = generator(seed, "regret", "records").normal(size=(CLIENTS, PER_CLIENT, FEATURES))
    return np.concatenate([X, np.ones((CLIENTS, PER_CLIENT, 1))], axis=2)


def _circle(plane: FloatArray, speed: float, rounds: int) -> FloatArray:
    angles = speed * np.arange(rounds)
    circle: FloatArray = RADIUS * (np.cos(angles)[:, None] * plane[0] + np.sin(angles)[:, None] * plane[1])
    return circle


def _speed(Z: FloatArray, plane: FloatArray, rounds: int, wanted: float) -> float:
    """Return the angle per round at which the variations add up to the wanted total."""

    def excess(log_speed: float) -> float:
        return float(variations(Z, _circle(plane, math.exp(log_speed), rounds)).sum()) - wanted

    # From hardly moving up to a radian a round, beyond which chords no longer grow with the speed.
    return math.exp(brentq(excess, math.log(1e-6), 0.0, xtol=1e-13))
