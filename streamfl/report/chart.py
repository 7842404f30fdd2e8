"""The geometry of a chart over rounds: numbers in, places on the paper out; the template draws them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from streamfl.report.labels import LabelPlace, place
from streamfl.report.scale import Scale, ceiling, mark_text, marks, step

_LANE = 15.0
_LANES = 3
_LETTER = 6.8  # the width of a letter of 11 units, a little generous: fonts differ between machines


@dataclass(frozen=True, slots=True)
class Canvas:
    """The size of a drawing and how densely its axes may be marked; its units are pixels at full size.

    On one that `hovers` a pointer rests on a line to read its note; a finger on a small screen cannot.
    """

    name: str
    width: float
    height: float
    left: float
    right: float
    x_marks: int
    y_marks: int
    hovers: bool


WIDE = Canvas("wide", width=980, height=280, left=46, right=20, x_marks=12, y_marks=6, hovers=True)
NARROW = Canvas("narrow", width=360, height=220, left=38, right=16, x_marks=6, y_marks=5, hovers=False)
_ABOVE, _BELOW = 10.0, 40.0
_RING = "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0"


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: its name in the legend, its colour's name, one value per round."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a round: `label` is written beside its line, `note` is told in full."""

    round: int
    note: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark of an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Band:
    """One epoch; `text` is empty where it has no room, every second band is shaded."""

    x: float
    width: float
    text: str
    shaded: bool


@dataclass(frozen=True, slots=True)
class Line:
    """An event's vertical line from `top` down to the axis, with its label's place if it has one."""

    x: float
    top: float
    event: Event
    label: LabelPlace | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A series as the `d` of an SVG path."""

    colour: str
    d: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as places on its paper. `first` and `last` are the rounds at the plot's two edges."""

    paper: Canvas
    height: float
    top: float
    bottom: float
    right: float
    first: float
    last: float
    x_marks: tuple[Mark, ...]
    y_marks: tuple[Mark, ...]
    bands: tuple[Band, ...]
    paths: tuple[Path, ...]
    restarts: tuple[Line, ...]
    drifts: tuple[Line, ...]

    @property
    def dense(self) -> bool:
        """Whether lines stand so close that they must be drawn thin, or they would hide the series."""
        return len(self.restarts) + len(self.drifts) > self.paper.width / 16

    @property
    def unlabelled(self) -> int:
        """Restarts that wanted a label and found no room for it."""
        return sum(1 for line in self.restarts if line.event.label and line.label is None)


def chart(
    paper: Canvas,
    rounds: Sequence[int],
    series: Sequence[Series],
    *,
    epochs: Sequence[tuple[int, int]],
    restarts: Sequence[Event] = (),
    drifts: Sequence[Event] = (),
    y_max: float | None = None,
) -> Chart:
    """Lay out a chart over rounds.

    Parameters
    ----------
    paper
        The size to draw at.
    rounds
        The rounds that the series have values for, increasing, at least one.
    series
        The lines, each with one value per round.
    epochs
        The number of each epoch and the round it begins at, from the one of the first round on.
    restarts, drifts
        What happened when; events outside the rounds are left out.
    y_max
        The upper end of the value axis, which starts at 0; found from the values when absent.

    Returns
    -------
    Chart
        The places of everything in it.
    """
    x = Scale(rounds[0] - 0.5, rounds[-1] + 0.5, paper.left, paper.width - paper.right)
    shown = sorted((e for e in restarts if x.low <= e.round <= x.high), key=lambda e: e.round)
    places = place([(x(e.round), _width(e.label)) for e in shown if e.label], x.end, _LANES)
    lanes = 1 + max((p.lane for p in places if p), default=-1)
    top = _ABOVE + lanes * _LANE
    bottom = top + paper.height
    highest = max((v for s in series for v in map(finite, s.values) if v is not None), default=0.0)
    y = Scale(0.0, y_max or ceiling(highest, paper.y_marks), bottom, top)
    return Chart(
        paper=paper,
        height=bottom + _BELOW,
        top=top,
        bottom=bottom,
        right=x.end,
        first=x.low,
        last=x.high,
        x_marks=_round_marks(x, rounds[0], paper.x_marks),
        y_marks=_value_marks(y, paper.y_marks),
        bands=bands(epochs, x),
        paths=tuple(Path(s.colour, path(rounds, s.values, x, y)) for s in series),
        restarts=_restart_lines(shown, places, x, top),
        drifts=tuple(Line(x(e.round), top, e) for e in drifts if x.low <= e.round <= x.high),
    )


def finite(value: float | None) -> float | None:
    """Return the value, or None for one that cannot be drawn.

    >>> finite(0.5), finite(float("nan")), finite(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def path(rounds: Iterable[int], values: Iterable[float | None], x: Scale, y: Scale) -> str:
    """Return a series as an SVG path; a missing value breaks it, and one alone between two breaks is a ring.

    >>> path([1, 2, 3, 4], [0, 1, None, 0.5], Scale(0, 10, 0, 100), Scale(0, 1, 50, 0))
    'M10 50L20 0M40 25m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0'
    """
    spots = [
        None if value is None else f"{x(at):.5g} {y(value):.5g}"
        for at, value in zip(rounds, map(finite, values), strict=True)
    ]
    runs = (list(run) for missing, run in groupby(spots, key=lambda spot: spot is None) if not missing)
    return "".join(f"M{'L'.join(map(str, run))}{_RING if len(run) == 1 else ''}" for run in runs)


def bands(epochs: Sequence[tuple[int, int]], x: Scale) -> tuple[Band, ...]:
    """Return the epochs as bands, each up to where the next begins; the first begins at the plot's edge.

    >>> [(b.x, b.width, b.text, b.shaded) for b in bands([(1, 0), (2, 40)], Scale(0, 100, 0.0, 200.0))]
    [(0.0, 80.0, 'epoch 1', False), (80.0, 120.0, 'epoch 2', True)]
    """
    edges = [x.start, *(x(begin) for _, begin in epochs[1:]), x.end]
    return tuple(
        Band(left, right - left, _band_text(epoch, right - left), epoch % 2 == 0)
        for (epoch, _), (left, right) in zip(epochs, pairwise(edges), strict=True)
    )


def _band_text(epoch: int, width: float) -> str:
    return next((text for text in (f"epoch {epoch}", str(epoch)) if _width(text) + 8 <= width), "")


def _width(text: str) -> float:
    return _LETTER * len(text)


def _round_marks(x: Scale, first: int, at_most: int) -> tuple[Mark, ...]:
    size = max(1.0, step(x.high - x.low, at_most))
    found = [Mark(x(value), mark_text(value, size)) for value in marks(first, x.high, size)]
    # Rounds count from 1, which no step but 1 meets.
    if not found or found[0].at - x(first) > _width(found[0].text + "0"):
        found.insert(0, Mark(x(first), mark_text(first, 1.0)))
    return tuple(found)


def _value_marks(y: Scale, at_most: int) -> tuple[Mark, ...]:
    size = step(y.high, at_most)
    return tuple(Mark(y(value), mark_text(value, size)) for value in marks(0.0, y.high, size))


def _restart_lines(
    events: Sequence[Event], places: Sequence[LabelPlace | None], x: Scale, top: float
) -> tuple[Line, ...]:
    remaining = iter(places)
    lines = []
    for event in events:
        spot = next(remaining) if event.label else None
        rise = top - 4.0 - spot.lane * _LANE - 10.0 if spot else top
        lines.append(Line(x(event.round), rise, event, spot))
    return tuple(lines)
