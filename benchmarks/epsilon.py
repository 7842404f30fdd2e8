"""Accuracy against epsilon: what noise that hides each record costs.

    python benchmarks/epsilon.py [--clients 20] [--size 250] [--rounds 18] [--seeds 1,2,3] --json F [--figure F.svg]

Covtype with features scaled beforehand (standardised over the whole file, clipped at 5, divided by the square root
of their number), classes exchanged in the middle; profile adaptive with detector glr, masked sums, radius 1.5.
`delay` is that of the exchange's alarm in rounds, `made_up` counts the other alarms. Runs that are in the file are
skipped.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.dealing.imposed_drift import inject, parse
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

RADIUS = 1.5
SHAPE = ("clients", "size", "rounds", "noise", "seed")
NOISE = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


def scaled(table: Table) -> Table:
    """Return the table with features in a range that is known beforehand."""
    X = (table.X - table.X.mean(axis=0)) / np.maximum(table.X.std(axis=0), 1e-9)
    return replace(table, X=np.clip(X, -5.0, 5.0) / np.sqrt(X.shape[1]))


def run(wanted: Row) -> Row:
    """Return what one run reaches."""
    size, seed = wanted["size"], wanted["seed"]
    table, n, at = shuffled(scaled(covtype()), seed), size * wanted["rounds"], wanted["rounds"] // 2 + 1
    dealt = deal(table, wanted["clients"], "round-robin", 0)
    logs = {name: Log(log.rows[:n], log.y[:n]) for name, log in dealt.items()}
    logs = inject(table, logs, parse(f"class-swap@{at}"), size, seed)
    settings = ReplaySettings(
        round_size=size,
        seed=seed,
        scaling=False,
        learning=LearningSettings(features="rounds"),
        profile=ProfileSettings(detector="glr"),
        privacy=PrivacySettings(secure_aggregation="masked", noise=wanted["noise"], radius=RADIUS),
    )
    result = Replay(table, logs, settings).run().result
    accuracy = result.accuracy
    assert accuracy is not None  # the targets are labels
    found = [restart.round for restart in result.restarts if at <= restart.round < at + 6]
    told = result.privacy
    return {
        "epsilon": told.epsilon if told else None,
        "messages": told.messages if told else None,
        "accuracy": accuracy.prequential,
        "no_change": accuracy.no_change,
        "delay": found[0] - at if found else None,
        "made_up": len(result.restarts) - len(found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--size", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=18)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    sizes = (options.clients, options.size, options.rounds)
    every = product(NOISE, map(int, options.seeds.split(",")))
    wanted = (dict(zip(SHAPE, (*sizes, *one), strict=True)) for one in every)
    rows = []
    for row in continued(options.json, Origin.now("epsilon"), wanted, run):
        rows.append(row)
        print(row, flush=True)
    if options.figure is not None:
        options.figure.write_text(drawn(rows))


def drawn(runs: Sequence[Row]) -> str:
    """Return the accuracy against epsilon as a drawing (SVG), with a dot for each run."""
    noisy = [x for x in runs if x["epsilon"] is not None]
    without = statistics.mean(x["accuracy"] for x in runs if x["epsilon"] is None)
    lowest = statistics.mean(x["no_change"] for x in runs)
    low, high = np.floor(20.0 * lowest) / 20.0, np.ceil(20.0 * max(x["accuracy"] for x in runs)) / 20.0

    def place(epsilon: float, accuracy: float) -> tuple[float, float]:
        return 60.0 + 420.0 * np.log2(epsilon / 0.25) / 7.0, 240.0 - 210.0 * (accuracy - low) / (high - low)

    def text(x: float, y: float, words: str, anchor: str = "start") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'

    def line(x: float, y: float, to: str, look: str) -> str:
        return f'<path d="M{x:.1f} {y:.1f}{to}" {look}/>'

    grid, dashed = 'stroke="#ddd"', 'stroke="#555" stroke-dasharray="4 3"'
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 580 290" font-family="sans-serif" font-size="12">']
    lines.append('<rect width="580" height="290" fill="white"/>')
    for epsilon in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        x, _ = place(epsilon, low)
        lines += [line(x, 30, "V240", grid), text(x, 257, f"{epsilon:g}", "middle")]
    for accuracy in np.arange(low, high + 0.01, 0.05):
        _, y = place(1.0, accuracy)
        lines += [line(60, y, "H480", grid), text(54, y + 4, f"{accuracy:.2f}", "end")]
    for name, accuracy in (("without noise", without), ("NoChange", lowest)):
        _, y = place(1.0, accuracy)
        lines += [line(60, y, "H480", dashed), text(486, y + 4, name)]
    groups = [
        [x for x in noisy if x["noise"] == noise] for noise in sorted({x["noise"] for x in noisy}, reverse=True)
    ]
    means = [place(*(statistics.mean(x[key] for x in g) for key in ("epsilon", "accuracy"))) for g in groups]
    curve = "".join(f"L{x:.1f} {y:.1f}" for x, y in means[1:])
    lines.append(line(*means[0], curve, 'fill="none" stroke="#0b62a3" stroke-width="2"'))
    for one in noisy:
        x, y = place(one["epsilon"], one["accuracy"])
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#0b62a3"/>')
    lines += [text(270, 280, "epsilon of each record, at delta 1e-6", "middle"), text(60, 18, "prequential accuracy")]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
