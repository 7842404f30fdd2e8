"""Client-rounds a second beside P: the plainest NumPy loop that does the same scores and steps, without federation.

P reads the same records in the same dealing, standardises them with a scaler that it is given, and for each of the
same number of live models scores every record, takes the gradient, steps, and averages the clients. Runs of both are
interleaved; what counts is the ratio.

    python benchmarks/speed.py --runs 7
"""

import argparse
import os
import statistics
import tracemalloc

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from streamfl.replay import Replay, ReplaySettings
from streamfl.runtime.clock import stopwatch
from streamfl.settings import ProfileSettings
from streamfl.streams.dealing import deal
from streamfl.streams.table import Table

CLIENTS, RECORDS, FEATURES, LABELS = 20, 1000, 54, 7
LIVE = {"paper": 1, "adaptive": 5}


def stream(rounds: int) -> Table:
    rng = np.random.default_rng(0)
    n = CLIENTS * RECORDS * rounds
    X = rng.normal(size=(n, FEATURES))
    y = (X @ rng.normal(size=(FEATURES, LABELS))).argmax(axis=1).astype(float)
    names = tuple(f"x{j}" for j in range(FEATURES))
    return Table("gaussian", names, X, y, tuple(map(str, range(LABELS))), np.arange(n))


def federation(table: Table, profile: str) -> float:
    logs = deal(table, CLIENTS, "round-robin", 0)
    settings = ReplaySettings(
        round_size=RECORDS, profile=ProfileSettings(profile=profile, optimistic="regret"), measure=False
    )
    return Replay(table, logs, settings).run().result.seconds


def plain(table: Table, live: int, rounds: int) -> float:
    mean, scale = table.X[:20000].mean(axis=0), table.X[:20000].std(axis=0)
    began = stopwatch()
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
                np.add(total, W - 0.1 * plain_gradient(W, Z, y), out=total)
        models = [total / CLIENTS for total in sums]
    return stopwatch() - began


def plain_gradient(W: np.ndarray, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    outputs = Z @ W
    outputs -= outputs.max(axis=1, keepdims=True)
    p = np.exp(outputs)
    total = p.sum(axis=1)
    records = np.arange(len(y))
    losses = np.log(total) - outputs[records, y]
    bound = 2 * np.log(LABELS)
    float(np.mean(np.minimum(losses, bound) / bound))
    p /= total[:, None]
    p[records, y] -= 1
    return Z.T @ p / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    table = stream(given.rounds)
    client_rounds = CLIENTS * given.rounds
    for profile, live in LIVE.items():
        pairs = [(federation(table, profile), plain(table, live, given.rounds)) for _ in range(given.runs)]
        ratios = sorted(p / f for f, p in pairs)
        ours = statistics.median(client_rounds / f for f, _ in pairs)
        theirs = statistics.median(client_rounds / p for _, p in pairs)
        print(
            f"{profile}, {live} live: {ours:,.0f} client-rounds/s, P {theirs:,.0f},"
            f" ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"
        )
    tracemalloc.start()
    federation(table, "adaptive")
    print(f"peak memory above the data: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
