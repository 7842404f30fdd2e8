"""Streams drawn afresh from a table in every round, with imposed drift and conditions; or as recorded.

A stream is a description; its records are drawn on demand. The draws of a client depend on the seed and its name
only, not on other clients or the method.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.errors import UsageError
from streamfl.records.table import Table
from streamfl.sampling import generator
from streamfl_benchmarks.recorded import rounds_recorded

RECORDED = "recorded"
DRIFTS = (
    "class-swap", "class-introduction", "permutation", "rare-swap", "gradual", "recurring", "local", "none", RECORDED,
)  # fmt: skip
CONDITIONS = ("plain", "skew", "absent", "exchange", "sizes", "class-mix")

MNIST_GROUPS = ((0, 1), (2, 3), (4,), (5, 6), (7,), (8,), (9,))
COVTYPE_AT, MNIST_AT, GRADUAL_AT = (65, 187, 233, 367, 411, 489), (31, 129, 279, 310, 369, 462), (50, 200, 350)
UNTOUCHED = {"none", RECORDED}
BLEND = 100  # rounds that a gradual drift takes

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class DrawnStream:
    """The description of a drawn stream: its table, drift and condition.

    `class-swap`: the labels of (0, 1), (2, 3), (4, 5) are exchanged, at the next drift back again, and so on.
    `class-introduction`: classes are let in, group by group; groups for which no drift is left never come.
    `permutation`: labels are renamed by a fresh random permutation at every drift.
    `rare-swap`: as class-swap, with the two rarest neighbours in frequency that bring 5 records a round together.
    `gradual`: class-swap, each drift taking 100 rounds in which ever more records are of the new concept.
    `recurring`: concepts A, B, A, C, A, B, ...: A is the table's, B and C are permutations drawn once.
    `local`: at drifts 1, 3, ... 15% of the clients begin to see swapped labels, at drifts 2, 4, ... the same ones
    see the table's again; every other pair of drifts has other clients.
    `recorded`: nothing is drawn or imposed: the table's records in their order, dealt to the clients in turn.

    Parameters
    ----------
    stream
        Name of the table's data; `mnist` and `mnist14` have groups of their own in class-introduction.
    drift, at
        The kind of drift, and the rounds whose records are the first of a new concept.
    condition
        `skew`: each client has class proportions of its own, from Dirichlet(0.1). `absent`: a client has no records
        in 30% of rounds. `exchange`: as skew, and half of the clients end after 0.3 and 0.6 of the run, upon which
        new ones begin. `sizes`: a client's rounds are 10^U(-1/2, 1/2) times as large. `class-mix`: from the second
        fifth of the run on, each fifth has class proportions of its own, from Dirichlet(1), for all clients.
    clients, round_size, rounds
        How many clients at a time; mean n of a client's round, whose size is N(n, 0.2 n); how many rounds.
    seed
        Seed of all draws.
    """

    stream: str
    drift: str
    at: tuple[int, ...]
    condition: str = "plain"
    clients: int = 20
    round_size: int = 1000
    rounds: int = 500
    seed: int = 1

    def phase(self, t: int) -> int:
        """Return how many drifts there have been up to round t.

        >>> DrawnStream("covtype", "class-swap", (65, 187)).phase(65)
        1
        """
        return bisect_right(self.at, t)

    @property
    def is_recorded(self) -> bool:
        """Return whether the records are those of the table in order: nothing is drawn or imposed."""
        return self.drift == RECORDED

    def check(self, table: Table) -> None:
        """Refuse a stream that cannot be drawn.

        Raises
        ------
        UsageError
            An unknown name, drift rounds that do not fit, or a drift that the table has too few classes for.
        """
        labels = len(table.labels)
        _known("--drift", self.drift, DRIFTS)
        _known("--condition", self.condition, CONDITIONS)
        if labels < 2:
            raise UsageError(f"{table.name}: the benchmark needs at least two classes; give a classification stream")
        if any(a >= b for a, b in pairwise((0, *self.at))):
            raise UsageError(f"--at {_listed(self.at)}: rounds count from 1 and must increase; write 65,187")
        if self.at and self.at[-1] > self.rounds:
            raise UsageError(
                f"--at {self.at[-1]}: the run ends with round {self.rounds}; name earlier, or raise --rounds"
            )
        if self.drift in UNTOUCHED and self.at:
            raise UsageError(f"--drift {self.drift}: nothing is imposed at any round; leave --at out")
        if self.is_recorded and self.condition != "plain":
            raise UsageError(f"--drift recorded has no conditions; leave --condition {self.condition} out")
        there = rounds_recorded(table, self.clients, self.round_size)
        if self.is_recorded and self.rounds > there:
            what = f"{table.name} has {there} rounds of {self.clients} x {self.round_size} records"
            raise UsageError(f"--rounds {self.rounds}: {what}; ask for at most as many")
        if self.drift not in UNTOUCHED and not self.at:
            what = f"none of its usual rounds lies within {self.rounds}"
            raise UsageError(f"--drift {self.drift}: {what}; name rounds with --at, or raise --rounds")
        if self.drift == "gradual" and any(b - a < BLEND for a, b in pairwise(self.at)):
            raise UsageError(f"--drift gradual: each takes {BLEND} rounds; let --at name rounds so far apart")
        groups = len(class_groups(self.stream, labels))
        if self.drift == "class-introduction" and len(self.at) >= groups:
            what = f"{self.stream} has {groups} groups of classes, the first of them from the start"
            raise UsageError(f"--drift class-introduction: {what}; give --at at most {groups - 1} rounds")


def _known(flag: str, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise UsageError(f"{flag} {name}: unknown; use one of {', '.join(names)}")


def _listed(rounds: tuple[int, ...]) -> str:
    return ",".join(map(str, rounds))


def default_at(stream: str, drift: str, rounds: int, labels: int) -> tuple[int, ...]:
    """Return the rounds of the paper's drifts (gradual: of our own) that lie within a run.

    >>> default_at("covtype", "class-swap", 200, 7), default_at("iris.csv", "class-introduction", 500, 3)
    ((65, 187), (65, 187))
    """
    if drift in UNTOUCHED:
        return ()
    if drift == "gradual":
        return tuple(t for t in GRADUAL_AT if t + BLEND <= rounds)
    at = tuple(t for t in (MNIST_AT if stream in {"mnist", "mnist14"} else COVTYPE_AT) if t <= rounds)
    return at[: len(class_groups(stream, labels)) - 1] if drift == "class-introduction" else at


def class_groups(stream: str, labels: int) -> tuple[tuple[int, ...], ...]:
    """Return the classes that are let in together, in order."""
    return MNIST_GROUPS if stream in {"mnist", "mnist14"} else tuple((label,) for label in range(labels))


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A client, and the first and last round in which it exists."""

    name: str
    first: int
    last: int


def lifetimes(stream: DrawnStream) -> tuple[Lifetime, ...]:
    """Return all clients of a stream.

    >>> stream = DrawnStream("covtype", "none", (), "exchange", clients=2, rounds=10)
    >>> [(lifetime.name, lifetime.first, lifetime.last) for lifetime in lifetimes(stream)]
    [('c0', 1, 3), ('c1', 1, 6), ('c2', 4, 10), ('c3', 7, 10)]
    """
    n, rounds = stream.clients, stream.rounds
    if stream.condition != "exchange":
        return tuple(Lifetime(f"c{i:0{len(str(n - 1))}}", 1, rounds) for i in range(n))
    half, turns = n // 2, (round(0.3 * rounds), round(0.6 * rounds))
    firsts = [1] * n + [turns[0] + 1] * half + [turns[1] + 1] * half
    lasts = [turns[0]] * half + [turns[1]] * half + [rounds] * n
    width = len(str(len(firsts) - 1))
    return tuple(Lifetime(f"c{i:0{width}}", *span) for i, span in enumerate(zip(firsts, lasts, strict=True)))


def affected(stream: DrawnStream, drift: int) -> frozenset[str]:
    """Return the clients that a drift of kind `local` concerns; drifts count from 1, and share them in pairs.

    >>> stream = DrawnStream("covtype", "local", (65, 187, 233))
    >>> begun, ended, next_begun = (affected(stream, drift) for drift in (1, 2, 3))
    >>> len(begun), begun == ended, begun == next_begun
    (3, True, False)
    """
    pair = (drift - 1) // 2
    begins = stream.at[2 * pair]
    present = [lifetime.name for lifetime in lifetimes(stream) if lifetime.first <= begins <= lifetime.last]
    chosen = generator(stream.seed, "local", pair).permutation(len(present))[: max(1, round(0.15 * len(present)))]
    return frozenset(present[i] for i in chosen)


def concepts(stream: DrawnStream, counts: IntArray) -> IntArray:
    """Return the index of each class in each phase, shape (drifts + 1, classes).

    Parameters
    ----------
    stream
        The stream.
    counts
        Records of each class in the table, shape (classes,).

    >>> concepts(DrawnStream("covtype", "class-swap", (3,)), np.array([5, 5, 5]))
    array([[0, 1, 2],
           [1, 0, 2]])
    """
    same = np.arange(len(counts))
    match stream.drift:
        case "permutation":
            return np.stack(_fresh(stream, len(counts), len(stream.at)))
        case "recurring":
            a, b, *others = _fresh(stream, len(counts), 9)
            c = next((p for p in others if not np.array_equal(p, a) and not np.array_equal(p, b)), b)
            return np.stack([(a, b, a, c)[i % 4] for i in range(len(stream.at) + 1)])
        case "class-swap" | "gradual" | "local":
            other = np.where((same < 6) & ((same ^ 1) < len(same)), same ^ 1, same)
        case "rare-swap":
            other = _exchanged(same, *rare_pair(counts, stream.clients * stream.round_size))
        case _:
            other = same
    return np.stack([other if i % 2 else same for i in range(len(stream.at) + 1)])


def rare_pair(counts: IntArray, records: int) -> tuple[int, int]:
    """Return the two rarest neighbours in frequency of which a round of so many records holds at least 5.

    >>> rare_pair(np.array([900, 20, 1, 79]), 100), rare_pair(np.array([900, 20, 1, 79]), 1000)
    ((1, 3), (2, 1))
    """
    order = np.argsort(counts, kind="stable")
    pairs = [(int(a), int(b)) for a, b in pairwise(order)]
    share = counts / counts.sum()
    return next((pair for pair in pairs if share[list(pair)].sum() * records >= 5.0), pairs[-1])


def _exchanged(same: IntArray, a: int, b: int) -> IntArray:
    names = same.copy()
    names[[a, b]] = b, a
    return names


def _fresh(stream: DrawnStream, labels: int, drawn: int) -> list[IntArray]:
    """Return the identity and permutations after it, none equal to the one before."""
    rng = generator(stream.seed, "concepts")
    names = [np.arange(labels)]
    while len(names) <= drawn:
        names += [p for p in (rng.permutation(labels),) if not np.array_equal(p, names[-1])]
    return names


def absences(stream: DrawnStream) -> dict[str, BoolArray]:
    """Return for each client the rounds in which it has no records, shape (rounds,); never all clients in one."""
    found = {lifetime.name: np.zeros(stream.rounds, np.bool_) for lifetime in lifetimes(stream)}
    if stream.condition == "absent":
        found = {name: generator(stream.seed, "absent", name).random(stream.rounds) < 0.3 for name in found}
        # A round without any records would never close.
        next(iter(found.values()))[np.all(list(found.values()), axis=0)] = False
    return found


def drawn_rounds(stream: DrawnStream, table: Table, lifetime: Lifetime) -> Iterator[tuple[Rows, FloatArray]]:
    """Yield the rows of the table and the labels of a client's rounds, from round 1 to its last.

    Rows are drawn without replacement within the round. Where a client's proportions ask for more records of a class
    than there are, the rest is drawn from all that is left.

    Parameters
    ----------
    stream, table
        The stream, and the table to draw from.
    lifetime
        The client; in rounds before its first it has no records.

    Yields
    ------
    Rows, shape (n,), and label indices, shape (n,).
    """
    truth = table.y.astype(np.int64)
    counts = np.bincount(truth, minlength=len(table.labels))
    names, groups = concepts(stream, counts), class_groups(stream.stream, len(counts))
    rng, blends = generator(stream.seed, "rounds", lifetime.name), generator(stream.seed, "blend", lifetime.name)
    absent = absences(stream)[lifetime.name]
    mean = stream.round_size * (_size_factor(stream, lifetime) if stream.condition == "sizes" else 1.0)
    concerned = {
        i for i in range(1, len(stream.at) + 1) if stream.drift != "local" or lifetime.name in affected(stream, i)
    }
    let_in, pool = -1, Pool.of(truth, range(len(counts)))
    for t in range(1, lifetime.last + 1):
        phase = stream.phase(t)
        if stream.drift == "class-introduction" and phase != let_in:
            pool = Pool.of(truth, [c for group in groups[: phase + 1] for c in group])
            let_in = phase
        if t < lifetime.first or absent[t - 1]:
            yield np.zeros(0, np.int32), np.zeros(0)
            continue
        size = min(len(pool.rows), max(1, round(rng.normal(mean, 0.2 * mean))))
        rows = pool.drawn(rng, size, _mix(stream, lifetime, t, len(counts)))
        phases = np.full(size, phase if phase in concerned else 0)
        if stream.drift == "gradual" and phase:
            phases -= blends.random(size) >= (t - stream.at[phase - 1] + 1) / BLEND
        yield rows.astype(np.int32), names[phases, truth[rows]].astype(np.float64)


def _size_factor(stream: DrawnStream, lifetime: Lifetime) -> float:
    return float(10.0 ** generator(stream.seed, "size", lifetime.name).uniform(-0.5, 0.5))


def _mix(stream: DrawnStream, lifetime: Lifetime, t: int, labels: int) -> FloatArray | None:
    """Return the class proportions of a client's round; None: those of the table."""
    if stream.condition in {"skew", "exchange"}:
        return generator(stream.seed, "mix", lifetime.name).dirichlet(np.full(labels, 0.1))
    fifth = (t - 1) * 5 // stream.rounds
    if stream.condition == "class-mix" and fifth:
        return generator(stream.seed, "class-mix", fifth).dirichlet(np.ones(labels))
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The rows that may be drawn, together and by class (an empty array for a class that may not)."""

    rows: IntArray
    by_class: tuple[IntArray, ...]

    @classmethod
    def of(cls, truth: IntArray, classes: Iterable[int]) -> Self:
        """Return the rows of some classes."""
        allowed = set(classes)
        by_class = [
            np.flatnonzero(truth == c) if c in allowed else np.zeros(0, np.int64) for c in range(truth.max() + 1)
        ]
        return cls(np.sort(np.concatenate(by_class)), tuple(by_class))

    def drawn(self, rng: np.random.Generator, size: int, mix: FloatArray | None) -> IntArray:
        """Draw different rows, shape (size,), with the class proportions of the table or those of a mix."""
        if mix is None:
            return rng.choice(self.rows, size=size, replace=False)
        there = np.array([len(rows) > 0 for rows in self.by_class])
        # An allowed class never has share 0, as all classes of a client may still be absent.
        share = np.where(there, np.maximum(mix, 1e-12), 0.0)
        wanted = rng.multinomial(size, share / share.sum())
        parts = [
            rng.choice(rows, min(n, len(rows)), replace=False) for rows, n in zip(self.by_class, wanted, strict=True)
        ]
        drawn = np.concatenate(parts)
        if len(drawn) < size:
            others = rng.choice(self.rows, size=size, replace=False)
            drawn = np.concatenate([drawn, others[~np.isin(others, drawn)][: size - len(drawn)]])
        return rng.permutation(drawn)
