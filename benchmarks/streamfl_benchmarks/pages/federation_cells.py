"""Cells of the table of natural federations: how each way predicts, and which clients lose by federating."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streamfl.run.evaluation.compared import ENOUGH, LEVEL, WORSE, is_better
from streamfl_benchmarks.pages.rows import Rows
from streamfl_benchmarks.run_file import Row


@dataclass(frozen=True)
class Federation:
    """The run of one federation.

    >>> clients = [
    ...     {"client": name, "records": 300, "federated": figure, "alone": 0.8}
    ...     for name, figure in (("c0", 0.9), ("c1", 0.75))
    ... ]
    >>> total = {"records": 600, "federated": 0.825, "alone": 0.8}
    >>> run = {"federation": "valves", "measure": "accuracy", "total": total, "clients": clients}
    >>> one = Federation(run)
    >>> one.figure("federated"), one.against("alone"), one.worse_than_alone, one.worst
    ('0.825', 'better', '1 of 2', 'c1: -0.050')
    """

    run: Row

    @property
    def name(self) -> str:
        """Return its name."""
        return str(self.run["federation"])

    @property
    def of_errors(self) -> bool:
        """Tell whether figures are errors."""
        return bool(self.run["measure"] == "mae")

    def figure(self, way: str) -> str:
        """Return a way's figure over all records."""
        return self._told(self.run["total"][way])

    def against(self, way: str) -> str:
        """Return whether the federation is `better` than another way, `worse`, or `level`."""
        measure, total = self.run["measure"], self.run["total"]
        ours, theirs, by = total["federated"], total[way], LEVEL[measure]
        if is_better(measure, ours, theirs, by):
            return "better"
        return "worse" if is_better(measure, theirs, ours, by) else "level"

    @property
    def worse_than_alone(self) -> str:
        """Return how many clients would clearly be better off alone, of those with enough records."""
        worse = [one for one in self._large if is_better(self.run["measure"], one["alone"], one["federated"], WORSE)]
        return f"{len(worse)} of {len(self._large)}" if self._large else f"none has {ENOUGH} records"

    @property
    def worst(self) -> str:
        """Return which client with enough records loses most, or gains least, next to being alone, and how much."""
        if not self._large:
            return ""
        worst = min(self._large, key=self._gain)
        gain = self._gain(worst)
        name = str(worst["client"]).removeprefix("client=")
        return f"{name}: {gain:+.1%}" if self.of_errors else f"{name}: {gain:+.3f}"

    @property
    def _large(self) -> list[dict[str, Any]]:
        return [one for one in self.run["clients"] if one["records"] >= ENOUGH]

    def _gain(self, one: dict[str, Any]) -> float:
        """Return by how much a client's accuracy is higher than alone, or by what part its error is lower."""
        ours, alone = one["federated"], one["alone"]
        return float((alone - ours) / alone if self.of_errors else ours - alone)

    def _told(self, figure: float | None) -> str:
        if figure is None:
            return ""
        return f"{figure:.4g}" if self.of_errors else f"{figure:.3f}"


def federations(rows: Rows) -> list[Federation]:
    """Return the federations of some runs, each by that of the most records; those with most by client first."""
    by_size = sorted(rows.runs, key=lambda run: run["total"]["records"])
    runs = [Federation(run) for run in {run["federation"]: run for run in by_size}.values()]
    return sorted(runs, key=lambda one: -one.run["total"]["records"] / len(one.run["clients"]))


def counts(all_: Iterable[Federation], way: str) -> str:
    """Return on how many federations federating is better than another way, level with it, and worse."""
    told = [one.against(way) for one in all_]
    return f"better on {told.count('better')}, level on {told.count('level')}, worse on {told.count('worse')}"
