"""The finished runs as the repository keeps them: figures, and by how much streamfl is better on the same records."""

from collections.abc import Iterator
from dataclasses import asdict

from river_peers.methods import METHODS, ONE, variants
from river_peers.summary import Found
from streamfl_benchmarks.run_file import Row


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
