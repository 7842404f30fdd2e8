"""`MasterFLRegressor` on River's regression streams, with targets as they are and shifted by a constant.

Run: python benchmarks/regression.py [--json F]
"""

import argparse
import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from river import datasets

from streamfl import MasterFLRegressor

STREAMS = {
    "TrumpApproval": datasets.TrumpApproval,
    "ChickWeights": datasets.ChickWeights,
    "WaterFlow": datasets.WaterFlow,
    "AirlinePassengers": datasets.AirlinePassengers,
    "Friedman, 3,000 records": lambda: datasets.synth.Friedman(seed=1).take(3000),
}
FEATURES = ("auto", "linear", "ferns", "rounds")

# Added to every target, in the second run of each stream.
OFFSET = 1000.0


def errors(stream: Iterable[tuple[dict, float]], features: str, offset: float) -> list[float]:
    """Return the absolute error of each record from the second on, predicted before it is learnt."""
    model, missed = MasterFLRegressor(features=features, seed=1), []
    for record, y in stream:
        x = {name: value for name, value in record.items() if isinstance(value, int | float)}
        missed.append(abs(model.predict_one(x) - (y + offset)))
        model.learn_one(x, y + offset)
    return missed[1:]


def no_change(stream: Iterable[tuple[dict, float]]) -> float:
    """Return the mean absolute error of repeating the previous target."""
    targets = [y for _, y in stream]
    return sum(abs(b - a) for a, b in pairwise(targets)) / (len(targets) - 1)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    to = parser.parse_args().json
    results = []
    print(f"| stream | {' | '.join(FEATURES)} | NoChange | largest change by +{OFFSET:g} |")
    print(f"| --- | {'---: | ' * (len(FEATURES) + 2)}")
    for name, stream in STREAMS.items():
        row = {features: errors(stream(), features, 0.0) for features in FEATURES}
        moved = {features: errors(stream(), features, OFFSET) for features in FEATURES}
        worst = max(abs(a - b) for f in FEATURES for a, b in zip(row[f], moved[f], strict=True))
        results.append({"stream": name, "mae": {f: mean(row[f]) for f in FEATURES}, "moved": worst})
        cells = " | ".join(f"{mean(row[f]):.4g}" for f in FEATURES)
        print(f"| {name} | {cells} | {no_change(stream()):.4g} | {worst:.1e} |", flush=True)
    if to is not None:
        to.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
