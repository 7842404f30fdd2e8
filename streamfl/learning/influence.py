"""Bounded influence: how much of what each client learnt in a round counts, judged by what all clients sent.

A client's numbers are compared with the middle of all clients, in two ways. Their size: a difference several times as
large as the middle one counts less, and one far larger not at all. Their history: a running mean of a client's
differences, without what all clients have in common. Honest differences are mostly noise, which averages out; the
push of a liar does not, however small it is in a single round (Karimireddy, He and Jaggi 2021, "Learning from history
for Byzantine robust optimization"). Of the running mean a sketch of 64 numbers is kept, whose norm is near that of
the whole (Charikar, Chen and Farach-Colton 2002).

Whoever knows the signs of the sketch can push where it sees nothing: along what they map to 0. So they are drawn from
a secret, and histories are saved sealed: they are sums of numbers that their sender knows, and would tell the signs.

All shares are 1 unless a client stands out, so that honest numbers pass unchanged.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from streamfl.arrays import HOLDS_ARRAYS, BoolArray, FloatArray, IntArray
from streamfl.sampling import generator

# So many times the middle size, and the middle history, a client's may be; beyond that its share falls, and at twice
# as many times it is 0. docs/choices.md, "Influence".
SIZE, HISTORY = 3.0, 3.0

# The middle of few numbers of few clients is uncertain, and honest ones lie further from it: both bounds are wider by
# one part in this many numbers and clients, at most twice. docs/choices.md, "Influence".
CHANCE, WIDEST = 10.0, 2.0

# How much of the history is left after a round, and of how many numbers it is. docs/choices.md, "Influence".
KEEPS, NUMBERS = 0.9, 64

# A client counts as at most this many times as many records as the middle one: rates of 1 to 30 in geometric steps
# pass. docs/choices.md, "Influence".
HEAVIEST = 10

# Of fewer clients none can be told from the others: with three, two liars are the majority. docs/choices.md,
# "Influence".
FEWEST = 4

# A part of a record's mean size that a middle size never falls below: where all but a few clients have learnt their
# records perfectly, the others are not liars. docs/choices.md, "Influence".
LEAST = 0.1

# From this many deviations between clients on, a client's losses are outliers, and the least such deviation. A
# deviation is this many times the middle distance from the middle, for a Gaussian. docs/choices.md, "Influence".
ODD, LEAST_SPREAD, DEVIATION = 6.0, 0.002, 1.4826

# A client that ranks models the other way round is an outlier from so many deviations on, if the middle client's
# ranking is clear by so many. docs/choices.md, "Influence".
REVERSED, CLEAR = 3.0, 1.5

History = Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Influence:
    """The histories of all clients, by what they are about; part of the coordinator state."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    # By kind of numbers and client, the sketch of the running mean, shape (64,); nothing where they are sealed.
    histories: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    sealed: str = ""  # the histories as only the coordinator can read them; empty if they are in the clear

    def hidden(self, secret: "Secret | None") -> "Influence":
        """Return the histories as they are saved: sealed, if there is a secret."""
        if secret is None or not self.histories:
            return self
        names = {kind: list(each) for kind, each in self.histories.items()}
        numbers = [sketch for each in self.histories.values() for sketch in each.values()]
        head = json.dumps(names).encode()
        data = len(head).to_bytes(4, "big") + head + np.array(numbers, "<f8").tobytes()
        return Influence(sealed=secret.seal(data))

    def shown(self, secret: "Secret | None") -> "Influence":
        """Return the histories as they were before they were sealed; none, if another secret has sealed them."""
        data = None if secret is None or not self.sealed else secret.unseal(self.sealed)
        if data is None:
            return Influence(self.histories if secret is None else {})
        begins = 4 + int.from_bytes(data[:4], "big")
        names: dict[str, list[str]] = json.loads(data[4:begins])
        sketches = iter(np.frombuffer(data[begins:], "<f8").astype(np.float64).reshape(-1, NUMBERS))
        return Influence({kind: {name: next(sketches) for name in each} for kind, each in names.items()})


class Secret(Protocol):
    """What the coordinator alone knows."""

    @property
    def seed(self) -> int:
        """Return the seed of the signs."""
        ...

    def seal(self, data: bytes) -> str:
        """Return a text from which nobody else can tell the bytes; the same bytes have the same text."""
        ...

    def unseal(self, text: str) -> bytes | None:
        """Return the bytes of a text; None if this secret has not sealed it."""
        ...


def are_compared(clients: int) -> bool:
    """Tell whether this many clients are compared with each other: of fewer nobody can tell which is far off."""
    return clients >= FEWEST


class Contributions(NamedTuple):
    """What clients sent of one kind: means over their records, in units in which noise is alike in all directions."""

    clients: tuple[str, ...]  # the clients' names, in order
    records: FloatArray  # the records of each, shape (clients,)
    sizes: FloatArray  # the norm of the numbers of each, shape (clients,)
    sketches: FloatArray  # sums of these numbers with random signs, shape (clients, 64): see `sketches`
    independent: int  # how many of the numbers of one client are independent of each other, at least

    @property
    def allowance(self) -> float:
        """Return by how much wider the bounds are, because few numbers of few clients are compared.

        >>> of_five = Contributions(tuple("abcde"), np.full(5, 10.0), np.ones(5), np.ones((5, 64)), 3)
        >>> round(of_five.allowance, 2), of_five._replace(independent=1).allowance
        (1.67, 2.0)
        """
        return min(WIDEST, 1.0 + CHANCE / (len(self.clients) * self.independent))

    @property
    def is_compared(self) -> bool:
        """Tell whether there are so many clients that they are compared; else sizes do not matter."""
        return are_compared(len(self.clients))

    @classmethod
    def of_few(cls, clients: tuple[str, ...], records: FloatArray) -> "Contributions":
        """Return what so few clients sent that it is not compared, without its sizes."""
        return cls(clients, records, np.zeros(len(clients)), np.zeros((len(clients), NUMBERS)), 1)

    @classmethod
    def of(
        cls, kind: str, clients: tuple[str, ...], records: FloatArray, numbers: FloatArray, seed: int = 0
    ) -> "Contributions":
        """Return what clients sent, given all numbers, shape (clients, rows, models, columns).

        Models learn of the same records, and columns of labels sum up to 0. The signs follow from the seed.
        """
        _, rows, _, columns = numbers.shape
        sizes = np.sqrt((numbers**2).sum(axis=(1, 2, 3)))
        return cls(clients, records, sizes, sketches(kind, numbers, seed), rows * max(1, columns - 1))


class Judged(NamedTuple):
    """Each client's share, from 0 to 1, and the histories after the round."""

    shares: dict[str, float]
    histories: dict[str, FloatArray]


def judge(contributions: Contributions, histories: History, *, least: float = 0.0) -> Judged:
    """Return how much of what each client sent counts.

    Parameters
    ----------
    contributions
        What the clients sent of one kind; each kind has histories of its own.
    histories
        By client, the history before the round.
    least
        The least middle size, of a client with the middle number of records.

    Examples
    --------
    >>> numbers = np.array([1.0, 1.0, 1.0, 1.0, 8.0])[:, None, None, None] * np.array([2.0, -2.0, 1.0])
    >>> contributions = Contributions.of("steps", ("c0", "c1", "c2", "c3", "c4"), np.full(5, 10.0), numbers)
    >>> contributions.allowance
    2.0
    >>> shares, histories = judge(contributions, {})
    >>> [round(share, 2) for share in shares.values()], round(float(np.linalg.norm(histories["c0"])), 6)
    ([1.0, 1.0, 1.0, 1.0, 0.5], 0.1)
    """
    names = contributions.clients
    if not contributions.is_compared:
        return Judged(dict.fromkeys(names, 1.0), dict(histories))
    # The mean over few records has more noise, so it may be larger.
    noise = np.maximum(1.0, np.sqrt(np.median(contributions.records) / contributions.records))
    sizes = contributions.sizes / noise
    middle = max(float(np.median(sizes)), least)
    size, history = SIZE * contributions.allowance, HISTORY * contributions.allowance
    units = noise * np.maximum(middle, sizes / size)
    before = np.array([histories.get(name, np.zeros(NUMBERS)) for name in names])
    added = contributions.sketches / np.where(units > 0.0, units, 1.0)[:, None]
    after = KEEPS * before + (1.0 - KEEPS) * added
    distances = np.sqrt(((after - np.median(after, axis=0)) ** 2).sum(axis=1))
    shares = np.minimum(_share(sizes, middle, size), _share(distances, float(np.median(distances)), history))
    return Judged(
        dict(zip(names, shares.tolist(), strict=True)), {**histories, **dict(zip(names, after, strict=True))}
    )


def _share(sizes: FloatArray, middle: float, most: float) -> FloatArray:
    """Return each client's share: what counts of its size rises to `most` times the middle, and then falls to 0.

    >>> _share(np.array([1.0, 4.0, 6.0, 8.0, 100.0]), 1.0, 4.0).round(2)
    array([1.  , 1.  , 0.33, 0.  , 0.  ])
    """
    if middle <= 0.0:  # most clients sent nothing but zeros, and nothing can be told
        return np.ones(len(sizes))
    shares: FloatArray = np.clip(2.0 * most / np.maximum(sizes / middle, most) - 1.0, 0.0, 1.0)
    return shares


def sketches(kind: str, numbers: FloatArray, seed: int = 0) -> FloatArray:
    """Return for each client 64 sums of its numbers, each with a random sign in a random sum, shape (clients, 64).

    Their norm is near that of all numbers, unless these were chosen by one who knows the seed.

    >>> float(np.linalg.norm(sketches("steps", np.ones((1, 50, 1, 7)))) / np.sqrt(350.0)).__round__(2)
    1.04
    """
    clients, rows, models, columns = numbers.shape
    first = NUMBERS * np.arange(clients)[:, None]
    sums = np.zeros(clients * NUMBERS)
    for model in range(models):
        for column in range(columns):
            places, signs = _places(seed, kind, model, column, rows)
            own = (signs * numbers[:, :, model, column]).ravel()
            sums += np.bincount((first + places).ravel(), own, minlength=len(sums))
    return sums.reshape(clients, NUMBERS)


@lru_cache(maxsize=4096)
def _places(seed: int, kind: str, model: int, column: int, rows: int) -> tuple[IntArray, FloatArray]:
    """Return the sum and the sign of each row of a column."""
    drawn = generator(seed, "influence", kind, model, column).integers(2 * NUMBERS, size=rows)
    return drawn // 2, np.where(drawn % 2 == 0, -1.0, 1.0)


def outliers(losses: Mapping[str, FloatArray]) -> frozenset[str]:
    """Return the clients whose losses do not rank models as those of the others do, or lie far from theirs.

    Among few clients and many models, chance makes the deviation of some column far too small: none counts as smaller
    than the middle one of all columns.

    Parameters
    ----------
    losses
        By client, the mean losses of the same models, shape (models,).

    Examples
    --------
    >>> honest = {f"c{i}": np.array([0.3, 0.2 + 0.01 * i, 0.1]) for i in range(5)}
    >>> outliers(honest), outliers(honest | {"c5": np.array([0.1, 0.2, 0.3])})
    (frozenset(), frozenset({'c5'}))
    """
    if len(losses) < FEWEST:
        return frozenset()
    X = np.array(list(losses.values()))
    level = X.mean(axis=1, keepdims=True)
    columns = np.hstack([level, X - level])
    spread = _spread(columns)
    far = (np.abs(columns - np.median(columns, axis=0)) > ODD * np.maximum(spread, np.median(spread))).any(axis=1)
    far |= _rank_reversed(X - level)
    return frozenset(name for name, is_far in zip(losses, far, strict=True) if is_far)


def _rank_reversed(relative: FloatArray) -> BoolArray:
    """Return which clients rank models the other way round than the middle one, by losses less their mean.

    The ranking of two models is how far they lie apart, which is a column: that is judged already.

    >>> a, b = np.array([0.1, 0.0, -0.1]), np.array([0.11, -0.01, -0.1])
    >>> _rank_reversed(np.array([a, b, a, b, -a])), _rank_reversed(np.array([a[:2], b[:2], a[:2], b[:2], -a[:2]]))
    (array([False, False, False, False,  True]), array([False, False, False, False, False]))
    """
    if relative.shape[1] <= 2:
        return np.zeros(len(relative), np.bool_)
    middle = np.median(relative, axis=0)
    along: FloatArray = relative @ middle / max(float(np.linalg.norm(middle)), LEAST_SPREAD)
    spread, usual = float(_spread(along)), float(np.median(along))
    found: BoolArray = (along < 0.0) & (usual - along > REVERSED * spread) & (usual > CLEAR * spread)
    return found


def _spread(columns: FloatArray) -> FloatArray:
    """Return the deviation between clients, by column."""
    distances = np.abs(columns - np.median(columns, axis=0))
    spread: FloatArray = np.maximum(DEVIATION * np.median(distances, axis=0), LEAST_SPREAD)
    return spread


def smallest(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the smallest share of each client.

    >>> smallest([{"c0": 1.0, "c1": 0.5}, {"c1": 0.25}])
    {'c0': 1.0, 'c1': 0.25}
    """
    least: dict[str, float] = {}
    for each in shares:
        for name, share in each.items():
            least[name] = min(share, least.get(name, 1.0))
    return least
