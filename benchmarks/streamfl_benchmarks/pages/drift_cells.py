"""Cells of tables about drift: which were found, how late, and how surely none is made up."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from scipy.stats import beta

from streamfl_benchmarks.findings import LATE
from streamfl_benchmarks.pages.rows import Rows

ONE_SIDED = 0.025
OFTEN = {1: "once", 2: "twice"}


def found(*columns: Rows) -> str:
    """Return how many drifts the runs found, of how many.

    >>> found(Rows.of("made", [{"seed": 1, "detections": [0, None]}, {"seed": 2, "detections": [0, 1]}]))
    '3 of 4'
    """
    every = [delay for rows in columns for delays in rows.values("detections") for delay in delays]
    hits = sum(delay is not None for delay in every)
    return f"{hits} of {len(every)}" if hits else "none"


def delay(*columns: Rows) -> str:
    """Return by how many rounds drifts were found late.

    >>> delay(Rows.of("made", [{"seed": 1, "detections": [1, 1, None]}]))
    '1'
    >>> delay(Rows.of("made", [{"seed": 1, "detections": [0, 0, 0, 1, 1]}]))
    '0, twice 1'
    >>> delay(Rows.of("made", [{"seed": 1, "detections": [8, 41, 12, 17, 17]}]))
    'median 17 (8 to 41)'
    """
    late = sorted(d for rows in columns for delays in rows.values("detections") for d in delays if d is not None)
    counts = Counter(late)
    if len(counts) == 1:
        return str(late[0])
    if len(counts) == 2 and late[0] == 0:
        often = counts[late[-1]]
        return f"0, {OFTEN.get(often, f'{often} times')} {late[-1]}"
    return f"median {median(late):g} ({late[0]} to {late[-1]})" if late else "none"


def within(rows: Rows, at: Sequence[int], late: int = LATE) -> int:
    """Count the drifts, in these rounds of every run, that a restart followed by at most so many rounds.

    >>> within(Rows.of("made", [{"seed": 1, "restarts": [51, 53, 107]}, {"seed": 2, "restarts": []}]), (51, 101))
    1
    """
    return sum(any(drift <= t <= drift + late for t in found) for found in rows.values("restarts") for drift in at)


def quiet_at_least(runs: int, alarmed: int) -> str:
    """Return the lower bound of the share of quiet runs by Clopper and Pearson, 97.5% one-sided.

    >>> quiet_at_least(40, 0), quiet_at_least(40, 1)
    ('0.912', '0.868')
    """
    quiet = runs - alarmed
    return f"{float(beta.ppf(ONE_SIDED, quiet, alarmed + 1)) if quiet else 0.0:.3f}"


def temporal_kappa(rows: Rows) -> str:
    """Return the accuracy of a run between that of NoChange, 0, and 1.

    >>> temporal_kappa(Rows.of("made", [{"seed": 1, "accuracy": {"prequential": 0.8, "no_change": 0.7}}]))
    '0.33'
    """
    (own,), (naive,) = rows.values("accuracy.prequential"), rows.values("accuracy.no_change")
    return f"{(own - naive) / (1 - naive):.2f}"
