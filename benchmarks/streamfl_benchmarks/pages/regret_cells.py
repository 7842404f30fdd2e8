"""Cells of tables about regret: its growth with the horizon."""

from streamfl_benchmarks.comparison import Estimate
from streamfl_benchmarks.pages.rows import Rows, told
from streamfl_benchmarks.regret_slopes import Slope, fitted


def slope(rows: Rows, since: int = 0) -> str:
    """Return the slope of log regret on log T over seeds, ± half of its 95% interval.

    Parameters
    ----------
    rows
        Runs of a method on a stream.
    since
        The smallest T that counts.

    >>> slope(Rows.of("made", [{"seed": s, "rounds": T, "regret": T**0.5} for s in (0, 1) for T in (4, 16, 64)]))
    '0.50 ± 0.00'
    """
    by_seed: dict[int, dict[int, float]] = {}
    for run in rows.runs:
        if run["rounds"] >= since:
            by_seed.setdefault(run["seed"], {})[run["rounds"]] = run["regret"]
    found = Slope.over([fitted(list(regrets), list(regrets.values())) for regrets in by_seed.values()])
    return told(Estimate(found.mean, found.half), 2)
