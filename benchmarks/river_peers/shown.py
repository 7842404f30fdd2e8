"""The finished runs as the repository keeps them: figures, and by how much streamfl is better on the same records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from river_peers.methods import METHODS, ONE, variants
from river_peers.paired import Difference, difference
from river_peers.results import Results, Run
from streamfl_benchmarks.run_file import Row


@dataclass(frozen=True)
class Found:
    """Finished runs of some streams, their seeds averaged.

    Parameters
    ----------
    results
        All runs that there are, of these records and others.
    digests
        By stream, the digest of the records that are shown.
    seeds
        The seeds to average; a run that lacks one of them is averaged over the others.
    """

    results: Results
    digests: Mapping[str, str]
    seeds: Sequence[int]

    def runs(self, stream: str, method: str, variant: str = ONE) -> list[Run]:
        """Return a method's runs on a stream, one a seed."""
        sought = (self.digests[stream], method, variant)
        runs = self.results.runs.values()
        return [r for r in runs if (r.digest, r.method, r.variant) == sought and r.seed in self.seeds]

    def right(self, stream: str, method: str, variant: str = ONE) -> npt.NDArray[np.float64] | None:
        """Return the share of seeds with a correct prediction of each record, shape (n,); None without a run."""
        runs = self.runs(stream, method, variant)
        if not runs:
            return None
        return np.asarray(np.mean([self.results.right(run.key) for run in runs], axis=0), dtype=np.float64)

    def difference(self, stream: str, a: tuple[str, str], b: tuple[str, str]) -> Difference | None:
        """Return the paired difference of two methods, each with its variant; None if one has no run."""
        theirs = self.right(stream, *a), self.right(stream, *b)
        return None if theirs[0] is None or theirs[1] is None else difference(theirs[0], theirs[1])


def rows(found: Found) -> Iterator[Row]:
    """Yield a row for each run. `ahead`: streamfl with one client less this run, paired by record."""
    for stream in found.digests:
        for method in METHODS:
            for variant in variants(method):
                ahead = found.difference(stream, ("streamfl", ONE), (method, variant))
                for run in found.runs(stream, method, variant):
                    yield {
                        **run.model_dump(
                            mode="json",
                            exclude={"digest", "resident_bytes", "model_bytes", "cpu_seconds", "wall_seconds"},
                        ),
                        "ahead": None if ahead is None else asdict(ahead),
                    }
