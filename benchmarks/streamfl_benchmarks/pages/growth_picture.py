"""The picture of growth: CPU time and memory over what grows, both axes logarithmic."""

from math import log10
from typing import Any

from streamfl_benchmarks.pages.growth_cells import Growth, growths
from streamfl_benchmarks.pages.rows import Rows

# The panels of the picture: what they show, their title, and where they begin and end; and the colour of what grows.
PANELS = (("seconds", "CPU time, as a multiple", 50.0, 290.0), ("memory_mb", "memory, as a multiple", 335.0, 575.0))
COLOURS = {"clients": "#0b62a3", "features": "#b3541e", "labels": "#3c7a2a"}
TOP, BOTTOM, DECADES = 30.0, 260.0, 3.0


def growth_lines(rows: Rows) -> list[dict[str, Any]]:
    """Return the panels of the picture: lines of both axes logarithmic, from 1 to 1,000."""
    grown = {key: of for key, of in growths(rows).items() if key[1] in COLOURS}
    return [_panel(grown, *panel) for panel in PANELS]


def _panel(grown: dict[tuple[str, str], Growth], field: str, title: str, left: float, right: float) -> dict[str, Any]:
    def place(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * log10(x) / DECADES, BOTTOM - (BOTTOM - TOP) * log10(y) / DECADES

    def path(points: list[tuple[float, float]]) -> str:
        return "M" + "L".join("{:.1f} {:.1f}".format(*place(*point)) for point in points)

    ticks = [(10**power, *place(10**power, 10**power)) for power in range(int(DECADES) + 1)]
    return {
        "title": title,
        "left": left,
        "right": right,
        "ticks": [{"text": f"{value:,}", "x": round(x, 1), "y": round(y, 1)} for value, x, y in ticks],
        "diagonal": path([(1.0, 1.0), (10.0**DECADES, 10.0**DECADES)]),
        "lines": [
            {
                "name": f"{what}, {kind}",
                "colour": COLOURS[what],
                "dashed": kind == "auto",
                "d": path(of.multiples(field)),
            }
            for (kind, what), of in grown.items()
        ],
    }
