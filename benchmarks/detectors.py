"""Compares drift detectors on streams of errors (0 or 1) whose rate rises, or stays the same.

Every detector has its default settings and sees the same streams, each with errors drawn independently. A stream with
a rise begins with 1500 to 2500 values at the old rate; the rise is abrupt, or takes 1000 values. A rise is found if
there is an alarm within 2000 values of its end; the delay counts from its beginning. The dummy detector, which alarms
every 100 values, finds all rises. So read both together with the run length: values per alarm on streams without a
rise.

    python benchmarks/detectors.py --streams 30
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from river import base, drift

from streamfl.drift import GLR, EDetector, MasterTests
from streamfl.runtime.clock import stopwatch
from streamfl.sampling import generator

Detector = base.DriftDetector | base.BinaryDriftDetector

DETECTORS: dict[str, Callable[[], Detector]] = {
    "GLR": GLR,
    "EDetector": EDetector,
    "MasterTests": MasterTests,
    "MasterTests, Test 2 alone": lambda: MasterTests(two_sided_test=False),
    "ADWIN": drift.ADWIN,
    "DDM": drift.binary.DDM,
    "EDDM": drift.binary.EDDM,
    "HDDM_A": drift.binary.HDDMA,
    "HDDM_W": drift.binary.HDDMW,
    "KSWIN": lambda: drift.KSWIN(seed=0),
    "PageHinkley": drift.PageHinkley,
    "dummy, every 100": lambda: drift.DummyDriftDetector(t_0=100),
}

QUIET = (0.05, 0.3)
QUIET_LENGTH = 10_000
AFTER = 2000


@dataclass(frozen=True)
class Rise:
    """A rise of the error rate: the rates before and after, and the values that it takes."""

    before: float
    after: float
    takes: int = 0

    @property
    def title(self) -> str:
        return f"{self.before:g} to {self.after:g}" + (f" in {self.takes}" if self.takes else "")

    def stream(self, seed: int) -> tuple[list[int], int]:
        """Return the values of a stream, and the index of the first one drawn at a higher rate."""
        rng = generator(seed, "rise", self.title)
        at = int(rng.integers(1500, 2500))
        since = np.arange(at + self.takes + AFTER) - at + 1
        part = np.clip(since / max(1, self.takes), 0.0, 1.0)
        rates = self.before + (self.after - self.before) * part
        return (rng.random(len(rates)) < rates).astype(int).tolist(), at


RISES = (
    Rise(0.05, 0.1), Rise(0.05, 0.2), Rise(0.05, 0.45), Rise(0.3, 0.4), Rise(0.3, 0.5), Rise(0.3, 0.7),
    Rise(0.05, 0.2, takes=1000), Rise(0.3, 0.5, takes=1000),
)  # fmt: skip


def alarms(detector: Detector, errors: list[int]) -> Iterator[int]:
    for i, error in enumerate(errors):
        detector.update(bool(error))
        if detector.drift_detected:
            yield i


def found(build: Callable[[], Detector], rise: Rise, streams: int) -> str:
    """Return how many rises were found, and the median delay: 1 for an alarm at the first value of the rise."""
    delays = []
    for seed in range(streams):
        errors, at = rise.stream(seed)
        first = next((i for i in alarms(build(), errors) if i >= at), None)
        if first is not None:
            delays.append(first - at + 1)
    return f"{len(delays)}; {statistics.median(delays):.0f}" if delays else "0; -"


def run_length(build: Callable[[], Detector], rate: float, streams: int) -> str:
    """Return values per alarm on streams without a rise; without an alarm, more than there were values."""
    count = 0
    for seed in range(streams):
        errors = (generator(seed, "quiet", str(rate)).random(QUIET_LENGTH) < rate).astype(int).tolist()
        count += sum(1 for _ in alarms(build(), errors))
    total = streams * QUIET_LENGTH
    return f"{total / count:,.0f}" if count else f"> {total:,}"


def microseconds(names: list[str], runs: int = 5) -> dict[str, float]:
    """Return the median time of an update, in interleaved runs over a stream without a rise."""
    errors = (generator(0, "time").random(QUIET_LENGTH) < 0.2).astype(int).tolist()
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            detector = DETECTORS[name]()
            began = stopwatch()
            for error in errors:
                detector.update(bool(error))
            times[name].append((stopwatch() - began) / len(errors))
    return {name: 1e6 * statistics.median(taken) for name, taken in times.items()}


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=30, help="streams of each kind")
    parser.add_argument("--detector", choices=DETECTORS, action="append", help="may be repeated; default: all")
    given = parser.parse_args()
    print(f"Of {given.streams} streams of each kind: rises found; median delay of those. Then errors for each alarm")
    print(f"on quiet streams, {given.streams} of {QUIET_LENGTH:,} errors at each rate.\n")
    quiet = [f"quiet, {rate:g}" for rate in QUIET]
    print(row("detector", *(rise.title for rise in RISES), *quiet, "µs an update"))
    print(row("---", *["---:"] * (len(RISES) + len(QUIET) + 1)))
    names = given.detector or list(DETECTORS)
    times = microseconds(names)
    for name in names:
        build = DETECTORS[name]
        cells = [found(build, rise, given.streams) for rise in RISES]
        cells += [run_length(build, rate, given.streams) for rate in QUIET]
        print(row(name, *cells, f"{times[name]:.1f}"), flush=True)


if __name__ == "__main__":
    main()
