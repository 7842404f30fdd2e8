"""When features that moved are found, and when nothing moved, by how far apart rounded values count: docs/choices.md.

Ten clients, ten features, 150 rounds of 12 or 50 records with the models of rounds, as in `quiet_streams.py`. Five
features do not vary within a client's round: `settings`, which each client has its own of and keeps, until one of
client 3 moves in round 100, by a part of what clients differ; or `snow`, which is 0 except for some rounds of the
first 40.

    python benchmarks/rounded_inputs.py --seeds 1,2
"""

import argparse
from dataclasses import replace
from itertools import product
from unittest.mock import patch

import numpy as np

import quiet_streams as quiet
from streamfl.machines.coordinator.close import inputs
from streamfl.protocol.messages import InputsMoved
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings

FLOORS = (0.0, 1 / 16, 1 / 8, 1 / 4)
SHIFTS = (0.0, 0.05, 0.2, 0.5)
SINCE, SNOWS, STILL = 99, 40, 5  # rounds, counted from 0; the features that do not vary are the last five


def drawn(stream: str, seed: int, shift: float) -> tuple[Table, dict[str, Log]]:
    """Return a stream, and the rows of each client."""
    table, logs = quiet.drawn("none", seed)
    rng, X = np.random.default_rng(seed), table.X.copy()
    t = np.repeat(np.arange(quiet.ROUNDS), quiet.CLIENTS * quiet.RECORDS)
    client = np.tile(np.repeat(np.arange(quiet.CLIENTS), quiet.RECORDS), quiet.ROUNDS)
    if stream == "settings":
        X[:, STILL:] = rng.normal(size=(quiet.CLIENTS, X.shape[1] - STILL))[client]
        X[(t >= SINCE) & (client == 3), STILL] += shift
    else:
        falls = rng.random((quiet.ROUNDS, X.shape[1] - STILL)) < 0.15
        falls[SNOWS:] = False
        X[:, STILL:] = np.where(falls[t], np.abs(X[:, STILL:]) * 10.0 ** np.linspace(0.0, 2.0, falls.shape[1]), 0.0)
    return replace(table, X=X), logs


def found(table: Table, logs: dict[str, Log], seed: int) -> list[str]:
    """Return in which rounds, counted from 1, what was found to have moved."""
    told: list[InputsMoved] = []
    learning = LearningSettings(features="rounds")
    settings = ReplaySettings(round_size=quiet.RECORDS, min_records=1, seed=seed, learning=learning, measure=False)
    replay = Replay(table, logs, settings)
    replay.observe = lambda event: told.append(event) if isinstance(event, InputsMoved) else None
    replay.run()
    return [f"{one.round}: {' '.join(moved.feature for moved in one.moved)}" for one in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1", metavar="N,...")
    given = parser.parse_args()
    print("| records | stream | moves by | seed | apart | found in round |")
    print("| ---: | --- | ---: | ---: | ---: | --- |")
    seeds = [int(seed) for seed in given.seeds.split(",")]
    kinds = [("snow", 0.0), *(("settings", shift) for shift in SHIFTS)]
    for records, (stream, shift), seed in product((12, 50), kinds, seeds):
        with patch.object(quiet, "RECORDS", records):
            table, logs = drawn(stream, seed, shift)
            for floor in FLOORS:
                with patch.object(inputs, "_ROUNDED", floor):
                    cells = records, stream, shift, seed, floor, "; ".join(found(table, logs, seed)) or "never"
                print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
