"""The finished runs as the repository keeps them: figures, and by how much streamfl is better on the same records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from river_peers.methods import METHODS, ONE, variants
from river_peers.paired import Difference, difference
from river_peers.results import Results, Run
from streamfl_benchmarks.run_file import Kept, Row

FIGURES = ("records", "seed", "accuracy", "kappa", "temporal_kappa", "silent")


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


def still_comparable(earlier: Iterable[Kept], rows: Sequence[Row]) -> list[Kept]:
    """Return the earlier runs that were not repeated, but for those that the new rows contradict.

    So a stream or a peer can be added without runs of all others. On a stream of the new rows, an earlier run counts
    no longer if they are of another number of records, or if streamfl, with which its `ahead` compares it, has other
    figures than it had.

    Parameters
    ----------
    earlier
        What a file of runs has.
    rows
        What is known now of the streams that were asked for, as `rows` yields it.

    >>> def run(stream, method, accuracy):
    ...     same = {"stream": stream, "records": 9, "variant": "one", "seed": 1}
    ...     return {**same, "method": method, "accuracy": accuracy}
    >>> streams = ("sea", "led", "sine")
    >>> runs = [run(stream, method, 0.9) for stream in streams for method in ("streamfl", "river-arf")]
    >>> now = [run("sea", "streamfl", 0.9), run("led", "streamfl", 0.8), run("sea", "capymoa-srp", 0.7)]
    >>> [(one.run["stream"], one.run["method"]) for one in still_comparable([Kept(None, one) for one in runs], now)]
    [('sea', 'river-arf'), ('sine', 'streamfl'), ('sine', 'river-arf')]
    """
    old = list(earlier)
    before, today = (_streamfl(found) for found in ([one.run for one in old], rows))
    changed = {stream for stream, figures in today.items() if before.get(stream) != figures}
    records = {row["stream"]: row["records"] for row in rows}
    repeated = {_known_by(row) for row in rows}
    return [
        one
        for one in old
        if _known_by(one.run) not in repeated
        and one.run["stream"] not in changed
        and records.get(one.run["stream"], one.run["records"]) == one.run["records"]
    ]


def _streamfl(rows: Iterable[Row]) -> dict[str, list[list[Any]]]:
    """Return by stream the figures of streamfl with one client, a seed after the other."""
    found: dict[str, list[list[Any]]] = {}
    for row in rows:
        if (row["method"], row["variant"]) == ("streamfl", ONE):
            found.setdefault(row["stream"], []).append([row.get(name) for name in FIGURES])
    return found


def _known_by(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("stream", "method", "variant", "seed"))
