"""The last answer: prequential accuracy and MAE of `replay --features auto` with and without it, next to NoChange.

Run: python benchmarks/last_answer.py --data DIR --json F [--every], or --late

DIR holds covtype.npz and elec2.npz. The first record of each client, of which nothing is known, is left out. Runs
that are in the file are skipped. --late: accuracy of the estimator where every label is learnt so many records
later, or in blocks.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets
from river.datasets import synth

from streamfl import MasterFLClassifier
from streamfl.protocol.decisions import Predicted
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

MOST = 10_000
SHOWN = (
    "runs of 20, 5 labels, signal 1",
    "alternating, 5 labels, signal 1",
    "independent, 5 labels, signal 1",
    "linear, error: 0.95 of it stays",
    "TrumpApproval",
    "WaterFlow",
)
DELAYS, BLOCK = (0, 1, 10, 50), 50
WALKS = {"independent": 0.0, "half of it stays": 0.5, "0.95 of it stays": 0.95, "a walk": 1.0}
RIVER_LABELS: dict[str, Callable[[], Any]] = {
    "Bananas": datasets.Bananas, "Phishing": datasets.Phishing, "ImageSegments": datasets.ImageSegments,
    "Shuttle": datasets.Shuttle, "Agrawal": lambda: synth.Agrawal(seed=1),
    "AnomalySine": lambda: synth.AnomalySine(seed=1), "Hyperplane": lambda: synth.Hyperplane(seed=1),
    "LED": lambda: synth.LED(seed=1), "LEDDrift": lambda: synth.LEDDrift(seed=1, n_drift_features=4),
    "Mixed": lambda: synth.Mixed(seed=1), "RandomRBF": lambda: synth.RandomRBF(seed_model=1, seed_sample=1),
    "RandomRBFDrift": lambda: synth.RandomRBFDrift(
        seed_model=1, seed_sample=1, change_speed=0.001, n_drift_centroids=10
    ),
    "RandomTree": lambda: synth.RandomTree(seed_tree=1, seed_sample=1), "SEA": lambda: synth.SEA(seed=1),
    "Sine": lambda: synth.Sine(seed=1), "STAGGER": lambda: synth.STAGGER(seed=1),
    "Waveform": lambda: synth.Waveform(seed=1),
}  # fmt: skip
RIVER_TARGETS: dict[str, Callable[[], Any]] = {
    "TrumpApproval": datasets.TrumpApproval, "AirlinePassengers": datasets.AirlinePassengers,
    "ChickWeights": datasets.ChickWeights, "WaterFlow": datasets.WaterFlow,
    "Friedman": lambda: synth.Friedman(seed=1),
    "FriedmanDrift": lambda: synth.FriedmanDrift(drift_type="lea", position=(2000, 4000, 6000), seed=1),
    "Mv": lambda: synth.Mv(seed=1), "Planes2D": lambda: synth.Planes2D(seed=1),
}  # fmt: skip


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


def streams(data: Path) -> dict[str, Callable[[], Stream]]:
    """Return all streams by name."""
    found: dict[str, Callable[[], Stream]] = {}
    for kind in ("runs of 20", "runs of 20 on average", "alternating", "three of these in turn", "independent"):
        for labels in (2, 5):
            found[f"{kind}, {labels} labels, signal 1"] = partial(drawn, kind, labels)
    for kind, labels, signal in (("runs of 20", 5, 3.0), ("runs of 20", 40, 2.0), ("independent", 40, 2.0)):
        found[f"{kind}, {labels} labels, signal {signal:g}"] = partial(drawn, kind, labels, signal)
    for name, make in RIVER_LABELS.items():
        found[name] = partial(of_river, name, make)
    found["elec2, 4 clients x 50"] = lambda: of_file("elec2, 4 clients x 50", data / "elec2.npz", clients=4, size=50)
    found["elec2, 1 client"] = lambda: of_file("elec2, 1 client", data / "elec2.npz")
    found["covtype, 20 x 100"] = lambda: of_file("covtype, 20 x 100", data / "covtype.npz", clients=20)
    for name, stays in WALKS.items():
        found[f"linear, error: {name}"] = partial(walk, name, stays)
    for name, make in RIVER_TARGETS.items():
        found[name] = partial(of_river, name, make, targets=True)
    return found


def of_river(name: str, make: Callable[[], Any], *, targets: bool = False) -> Stream:
    """Return the first records of a stream of River."""
    X, y = columns(make())
    return Stream(name, X, np.array(y, float) if targets else np.array([str(label) for label in y]), targets=targets)


def of_file(name: str, path: Path, clients: int = 1, size: int = 100) -> Stream:
    """Return the records of a file."""
    arrays = np.load(path)
    return Stream(name, arrays["X"], arrays["y"], clients=clients, size=size)


def drawn(kind: str, labels: int, signal: float = 1.0, clients: int = 4, n: int = 20_000) -> Stream:
    """Return Gaussian features about a centre for each label; each client's labels are of one kind."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(labels, 8)) * signal * 1.5 / np.sqrt(8)
    y = np.stack([order(kind, labels, n // clients, rng) for _ in range(clients)], axis=1).ravel()
    X = centres[y] + rng.normal(size=(n, 8))
    return Stream(f"{kind}, {labels} labels, signal {signal:g}", X, y, clients=clients, size=50)


def order(kind: str, labels: int, n: int, rng: np.random.Generator) -> Any:
    """Return the labels of one client."""
    match kind:
        case "runs of 20":
            return np.repeat(rng.integers(0, labels, n // 20 + 1), 20)[:n]
        case "runs of 20 on average":
            return rng.integers(0, labels, n)[np.cumsum(rng.random(n) < 1 / 20)]
        case "alternating":
            return np.arange(n) % labels
        case "independent":
            return rng.integers(0, labels, n)
    parts = ("runs of 20", "alternating", "independent", "runs of 20")
    return np.concatenate([order(part, labels, n // 4, rng) for part in parts])


def walk(name: str, stays: float, n: int = 8_000) -> Stream:
    """Return targets that are linear in the features but for an error, of which a part stays."""
    rng = np.random.default_rng(3)
    X, error = rng.normal(size=(n, 4)), np.zeros(n)
    for t in range(1, n):
        error[t] = stays * error[t - 1] + rng.normal()
    return Stream(f"linear, error: {name}", X, X @ np.array([1.0, -1.0, 0.5, 0.0]) + error, targets=True)


def columns(pairs: Iterable[tuple[dict[Any, Any], Any]]) -> tuple[Any, list[Any]]:
    """Return the first records of a stream of River, without features that are text."""
    records = list(islice(pairs, MOST))
    names = sorted({name for x, _ in records for name, value in x.items() if isinstance(value, int | float)})
    return np.array([[float(x.get(name, np.nan)) for name in names] for x, _ in records]), [y for _, y in records]


def scores(stream: Stream, *, last_answer: bool) -> tuple[float, float]:
    """Return accuracy, or MAE, and that of NoChange."""
    ours, theirs, met = [], [], defaultdict(int)

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


def late(data: Path) -> None:
    """Print the accuracy of the estimator, without and with the last answer, where labels come late."""
    elec2 = np.load(data / "elec2.npz")
    found = [in_runs(20, 1.0), in_runs(20, 2.0), in_runs(200, 1.0)]
    found.append(Stream("elec2, first 6,000", elec2["X"][:6000].astype(float), elec2["y"][:6000]))
    print(f"| stream | {' | '.join(f'delay {delay}' for delay in DELAYS)} | blocks of {BLOCK} |")
    print(f"| --- | {'---: | ' * (len(DELAYS) + 1)}")
    for stream in found:
        ways = [*((delay, 1) for delay in DELAYS), (0, BLOCK)]
        cells = [" / ".join(f"{delayed(stream, *way, last_answer=own):.3f}" for own in (False, True)) for way in ways]
        print(f"| {stream.name} | {' | '.join(cells)} |", flush=True)


def in_runs(length: int, signal: float, n: int = 4_000) -> Stream:
    """Return labels in runs, with Gaussian features about a centre for each."""
    rng = np.random.default_rng(1)
    y = np.repeat(rng.integers(0, 5, n // length + 1), length)[:n]
    X = rng.normal(size=(n, 8)) + (rng.normal(size=(5, 8)) * signal * 1.5 / np.sqrt(8))[y]
    return Stream(f"runs of {length}, 5 labels, signal {signal:g}", X, y)


def delayed(stream: Stream, delay: int, block: int, *, last_answer: bool) -> float:
    """Return the accuracy where blocks are predicted at once, and learnt so many blocks later."""
    model, right, y = MasterFLClassifier(seed=1, last_answer=last_answer), 0, stream.y.tolist()
    starts = range(0, len(y), block)
    for at, start in enumerate(starts):
        part = slice(start, start + block)
        right += sum(a == b for a, b in zip(model.predict_many(stream.X[part]), y[part], strict=True))
        if at >= delay:
            learnt = slice(starts[at - delay], starts[at - delay] + block)
            model.learn_many(stream.X[learnt], y[learnt])
    return right / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--every", action="store_true", help="Every stream, not only those of docs/results.md.")
    parser.add_argument("--late", action="store_true")
    options = parser.parse_args()
    if options.late or options.json is None:
        late(options.data)
        return
    known = streams(options.data)

    def run(wanted: Row) -> Row:
        stream = known[wanted["stream"]]()
        without, no_change = scores(stream, last_answer=False)
        return {"no_change": no_change, "without": without, "with": scores(stream, last_answer=True)[0]}

    wanted = ({"stream": name, "seed": 1} for name in (known if options.every else SHOWN))
    for row in continued(options.json, Origin.now("last_answer"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
