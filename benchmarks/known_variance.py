"""Run length of the recursion of `excess` to a false alarm, with known baseline and variance, by distribution.

The mean run length is at least A if the mean of a round's n scores is Gaussian, or sub-Gaussian with the variance
given to the recursion. With rare errors it is neither: one error in 20 records is three standard deviations up.

    python benchmarks/known_variance.py
"""

import math
from collections.abc import Callable

import click
import numpy as np

from streamfl.learning.drift.detectors.few_clients import RISES


def run_length(excess: Callable[[], float], variance: float, threshold: float, most: int) -> int:
    """Return the round of the first alarm over all records, at most `most`."""
    before = np.full(len(RISES), -math.inf)
    for t in range(1, most + 1):
        before = np.logaddexp(0.0, before) + RISES * excess() / variance - RISES**2 / (2.0 * variance)
        if float(np.logaddexp.reduce(before)) - math.log(len(RISES)) >= threshold:
            return t
    return most


@click.command(help=__doc__.splitlines()[0])
@click.option("--chance", default=0.005, show_default=True, help="Probability of an error.")
@click.option("--records", default=20, show_default=True, help="Records per round.")
@click.option("--asked", default=1e4, show_default=True, help="A, the required run length.")
@click.option("--runs", default=200, show_default=True)
@click.option("--rounds", default=100_000, show_default=True, help="The most rounds of a run.")
@click.option("--seed", default=1, show_default=True)
def main(chance: float, records: int, asked: float, runs: int, rounds: int, seed: int) -> None:
    variance = chance * (1.0 - chance) / records
    rng = np.random.default_rng(seed)
    scores: dict[str, Callable[[], float]] = {
        "0 or 1": lambda: float(rng.binomial(records, chance) / records - chance),
        "Gaussian of that variance": lambda: float(rng.normal(0.0, math.sqrt(variance))),
    }
    for name, excess in scores.items():
        found = [run_length(excess, variance, math.log(asked), rounds) for _ in range(runs)]
        error = np.std(found) / math.sqrt(len(found))
        ended = sum(t < rounds for t in found)
        click.echo(
            f"{name}: mean run length {np.mean(found):.0f} ± {error:.0f}; {ended} of {len(found)} runs alarmed"
        )


if __name__ == "__main__":
    main()
