"""Measures of a process: numbers for people who watch it, as its loop has them."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

# The most samples of one measure: names of clients and reasons come from others.
MOST_SAMPLES = 1000

# What is beyond them is counted together under this name.
OTHERS = "others"

# The sizes by which durations are counted, in seconds.
BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1800.0)

# The most characters of a reason.
MOST_OF_REASON = 80


class Measure(NamedTuple):
    """One measure, with its samples."""

    name: str  # its name, with its unit
    what: str  # what it is, in one sentence
    # A `counter` only grows while the process lives; a `gauge` may fall; a `histogram` counts values.
    kind: Literal["counter", "gauge", "histogram"]

    # The labels and the value of each sample; all have labels of the same names. Of a histogram: how many values were
    # at most the label `le`.
    samples: tuple[tuple[Mapping[str, str], float], ...]
    total: float = 0.0  # of a histogram, the sum of its values


def counter(name: str, what: str, value: float, **labels: str) -> Measure:
    """Return a counter with one sample."""
    return Measure(name, what, "counter", ((labels, value),))


def gauge(name: str, what: str, value: float, **labels: str) -> Measure:
    """Return a gauge with one sample."""
    return Measure(name, what, "gauge", ((labels, value),))


@dataclass
class Durations:
    """Counts durations in seconds by their size, from a millisecond to half an hour.

    Examples
    --------
    >>> durations = Durations()
    >>> durations.add(0.004, 3)
    >>> durations.add(2.0)
    >>> measure = durations.measure("answer_seconds", "Seconds.")
    >>> [(le["le"], count) for le, count in measure.samples if le["le"] in ("0.003", "0.01", "3", "+Inf")]
    [('0.003', 0.0), ('0.01', 3.0), ('3', 4.0), ('+Inf', 4.0)]
    >>> measure.total
    2.012
    """

    total: float = 0.0
    _counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS, seconds)] += times
        self.total += seconds * times

    def measure(self, name: str, what: str) -> Measure:
        """Return them as a histogram."""
        bounds = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
        counts = accumulate(self._counts)
        samples = tuple(({"le": bound}, float(n)) for bound, n in zip(bounds, counts, strict=True))
        return Measure(name, what, "histogram", samples, self.total)


def counters(name: str, what: str, label: str, values: Mapping[str, float]) -> Measure:
    """Return a counter with a sample for each value of a label."""
    return Measure(name, what, "counter", tuple(_samples(label, values)))


def gauges(name: str, what: str, label: str, values: Mapping[str, float]) -> Measure:
    """Return a gauge with a sample for each value of a label."""
    return Measure(name, what, "gauge", tuple(_samples(label, values)))


def _samples(label: str, values: Mapping[str, float]) -> Iterator[tuple[dict[str, str], float]]:
    shown = sorted(values)
    if len(shown) > MOST_SAMPLES:
        shown, rest = shown[: MOST_SAMPLES - 1], shown[MOST_SAMPLES - 1 :]
        yield {label: OTHERS}, sum(values[name] for name in rest)
    for name in shown:
        yield {label: name}, values[name]


@dataclass
class Named:
    """Counts by a name that others choose; beyond `MOST_SAMPLES` names all new ones are counted together.

    >>> seen = Named()
    >>> for reason in ("of an older round: 7", "of an older round: 8", "late"):
    ...     seen.add(plain(reason))
    >>> seen.counts
    {'of an older round': 2.0, 'late': 1.0}
    """

    counts: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, by: float = 1.0) -> None:
        """Count a name."""
        known = name in self.counts or len(self.counts) < MOST_SAMPLES - 1
        name = name if known else OTHERS
        self.counts[name] = self.counts.get(name, 0.0) + by


def plain(reason: str) -> str:
    r"""Return the kind of a reason: what comes before its first colon or number, on one line.

    >>> plain("12 records"), plain("a loss of\nNaN: c3"), plain("")
    ('other', 'a loss of NaN', 'other')
    """
    kind = "".join(" " if char.isspace() else char for char in reason.partition(":")[0])
    at = next((i for i, char in enumerate(kind) if char.isdigit()), len(kind))
    return " ".join(kind[:at].split())[:MOST_OF_REASON] or "other"
