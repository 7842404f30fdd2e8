"""One method on one stream, in a process of its own.

    python -m river_peers.trial STREAM.npz OUT.npz METHOD VARIANT SEED

Needs NumPy and the method's library, no more. The clocks run while records are predicted and learnt, not while they
are read or turned into what the library takes.
"""

import gc
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from river_peers.methods import Learner, Task, make

CHUNK = 1000
UNAVAILABLE = 3  # the exit code if the library of a method is not installed
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return the bytes of this process that are in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def run(learner: Learner, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return what was predicted, shape (n,), -1 where nothing was, and the seconds of CPU time and of wall time."""
    guesses = np.full(len(y), -1, dtype=np.int16)
    predict, learn = learner.predict, learner.learn
    cpu = wall = 0.0
    for first in range(0, len(y), CHUNK):
        labels = y[first : first + CHUNK].tolist()
        records = learner.ready(X[first : first + CHUNK], labels, first)
        predicted = []
        cpu_before, wall_before = time.process_time(), time.perf_counter()
        for record, label in zip(records, labels, strict=True):
            predicted.append(predict(record))
            learn(record, label)
        cpu += time.process_time() - cpu_before
        wall += time.perf_counter() - wall_before
        guesses[first : first + CHUNK] = [-1 if guess is None else int(guess) for guess in predicted]
    return guesses, cpu, wall


def versions(*packages: str) -> list[str]:
    """Return the installed packages with their versions."""
    installed = []
    for package in packages:
        try:
            installed.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return installed


def made(learner: Learner, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return the predictions of a learner about to learn, and what they took."""
    before = resident()
    guesses, cpu, wall = run(learner, X, y)
    return {
        "guesses": guesses,
        "cpu": np.array(cpu),
        "wall": np.array(wall),
        "resident": np.array(resident() - before),
        "model": np.array(learner.size()),
        "versions": np.array(versions("numpy", "river", "capymoa", "streamfl")),
    }


def main(stream: str, out: str, method: str, variant: str, seed: str) -> int:
    with np.load(stream, allow_pickle=False) as archive:
        X, y = archive["X"], archive["y"]
        task = Task(tuple(archive["features"].tolist()), int(archive["labels"]), int(seed))
    try:
        make(method, variant, task).ready(
            X[:CHUNK], y[:CHUNK].tolist(), 0
        )  # loads the libraries, whose memory does not count
    except ImportError as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE
    np.savez(out, **made(make(method, variant, task), X, y), allow_pickle=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
