"""The last answer: prequential accuracy and MAE of `replay --features auto` with and without it, next to NoChange.

Run: python benchmarks/last_answer.py --json F

The first record of each client, of which nothing is known, is left out. Runs that are in the file are skipped.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets

from streamfl.arrays import BoolArray, FloatArray
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

LABELS, STAYS = 5, 0.95


@dataclass(frozen=True)
class Stream:
    """A stream with `clients` that learn rounds of `size` records each; record i goes to client i mod `clients`."""

    name: str
    X: Any
    y: Any
    targets: bool = False
    clients: int = 1
    size: int = 100

    @property
    def table(self) -> Table:
        names = tuple(f"x{j}" for j in range(self.X.shape[1]))
        labels = () if self.targets else tuple(map(str, np.unique(self.y)))
        y = np.asarray(self.y, float) if self.targets else np.unique(self.y, return_inverse=True)[1].astype(float)
        return Table(self.name, names, np.asarray(self.X, float), y, labels, np.arange(len(y)))


def drawn(name: str, kind: str, clients: int = 4, n: int = 20_000) -> Stream:
    """Return Gaussian features about a centre for each label; each client's labels are of one kind."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(LABELS, 8)) * 1.5 / np.sqrt(8)
    y = np.stack([order(kind, n // clients, rng) for _ in range(clients)], axis=1).ravel()
    return Stream(name, centres[y] + rng.normal(size=(n, 8)), y, clients=clients, size=50)


def order(kind: str, n: int, rng: np.random.Generator) -> Any:
    """Return the labels of one client."""
    if kind == "runs of 20":
        return np.repeat(rng.integers(0, LABELS, n // 20 + 1), 20)[:n]
    return np.arange(n) % LABELS if kind == "alternating" else rng.integers(0, LABELS, n)


def walk(name: str, n: int = 8_000) -> Stream:
    """Return targets that are linear in the features but for an error, of which a part stays."""
    rng = np.random.default_rng(3)
    X, error = rng.normal(size=(n, 4)), np.zeros(n)
    for t in range(1, n):
        error[t] = STAYS * error[t - 1] + rng.normal()
    return Stream(name, X, X @ np.array([1.0, -1.0, 0.5, 0.0]) + error, targets=True)


def of_river(name: str, pairs: Iterable[tuple[dict[Any, Any], Any]]) -> Stream:
    """Return a stream of River's targets, without features that are text."""
    records = list(pairs)
    names = sorted({name for x, _ in records for name, value in x.items() if isinstance(value, int | float)})
    X = np.array([[float(x.get(name, np.nan)) for name in names] for x, _ in records])
    return Stream(name, X, np.array([y for _, y in records], float), targets=True)


STREAMS: dict[str, Callable[[str], Stream]] = {
    f"runs of 20, {LABELS} labels, signal 1": partial(drawn, kind="runs of 20"),
    f"alternating, {LABELS} labels, signal 1": partial(drawn, kind="alternating"),
    f"independent, {LABELS} labels, signal 1": partial(drawn, kind="independent"),
    f"linear, error: {STAYS} of it stays": walk,
    "TrumpApproval": partial(of_river, pairs=datasets.TrumpApproval()),  # type: ignore[no-untyped-call]
    "WaterFlow": partial(of_river, pairs=datasets.WaterFlow()),  # type: ignore[no-untyped-call]
}


def scores(stream: Stream, *, last_answer: bool) -> tuple[float, float]:
    """Return accuracy, or MAE, and that of NoChange."""
    ours: list[BoolArray | FloatArray] = []
    theirs: list[BoolArray | FloatArray] = []
    met: defaultdict[str, int] = defaultdict(int)

    def observe(event: object) -> None:
        if isinstance(event, Predicted):
            first = 0 if met[event.client] else 1
            met[event.client] += 1
            for found, predicted in ((ours, event.served), (theirs, event.no_change)):
                wrong = np.abs(predicted - event.truth)[first:]
                found.append(wrong if stream.targets else wrong == 0.0)

    learning = LearningSettings(features="auto", last_answer=last_answer)
    logs = deal(stream.table, stream.clients, "round-robin", 0)
    Replay(stream.table, logs, ReplaySettings(stream.size, learning=learning), observe).run()
    return float(np.concatenate(ours).mean()), float(np.concatenate(theirs).mean())


def run(wanted: Row) -> Row:
    """Return the figures of a stream."""
    stream = STREAMS[wanted["stream"]](wanted["stream"])
    without, no_change = scores(stream, last_answer=False)
    return {"no_change": no_change, "without": without, "with": scores(stream, last_answer=True)[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    wanted = ({"stream": name, "seed": 1} for name in STREAMS)
    for row in continued(options.json, Origin.now("last_answer"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
