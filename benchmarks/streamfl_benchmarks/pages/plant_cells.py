"""Cells of the tables of a plant: which drifts were told and when, each machine next to its own learner, and cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from streamfl_benchmarks.pages.rows import Rows
from streamfl_benchmarks.run_file import Row

DRIFTER = "m07"

SENSOR = "sensors.spindle_temperature"


@dataclass(frozen=True)
class Plant:
    """The run of one plant.

    >>> told = {"after": 51.0, "round": 4, "kind": "latched", "clients": ["m07"], "moved": [], "cause": ""}
    >>> run = {
    ...     "by machine": {"m00": 0.9, "m07": 0.6}, "by machine alone": {"m00": 0.8, "m07": 0.625},
    ...     "first results": {"alone": 35.0}, "closed": [20.0, 30.0, 40.0, 51.0], "drifts": [told],
    ...     "used": [[0.0, {"a": [80.0, 1.0]}], [60.0, {"a": [90.0, 7.0]}], [120.0, {"a": [91.5, 11.5]}]],
    ... }
    >>> plant = Plant(run)
    >>> plant.level_or_better, plant.worst
    ('1 of 2', 'm07: -0.025')
    >>> [found["after"] for found in plant.told("alone")], plant.rounds("alone"), plant.of_nothing
    ([51.0], 2, [])
    >>> plant.cpu("a", 0.0, 60.0), plant.cpu("a", 60.0, 120.0), plant.memory("a", 60.0)
    ('10%', '8%', '90')
    """

    run: Row

    @property
    def level_or_better(self) -> str:
        """Return how many machines were predicted at least as well as by their own learner alone."""
        return f"{sum(by >= 0.0 for by in self._gains.values())} of {len(self._gains)}"

    @property
    def worst(self) -> str:
        """Return which machine gained least, and how much."""
        name = min(self._gains, key=self._gains.__getitem__)
        return f"{name}: {self._gains[name]:+.3f}"

    def told(self, what: str) -> list[Mapping[str, Any]]:
        """Return the announcements of a change: those of moved inputs after it, others after its first result."""
        return [told for told in self.run["drifts"] if self._change(told) == what]

    def _change(self, told: Mapping[str, Any]) -> str | None:
        """Return which change an announcement is of; a restart is of the newest one at all machines."""
        come = {what: first for what, first in self.run["first results"].items() if first <= told["after"]}
        if told["kind"] == "latched" and DRIFTER in told["clients"]:
            return "alone" if "alone" in come else None
        if any(one[0] == SENSOR for one in told["moved"]):
            return "recalibrated" if self._begins("recalibrated", told) <= told["after"] else None
        of_all = [what for what in come if what != "alone"] if told["kind"] == "all" else []
        return max(of_all, key=come.__getitem__, default=None)

    def rounds(self, what: str) -> int:
        """Return in which round the change was told first, counted from that in which it could be seen as 1."""
        told = self.told(what)[0]
        return sum(self._begins(what, told) < at <= told["after"] for at in self.run["closed"])

    def _begins(self, what: str, told: Mapping[str, Any]) -> float:
        """Return when a change could be seen: in readings as they come if inputs moved, else in the first result."""
        first: float = (self.run["happened"] if told["kind"] == "inputs" else self.run["first results"])[what]
        return first

    @property
    def of_nothing(self) -> list[Mapping[str, Any]]:
        """Return the announcements that tell none of the changes, without steps of local drifts and new labels."""
        steps = {"branched", "merged", "returned", "released", "corrected"}
        return [
            one
            for one in self.run["drifts"]
            if self._change(one) is None and one["kind"] not in steps and one["cause"] != "new-label"
        ]

    def cpu(self, name: str, since: float, until: float) -> str:
        """Return the part of a core that the processes of a name took between two times, in seconds."""
        (sooner, before), (later, after) = (self._used(name, at) for at in (since, until))
        return f"{(after[1] - before[1]) / (later - sooner):.0%}"

    def memory(self, name: str, at: float) -> str:
        """Return the memory of a process at a time, in MB."""
        return f"{self._used(name, at)[1][0]:.0f}"

    @property
    def _gains(self) -> dict[str, float]:
        ours, alone = self.run["by machine"], self.run["by machine alone"]
        return {name: ours[name] - alone[name] for name in ours if name in alone}

    def _used(self, name: str, at: float) -> tuple[float, list[float]]:
        """Return the look at a process that is nearest to a time."""
        looks = [(when, found[name]) for when, found in self.run["used"] if name in found]
        return min(looks, key=lambda look: abs(look[0] - at))


@dataclass(frozen=True)
class PlantAnswers:
    """How late readings were answered at one rate, in the mean over repeats.

    >>> runs = ({"rate": 20.0, "p50": 0.4, "cores": [0.25, 0.5]}, {"rate": 20.0, "p50": 0.2, "cores": [0.5, 0.5]})
    >>> answers = PlantAnswers(20.0, runs)
    >>> answers.mean("p50"), answers.cores, len(answers.runs)
    ('0.30', ['0.38', '0.50'], 2)
    """

    rate: float  # readings a second
    runs: tuple[Row, ...]  # its repeats

    def mean(self, field: str, digits: int = 2) -> str:
        """Return the mean of a figure."""
        return f"{fmean(run[field] for run in self.runs):.{digits}f}"

    def total(self, field: str) -> int:
        """Return the sum of a count."""
        return sum(run[field] for run in self.runs)

    @property
    def cores(self) -> list[str]:
        """Return what part of a core each process took: the coordinator, then the hosts."""
        return [f"{fmean(each):.2f}" for each in zip(*(run["cores"] for run in self.runs), strict=True)]


def plant_answers(rows: Rows) -> list[PlantAnswers]:
    """Return the rates that were measured, with their repeats."""
    rates = sorted({run["rate"] for run in rows.runs})
    return [PlantAnswers(rate, tuple(run for run in rows.runs if run["rate"] == rate)) for rate in rates]


def plants(rows: Rows) -> list[Plant]:
    """Return the runs of plants."""
    return [Plant(run) for run in rows.runs]
