"""Learners of single records: by hand, by brute force, and how their runs are counted."""

import numpy as np
import pytest

from streamfl.sampling import generator
from streamfl_benchmarks.drawn import DrawnStream
from streamfl_benchmarks.features import prepared
from streamfl_benchmarks.methods import run
from streamfl_benchmarks.one_by_one import Nearest
from streamfl_benchmarks.records import Drawn


def by_force(X: np.ndarray, y: np.ndarray, ends: list[int], k: int, window: int) -> list[int]:
    told, start = [], 0
    for end in ends:
        for i in range(start, end):
            known = range(max(0, start - window), i)
            near = sorted(known, key=lambda j: float(((X[j] - X[i]) ** 2).sum()))[:k]
            votes = [int(y[j]) for j in near]
            told.append(max(votes, key=lambda label: (votes.count(label), -votes.index(label))) if votes else -1)
        start = end
    return told


def test_the_nearest_are_those_of_the_window_and_of_the_round_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamfl_benchmarks.one_by_one.TOGETHER", 7)
    rng = generator(1, "nearest")
    X, y, ends = rng.normal(size=(60, 2)), rng.integers(3, size=60), [20, 45, 60]
    learner, told = Nearest(windows=(8, 30), ks=(1, 3)), dict[str, list[int]]()
    for start, end in zip([0, *ends], ends, strict=False):
        for name, predicted in learner.learnt(X[start:end], y[start:end]).items():
            told.setdefault(name, []).extend(predicted.tolist())
    for name, constants in learner.variants.items():
        assert told[name] == by_force(X, y, ends, int(constants["k"]), int(constants["window"])), name
    assert len({tuple(one) for one in told.values()}) == 4


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    stream = DrawnStream("covtype", "class-swap", (5,), clients=3, round_size=30, rounds=8)
    return Drawn.of(stream, prepared("covtype", None))


def test_a_run_counts_all_records_and_its_best_variant(drawn: Drawn) -> None:
    found = run("nearest-pooled", drawn).run
    assert found.records == sum(map(sum, drawn.sizes().values()))
    assert found.variant in Nearest().variants
    assert found.accuracy.prequential is not None
    assert found.loss == pytest.approx(1.0 - found.accuracy.prequential)
    assert found.detections == (None,)
