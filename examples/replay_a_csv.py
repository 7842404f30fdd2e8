"""Replay a CSV file over several clients, as `streamfl replay` does, from Python.

Give a file and its label column: `python replay_a_csv.py my.csv label`. Without arguments the script writes a file
itself: readings of two sensors, with the two labels exchanged from the middle on.
"""

import csv
import random
import sys
import tempfile
from pathlib import Path

import streamfl


def made_up(path: Path, records: int = 4000) -> Path:
    """Write records of two sensors; from the middle on, the labels hot and cold are exchanged."""
    rng = random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["temperature", "vibration", "state"])
        for i in range(records):
            temperature, vibration = rng.gauss(20, 5), rng.gauss(0, 1)
            hot = (temperature + 2 * vibration > 20) != (i >= records // 2)
            writer.writerow([round(temperature, 2), round(vibration, 3), "hot" if hot else "cold"])
    return path


def main(file: str, label: str) -> None:
    """Replay a file on four clients and print the result."""
    result = streamfl.replay(file, label=label, clients=4, round_size=25, seed=1).result
    print(f"{result.records} records, {result.rounds} rounds, {result.clients} clients")
    if result.accuracy is not None:
        print(f"accuracy {result.accuracy.prequential:.3f}; repeating the last label {result.accuracy.no_change:.3f}")
    if result.mae is not None:
        print(f"mean error {result.mae.prequential:.4g}; repeating the last number {result.mae.no_change:.4g}")
    for restart in result.restarts:
        print(f"round {restart.round}: {restart.cause} since round {restart.since}, continued with {restart.chosen}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(str(made_up(Path(folder) / "sensors.csv")), "state")
