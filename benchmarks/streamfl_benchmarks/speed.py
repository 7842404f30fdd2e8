"""Client-rounds per second next to P: a plain NumPy loop with the same scores and steps, without federation.

P reads the same records in the same dealing and standardises them with a given scaler. For each of the same number
of live models it scores every record, takes the gradient, steps, and averages the clients. Runs of both are
interleaved; the ratio counts.
"""

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from streamfl.arrays import FloatArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import stopwatch
from streamfl.sampling import generator

CLIENTS, RECORDS, FEATURES, LABELS = 20, 1000, 54, 7

# Live models of each profile that is timed.
LIVE = {"paper": 1, "adaptive": 5}


@dataclass(frozen=True)
class Speed:
    """Medians of client-rounds per second of a profile and of P; and their ratio, with the least and the largest.

    `peak_mb` is the memory of a federation above its data, in megabytes.
    """

    profile: str
    live: int
    ours: float
    plain: float
    ratio: float
    least: float
    largest: float
    peak_mb: float


def speeds(runs: int, rounds: int, clock: Callable[[], float] = stopwatch) -> Iterator[Speed]:
    """Time every profile next to P, in interleaved pairs.

    Parameters
    ----------
    runs
        Pairs.
    rounds
        Rounds of each run.
    clock
        Returns seconds.
    """
    table = gaussian(rounds)
    for profile, live in LIVE.items():
        pairs = []
        with threadpool_limits(1):
            for _ in range(runs):
                began = clock()
                federation(table, profile)
                between = clock()
                plain(table, live, rounds)
                pairs.append((between - began, clock() - between))
        ratios = sorted(p / f for f, p in pairs)
        yield Speed(
            profile=profile,
            live=live,
            ours=statistics.median(CLIENTS * rounds / f for f, _ in pairs),
            plain=statistics.median(CLIENTS * rounds / p for _, p in pairs),
            ratio=statistics.median(ratios),
            least=ratios[0],
            largest=ratios[-1],
            peak_mb=peak(table, profile),
        )


def gaussian(rounds: int, records: int | None = None) -> Table:
    """Return records with a linear concept, enough for so many rounds of `RECORDS`, or so many, a client."""
    rng = generator(0, "speed")
    n = CLIENTS * (records or RECORDS) * rounds
    X = rng.normal(size=(n, FEATURES))
    y = (X @ rng.normal(size=(FEATURES, LABELS))).argmax(axis=1).astype(float)
    names = tuple(f"x{j}" for j in range(FEATURES))
    return Table("gaussian", names, X, y, tuple(map(str, range(LABELS))), np.arange(n))


def federation(table: Table, profile: str) -> None:
    """Replay the records."""
    logs = deal(table, CLIENTS, "round-robin", 0)
    named = ProfileSettings.model_validate({"profile": profile, "optimistic": "regret"})
    Replay(
        table,
        logs,
        ReplaySettings(
            round_size=RECORDS,
            learning=LearningSettings(features="rounds"),
            profile=named,
            measure=False,
            count_bytes=False,
        ),
    ).run()


def peak(table: Table, profile: str) -> float:
    """Return the most memory that a federation takes above its data, in megabytes."""
    tracemalloc.start()
    try:
        federation(table, profile)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def plain(table: Table, live: int, rounds: int) -> list[FloatArray]:
    """Do the same work in the plainest way, and return the models."""
    mean, scale = table.X[:20000].mean(axis=0), table.X[:20000].std(axis=0)
    models = [np.zeros((FEATURES + 1, LABELS)) for _ in range(live)]
    for t in range(rounds):
        sums = [np.zeros_like(W) for W in models]
        for c in range(CLIENTS):
            first = t * CLIENTS * RECORDS + c
            rows = slice(first, first + CLIENTS * RECORDS, CLIENTS)
            Z = np.ones((RECORDS, FEATURES + 1))
            Z[:, :-1] = (table.X[rows] - mean) / scale
            y = table.y[rows].astype(int)
            for W, total in zip(models, sums, strict=True):
                np.add(total, W - 0.1 * scored_gradient(W, Z, y)[1], out=total)
        models = [total / CLIENTS for total in sums]
    return models


def scored_gradient(W: FloatArray, Z: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean score of softmax regression, bounded as everywhere, and its gradient.

    >>> score, gradient = scored_gradient(np.zeros((1, 7)), np.ones((2, 1)), np.array([0, 1]))
    >>> score, gradient[0, :3].round(3)
    (0.5, array([-0.357, -0.357,  0.143]))
    """
    outputs = Z @ W
    outputs -= outputs.max(axis=1, keepdims=True)
    p = np.exp(outputs)
    total = p.sum(axis=1)
    records = np.arange(len(y))
    losses = np.log(total) - outputs[records, y]
    bound = 2 * np.log(LABELS)
    score = float(np.mean(np.minimum(losses, bound) / bound))
    p /= total[:, None]
    p[records, y] -= 1
    gradient: FloatArray = Z.T @ p / len(y)
    return score, gradient
