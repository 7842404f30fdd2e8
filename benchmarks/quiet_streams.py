"""Counts what drift detectors restart for while P(y|x) never changes and only the inputs move, and small drifts.

Ten clients of 50 records in 150 rounds; ten features, three labels drawn from a softmax of the features. `ar`: the
mean of the inputs follows an AR(1) process by round; `day`: it rises and falls with a period of 24 rounds; `season`:
of 200; `cases`: easy and hard records take turns of twelve rounds; `bursts`: in three rounds of fifteen, three in ten
records are four times as far from the middle; `week`: on two days of seven, of four rounds each, four features are
higher; `copies`: each record comes ten times; `none`: nothing moves. With `misfit` the logits
have products and squares of features, which no linear model has. `turned 20` and `turned 45`: the weights turn by so
many degrees in round 51, and back in round 101; `renamed`: in the rounds between, the third of the first label with
the largest last feature has the second label. The detectors see the same streams.

    python benchmarks/quiet_streams.py --seeds 1102,1103 --json F

Runs that are in the file are skipped.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

ROUNDS, CLIENTS, RECORDS = 150, 10, 50
FEATURES, LABELS = 10, 3
STREAMS = (
    "none", "ar", "ar misfit", "day misfit", "season misfit", "week misfit",
    "cases", "cases misfit", "bursts", "copies",
)  # fmt: skip
DRIFTS = ("turned 20", "turned 45", "renamed")
AT = (51, 101)  # first rounds of small drifts


def drawn(stream: str, seed: int) -> tuple[Table, dict[str, Log]]:
    """Return a stream, and the rows of each client."""
    rng = np.random.default_rng(seed)
    t, client = np.repeat(np.arange(ROUNDS), CLIENTS * RECORDS), np.repeat(np.arange(CLIENTS), RECORDS)
    W, X = rng.normal(size=(FEATURES, LABELS)), rng.normal(size=(len(t), FEATURES))
    X = moved(stream.split(maxsplit=1)[0], X, t, rng)
    Z = X @ W
    if stream.endswith("misfit"):
        Z = 0.5 * Z + 1.5 * lacking(np.clip(X, -4.0, 4.0))
    there = (t + 1 >= AT[0]) & (t + 1 < AT[1])
    if stream.startswith("turned"):
        Z[there] = X[there] @ turned(W, float(stream.split()[1]), rng)
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1).astype(np.float64)
    if stream == "copies":
        first = np.arange(len(t)) // 10 * 10
        X, y = X[first], y[first]
    if stream == "renamed":
        y[there & (y == 0.0) & (X[:, -1] > np.quantile(X[y == 0.0, -1], 2.0 / 3.0))] = 1.0
    names = tuple(f"x{j}" for j in range(FEATURES))
    table = Table(stream, names, X, y, tuple(map(str, range(LABELS))), np.arange(len(y)))
    of_client = np.tile(client, ROUNDS)
    logs = {f"c{i}": Log(rows := np.flatnonzero(of_client == i), y[rows]) for i in range(CLIENTS)}
    return table, logs


def moved(how: str, X: FloatArray, t: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the inputs of rounds t, moved."""
    first_four = (np.arange(FEATURES) < 4).astype(np.float64)
    shift, factor = np.zeros_like(X), np.ones(len(t))
    if how == "ar":
        mean = np.zeros((ROUNDS, FEATURES))
        for i in range(1, ROUNDS):
            mean[i] = 0.95 * mean[i - 1] + 0.31 * rng.normal(size=FEATURES)
        shift = mean[t]
    elif how == "day":
        shift = np.sin(2.0 * np.pi * t / 24.0)[:, None] * first_four
    elif how == "season":
        shift = 1.5 * np.sin(2.0 * np.pi * t / 200.0)[:, None] * first_four
    elif how == "week":
        shift = 1.5 * (t // 4 % 7 >= 5)[:, None] * first_four
    elif how == "cases":
        factor = np.where((t // 12) % 2 == 0, 2.0, 0.5)
    elif how == "bursts":
        factor = np.where((t % 15 >= 12) & (rng.random(len(t)) < 0.3), 4.0, 1.0)
    return factor[:, None] * X + shift


def turned(W: FloatArray, degrees: float, rng: np.random.Generator) -> FloatArray:
    """Return weights of the same lengths, each column turned by an angle in a direction drawn at random."""
    lengths, other = np.linalg.norm(W, axis=0), rng.normal(size=W.shape)
    unit = W / lengths
    other -= unit * (unit * other).sum(axis=0)
    other /= np.linalg.norm(other, axis=0)
    angle = np.deg2rad(degrees)
    found: FloatArray = lengths * (np.cos(angle) * unit + np.sin(angle) * other)
    return found


def lacking(X: FloatArray) -> FloatArray:
    """Return logits that no linear model has."""
    return np.stack([2.0 * X[:, 0] * X[:, 1], X[:, 2] ** 2 - 1.0, X[:, 3] * X[:, 4]], axis=1)


def replayed(table: Table, logs: dict[str, Log], detector: str, seed: int) -> Result:
    """Return the result of a replay with the models of rounds."""
    learning, profile = LearningSettings(features="rounds"), ProfileSettings(detector=detector)
    settings = ReplaySettings(round_size=RECORDS, min_records=1, seed=seed, learning=learning, profile=profile)
    return Replay(table, logs, settings).run().result


def run(wanted: Row) -> Row:
    """Return what a detector restarts for, and the accuracy."""
    table, logs = drawn(wanted["stream"], wanted["seed"])
    result = replayed(table, logs, wanted["detector"], wanted["seed"])
    return {
        "rounds": ROUNDS,
        "restarts": [found.round for found in result.restarts],
        "local": [found.round for found in result.local_drifts if found.state == "latched"],
        "accuracy": result.accuracy and result.accuracy.prequential,
        "no_change": result.accuracy and result.accuracy.no_change,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", default="1", metavar="N,...")
    parser.add_argument("--stream", choices=STREAMS + DRIFTS, action="append", help="may be repeated; default: all")
    parser.add_argument("--detector", action="append", help="may be repeated; default: excess and conformal")
    given = parser.parse_args()
    every = product(
        given.stream or STREAMS + DRIFTS, given.detector or ("excess", "conformal"), map(int, given.seeds.split(","))
    )
    wanted = ({"stream": stream, "detector": detector, "seed": seed} for stream, detector, seed in every)
    for row in continued(given.json, Origin.now("quiet_streams"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
