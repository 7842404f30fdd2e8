"""Counts what drift detectors restart for while P(y|x) never changes and only the inputs move.

Ten clients of 50 records in 150 rounds; ten features, three labels drawn from a softmax of the features. `ar`: the
mean of the inputs follows an AR(1) process by round; `day`: it rises and falls with a period of 24 rounds; `season`:
of 200; `cases`: easy and hard records take turns of twelve rounds; `none`: nothing moves. With `misfit` the logits
have products and squares of features, which no linear model has. The detectors see the same streams, one after the
other.

    python benchmarks/quiet_streams.py --seeds 1102,1103
"""

import argparse

import numpy as np

from streamfl.arrays import FloatArray, IntArray
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings

ROUNDS, CLIENTS, RECORDS = 150, 10, 50
FEATURES, LABELS = 10, 3
STREAMS = ("none", "ar", "ar misfit", "day misfit", "season misfit", "cases")


def drawn(stream: str, seed: int) -> tuple[Table, dict[str, Log]]:
    """Return a stream, and the rows of each client."""
    rng = np.random.default_rng(seed)
    t, client = np.repeat(np.arange(ROUNDS), CLIENTS * RECORDS), np.repeat(np.arange(CLIENTS), RECORDS)
    W, X = rng.normal(size=(FEATURES, LABELS)), rng.normal(size=(len(t), FEATURES))
    X = moved(stream.split(maxsplit=1)[0], X, t, rng)
    Z = X @ W
    if stream.endswith("misfit"):
        Z = 0.5 * Z + 1.5 * lacking(np.clip(X, -4.0, 4.0))
    y = (Z + rng.gumbel(size=Z.shape)).argmax(axis=1).astype(np.float64)
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
    elif how == "cases":
        factor = np.where((t // 12) % 2 == 0, 2.0, 0.5)
    return factor[:, None] * X + shift


def lacking(X: FloatArray) -> FloatArray:
    """Return logits that no linear model has."""
    return np.stack([2.0 * X[:, 0] * X[:, 1], X[:, 2] ** 2 - 1.0, X[:, 3] * X[:, 4]], axis=1)


def replayed(table: Table, logs: dict[str, Log], detector: str, seed: int) -> Result:
    """Return the result of a replay with the models of rounds."""
    learning, profile = LearningSettings(features="rounds"), ProfileSettings(detector=detector)
    settings = ReplaySettings(round_size=RECORDS, min_records=1, seed=seed, learning=learning, profile=profile)
    return Replay(table, logs, settings).run().result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1", metavar="N,...")
    parser.add_argument("--stream", choices=STREAMS, action="append", help="may be repeated; default: all")
    parser.add_argument("--detector", action="append", help="may be repeated; default: excess and conformal")
    given = parser.parse_args()
    print("| stream | seed | detector | restarts | local drifts | accuracy |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for seed in map(int, given.seeds.split(",")):
        for stream in given.stream or STREAMS:
            table, logs = drawn(stream, seed)
            for detector in given.detector or ("excess", "conformal"):
                result = replayed(table, logs, detector, seed)
                local = sum(found.state == "latched" for found in result.local_drifts)
                right = 0.0 if result.accuracy is None else result.accuracy.prequential or 0.0
                cells = stream, seed, detector, len(result.restarts), local, f"{right:.4f}"
                print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
