"""`MasterFLRegressor` on River's regression streams, with targets as they are and shifted by a constant.

Run: python benchmarks/regression.py --json F; runs that are in the file are skipped.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean

from river import datasets

from streamfl import MasterFLRegressor
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

STREAMS: Mapping[str, Callable[[], Iterable[tuple[dict[str, object], float]]]] = {
    "TrumpApproval": datasets.TrumpApproval,
    "ChickWeights": datasets.ChickWeights,
    "WaterFlow": datasets.WaterFlow,
    "AirlinePassengers": datasets.AirlinePassengers,
    "Friedman, 3,000 records": lambda: datasets.synth.Friedman(seed=1).take(3000),
}
FEATURES = ("auto", "linear", "ferns", "rounds")

# Added to every target, in the second run of each stream.
OFFSET = 1000.0


def errors(stream: Iterable[tuple[dict[str, object], float]], features: str, offset: float) -> list[float]:
    """Return the absolute error of each record from the second on, predicted before it is learnt."""
    model, missed = MasterFLRegressor(features=features, seed=1), []
    for record, y in stream:
        x = {name: value for name, value in record.items() if isinstance(value, int | float)}
        missed.append(abs(model.predict_one(x) - (y + offset)))
        model.learn_one(x, y + offset)
    return missed[1:]


def no_change(stream: Iterable[tuple[dict[str, object], float]]) -> float:
    """Return the mean absolute error of repeating the previous target."""
    targets = [y for _, y in stream]
    return sum(abs(b - a) for a, b in pairwise(targets)) / (len(targets) - 1)


def run(wanted: Row) -> Row:
    """Return the mean absolute error on a stream, and what a constant added to all targets changes."""
    stream, features = STREAMS[wanted["stream"]], wanted["features"]
    own, moved = errors(stream(), features, 0.0), errors(stream(), features, OFFSET)
    return {
        "mae": fmean(own),
        "no_change": no_change(stream()),
        "moved": max(abs(a - b) for a, b in zip(own, moved, strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    to = parser.parse_args().json
    wanted = ({"stream": name, "features": of, "seed": 1} for name, of in product(STREAMS, FEATURES))
    for found in continued(to, Origin.now("targets"), wanted, run):
        print(found, flush=True)


if __name__ == "__main__":
    main()
