"""Drift imposed on logs that have none of their own.

Rounds are counted at each client: its round t is its good records (t - 1) n .. t n - 1, n the size of a round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from streamfl.core.arrays import IntArray
from streamfl.core.errors import UsageError
from streamfl.core.protocol.records import Rejection
from streamfl.core.sampling import generator
from streamfl.streams.dealing import Log
from streamfl.streams.table import Table

KINDS = ("class-swap", "class-introduction", "permutation")


@dataclass(frozen=True, slots=True)
class Injection:
    """A kind of drift and the rounds at which it strikes, increasing."""

    kind: str
    rounds: tuple[int, ...]


def parse(text: str) -> Injection:
    """Read `KIND@ROUND,ROUND,...`.

    Raises
    ------
    UsageError
        If the kind is unknown, or the rounds are not increasing numbers from 1 on.

    >>> parse("class-swap@31,129")
    Injection(kind='class-swap', rounds=(31, 129))
    """
    kind, _, rounds = text.partition("@")
    if kind not in KINDS:
        raise UsageError(f"--inject {text}: unknown drift {kind!r}; take one of {', '.join(KINDS)}")
    try:
        numbers = tuple(int(part) for part in rounds.split(","))
    except ValueError:
        raise UsageError(f"--inject {text}: {rounds!r} is no list of rounds; write {kind}@31,129") from None
    if any(a >= b for a, b in pairwise((0, *numbers))):
        raise UsageError(f"--inject {text}: rounds count from 1 and must increase; write {kind}@31,129")
    return Injection(kind, numbers)


def inject(table: Table, logs: Mapping[str, Log], injection: Injection, round_size: int, seed: int) -> dict[str, Log]:
    """Impose a drift on every client's log; the table stays as it is.

    `class-swap`: from the first round on, labels 0 and 1, 2 and 3, ... are exchanged; from the second they are
    themselves again, and so on. The last of an odd number of labels stays.

    `permutation`: from each round on, labels are renamed by a random permutation, never the one before.

    `class-introduction`: the classes form groups in label order, one more than there are rounds, all of the same size
    but the first, which also gets the remainder. The first group is there from the start, one more from each round
    on. A record whose class is not there yet waits: a client's next record is always its oldest whose class is
    there. When a client has none left before a class is let in, its round ends short: the class is let in at once,
    so that the client meets it in an earlier round of its own count. What still waits at the end comes last.

    A bad record stays behind the good record that it followed.

    Parameters
    ----------
    table
        What the logs were dealt from.
    logs
        The log of each client.
    injection
        The drift.
    round_size
        Good records that make up a client's round.
    seed
        Of the permutations: the same seed and round draw the same one.

    Returns
    -------
    The new logs.

    Raises
    ------
    UsageError
        If the task is regression, there are fewer than two labels, or fewer classes than are to be introduced.

    >>> y = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0])
    >>> table = Table("t", ("a",), np.ones((6, 1)), y, ("x", "y", "z"), np.arange(6))
    >>> logs = {"c0": Log(np.arange(6), y)}
    >>> inject(table, logs, parse("class-swap@2,3"), round_size=2, seed=0)["c0"].y
    array([0., 1., 2., 1., 1., 2.])
    >>> inject(table, logs, parse("class-introduction@2,3"), round_size=2, seed=0)["c0"].rows
    array([0, 3, 1, 4, 2, 5])
    """
    labels, flag = len(table.labels), f"--inject {injection.kind}"
    if not labels:
        raise UsageError(f"{flag}: {table.name} is a regression without classes; leave out --inject")
    if labels < 2:
        raise UsageError(f"{flag}: {table.name} has one class only; give a file with at least two")
    if round_size < 1:
        raise UsageError(f"--round-size {round_size}: a round needs records; give at least 1")
    if injection.kind == "class-introduction":
        groups = _groups(labels, injection, table.name)
        return {name: _introduced(log, groups, injection.rounds, round_size) for name, log in logs.items()}
    names = _swaps(labels, injection) if injection.kind == "class-swap" else _permutations(labels, injection, seed)
    return {name: _renamed(log, names, injection.rounds, round_size) for name, log in logs.items()}


def _swaps(labels: int, injection: Injection) -> IntArray:
    """Return what each label is called before the first round, and from each round on: shape (rounds + 1, labels)."""
    same = np.arange(labels)
    swapped = np.where((same ^ 1) < labels, same ^ 1, same)
    return np.stack([swapped if i % 2 else same for i in range(len(injection.rounds) + 1)])


def _permutations(labels: int, injection: Injection, seed: int) -> IntArray:
    names = [np.arange(labels)]
    for start in injection.rounds:
        random = generator(seed, "permutation", start)
        drawn = random.permutation(labels)
        while np.array_equal(drawn, names[-1]):  # no drift at all: with two labels, half of all draws
            drawn = random.permutation(labels)
        names.append(drawn)
    return np.stack(names)


def _renamed(log: Log, names: IntArray, rounds: Sequence[int], round_size: int) -> Log:
    now = np.arange(len(log.y)) // round_size + 1
    phase = np.searchsorted(rounds, now, side="right")
    return replace(log, y=names[phase, log.y.astype(np.int64)].astype(np.float64))


def _groups(labels: int, injection: Injection, name: str) -> IntArray:
    """Return the group of each label."""
    rounds = len(injection.rounds)
    if rounds > labels - 1:
        what = f"--inject {injection.kind}: {rounds} rounds, but {name} has {labels} classes"
        raise UsageError(f"{what}; give at most {labels - 1} rounds")
    size, rest = divmod(labels, rounds + 1)
    return np.repeat(np.arange(rounds + 1), [size + rest] + [size] * rounds)


def _introduced(log: Log, groups: IntArray, rounds: Sequence[int], round_size: int) -> Log:
    group = groups[log.y.astype(np.int64)]
    waiting = np.ones(len(group), np.bool_)
    order: list[IntArray] = []
    for let_in, (start, end) in enumerate(pairwise((1, *rounds))):
        taken = np.flatnonzero(waiting & (group <= let_in))[: (end - start) * round_size]
        waiting[taken] = False
        order.append(taken)
    order.append(np.flatnonzero(waiting))
    return _reordered(log, np.concatenate(order))


def _reordered(log: Log, order: IntArray) -> Log:
    """Put the good records in another order; each bad one goes along with the good one that it followed."""
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    behind = [(int(place[r.position - i - 1]), r.reason) for i, r in enumerate(log.rejected)]
    behind.sort(key=lambda pair: pair[0])
    rejected = tuple(Rejection(at + 1 + i, reason) for i, (at, reason) in enumerate(behind))
    return Log(log.rows[order], log.y[order], rejected)
