"""Clients whose concepts change at times of their own, by published matrices: streamfl and four ways to federate.

    python benchmarks/published_matrices.py --json benchmarks/runs/published_matrices.json.gz --data DIR

The matrices and the streams are those of Jothimurugesan, Hsieh, Wang, Joshi and Gibbons, "Federated learning under
distributed concept drift", AISTATS 2023: ten clients, eleven steps, 500 records of each client in a step. A row of a
matrix is a step, a digit of it the concept of a client. Its accuracies were published in figures only: they are not
here. A round has 100 records of each client. The others are FedAvg of a network with one hidden layer, twice as wide
as the input (for images, 32 units): one for all clients; several, of which each client trains the one that fits its
last round best (IFCA, Ghosh and others 2020); as many as clients begin when their accuracy drops, merged when they
fit each other's records (FedDrift, of the paper of the matrices); and one for each concept, when clients are told
theirs as it changes. Their steps, batches, passes, thresholds and numbers of models are the best of a grid in
hindsight. `accuracy` is that from the second step on, each record predicted before it is learnt; `first` that in the
first round of each of these steps, in which networks have learnt nothing of new concepts.

DIR has mnist.npz; without it the stream `mnist` is left out. A file that exists is continued.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.run.dealing.dealing import Log
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.matrices.networks import FINDS, FITS_BEST, ONE, TOLD, best_in_hindsight
from streamfl_benchmarks.matrices.streams import CLIENTS, MNIST, ROUND, STEP, Federation
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

STREAMS = ("sine", "circle", "sea", MNIST)
# Streams and matrices, and how many seeds.
WANTED = (
    ("sine", "A", 3),
    ("sine", "Y", 3),
    ("circle", "A", 3),
    ("circle", "Y", 3),
    ("sea", "A", 3),
    ("sea", "C", 3),
    ("sea", "R0", 3),
    (MNIST, "A", 1),
)
OURS = {"auto": LearningSettings(features="auto"), "rounds": LearningSettings(features="rounds")}


def right_of_replay(federation: Federation, learning: LearningSettings, logs: Mapping[str, Log]) -> FloatArray:
    """Return how many records of each round were predicted right, shape (rounds,)."""
    settings = ReplaySettings(round_size=ROUND, learning=learning, count_bytes=False)
    result = Replay(federation.table, logs, settings).run().result
    right = np.zeros(len(federation.y))
    for line in result.per_round:
        right[line.round - 1] = line.records * (line.accuracy or 0.0)
    return right


def run(data: Path | None, wanted: Row) -> Row:
    """Return the accuracy of a method on a stream."""
    method, seed = wanted["method"], wanted["seed"]
    federation, constants = Federation.of(wanted["stream"], wanted["matrix"], seed, data), ""
    if method == "alone":
        logs = federation.logs.items()
        right = sum(right_of_replay(federation, OURS["auto"], {name: log}) for name, log in logs)
    elif method in OURS:
        right = right_of_replay(federation, OURS[method], federation.logs)
    else:
        constants, right = best_in_hindsight(method, wanted["stream"], federation, seed)
    shares = np.asarray(right) / (CLIENTS * ROUND)
    steps = STEP // ROUND
    return {
        "accuracy": float(shares[steps:].mean()),
        "first": float(shares[steps::steps].mean()),
        "constants": constants,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="The directory that has mnist.npz.")
    parser.add_argument("--only", choices=STREAMS, action="append", help="Streams. Default: all that are there.")
    options = parser.parse_args()
    streams = options.only or (STREAMS if options.data else STREAMS[:-1])
    wanted = [
        {"stream": stream, "matrix": matrix, "method": method, "seed": seed}
        for seed in range(1, max(seeds for *_, seeds in WANTED) + 1)
        for stream, matrix, seeds in WANTED
        for method in (*OURS, "alone", ONE, FITS_BEST, FINDS, TOLD)
        if stream in streams and seed <= seeds
    ]
    make = partial(run, options.data)
    for row in continued(options.json, Origin.now("published_matrices"), wanted, make):
        print(row, flush=True)


if __name__ == "__main__":
    main()
