"""The paper's four settings: covtype and MNIST, class introduction and class swap, every round drawn afresh.

Each round, each of 20 clients draws N(n, 0.2 n) records without replacement, independently of the others. Features
are prepared as the paper's comparison needs: MNIST in [0, 1] (here 2x2 means: 14x14), covtype standardised over the
whole sample, clipped at 5 and divided by sqrt(10); the federation's own scaler is off.

    python benchmarks/paper_settings.py --data DIR --records 100 --seeds 1,2 --json results.json

Progress is kept in the JSON file: a run that is there already is not repeated.
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from streamfl.core.sampling import generator
from streamfl.replay import Replay, ReplaySettings
from streamfl.settings import LearningSettings, ProfileSettings
from streamfl.streams.covtype import covtype
from streamfl.streams.dealing import Log
from streamfl.streams.table import Table

CLIENTS = 20
ROUNDS = 500
DRIFTS = {"covtype": (65, 187, 233, 367, 411, 489), "mnist14": (31, 129, 279, 310, 369, 462)}
MNIST_GROUPS = ((0, 1), (2, 3), (4,), (5, 6), (7,), (8,), (9,))
PROFILES = {
    "adaptive": ProfileSettings(),
    "paper": ProfileSettings(profile="paper"),
    "paper, warm": ProfileSettings(profile="paper", start="warm"),
    "paper, history, warm, rho 5e-5": ProfileSettings(profile="paper", start="warm", rho_scale=5e-5),
}


def covtype_features() -> Table:
    table = covtype()
    X = table.X.astype(np.float64)
    deviation = X.std(axis=0)
    z = np.clip((X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), -5.0, 5.0) / np.sqrt(10.0)
    return replace(table, X=z)


def mnist14(folder: Path) -> Table:
    with np.load(folder / "mnist.npz", allow_pickle=False) as data:
        X, y = data["X"], data["y"]
    small = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196) / 255.0
    names = tuple(f"x{j}" for j in range(196))
    return Table("mnist14", names, small, y.astype(np.float64), tuple(map(str, range(10))), np.arange(len(y)))


def groups(stream: str, labels: int) -> tuple[tuple[int, ...], ...]:
    return MNIST_GROUPS if stream == "mnist14" else tuple((label,) for label in range(labels))


def drawn_rounds(table: Table, stream: str, drift: str, records: int, seed: int, client: str) -> Iterator[tuple]:
    """Yield the rows and the labels of each round of a client."""
    at = np.array(DRIFTS[stream])
    classes = groups(stream, len(table.labels))
    rng = generator(seed, "rounds", client)
    pool, before = np.arange(len(table)), -1
    for t in range(1, ROUNDS + 1):
        phase = int((at <= t).sum())
        if drift == "class-introduction" and phase != before:
            pool = np.flatnonzero(np.isin(table.y, [c for group in classes[: phase + 1] for c in group]))
        before = phase
        rows = rng.choice(pool, size=max(1, round(rng.normal(records, 0.2 * records))), replace=False)
        y = table.y[rows]
        swapped = drift == "class-swap" and phase % 2 == 1
        yield rows, np.where(y < 6, y + 1 - 2 * (y % 2), y) if swapped else y


@dataclass(frozen=True)
class Job:
    stream: str
    drift: str
    method: str
    records: int
    seed: int
    data: Path

    @property
    def key(self) -> str:
        return f"{self.stream} {self.drift} | {self.method} | {self.records} records | seed {self.seed}"


def run(job: Job) -> tuple[str, dict]:
    table = covtype_features() if job.stream == "covtype" else mnist14(job.data)
    logs, sizes = {}, {}
    for client in (f"c{n:02d}" for n in range(CLIENTS)):
        rounds = list(drawn_rounds(table, job.stream, job.drift, job.records, job.seed, client))
        logs[client] = Log(np.concatenate([r for r, _ in rounds]), np.concatenate([y for _, y in rounds]))
        sizes[client] = tuple(len(r) for r, _ in rounds)
    learning = LearningSettings(l2=2e-4)
    settings = ReplaySettings(seed=job.seed, learning=learning, profile=PROFILES[job.method], scaling=False)
    result = Replay(table, logs, settings, sizes=sizes).run().result
    found = [restart.round for restart in result.restarts]
    return job.key, {"accuracy": result.accuracy.model_dump(), "restarts": found, "seconds": result.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="holds mnist.npz")
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--methods", default=";".join(PROFILES))
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    done = json.loads(given.json.read_text()) if given.json.exists() else {}
    jobs = [
        Job(stream, drift, method, given.records, int(seed), given.data)
        for seed in given.seeds.split(",")
        for stream in DRIFTS
        for drift in ("class-swap", "class-introduction")
        for method in given.methods.split(";")
    ]
    with ProcessPoolExecutor(2) as pool:
        for key, found in pool.map(run, [job for job in jobs if job.key not in done]):
            done[key] = found
            given.json.write_text(json.dumps(done, indent=1))
            accuracy = found["accuracy"]
            print(f"{key}: {accuracy['prequential']:.3f} (NoChange {accuracy['no_change']:.3f}), {found['restarts']}")


if __name__ == "__main__":
    main()
