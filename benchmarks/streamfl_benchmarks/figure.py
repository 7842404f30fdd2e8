"""The figure of the paper: the loss of every method over rounds, with drifts marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from jinja2 import Environment, StrictUndefined

from streamfl.arrays import FloatArray
from streamfl_benchmarks.chart import Canvas, Chart, Series, chart
from streamfl_benchmarks.comparison import REFERENCE, Setting
from streamfl_benchmarks.run import Run

CANVAS = Canvas(width=980, height=300, left=52, right=20, x_ticks=12, y_ticks=6)
SMOOTHED = 5
# Okabe and Ito's colours, which people with any colour vision tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#18212c", "#8c6d31")
DASHES = ("", "7 3", "2 3")
_LETTER, _KEY, _LINE = 7.4, 44.0, 22.0


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend: its place, its text, and the style of its line."""

    x: float
    y: float
    name: str
    style: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One setting: its title, legend and chart, `top` units down the drawing."""

    title: str
    top: float
    keys: tuple[Key, ...]
    chart: Chart
    chart_top: float


def figure(settings: Sequence[Setting], losses: Mapping[str, FloatArray]) -> str:
    """Return an SVG with one panel for each setting.

    Parameters
    ----------
    settings
        The settings that were compared.
    losses
        The loss of each round of each run, by the run's key.
    """
    # A method has the same style in every panel; the reference has the first colour and the thickest line.
    methods = dict.fromkeys(line.method for setting in settings for line in setting.lines)
    order = sorted(methods, key=lambda method: method != REFERENCE)
    panels: list[Panel] = []
    top = 0.0
    for setting in settings:
        panels.append(_panel(setting, losses, order, top))
        top = panels[-1].top + panels[-1].chart_top + panels[-1].chart.height + 24.0
    source = files("streamfl_benchmarks").joinpath("figure.svg.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(source).render(panels=panels, width=CANVAS.width, height=top, styles=_styles())


def smoothed(losses: FloatArray, over: int = SMOOTHED) -> FloatArray:
    """Return the mean of each round and those before it, so that no change shows early.

    Rounds without a loss (NaN) are left out of the means.

    >>> smoothed(np.array([1.0, 3.0, np.nan, 5.0]), over=2)
    array([1., 2., 3., 5.])
    """
    known = np.nancumsum(np.concatenate([[0.0], losses]))
    count = np.cumsum(np.concatenate([[0], ~np.isnan(losses)]))
    ends = np.arange(1, len(losses) + 1)
    begins = np.maximum(ends - over, 0)
    n = count[ends] - count[begins]
    means: FloatArray = np.where(n > 0, (known[ends] - known[begins]) / np.maximum(n, 1), np.nan)
    return means


def _panel(setting: Setting, losses: Mapping[str, FloatArray], order: Sequence[str], top: float) -> Panel:
    first = setting.runs[0]
    by_method: dict[str, list[FloatArray]] = {line.method: [] for line in setting.lines}
    for run in setting.runs:
        by_method[run.method].append(smoothed(losses[run.key]))
    series = [
        Series(method, f"s{order.index(method)}", np.mean(curves, axis=0).tolist())
        for method, curves in by_method.items()
    ]
    rounds = range(1, first.rounds + 1)
    # The best are drawn last, above the others.
    drawn = chart(CANVAS, rounds, series[::-1], first.at)
    keys = _keys([*((s.name, s.colour) for s in series), *([("drift", "drift")] if first.at else [])])
    return Panel(_title(first), top, keys, drawn, keys[-1].y + 10.0)


def _title(run: Run) -> str:
    """Return the title of a panel, whose axis shows the rounds and the drifts."""
    condition = "" if run.condition == "plain" else f", {run.condition}"
    return f"{run.stream}, {run.drift}{condition}: {run.clients} clients, {run.round_size} records a client"


def _keys(entries: Sequence[tuple[str, str]]) -> tuple[Key, ...]:
    x, y = CANVAS.left, 44.0
    keys = []
    for name, style in entries:
        width = _KEY + _LETTER * len(name)
        if x + width > CANVAS.width - CANVAS.right:
            x, y = CANVAS.left, y + _LINE
        keys.append(Key(x, y, name, style))
        x += width + 8.0
    return tuple(keys)


def _styles() -> list[tuple[str, str]]:
    return [(colour, dash) for dash in DASHES for colour in COLOURS]
