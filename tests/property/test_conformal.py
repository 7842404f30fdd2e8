"""The theorem of the conformal test: means of at most 1 and rates, over laws of scores, sizes and absences."""

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suites.parameters import full

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detectors.conformal import Conformal, Evidence
from streamfl.learning.drift.evidence import ClientEvidence, RoundEvidence
from streamfl.protocol.messages import LabelSums
from streamfl.sampling import generator

CLIENTS, LABELS = 5, 2


def bag_of(rounds: list[list[float]]) -> FloatArray:
    """Return the bag of a lone client with one label and these scores in each round."""
    return np.array([[len(x), sum(x), sum(score**2 for score in x)] for x in rounds], np.float64).T[:, :, None, None]


@given(
    scores=st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)), min_size=7, max_size=7),
    sizes=st.sampled_from([(1, 1, 1, 3, 1), (1, 1, 1, 1, 3), (2, 2, 1, 0, 2), (1, 1, 0, 1, 4)]),
)
def test_over_all_orders_of_records_the_mean_is_at_most_1(scores: list[float], sizes: tuple[int, ...]) -> None:
    # Exact: every set of records is as likely to be that of the last round, and e depends on nothing else.
    old, new = sizes[:-1], sizes[-1]
    found = []
    for chosen in combinations(range(7), new):
        rest = iter([scores[i] for i in range(7) if i not in chosen])
        rounds = [[next(rest) for _ in range(size)] for size in old]
        found.append(Evidence.of(bag_of([*rounds, [scores[i] for i in chosen]])).logs[0].ravel())
    assert (np.exp(found).mean(axis=0) <= 1.0 + 1e-6).all()


Law = Callable[[np.random.Generator, int], FloatArray]


def beta(random: np.random.Generator, n: int) -> FloatArray:
    return random.beta(0.5, 1.5, n)


def rare(random: np.random.Generator, n: int) -> FloatArray:
    return (random.random(n) < 0.02).astype(np.float64)


def heavy(random: np.random.Generator, n: int) -> FloatArray:
    return np.minimum(1.0, 0.01 * random.pareto(0.5, n))


# By name: the law, the records of a client in a round, the part of its rounds in which it is away.
EXCHANGEABLE: dict[str, tuple[Law, Callable[[np.random.Generator], int], float]] = {
    "beta": (beta, lambda _: 20, 0.0),
    "one record a round": (beta, lambda _: 1, 0.0),
    "rare errors": (rare, lambda _: 20, 0.0),
    "heavy tail": (heavy, lambda _: 5, 0.0),
    "absences": (beta, lambda _: 10, 0.5),
    "any sizes": (rare, lambda r: int(np.exp(r.uniform(0.0, 5.0))), 0.2),
}

WORLDS = [100, full(3000)]


def statistics(name: str, worlds: int, rounds: int = 18) -> FloatArray:
    """Return the mean e-value after some rounds in each of many worlds."""
    law, size, away = EXCHANGEABLE[name]
    random, found = generator(worlds, name), []
    for _ in range(worlds):
        bag = np.zeros((3, rounds, CLIENTS, LABELS))
        for t in range(rounds):
            for i in range(CLIENTS):
                n = 0 if random.random() < away else size(random)
                y, scores = random.integers(0, LABELS, n), law(random, n) if n else np.zeros(0)
                for k in range(3):  # counts, sums, sums of squares
                    bag[k, t, i] = np.bincount(y, scores**k, minlength=LABELS)
        found.append(Evidence.of(bag).statistic())
    return np.exp(found)


@pytest.mark.parametrize("worlds", WORLDS)
@pytest.mark.parametrize("name", EXCHANGEABLE)
def test_mean_and_tail_whatever_the_law(name: str, worlds: int) -> None:
    e = statistics(name, worlds)
    assert np.minimum(e, 100.0).mean() <= 1.0 + 4.0 * np.minimum(e, 100.0).std() / math.sqrt(worlds)
    for b in (2.0, 5.0, 20.0):  # Markov, with four deviations for chance
        assert (e >= b).mean() <= 1.0 / b + 4.0 * math.sqrt((1.0 / b) / worlds)


def parts(random: np.random.Generator, mix: FloatArray, sizes: FloatArray) -> dict[str, ClientEvidence]:
    """Return a round in which scores depend on client and label alone, whatever the mix of labels and the sizes."""
    found = {}
    for i, size in enumerate(sizes):
        y = random.choice(LABELS, int(size), p=mix)
        scores = random.beta(0.5 + 0.2 * i + y, 2.0)
        new = tuple(
            LabelSums(
                label=f"l{k}",
                count=int((y == k).sum()),
                loss=float(scores[y == k].sum()),
                square=float((scores[y == k] ** 2).sum()),
            )
            for k in range(LABELS)
            if (y == k).any()
        )
        found[f"c{i}"] = ClientEvidence(int(size), {}, new)
    return found


@pytest.mark.parametrize("worlds", [12, full(400)])
@pytest.mark.parametrize("moves", ["nothing", "mix", "sizes"])
def test_the_rate_of_false_alarms(moves: str, worlds: int) -> None:
    # Proven where nothing moves: 20 tests at 2A = 100 alarm in a fifth of the worlds at most, whatever moves.
    random, alarms = generator(worlds, moves), 0
    for _ in range(worlds):
        detector, mix, sizes = Conformal(run_length=50.0), np.array([0.5, 0.5]), np.full(CLIENTS, 30)
        for t in range(1, 24):
            if moves == "mix" and t % 9 == 0:
                mix = random.dirichlet([1.0, 1.0])
            if moves == "sizes":
                sizes = random.integers(1, 60, CLIENTS) if t < 18 else np.full(CLIENTS, 5)
            if (
                detector.update(RoundEvidence(t, int(sizes.sum()), {}, clients=parts(random, mix, sizes)), {})
                is not None
            ):
                alarms += 1
                break
    assert alarms / worlds <= 0.2 + 4.0 * math.sqrt(0.2 * 0.8 / worlds)
