"""The layout of a chart over rounds: from values to coordinates, which a template draws."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from streamfl_benchmarks.scale import Scale, ceiling, multiples, step, tick_text

_LETTER = 6.8  # the width of a letter at font size 11, with a margin as fonts differ between machines
_ABOVE, _BELOW = 10.0, 40.0
_RING = "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0"


@dataclass(frozen=True, slots=True)
class Canvas:
    """The size of a drawing, in pixels at full size, and the largest number of ticks on its axes."""

    width: float
    height: float
    left: float
    right: float
    x_ticks: int
    y_ticks: int


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a chart: its name in the legend, the name of its colour, one value per round."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class AxisTick:
    """One tick of an axis: its coordinate and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A series as the `d` attribute of an SVG path."""

    colour: str
    d: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as coordinates on its canvas; `drifts` are the places of the drifts that were imposed."""

    canvas: Canvas
    height: float
    top: float
    bottom: float
    right: float
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    paths: tuple[Curve, ...]
    drifts: tuple[float, ...]


def chart(canvas: Canvas, rounds: Sequence[int], series: Sequence[Series], drifts: Sequence[int] = ()) -> Chart:
    """Lay out a chart over rounds.

    Parameters
    ----------
    canvas
        The canvas.
    rounds
        The rounds of the values, increasing, at least one.
    series
        The curves, each with one value per round.
    drifts
        The rounds of imposed drifts; those outside the rounds are left out.

    Returns
    -------
    Chart
        The coordinates of everything in it.
    """
    x = Scale(rounds[0] - 0.5, rounds[-1] + 0.5, canvas.left, canvas.width - canvas.right)
    bottom = _ABOVE + canvas.height
    highest = max((v for s in series for v in map(finite, s.values) if v is not None), default=0.0)
    y = Scale(0.0, ceiling(highest, canvas.y_ticks), bottom, _ABOVE)
    return Chart(
        canvas=canvas,
        height=bottom + _BELOW,
        top=_ABOVE,
        bottom=bottom,
        right=x.end,
        x_ticks=_round_ticks(x, rounds[0], canvas.x_ticks),
        y_ticks=_value_ticks(y, canvas.y_ticks),
        paths=tuple(Curve(s.colour, path(rounds, s.values, x, y)) for s in series),
        drifts=tuple(x(at) for at in drifts if x.low <= at <= x.high),
    )


def finite(value: float | None) -> float | None:
    """Return the value, or None for one that cannot be drawn.

    >>> finite(0.5), finite(float("nan")), finite(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def path(rounds: Iterable[int], values: Iterable[float | None], x: Scale, y: Scale) -> str:
    """Return a series as an SVG path. A missing value breaks it; a single value between two breaks is a ring.

    >>> path([1, 2, 3, 4], [0, 1, None, 0.5], Scale(0, 10, 0, 100), Scale(0, 1, 50, 0))
    'M10 50L20 0M40 25m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0'
    """
    spots = [
        None if value is None else f"{x(at):.5g} {y(value):.5g}"
        for at, value in zip(rounds, map(finite, values), strict=True)
    ]
    runs = (list(run) for missing, run in groupby(spots, key=lambda spot: spot is None) if not missing)
    return "".join(f"M{'L'.join(map(str, run))}{_RING if len(run) == 1 else ''}" for run in runs)


def _width(text: str) -> float:
    return _LETTER * len(text)


def _round_ticks(x: Scale, first: int, at_most: int) -> tuple[AxisTick, ...]:
    size = max(1.0, step(x.high - x.low, at_most))
    ticks = [AxisTick(x(value), tick_text(value, size)) for value in multiples(first, x.high, size)]
    # Rounds count from 1, which is a multiple of no step but 1.
    if not ticks or ticks[0].at - x(first) > _width(ticks[0].text + "0"):
        ticks.insert(0, AxisTick(x(first), tick_text(first, 1.0)))
    return tuple(ticks)


def _value_ticks(y: Scale, at_most: int) -> tuple[AxisTick, ...]:
    size = step(y.high, at_most)
    return tuple(AxisTick(y(value), tick_text(value, size)) for value in multiples(0.0, y.high, size))
