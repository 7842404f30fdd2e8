"""Imposes drift on logs.

Rounds are counted per client: round t is its good records (t - 1) n .. t n - 1, with n the round size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from streamfl.arrays import IntArray
from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.sampling import generator

KINDS = ("class-swap", "class-introduction", "permutation")


@dataclass(frozen=True, slots=True)
class Injection:
    """A kind of drift and the rounds at which it happens, increasing."""

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
        raise UsageError(f"--inject {text}: there is no drift {kind!r}; use one of {', '.join(KINDS)}")
    try:
        numbers = tuple(int(part) for part in rounds.split(","))
    except ValueError:
        raise UsageError(f"--inject {text}: {rounds!r} is not a list of rounds; write {kind}@31,129") from None
    if any(a >= b for a, b in pairwise((0, *numbers))):
        raise UsageError(f"--inject {text}: rounds count from 1 and must increase; write {kind}@31,129")
    return Injection(kind, numbers)


def inject(table: Table, logs: Mapping[str, Log], injection: Injection, round_size: int, seed: int) -> dict[str, Log]:
    """Impose a drift on every client's log; the table stays as it is.

    `class-swap`: from the first round on, labels 0 and 1, 2 and 3, ... are exchanged; from the second round on they
    are as before, and so on. The last of an odd number of labels is not changed.

    `permutation`: from each round on, labels are renamed by a new random permutation.

    `class-introduction`: the classes form groups in label order, one more than there are rounds. All have the same
    size but the first, which also gets the remainder. The first group is present from the start, and each round adds
    one. Records of absent classes wait: a client's next record is its oldest one of a present class. If a client has
    no such record left, the next group is added at once, in an earlier round by its own count. Records that still
    wait at the end come last.

    A bad record stays behind the good record that it followed.

    Parameters
    ----------
    round_size
        Good records per client and round.
    seed
        Seed of the permutations: the same seed and round give the same one.

    Returns
    -------
    The new logs.

    Raises
    ------
    UsageError
        If the task is regression, or there are fewer than two labels or too few classes to introduce.

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
        raise UsageError(f"{flag}: {table.name} is a regression, which has no classes; leave out --inject")
    if labels < 2:
        raise UsageError(f"{flag}: {table.name} has only one class; give a file with at least two")
    if round_size < 1:
        raise UsageError(f"--round-size {round_size}: a round needs at least 1 record")
    if injection.kind == "class-introduction":
        groups = _groups(labels, injection, table.name)
        return {name: _introduced(log, groups, injection.rounds, round_size) for name, log in logs.items()}
    names = _swaps(labels, injection) if injection.kind == "class-swap" else _permutations(labels, injection, seed)
    return {name: _renamed(log, names, injection.rounds, round_size) for name, log in logs.items()}


def _swaps(labels: int, injection: Injection) -> IntArray:
    """Return the new index of each label, initially and from each round on, shape (rounds + 1, labels)."""
    same = np.arange(labels)
    swapped = np.where((same ^ 1) < labels, same ^ 1, same)
    return np.stack([swapped if i % 2 else same for i in range(len(injection.rounds) + 1)])


def _permutations(labels: int, injection: Injection, seed: int) -> IntArray:
    names = [np.arange(labels)]
    for start in injection.rounds:
        random = generator(seed, "permutation", start)
        drawn = random.permutation(labels)
        while np.array_equal(drawn, names[-1]):  # not a drift; with two labels every second draw
            drawn = random.permutation(labels)
        names.append(drawn)
    return np.stack(names)


def _renamed(log: Log, names: IntArray, rounds: Sequence[int], round_size: int) -> Log:
    now = np.arange(len(log.y)) // round_size + 1
    phase = np.searchsorted(rounds, now, side="right")
    return replace(log, y=names[phase, log.y.astype(np.int64)].astype(np.float64))


def _groups(labels: int, injection: Injection, name: str) -> IntArray:
    """Return the group of each label, shape (labels,)."""
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
    """Reorder the good records; each bad record stays behind the good record that it followed."""
    place = np.empty(len(order) + 1, np.int64)
    place[order], place[-1] = np.arange(len(order)), -1
    behind = [(int(place[r.position - i - 1]), r.reason) for i, r in enumerate(log.rejected)]
    behind.sort(key=lambda pair: pair[0])
    rejected = tuple(Rejection(at + 1 + i, reason) for i, (at, reason) in enumerate(behind))
    return Log(log.rows[order], log.y[order], rejected)
