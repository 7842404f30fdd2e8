"""Regret over T on logarithmic axes, one panel per stream, with the bounds dashed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise

from jinja2 import Environment, StrictUndefined

from streamfl_benchmarks.chart import AxisTick, path
from streamfl_benchmarks.regret_players import MethodName
from streamfl_benchmarks.regret_slopes import Curve
from streamfl_benchmarks.regret_table import TITLES
from streamfl_benchmarks.scale import Scale

# Okabe and Ito's colours, which people with any colour vision tell apart.
COLOURS: dict[MethodName, str] = {
    "adaptive": "#0072b2",
    "experts": "#009e73",
    "experts-theorem": "#56b4e9",
    "constant": "#e69f00",
    "fedavg": "#d55e00",
    "oracle": "#cc79a7",
    "paper": "#000000",
    "paper-uncapped": "#f0e442",
}
_DASHES = ("6 4", "2 3")
_WIDTH, _PLOT, _RIGHT = 560.0, 330.0, 190.0
_LEFT, _TOP, _BELOW, _APART = 54.0, 46.0, 48.0, 15.0


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a line, to its right."""

    y: float
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Line:
    """A curve as the `d` attribute of an SVG path; dashed for a bound."""

    d: str
    colour: str
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One stream."""

    left: float
    right: float
    top: float
    bottom: float
    title: str
    fitted: str
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]


def figure(curves: Sequence[Curve]) -> str:
    """Return the curves as an SVG, one panel per stream.

    Bounds have the constant that makes them equal to the first method's regret at the smallest T.
    """
    streams = list(dict.fromkeys(curve.stream for curve in curves))
    least = min(R for curve in curves for R in curve.regrets)
    most = max(value for curve in curves for value in _heights(curve, curves))
    panels = [
        _panel([curve for curve in curves if curve.stream == name], i * _WIDTH, least, most)
        for i, name in enumerate(streams)
    ]
    source = files("streamfl_benchmarks").joinpath("regret.svg.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    height = _TOP + _PLOT + _BELOW
    return environment.from_string(source).render(panels=panels, width=_WIDTH * len(panels), height=height)


def _heights(curve: Curve, curves: Sequence[Curve]) -> list[float]:
    first = next(other for other in curves if other.stream == curve.stream)
    return [*curve.regrets, *(value for held in first.held for value in held.values)]


def _panel(curves: Sequence[Curve], left: float, least: float, most: float) -> Panel:
    first = curves[0]
    x = Scale(math.log2(first.horizons[0]), math.log2(first.horizons[-1]), left + _LEFT, left + _WIDTH - _RIGHT)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    y = Scale(low, high, _TOP + _PLOT, _TOP)
    drawn = [(h.bound, h.values, "#57636f", dash) for h, dash in zip(first.held, _DASHES, strict=True)]
    drawn += [(c.method, c.regrets, COLOURS[c.method], "") for c in reversed(curves)]
    exponents = [int(math.log2(T)) for T in first.horizons]
    ends = [Label(y(math.log10(values[-1])) + 4.0, name, colour) for name, values, colour, _ in drawn]
    return Panel(
        left=x.start,
        right=x.end,
        top=_TOP,
        bottom=_TOP + _PLOT,
        title=f"{first.stream}: {TITLES[first.stream]}",
        fitted=first.method,
        x_ticks=tuple(AxisTick(x(k), f"2^{k}") for k in exponents),
        y_ticks=tuple(AxisTick(y(k), f"{10.0**k:,g}") for k in range(low, high + 1)),
        lines=tuple(
            Line(path(exponents, [math.log10(v) for v in values], x, y), colour, dash)
            for _, values, colour, dash in drawn
        ),
        labels=apart(ends, _TOP + _PLOT),
    )


def apart(labels: Sequence[Label], lowest: float) -> tuple[Label, ...]:
    """Return the labels from top to bottom, moved so that none overlaps another or lies below the plot.

    >>> [label.y for label in apart([Label(50, "b", ""), Label(48, "a", ""), Label(98, "c", "")], lowest=95)]
    [48, 63.0, 95.0]
    """
    placed = sorted(labels, key=lambda label: label.y)
    for above, i in pairwise(range(len(placed))):
        placed[i] = _at(placed[i], max(placed[i].y, placed[above].y + _APART))
    limit = lowest
    for i in reversed(range(len(placed))):
        placed[i] = _at(placed[i], min(placed[i].y, limit))
        limit = placed[i].y - _APART
    return tuple(placed)


def _at(label: Label, y: float) -> Label:
    return label if y == label.y else Label(float(y), label.text, label.colour)
