"""Measures of a process: numbers for people who watch it, as its loop has them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

# The most samples of one measure: names of clients and reasons come from others.
MOST_SAMPLES = 1000

# What is beyond them is counted together under this name.
OTHERS = "others"

# The most characters of a reason.
MOST_OF_REASON = 80


class Measure(NamedTuple):
    """One measure, with its samples.

    Parameters
    ----------
    name
        Its name, with its unit.
    what
        What it is, in one sentence.
    kind
        A `counter` only grows while the process lives; a `gauge` may fall.
    samples
        The labels and the value of each sample; all have labels of the same names.
    """

    name: str
    what: str
    kind: Literal["counter", "gauge"]
    samples: tuple[tuple[Mapping[str, str], float], ...]


def counter(name: str, what: str, value: float, **labels: str) -> Measure:
    """Return a counter with one sample."""
    return Measure(name, what, "counter", ((labels, value),))


def gauge(name: str, what: str, value: float, **labels: str) -> Measure:
    """Return a gauge with one sample."""
    return Measure(name, what, "gauge", ((labels, value),))


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


def together(*measures: Iterable[Measure]) -> tuple[Measure, ...]:
    """Return measures of several parts of a process."""
    return tuple(measure for part in measures for measure in part)
