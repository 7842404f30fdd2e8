"""Detectors on the trials of a published benchmark, without tuning, next to what it published.

    python benchmarks/published_detectors.py --data DIR --json benchmarks/runs/published_detectors.json.gz

The protocol is that of Cerqueira, Gomes, Heyden, Pfahringer and Bifet, "A framework for evaluating and benchmarking
concept drift detection methods", KDD 2026. A trial shuffles a data set, which removes its own drift, and changes all
records from a random one on, the onset, or ever more of them. A Hoeffding tree is tested on each record, then learns
it, and is never reset. From a quarter of the stream on detectors are given its errors. An alarm counts if it comes
within `WITHIN` records of the onset; all others are false. The estimator has its own models in place of the tree, and
its restarts are the alarms. `after` is its accuracy in the first `WITHIN` records after the onset, `fresh` that of
an estimator that learns nothing else than these.

DIR holds elec2.npz; covtype is the sample that ships with streamfl, 92,962 records where the benchmark had 100,000. A
file that exists is continued.
"""

import argparse
import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from river import base, drift, tree

from streamfl import MasterFLClassifier
from streamfl.arrays import BoolArray, FloatArray, IntArray
from streamfl.drift import GLR, EDetector
from streamfl.records.files.covtype import covtype
from streamfl.sampling import generator
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.pages.detector_cells import WITHIN
from streamfl_benchmarks.run_file import Kept

MOST = 100_000  # records of a stream
WARM_UP, EARLIEST, LATEST = 0.25, 0.5, 0.8  # shares of the stream: before detectors begin; where the onset lies
SKIPPED = 0.75  # the share of a class that is left out
KINDS = ("x_permutations", "x_exceed_skip", "y_prior_skip", "y_swaps")
MODES = ("abrupt", "gradual")
TRIALS = {"Electricity": 50, "Covtype": 10}
ESTIMATOR = "MasterFLClassifier"

DETECTORS: Mapping[str, Callable[[], base.DriftDetector]] = {
    "streamfl.drift.GLR": GLR,
    "streamfl.drift.EDetector": EDetector,
    "river.drift.ADWIN": drift.ADWIN,
}


Record = dict[Hashable, Any]


class Watched(Protocol):
    """A learner, and what watches it: alarms by the name of what raised them."""

    def take(self, x: Record, y: int, *, watches: bool) -> list[str]:
        """Predict and learn a record, and return who raises an alarm."""


@dataclass
class Tree:
    """A Hoeffding tree whose errors detectors watch."""

    learner: tree.HoeffdingTreeClassifier
    detectors: dict[str, base.DriftDetector]

    @classmethod
    def new(cls) -> "Tree":
        """Return an untrained tree and new detectors."""
        return cls(tree.HoeffdingTreeClassifier(), {name: build() for name, build in DETECTORS.items()})

    def take(self, x: Record, y: int, *, watches: bool) -> list[str]:
        """Predict and learn a record, and return the detectors that raise an alarm."""
        error = int(self.learner.predict_one(x) != y)
        self.learner.learn_one(x, y)  # type: ignore[no-untyped-call]
        if not watches:
            return []
        for detector in self.detectors.values():
            detector.update(error)
        return [name for name, detector in self.detectors.items() if detector.drift_detected]


@dataclass
class Estimator:
    """The estimator with its defaults; its restarts are alarms.

    `fresh` is one that begins at the onset, and `right` how often each has predicted right since, of `compared`.
    """

    model: MasterFLClassifier
    fresh: MasterFLClassifier | None = None
    compared: int = 0
    right: Counter[str] = field(default_factory=Counter)

    @classmethod
    def new(cls) -> "Estimator":
        """Return an untrained estimator."""
        return cls(MasterFLClassifier(seed=1))

    @property
    def figures(self) -> dict[str, float]:
        """Return the accuracy of both since the onset."""
        return {name: self.right[name] / max(1, self.compared) for name in ("after", "fresh")}

    def take(self, x: Record, y: int, *, watches: bool) -> list[str]:
        """Learn a record, and return its name if it restarts."""
        if self.fresh is not None and self.compared < WITHIN:
            self.compared += 1
            self.right["after"] += self.model.predict_one(x) == y
            self.right["fresh"] += self.fresh.predict_one(x) == y
            self.fresh.learn_one(x, y)
        self.model.learn_one(x, y)
        return [ESTIMATOR] if watches and self.model.drift_detected else []


@dataclass(frozen=True)
class Stream:
    """A shuffled data set and the record from which on it changes."""

    name: str
    seed: int
    X: FloatArray
    y: IntArray
    onset: int

    @classmethod
    def of(cls, name: str, seed: int, data: Path | None) -> "Stream":
        """Return the stream of a trial."""
        X, y = table(name, data)
        rng = generator(seed, "trial", name)
        order = rng.permutation(len(y))[:MOST]
        onset = int(rng.integers(int(EARLIEST * len(order)), int(LATEST * len(order))))
        return cls(name, seed, X[order], y[order], onset)

    @cached_property
    def names(self) -> list[str]:
        """The names of features."""
        return [f"x{j}" for j in range(self.X.shape[1])]

    def changed(self, kind: str, mode: str) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return the records from the onset on as they are after a change, and which of them are left out."""
        rng = generator(self.seed, "change", self.name, kind, mode)
        X, y = self.X[self.onset :].copy(), self.y[self.onset :].copy()
        out = np.zeros(len(y), dtype=np.bool_)
        labels = np.unique(self.y)
        rises = np.minimum(1.0, np.arange(len(y)) / WITHIN) if mode == "gradual" else np.ones(len(y))
        now = rng.random(len(y)) < rises
        match kind:
            case "x_permutations":
                X[now] = X[now][:, rng.permutation(X.shape[1])]
            case "x_exceed_skip":
                j = int(rng.integers(X.shape[1]))
                out = now & (X[:, j] > np.median(self.X[:, j]))
            case "y_prior_skip":
                out = now & (y == rng.choice(labels)) & (rng.random(len(y)) < SKIPPED)
            case _:
                old, new = rng.permutation(labels)[:2]
                y[now & (y == old)] = new
        return X, y, out


@lru_cache(maxsize=2)
def table(name: str, data: Path | None) -> tuple[FloatArray, IntArray]:
    """Return the features and labels of a data set."""
    if name == "Covtype":
        found = covtype()
        return np.asarray(found.X, dtype=np.float64), np.asarray(found.y, dtype=np.int64)
    with np.load((data or Path()) / "elec2.npz") as archive:
        labels = np.unique(archive["y"], return_inverse=True)[1]
        return archive["X"].astype(np.float64), labels.astype(np.int64)


def trial(stream: Stream) -> Iterator[dict[str, Any]]:
    """Yield the alarms of each detector after each kind of change; all share what comes before the onset."""
    first = int(WARM_UP * len(stream.y))
    estimator, detected = Estimator.new(), Tree.new()
    alarms: dict[str, list[int]] = {name: [] for name in (*DETECTORS, ESTIMATOR)}

    def play(own: Watched, X: FloatArray, y: IntArray, out: BoolArray, at: int, raised: dict[str, list[int]]) -> None:
        for i, (row, label, is_out) in enumerate(zip(X.tolist(), y.tolist(), out.tolist(), strict=True), at):
            if not is_out:
                for name in own.take(dict(zip(stream.names, row, strict=True)), label, watches=i >= first):
                    raised[name].append(i)

    before = slice(0, stream.onset)
    for own in (estimator, detected):
        play(own, stream.X[before], stream.y[before], np.zeros(stream.onset, dtype=np.bool_), 0, alarms)
    for kind, mode in product(KINDS, MODES):
        raised, changed = copy.deepcopy(alarms), stream.changed(kind, mode)
        model = replace(copy.deepcopy(estimator), fresh=MasterFLClassifier(seed=1))
        for own in (model, copy.deepcopy(detected)):
            play(own, *changed, stream.onset, raised)
        for name, found in raised.items():
            told = {"dataset": stream.name, "seed": stream.seed, "drift_type": kind, "mode": mode, "detector": name}
            figures = model.figures if name == ESTIMATOR else {}
            yield {**told, "records": len(stream.y), "onset": stream.onset, "alarms": found, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=TRIALS, action="append", help="Data sets. Default: all.")
    options = parser.parse_args()
    origin = Origin.now("published_detectors")
    kept = run_file.read(options.json) if options.json.exists() else []
    done = {(each.run["dataset"], each.run["seed"]) for each in kept}
    for name in options.only or TRIALS:
        for seed in range(TRIALS[name]):
            if (name, seed) in done:
                continue
            kept += [Kept(origin, row) for row in trial(Stream.of(name, seed, options.data))]
            run_file.write(options.json, kept)
            print(name, seed, flush=True)


if __name__ == "__main__":
    main()
