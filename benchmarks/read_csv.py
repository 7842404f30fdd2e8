"""Measures user CPU seconds to read a CSV file of continuous numbers, interleaved with polars.

python benchmarks/read_csv.py [--rows 60000] [--columns 54] [--runs 7] [--gaps 0.0]
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from streamfl.records.files.readers import read


def written(path: Path, rows: int, columns: int, gaps: float) -> None:
    """Write normal numbers in full precision, a share of them missing, and a label with three values."""
    rng = np.random.default_rng(1)
    X, missing = rng.normal(size=(rows, columns)), rng.random((rows, columns)) < gaps
    with path.open("w") as file:
        file.write(",".join([f"x{j}" for j in range(columns)] + ["y"]) + "\n")
        for i, (values, out) in enumerate(zip(X.tolist(), missing.tolist(), strict=True)):
            cells = ["" if gap else repr(value) for value, gap in zip(values, out, strict=True)]
            file.write(",".join([*cells, "abc"[i % 3]]) + "\n")


def user_seconds(work: Callable[[], object]) -> float:
    before = os.times().user
    work()
    return os.times().user - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--columns", type=int, default=54)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--gaps", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.csv"
        written(path, options.rows, options.columns, options.gaps)
        readers: dict[str, Callable[[], object]] = {
            "streamfl": lambda: read(str(path)),
            "polars": lambda: pl.read_csv(path),
        }
        for work in readers.values():
            work()
        measured = [{name: user_seconds(work) for name, work in readers.items()} for _ in range(options.runs)]
    for name in readers:
        seconds = sorted(one[name] for one in measured)
        print(f"{name:<10}{statistics.median(seconds):.2f} s user CPU [{seconds[0]:.2f}, {seconds[-1]:.2f}]")


if __name__ == "__main__":
    main()
