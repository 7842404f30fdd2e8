"""Runs side by side: means over seeds, and differences to `adaptive` seed by seed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t as student

from streamfl_benchmarks.run import Run

REFERENCE = "adaptive"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; `spread` is the standard deviation or half an interval, None of one seed."""

    mean: float
    spread: float | None

    @property
    def text(self) -> str:
        """Return it with four digits.

        >>> Estimate(0.71234, 0.00121).text, Estimate(0.5, None).text
        ('0.7123 ± 0.0012', '0.5000')
        """
        return f"{self.mean:.4f}" + ("" if self.spread is None else f" ± {self.spread:.4f}")


def over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean and the standard deviation.

    >>> over_seeds([1.0, 3.0])
    Estimate(mean=2.0, spread=1.41...)
    """
    return Estimate(fmean(values), stdev(values) if len(values) > 1 else None)


def paired(values: Sequence[float], reference: Sequence[float]) -> Estimate:
    """Return the mean difference and half its 95% interval, by Student's t.

    >>> paired([0.71, 0.72, 0.73], [0.70, 0.70, 0.70])
    Estimate(mean=0.02..., spread=0.0248...)
    """
    differences = [a - b for a, b in zip(values, reference, strict=True)]
    whole = over_seeds(differences)
    if whole.spread is None:
        return whole
    n = len(differences)
    return Estimate(whole.mean, float(student.ppf(0.975, n - 1)) * whole.spread / math.sqrt(n))


@dataclass(frozen=True, slots=True)
class Line:
    """One method on one stream, over its seeds; `against` is None without runs of `adaptive` on the same seeds."""

    method: str
    variants: tuple[str, ...]
    seeds: int
    accuracy: Estimate
    against: Estimate | None
    loss: float
    drifts: int
    delays: tuple[int, ...]
    false_alarms: float | None
    restarts: float
    local: tuple[float | None, float | None, float | None, float | None] | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Setting:
    """Runs that share everything but the method and the seed, and what NoChange has on them."""

    title: str
    runs: tuple[Run, ...]
    lines: tuple[Line, ...]
    no_change: float


def settings(runs: Iterable[Run]) -> list[Setting]:
    """Return the runs, setting by setting in the order met, methods by falling accuracy."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(title(run), []).append(run)
    return [_setting(name, group) for name, group in groups.items()]


def title(run: Run) -> str:
    """Return a title of the settings that a run shares with those it is compared with."""
    at = f" at {', '.join(map(str, run.at))}" if run.at else ""
    condition = "" if run.condition == "plain" else f", {run.condition}"
    size = f"{run.clients} clients, {run.round_size} records a client, {run.rounds} rounds, penalty {run.l2:g}"
    return f"{run.stream}, {run.drift}{at}{condition}: {size}"


def _setting(name: str, runs: list[Run]) -> Setting:
    by_method: dict[str, dict[int, Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, {})[run.seed] = run
    reference = {seed: _accuracy(run) for seed, run in by_method.get(REFERENCE, {}).items()}
    lines = [_line(method, own, reference) for method, own in by_method.items()]
    lines.sort(key=lambda line: -line.accuracy.mean)
    return Setting(name, tuple(runs), tuple(lines), fmean(run.accuracy.no_change or 0.0 for run in runs))


def _line(method: str, runs: dict[int, Run], reference: dict[int, float]) -> Line:
    own = list(runs.values())
    both = [seed for seed in runs if seed in reference and method != REFERENCE]
    differences = paired([_accuracy(runs[s]) for s in both], [reference[s] for s in both]) if both else None
    return Line(
        method=method,
        variants=tuple(sorted({run.variant for run in own if run.variant})),
        seeds=len(own),
        accuracy=over_seeds([_accuracy(run) for run in own]),
        against=differences,
        loss=fmean(run.loss for run in own),
        drifts=sum(len(run.at) for run in own),
        delays=tuple(delay for run in own for delay in run.detections if delay is not None),
        false_alarms=_mean(run.false_alarms for run in own),
        restarts=fmean(len(run.restarts) for run in own),
        local=_local(own),
        seconds=fmean(run.seconds for run in own),
    )


def _local(runs: list[Run]) -> tuple[float | None, float | None, float | None, float | None] | None:
    figures = [run.local for run in runs if run.local is not None]
    if not figures:
        return None
    return (
        _mean(x.precision for x in figures),
        _mean(x.recall for x in figures),
        _mean(x.affected for x in figures),
        _mean(x.others for x in figures),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _accuracy(run: Run) -> float:
    return run.accuracy.prequential or 0.0
