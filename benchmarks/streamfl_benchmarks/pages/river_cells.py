"""Cells of the table next to River: the best peer of a stream, and whether streamfl is surely ahead of it."""

from dataclasses import dataclass

from streamfl.errors import UsageError
from streamfl_benchmarks.pages.rows import Rows
from streamfl_benchmarks.run_file import Row

OURS = "streamfl"
ONE, MERGED, ISOLATED = "one", "merged-4", "isolated-4"
NEAR = 0.005  # a difference that counts as none
NAMES = {
    "no-change": "NoChange",
    "river-linear-0.01": "linear",
    "river-linear-0.1": "linear, longer steps",
    "river-linear-ddm": "linear + DDM",
    "river-hat": "Hoeffding tree (HAT)",
    "river-arf": "ARF",
    "river-arf-100": "ARF, 100 trees",
    "river-srp": "SRP",
    "capymoa-arf": "ARF (CapyMOA)",
    "capymoa-srp": "SRP (CapyMOA)",
    "capymoa-srp-100": "SRP (CapyMOA), 100 trees",
    "capymoa-sgbt": "SGBT (CapyMOA)",
    "capymoa-sgbt-0.1": "SGBT (CapyMOA), rate 0.1",
    "capymoa-sgbt-0.3": "SGBT (CapyMOA), rate 0.3",
    "capymoa-sgbt-1": "SGBT (CapyMOA), rate 1",
    "river-knn-1": "kNN, k = 1",
    "river-knn-3": "kNN, k = 3",
    "river-knn-10": "kNN, k = 10",
}


@dataclass(frozen=True)
class RiverStream:
    """The runs on one stream.

    >>> def run(method, accuracy, low):
    ...     ahead = {"mean": 0.8 - accuracy, "low": low, "high": 0.1}
    ...     same = {"stream": "sea", "records": 9, "seed": 1, "variant": "one"}
    ...     return {**same, "method": method, "accuracy": accuracy, "ahead": ahead}
    >>> runs = [run("streamfl", 0.8, 0.0), run("river-arf", 0.75, 0.01), run("river-hat", 0.7, 0.0)]
    >>> rows = Rows.of("made", runs)
    >>> (one,) = river_streams(rows)
    >>> one.best_name, one.accuracy("streamfl"), one.ahead, one.surely_better, one.near
    ('ARF', '0.800', '+0.0500 [+0.0100, +0.1000]', True, False)
    """

    rows: Rows

    @property
    def name(self) -> str:
        """Return its name."""
        return str(self.rows.runs[0]["stream"])

    @property
    def records(self) -> int:
        """Return how many records it has."""
        return int(self.rows.runs[0]["records"])

    @property
    def best(self) -> str:
        """Return the peer of the highest accuracy."""
        peers = [run for run in self.rows.runs if not run["method"].startswith(OURS)]
        return str(max(peers, key=lambda run: run["accuracy"])["method"])

    @property
    def best_name(self) -> str:
        """Return what the best peer is called in the table."""
        return NAMES[self.best]

    def accuracy(self, method: str, variant: str = ONE) -> str:
        """Return an accuracy; empty without a run."""
        run = self._run(method, variant)
        return "" if run is None else f"{run['accuracy']:.3f}"

    @property
    def ahead(self) -> str:
        """Return by how much streamfl is ahead of the best peer, with an interval of 95%."""
        mean, low, high = self._ahead
        return f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"

    @property
    def surely_better(self) -> bool:
        """Return whether the whole interval is above 0."""
        return self._ahead[1] > 0.0

    @property
    def surely_worse(self) -> bool:
        """Return whether the whole interval is below 0."""
        return self._ahead[2] < 0.0

    @property
    def near(self) -> bool:
        """Return whether neither is sure, and the difference counts as none."""
        return not (self.surely_better or self.surely_worse) and abs(self._ahead[0]) <= NEAR

    @property
    def together_is_better(self) -> bool:
        """Return whether four clients that learn together are better than each alone."""
        together, alone = self._run(OURS, MERGED), self._run(OURS, ISOLATED)
        return together is not None and alone is not None and together["accuracy"] > alone["accuracy"]

    @property
    def _ahead(self) -> tuple[float, float, float]:
        run = self._run(self.best, ONE)
        if run is None or run["ahead"] is None:
            raise UsageError(
                f"{self.name}: the run of {self.best}, the best peer, was not compared with streamfl's;"
                f" run on_river.py --streams {self.name} --methods {OURS},{self.best} --runs FILE"
            )
        return run["ahead"]["mean"], run["ahead"]["low"], run["ahead"]["high"]

    def _run(self, method: str, variant: str) -> Row | None:
        found = (run for run in self.rows.runs if (run["method"], run["variant"]) == (method, variant))
        return next(found, None)


def river_streams(rows: Rows) -> list[RiverStream]:
    """Return the streams of some runs in the order of the file."""
    return [RiverStream(rows.where(stream=name)) for name in dict.fromkeys(rows.values("stream"))]
