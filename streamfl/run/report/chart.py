"""The layout of a chart over rounds: from values to coordinates, which the template draws."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from streamfl.run.report.labels import LabelPlace, place
from streamfl.run.report.scale import Scale, ceiling, multiples, step, tick_text

_LANE = 15.0
_LANES = 3
_LETTER = 6.8  # the width of a letter at font size 11, with a margin as fonts differ between machines


@dataclass(frozen=True, slots=True)
class Canvas:
    """The size of a drawing, in pixels at full size, and the largest number of ticks on its axes.

    If it `hovers`, event lines have tooltips; a touch screen cannot show them.
    """

    name: str
    width: float
    height: float
    left: float
    right: float
    x_ticks: int
    y_ticks: int
    hovers: bool


WIDE = Canvas("wide", width=980, height=280, left=46, right=20, x_ticks=12, y_ticks=6, hovers=True)
NARROW = Canvas("narrow", width=360, height=220, left=38, right=16, x_ticks=6, y_ticks=5, hovers=False)
_ABOVE, _BELOW = 10.0, 40.0
_RING = "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0"


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a chart: its name in the legend, the name of its colour, one value per round."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ChartEvent:
    """An event at a round. `label` is drawn beside its line; `note` is the full text of the tooltip."""

    round: int
    note: str
    label: str = ""
    kind: Literal["restart", "local", "imposed"] = "restart"


@dataclass(frozen=True, slots=True)
class AxisTick:
    """One tick of an axis: its coordinate and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class EpochBand:
    """One epoch as a vertical band. `text` is empty if there is no room for it; every second band is shaded."""

    x: float
    width: float
    text: str
    shaded: bool


@dataclass(frozen=True, slots=True)
class EventLine:
    """The vertical line of an event, from `top` down to the axis, with the place of its label if it has one."""

    x: float
    top: float
    event: ChartEvent
    label: LabelPlace | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """A series as the `d` attribute of an SVG path."""

    colour: str
    d: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as coordinates on its canvas. `first` and `last` are the rounds at the two edges of the plot."""

    canvas: Canvas
    height: float
    top: float
    bottom: float
    right: float
    first: float
    last: float
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    bands: tuple[EpochBand, ...]
    paths: tuple[Curve, ...]
    found: tuple[EventLine, ...]
    imposed: tuple[EventLine, ...]

    @property
    def dense(self) -> bool:
        """Whether there are so many event lines that they must be thin not to hide the curves."""
        return len(self.found) + len(self.imposed) > self.canvas.width / 16

    @property
    def unlabelled(self) -> int:
        """The number of labels that found no room."""
        return sum(1 for line in self.found if line.event.label and line.label is None)


def chart(
    canvas: Canvas,
    rounds: Sequence[int],
    series: Sequence[Series],
    *,
    epochs: Sequence[tuple[int, int]],
    found: Sequence[ChartEvent] = (),
    imposed: Sequence[ChartEvent] = (),
    y_max: float | None = None,
) -> Chart:
    """Lay out a chart over rounds.

    Parameters
    ----------
    canvas
        The canvas.
    rounds
        The rounds of the values, increasing, at least one.
    series
        The curves, each with one value per round.
    epochs
        The number and first round of each epoch, starting with the epoch of the first round.
    found, imposed
        Drifts that were found, with labels, and those that were imposed; those outside the rounds are left out.
    y_max
        The upper end of the value axis, which starts at 0; by default it follows from the values.

    Returns
    -------
    Chart
        The coordinates of everything in it.
    """
    x = Scale(rounds[0] - 0.5, rounds[-1] + 0.5, canvas.left, canvas.width - canvas.right)
    shown = sorted((e for e in found if x.low <= e.round <= x.high), key=lambda e: e.round)
    places = place([(x(e.round), _width(e.label)) for e in shown if e.label], x.end, _LANES)
    lanes = 1 + max((p.lane for p in places if p), default=-1)
    top = _ABOVE + lanes * _LANE
    bottom = top + canvas.height
    highest = max((v for s in series for v in map(finite, s.values) if v is not None), default=0.0)
    y = Scale(0.0, y_max or ceiling(highest, canvas.y_ticks), bottom, top)
    return Chart(
        canvas=canvas,
        height=bottom + _BELOW,
        top=top,
        bottom=bottom,
        right=x.end,
        first=x.low,
        last=x.high,
        x_ticks=_round_ticks(x, rounds[0], canvas.x_ticks),
        y_ticks=_value_ticks(y, canvas.y_ticks),
        bands=bands(epochs, x),
        paths=tuple(Curve(s.colour, path(rounds, s.values, x, y)) for s in series),
        found=_lines(shown, places, x, top),
        imposed=tuple(EventLine(x(e.round), top, e) for e in imposed if x.low <= e.round <= x.high),
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


def bands(epochs: Sequence[tuple[int, int]], x: Scale) -> tuple[EpochBand, ...]:
    """Return the epochs as bands. Each ends where the next begins; the first begins at the edge of the plot.

    >>> [(b.x, b.width, b.text, b.shaded) for b in bands([(1, 0), (2, 40)], Scale(0, 100, 0.0, 200.0))]
    [(0.0, 80.0, 'epoch 1', False), (80.0, 120.0, 'epoch 2', True)]
    """
    edges = [x.start, *(x(begin) for _, begin in epochs[1:]), x.end]
    return tuple(
        EpochBand(left, right - left, _band_text(epoch, right - left), epoch % 2 == 0)
        for (epoch, _), (left, right) in zip(epochs, pairwise(edges), strict=True)
    )


def _band_text(epoch: int, width: float) -> str:
    return next((text for text in (f"epoch {epoch}", str(epoch)) if _width(text) + 8 <= width), "")


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


def _lines(
    events: Sequence[ChartEvent], places: Sequence[LabelPlace | None], x: Scale, top: float
) -> tuple[EventLine, ...]:
    remaining = iter(places)
    lines = []
    for event in events:
        spot = next(remaining) if event.label else None
        rise = top - 4.0 - spot.lane * _LANE - 10.0 if spot else top
        lines.append(EventLine(x(event.round), rise, event, spot))
    return tuple(lines)
