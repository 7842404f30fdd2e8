"""Measures the rounds to a false alarm of the whole default detector, on covtype without drift.

Runs are those of `streamfl bench drift --method adaptive --drift none`, with another required run length A. An alarm
is a restart or a local drift. Finished runs are kept and not repeated.

    python benchmarks/run_length.py --data DIR --json results/run-length.json
"""

import json
from collections import Counter
from concurrent.futures import as_completed
from dataclasses import replace
from pathlib import Path

import click

from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.run.settings import ProfileSettings
from streamfl_benchmarks.drawn import DrawnStream
from streamfl_benchmarks.features import prepared
from streamfl_benchmarks.federated import Federation
from streamfl_benchmarks.processes import pool
from streamfl_benchmarks.records import Drawn


class WithRunLength(ProfileSettings):
    """The default profile with another run length."""

    run_length: float

    def create(self, horizon: int, learner: Learner) -> Promotion:
        profile = super().create(horizon, learner)
        if not isinstance(profile, Promotion):
            raise TypeError("the default profile is promotion")
        return replace(profile, detector=Excess(run_length=self.run_length))


def alarms(run_length: float, stream: DrawnStream, data: Path | None) -> int:
    """Count the rounds with an alarm on a stream."""
    finished = Federation(WithRunLength(run_length=run_length)).run(
        Drawn.of(stream, prepared(stream.stream, data)), f"adaptive, A = {run_length:g}"
    )
    return finished.run.false_alarms


def table(kept: dict[str, int], rounds: int) -> str:
    """Return a line per run length: rounds per alarm."""
    made, found = Counter[str](), Counter[str]()
    for name, count in kept.items():
        run_length = name.partition(" ")[0]
        made[run_length] += rounds
        found[run_length] += count
    return "\n".join(
        f"A = {A}: {made[A]} rounds, {found[A]} alarms, one in {made[A] / max(1, found[A]):.0f}" for A in made
    )


@click.command(help=__doc__.splitlines()[0])
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Holds covtype.npz, if it is not fetched."
)
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--lengths", default="100,1000", show_default=True, help="Required rounds to a false alarm.")
@click.option("--seeds", default=40, show_default=True, help="Runs per length, from seed 101 on.")
@click.option("--rounds", default=500, show_default=True)
@click.option(
    "--round-size", default=100, show_default=True, help="Mean records per client and round; there are 20 clients."
)
@click.option("--jobs", default=2, show_default=True)
def main(data: Path | None, path: Path, lengths: str, seeds: int, rounds: int, round_size: int, jobs: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    wanted = {
        f"{A} {seed} {rounds}x{round_size}": (
            float(A),
            DrawnStream("covtype", "none", (), "plain", 20, round_size, rounds, seed),
        )
        for A in lengths.split(",")
        for seed in range(101, 101 + seeds)
    }
    with pool(jobs) as executor:
        runs = {
            executor.submit(alarms, A, stream, data): name for name, (A, stream) in wanted.items() if name not in kept
        }
        for future in as_completed(runs):
            kept[runs[future]] = future.result()
            path.write_text(json.dumps(kept))
    click.echo(table({name: kept[name] for name in wanted}, rounds))


if __name__ == "__main__":
    main()
