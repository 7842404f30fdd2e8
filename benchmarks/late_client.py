"""The first records of a client that comes late, by the weights with which its mixture begins.

Run: python benchmarks/late_client.py [STREAM ...]

Four clients learn rounds of 50 records (River's small data sets: 15). In every third round another one joins, and
follows for twelve rounds; it adds nothing to what is agreed. Its native models are the agreed ones; its mixture
begins with equal weights, or with the agreed ones and a share for its own experts in the mixture by fixed share, and
perhaps in the stacked ones.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

from streamfl.arrays import FloatArray
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.merging import merging
from streamfl.protocol.messages.decision_rule import likeliest
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.records.files.covtype import covtype

CLIENTS, EVERY, FOLLOWS, MOST, ROUNDS = 4, 3, 12, 20_000, 60
SETTINGS = NativeSettings("auto", last_answer=False, seed=1)
SMALL = {"Phishing": datasets.Phishing, "ImageSegments": datasets.ImageSegments, "Bananas": datasets.Bananas}
DRAWN: dict[str, Callable[[], Any]] = {
    "RandomRBF": lambda: synth.RandomRBF(seed_model=1, seed_sample=1),
    "RandomRBFDrift": lambda: synth.RandomRBFDrift(
        seed_model=1, seed_sample=1, change_speed=0.001, n_drift_centroids=10
    ),
    "RandomTree": lambda: synth.RandomTree(seed_tree=1, seed_sample=1),
}

OWN = (~SETTINGS.shared).mean()

# The share of a client's own experts by fixed share, and whether they have one in the stacked mixtures; None: equal.
WAYS: Mapping[str, tuple[float, bool] | None] = {
    "equal weights": None,
    "agreed, own 0": (0.0, False),
    "agreed, own 0.02": (0.02, False),
    "agreed, own equal": (OWN, False),
    "agreed, own 0.02, stacked too": (0.02, True),
    "agreed, own equal, stacked too": (OWN, True),
}


@dataclass(frozen=True)
class Stream:
    """Records in order, and how many a client has in a round."""

    X: FloatArray
    y: FloatArray
    features: tuple[str, ...]
    labels: tuple[str, ...]
    size: int = 50

    def right(self, learner: NativeLearner, rows: slice) -> FloatArray:
        """Let a client learn some records, and return which it predicted right."""
        X, y = self.X[rows], self.y[rows]
        served = likeliest(learner.learn(self.features, X, y, self.labels))
        codes = {label: code for code, label in enumerate(learner.labels)}
        return (served == [codes[self.labels[int(label)]] for label in y]).astype(np.float64)


def main() -> None:
    """Print a table: right ones of the first 10 records, of the first round, and of twelve rounds."""
    print("| stream | joins | " + " | ".join(WAYS) + " |")
    print("| --- | ---: |" + " ---: |" * len(WAYS))
    for name in sys.argv[1:] or ["covtype", "XOR of 2 of 4", *DRAWN, *SMALL]:
        found = joins(stream(name))
        cells = [" / ".join(f"{np.mean(part):.3f}" for part in zip(*found[way], strict=True)) for way in WAYS]
        print(f"| {name} | {len(found['equal weights'])} | {' | '.join(cells)} |", flush=True)


def stream(name: str) -> Stream:
    """Return a stream by its name."""
    if name == "covtype":
        table = covtype()
        return Stream(table.X, table.y, table.features, table.labels)
    if name.startswith("XOR"):
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (MOST, 4))
        return Stream(X, ((X[:, 0] > 0.0) ^ (X[:, 1] > 0.0)).astype(float), tuple("abcd"), ("0", "1"))
    if name in DRAWN:
        return of_river(DRAWN[name](), 50)
    return of_river(SMALL[name](), 15)


def of_river(pairs: Iterable[tuple[dict[Any, Any], Any]], size: int) -> Stream:
    """Return records of River, without features that are text."""
    records = list(islice(pairs, MOST))
    names = [name for name, value in records[0][0].items() if isinstance(value, int | float)]
    labels = sorted({str(y) for _, y in records})
    X = np.array([[float(x[name]) for name in names] for x, _ in records])
    y = np.array([labels.index(str(y)) for _, y in records], float)
    return Stream(X, y, tuple(map(str, names)), tuple(labels), size)


def joins(of: Stream) -> dict[str, list[tuple[float, float, float]]]:
    """Return the three accuracies of every join, by the way its mixture began."""
    each = (CLIENTS + 1) * of.size
    rounds = min(len(of.X) // each, ROUNDS)
    members, agreed = [NativeLearner(SETTINGS) for _ in range(CLIENTS)], NativeState.none(SETTINGS)
    late: list[tuple[str, NativeLearner, list[FloatArray]]] = []
    found = defaultdict(list)
    for t in range(rounds):
        parts = [slice(t * each + c, (t + 1) * each, CLIENTS + 1) for c in range(CLIENTS + 1)]
        if t and t % EVERY == 0 and t + FOLLOWS <= rounds:
            late += [(way, NativeLearner(SETTINGS), []) for way in WAYS]
        for way, learner, right in late:
            learner.begin(whole(agreed))
            if not right:
                begin(learner, agreed, WAYS[way])
            right.append(of.right(learner, parts[-1]))
            if len(right) == FOLLOWS:
                found[way].append((right[0][:10].mean(), right[0].mean(), np.concatenate(right).mean()))
        late = [one for one in late if len(one[2]) < FOLLOWS]
        for member, rows in zip(members, parts, strict=False):
            member.begin(whole(agreed))
            of.right(member, rows)
        agreed, _ = merging.after(agreed, [member.learnt() for member in members], of.labels, settings=SETTINGS)
    return found


def whole(agreed: NativeState) -> NativeState:
    return replace(agreed, table=agreed.table.copy())


def begin(learner: NativeLearner, agreed: NativeState, way: tuple[float, bool] | None) -> None:
    """Set the weights with which a client's mixture begins."""
    mixing, shared = learner.mixture.mixing, SETTINGS.shared
    if way is None:
        mixing.best[:] = mixing.stacked[:] = 1.0 / len(shared)
        mixing.outer[:], mixing.running[0] = 1.0 / len(mixing.outer), (0.0, 0.0, 0.0)
        return
    share, stacked = way
    mixing.best[shared], mixing.best[~shared] = (1.0 - share) * agreed.mixture.best, share / (~shared).sum()
    mixing.stacked[:, ~shared] = 1.0 / len(shared) if stacked else 0.0


if __name__ == "__main__":
    main()
