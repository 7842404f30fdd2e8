"""The two charts of the report, each for a wide and a narrow screen, and the values of the tooltip."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from streamfl.run.evaluation.result import Result
from streamfl.run.report.chart import NARROW, WIDE, Chart, ChartEvent, Series, chart, finite
from streamfl.run.report.story import alone, epochs
from streamfl.run.report.thin import selected
from streamfl.run.report.words import count, evidence, listed, model_named
from streamfl.run.summary import RoundLine

_STRETCHES = 300
_SPARSE = 0.5  # share of the median records of a round below which its figures are mostly chance and not drawn
_LONGEST = 26


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the page: the same chart for a wide and for a narrow screen."""

    key: str
    title: str
    unit: str
    series: tuple[Series, ...]
    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """The figures: `drawn` of `of` rounds, `sparse` rounds without values, and the values for the tooltip."""

    figures: tuple[Figure, ...]
    drawn: int
    of: int
    sparse: int
    hover: Mapping[str, Sequence[float | None]]


def drawing(result: Result, drifts: Sequence[int]) -> Drawing:
    """Lay out the charts of a run.

    Parameters
    ----------
    result
        The result of the run.
    drifts
        Rounds at which a drift was imposed.

    Returns
    -------
    Drawing
        Without figures if the result has no rounds. Rounds with far fewer records than usual have no values.
    """
    if not result.per_round:
        return Drawing((), 0, 0, 0, {})
    full, sparse = _without_sparse(result.per_round)
    lines = _drawn(full)
    columns = _columns(lines)
    rounds = [line.round for line in lines]
    plans = (_loss(columns), _quality(columns))
    figures = tuple(_figure(plan, rounds, result, drifts) for plan in plans if plan is not None)
    hover: dict[str, Sequence[float | None]] = {"round": rounds, "epoch": [line.epoch for line in lines], **columns}
    return Drawing(figures, len(lines), len(result.per_round), sparse, hover)


def _without_sparse(lines: Sequence[RoundLine]) -> tuple[list[RoundLine], int]:
    """Return the rounds, those with few records without values, and the number of these."""
    fewest = _SPARSE * median(line.records for line in lines)
    full = [line if line.records >= fewest else _without_values(line) for line in lines]
    return full, sum(line.records < fewest for line in lines)


def _without_values(line: RoundLine) -> RoundLine:
    return replace(line, loss=math.nan, accuracy=None, mae=None, no_change=None)


def _drawn(lines: Sequence[RoundLine]) -> list[RoundLine]:
    columns = _columns(lines)
    return [lines[i] for i in selected(list(columns.values()), _STRETCHES)]


def _columns(lines: Sequence[RoundLine]) -> dict[str, list[float | None]]:
    names = ("loss", "accuracy", "mae", "no_change")
    columns = {name: [_shortened(getattr(line, name)) for line in lines] for name in names}
    return {name: values for name, values in columns.items() if any(v is not None for v in values)}


def _shortened(value: float | None) -> float | None:
    # Four digits are finer than a pixel and take a third of the bytes.
    known = finite(value)
    return None if known is None else float(f"{known:.4g}")


@dataclass(frozen=True, slots=True)
class _Plan:
    key: str
    title: str
    unit: str
    series: tuple[Series, ...]
    y_max: float | None = None
    labelled: bool = False


def _loss(columns: dict[str, list[float | None]]) -> _Plan | None:
    if "loss" not in columns:
        return None
    line = Series("loss", "model", columns["loss"])
    return _Plan("loss", "Loss per round", "loss (0 best, 1 worst)", (line,), labelled=True)


def _quality(columns: dict[str, list[float | None]]) -> _Plan | None:
    naive = [Series("NoChange", "naive", columns["no_change"])] if "no_change" in columns else []
    if "accuracy" in columns:
        line = Series("accuracy", "model", columns["accuracy"])
        unit = "accuracy (share of records, 1 best)"
        return _Plan("accuracy", "Accuracy per round", unit, (*naive, line), y_max=1.0)
    if "mae" in columns:
        line = Series("MAE", "model", columns["mae"])
        unit = "mean absolute error (the target's unit, 0 best)"
        return _Plan("mae", "Error per round", unit, (*naive, line))
    return None


def _figure(plan: _Plan, rounds: Sequence[int], result: Result, drifts: Sequence[int]) -> Figure:
    found = [*_restarts(result, labelled=plan.labelled), *_local(result, labelled=plan.labelled)]
    imposed = [ChartEvent(drift, f"drift imposed at round {count(drift)}", kind="imposed") for drift in drifts]
    charts = tuple(
        chart(
            canvas,
            rounds,
            plan.series,
            epochs=epochs(result),
            found=found,
            imposed=imposed,
            y_max=plan.y_max,
        )
        for canvas in (WIDE, NARROW)
    )
    return Figure(plan.key, plan.title, plan.unit, plan.series, charts)


def _restarts(result: Result, *, labelled: bool) -> list[ChartEvent]:
    return [
        ChartEvent(
            round=r.round,
            note=f"round {count(r.round)}: restart, {evidence(r)}; epoch {count(r.epoch)} begins with "
            f"{model_named(r.chosen)}",
            label=_cut(f"{r.round}: {r.cause} → {r.chosen}") if labelled else "",
        )
        for r in result.restarts
    ]


def _local(result: Result, *, labelled: bool) -> list[ChartEvent]:
    return [
        ChartEvent(
            round=drift.round,
            note=f"round {count(drift.round)}: drift at {listed(drift.clients)} only, {evidence(drift)}",
            label=_cut(f"{drift.round}: {listed(drift.clients, 1)}") if labelled else "",
            kind="local",
        )
        for drift in alone(result)
    ]


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
