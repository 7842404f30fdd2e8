"""Labels that come later: prequential accuracy beside NoChange as the delay grows.

    python benchmarks/late_labels.py replay --data DIR --json late_replay.jsonl
    python benchmarks/late_labels.py peers --data DIR --json late_peers.jsonl

`replay`: elec2 as recorded, and covtype with two imposed swaps of classes, at 4 and 20 clients in rounds of 50 and
about 100 records; delays are records of a client. `peers`: elec2 as one stream at one client, estimators of streamfl
and of River under `river.stream.simulate_qa`; delays are records of the stream. DIR holds elec2.npz. A file that
exists is continued. Figures: docs/results.md, "Labels that come later".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from river.stream import simulate_qa

from river_peers.methods import ONE, Task, make
from river_peers.streams import stream
from streamfl.replay import Replay, ReplaySettings
from streamfl.settings import LearningSettings
from streamfl.streams.dealing import deal
from streamfl.streams.drift import Injection, inject
from streamfl.streams.table import Table, shuffled

DELAYS = (0, 1, 10, 100, 1000)
METHODS = ("no-change", "streamfl", "streamfl-no-neighbours", "streamfl-linear", "river-hat", "river-arf")


@dataclass(frozen=True)
class Federation:
    """A stream dealt in turn to clients; with `swaps` classes are exchanged at these rounds."""

    stream: str
    clients: int
    round_size: int
    swaps: tuple[int, ...] = ()


FEDERATIONS = (
    Federation("elec2", 4, 50),
    Federation("elec2", 20, 50),
    Federation("covtype", 4, 225, (35, 69)),
    Federation("covtype", 20, 45, (35, 69)),
)


def table_of(name: str, data: Path, part: int) -> Table:
    """Return one in so many of the first records of a stream; covtype has no order, so it is shuffled."""
    found = stream(name, data)
    found = found.first(len(found) // part)
    labels = tuple(map(str, range(found.labels)))
    table = Table(name, found.features, found.X, found.y.astype(np.float64), labels, np.arange(len(found)))
    return shuffled(table, 0) if name == "covtype" else table


def replayed(of: Federation, features: str, delay: int, data: Path, part: int) -> dict[str, Any]:
    """Return the figures of one replay."""
    table = table_of(of.stream, data, part)
    logs = deal(table, of.clients, "round-robin", 0)
    size = max(10, of.round_size // part)
    if of.swaps:
        logs = inject(table, logs, Injection("class-swap", of.swaps), size, 0)
    learning = LearningSettings.model_validate({"features": features})
    settings = ReplaySettings(round_size=size, label_delay=delay, learning=learning)
    result = Replay(table, logs, settings).run().result
    figures = result.accuracy
    if figures is None:
        raise RuntimeError("no record was predicted")
    return {
        "accuracy": figures.prequential,
        "no_change": figures.no_change,
        "unanswered": (result.unanswered or 0) / (result.records - result.rejected),
        "last_answer": result.serving.get("last-answer", 0.0),
        "restarts": [restart.round for restart in result.restarts],
        "model": result.model_sha256,
        "rate": result.records_per_second,
    }


def fed(method: str, delay: int, data: Path, part: int) -> dict[str, Any]:
    """Return the accuracy of an estimator at one client; a record without an answer is wrong."""
    found = stream("elec2", data)
    found = found.first(len(found) // part)
    learner = make(method, ONE, Task(found.features, found.labels, seed=1))
    records = learner.ready(found.X, found.y.tolist(), 0)
    predicted: list[Any] = [None] * len(records)
    pairs = zip(records, found.y.tolist(), strict=True)
    for i, x, y in simulate_qa(pairs, None, delay or None, copy=False):
        if y is None:
            predicted[i] = learner.predict(x)
        else:
            learner.learn(x, y)
    right = sum(ours == truth for ours, truth in zip(predicted, found.y.tolist(), strict=True))
    return {"accuracy": right / len(records), "unanswered": predicted.count(None) / len(records)}


def kept(path: Path, runs: Iterator[tuple[dict[str, Any], Any]]) -> None:
    """Add the runs that a file lacks."""
    lines = path.read_text().splitlines() if path.exists() else []
    done = [json.loads(line)["run"] for line in lines]
    for run, work in runs:
        if run not in done:
            line = json.dumps({"run": run, **work()})
            with path.open("a") as file:
                file.write(line + "\n")
            click.echo(line)


@click.command(help=__doc__)
@click.argument("kind", type=click.Choice(["replay", "peers"]))
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--json", "to", type=click.Path(path_type=Path), required=True)
@click.option("--part", default=1, help="Only one in so many records, the first ones.")
def main(kind: str, data: Path, to: Path, part: int) -> None:
    """Run what the file lacks."""

    def runs() -> Iterator[tuple[dict[str, Any], Any]]:
        if kind == "peers":
            for method, delay in product(METHODS, DELAYS):
                run = {"method": method, "delay": delay, "part": part}
                yield run, lambda method=method, delay=delay: fed(method, delay, data, part)
            return
        for features, of, delay in product(("rounds", "auto"), FEDERATIONS, DELAYS):
            run = {"stream": of.stream, "clients": of.clients, "features": features, "delay": delay, "part": part}
            yield run, lambda of=of, features=features, delay=delay: replayed(of, features, delay, data, part)

    kept(to, runs())


if __name__ == "__main__":
    main()
