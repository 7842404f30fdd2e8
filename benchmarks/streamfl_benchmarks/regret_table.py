"""Regrets, slopes and bounds as Markdown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamfl_benchmarks.regret_players import MethodName
from streamfl_benchmarks.regret_slopes import BOUNDS, Curve, Slope
from streamfl_benchmarks.regret_streams import RADIUS, StreamName

TITLES: dict[StreamName, str] = {
    "abrupt": "L = T^0.4 segments, the loss fixed in each",
    "still": "one loss for ever",
    "moving": "a minimiser that moves every round, Δ = T^0.4",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A slope that a method should not exceed, or with `at_least` should reach."""

    stream: StreamName
    method: MethodName
    limit: float
    at_least: bool = False

    def met_by(self, slope: Slope) -> bool:
        """Return whether a measured slope meets the aim."""
        return slope.mean >= self.limit if self.at_least else slope.mean <= self.limit

    def text(self, slope: Slope) -> str:
        """Return the aim, the measured slope, and whether the aim is met."""
        wanted = f"{self.method}, {self.stream}: slope {'at least' if self.at_least else 'at most'} {self.limit}"
        missed = "**MISSED: the stream is too easy**" if self.at_least else "**BROKEN**"
        return f"{wanted}; {slope_text(slope)}: {'holds' if self.met_by(slope) else missed}"


WANTED = (
    *(Wanted("abrupt", method, 0.75) for method in ("adaptive", "experts", "experts-theorem")),
    *(Wanted("moving", method, 0.85) for method in ("adaptive", "experts", "experts-theorem")),
    Wanted("abrupt", "fedavg", 0.9, at_least=True),
)


def slope_text(slope: Slope) -> str:
    """Return a slope with its interval.

    >>> slope_text(Slope(0.4321, 0.0123)), slope_text(Slope(0.4321, float("nan")))
    ('0.432 ± 0.012', '0.432')
    """
    return f"{slope.mean:.3f}" + ("" if math.isnan(slope.half) else f" ± {slope.half:.3f}")


def tables(curves: Sequence[Curve]) -> str:
    """Return a section per stream, and the aims for the slopes."""
    streams = list(dict.fromkeys(curve.stream for curve in curves))
    parts = [_section(name, [curve for curve in curves if curve.stream == name]) for name in streams]
    verdicts = [f"- {wish.text(c.slope)}" for wish in WANTED for c in curves if _fits(wish, c)]
    parts += ["\n".join(["### Slopes that were wanted", "", *verdicts, ""])] if verdicts else []
    return "\n".join(parts)


def _fits(wish: Wanted, curve: Curve) -> bool:
    return (wish.stream, wish.method) == (curve.stream, curve.method)


def _section(name: StreamName, curves: Sequence[Curve]) -> str:
    first = curves[0]
    described = (
        f"Δ is measured over the ball of radius {RADIUS:g}; regret in scores (nats over 2 ln 2), mean over seeds."
        " C_T is the length of the minimisers' path, D_T the sum of squared changes of the gradient."
    )
    regrets = [
        ["method", "slope", *(f"T = {T:,}" for T in first.horizons)],
        *([c.method, slope_text(c.slope), *map(_number, c.regrets)] for c in curves),
        ["L", "", *(f"{L:,}" for L in first.changes)],
        ["Δ", "", *map(_number, first.variations)],
        *([name, "", *map(_number, values)] for name, values in _of_others(first) if values),
        *([f"{c.method}: alarms", "", *map(_number, c.alarms)] for c in curves if any(c.alarms)),
    ]
    bounds = [
        ["regret over bound, with the constant that makes it 1 at the least T", *BOUNDS],
        *([c.method, *(f"{h.worst:.3f} at {h.at:,}{' **BROKEN**' * h.broken}" for h in c.held)] for c in curves),
    ]
    lines = [
        f"### {name}: {TITLES[name]}",
        "",
        described,
        "",
        *_rows(regrets),
        "",
        "The largest ratio at a greater T; bounds are taken without logarithms:",
        "",
    ]
    return "\n".join([*lines, *_rows(bounds), ""])


def _of_others(curve: Curve) -> Iterable[tuple[str, Sequence[float]]]:
    """Return what the bounds of other methods are in: docs/method.md, "Bounds"."""
    return ("C_T", curve.paths), ("D_T", curve.gradients)


def _rows(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|" + " --- |" * len(rows[0]), *body]


def _number(value: float) -> str:
    """Return three significant digits, without an exponent.

    >>> _number(1234.5), _number(12.345), _number(0.61234), _number(0)
    ('1,234', '12.3', '0.612', '0')
    """
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"
