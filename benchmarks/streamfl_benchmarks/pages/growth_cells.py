"""Cells of the tables about growth: exponents of time, memory and bytes over clients, features, labels and rounds."""

from dataclasses import dataclass
from typing import Any

from streamfl_benchmarks.pages.rows import Rows
from streamfl_benchmarks.regret_slopes import fitted
from streamfl_benchmarks.run_file import Row


@dataclass(frozen=True)
class Growth:
    """The runs in which one number grows, by that number; of several seeds the mean counts.

    >>> runs = [{"value": n, "seed": 1, "seconds": n**1.0, "memory_mb": 7.25, "of_size": 10, "of_clients": n,
    ...          "sent": 80.0, "published": 4.5} for n in (10, 100, 1000)]
    >>> growth = Growth(Rows.of("made", runs))
    >>> growth.values, growth.cells("memory_mb"), growth.exponent("seconds"), growth.exponent("published")
    ('10, 100, 1,000', '7.2, 7.2, 7.2', '1.00, 1.00', '1.00, 1.00')
    >>> growth.exponent("sent")
    '0.00, 0.00'
    """

    rows: Rows

    @property
    def values(self) -> str:
        """Return the values of what grows."""
        return ", ".join(f"{value:,}" for value in self._by_value("seed"))

    def cells(self, field: str, digits: int = 1) -> str:
        """Return a figure at each value."""
        return ", ".join(f"{mean:,.{digits}f}" for mean in self._by_value(field).values())

    def exponent(self, field: str) -> str:
        """Return the slope of its logarithm on that of what grows: over all values, and between the last two."""
        by_value = self._by_value(field)
        at, figures = list(by_value), list(by_value.values())
        return f"{fitted(at, figures):.2f}, {fitted(at[-2:], figures[-2:]):.2f}".replace("-0.00", "0.00")

    def multiples(self, field: str) -> list[tuple[float, float]]:
        """Return each value and its figure, both as multiples of the first."""
        by_value = list(self._by_value(field).items())
        value, figure = by_value[0]
        return [(at / value, found / figure) for at, found in by_value]

    def _by_value(self, field: str) -> dict[int, float]:
        of: dict[int, list[float]] = {}
        for run in self.rows.runs:
            of.setdefault(run["value"], []).append(_figure(run, field))
        return {value: sum(figures) / len(figures) for value, figures in sorted(of.items())}


def _figure(run: Row, field: str) -> float:
    """Return a figure of a run; of bytes, those of an update, and those published in a round."""
    of: dict[str, Any] = {"sent": run.get("of_size"), "published": run.get("of_size", 0) * run.get("of_clients", 0)}
    return float(run[field] * of.get(field, 1))


def growths(rows: Rows) -> dict[tuple[str, str], Growth]:
    """Return the growth over each number, by what learns and that number."""
    kinds = dict.fromkeys((run["features_of"], run["what"]) for run in rows.runs)
    return {(kind, what): Growth(rows.where(features_of=kind, what=what)) for kind, what in kinds}
