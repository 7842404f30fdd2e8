"""Whether streamfl is as fast as it was: CPU time next to yardsticks, compared with the committed figures.

    python -m streamfl_benchmarks.speed_check            fails if a ratio is below 0.8 of the committed one
    python -m streamfl_benchmarks.speed_check --renew    measures and writes benchmarks/speed.json
    python -m streamfl_benchmarks.speed_check --slower 1.4    slows our work down, and fails if that is missed

A ratio is the CPU time of the yardstick over that of streamfl, so a slower streamfl has a smaller ratio. Both run
alternately in one process, which shares what else the machine does between them.
"""

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click
from threadpoolctl import threadpool_limits

from streamfl_benchmarks.yardsticks import Comparison, Work, comparisons

FIGURES = Path(__file__).parents[1] / "speed.json"

# A ratio may be so much of the committed one before the check fails.
ENOUGH = 0.8

# Pairs of a measurement, measurements before the check fails, and measurements of which the median is committed.
PAIRS, TRIES, RENEWALS = 5, 3, 3

# With three other busy processes for each core, ours lost a fifth of its speed and the yardsticks little: they need
# less of the cache, which others empty between two slices of time. This nice value made that 8%, where it is allowed.
PRIORITY = -15

Clock = Callable[[], float]


@dataclass(frozen=True)
class Verdict:
    """A measured ratio next to the committed one.

    >>> Verdict("encoding", committed=0.50, measured=0.41).passes, Verdict("encoding", 0.50, 0.39).passes
    (True, False)
    """

    name: str
    committed: float
    measured: float

    @property
    def share(self) -> float:
        """Return the measured ratio as a share of the committed one."""
        return self.measured / self.committed

    @property
    def passes(self) -> bool:
        """Tell whether it is fast enough."""
        return self.share >= ENOUGH

    def __str__(self) -> str:
        """Return a line.

        >>> print(Verdict("encoding", 0.5, 0.41))
        encoding: 0.410 measured, 0.500 committed, share 0.82
        """
        return f"{self.name}: {self.measured:.3f} measured, {self.committed:.3f} committed, share {self.share:.2f}"


def ratio_of(seconds: Sequence[tuple[float, float]]) -> float:
    """Return the median of the yardstick's seconds over ours.

    >>> ratio_of([(4.0, 1.0), (2.0, 1.0), (5.0, 1.0)])
    0.25
    """
    return statistics.median(yardstick / ours for ours, yardstick in seconds)


def advice(failed: Sequence[Verdict]) -> str:
    """Return what to do about works that have become slower.

    >>> print(advice([Verdict("encoding", 0.5, 0.25)]))
    This code has become slower. Measured three times, the best result of each:
      encoding takes 2.0 times the CPU time that it took: ratio 0.250, committed 0.500.
    Find what costs more: python -m cProfile -s tottime, on the commit before and on this one.
    If the cost has a reason, run make speed-renew, and commit benchmarks/speed.json with the reason in the message.
    """
    lines = [
        f"  {one.name} takes {1 / one.share:.1f} times the CPU time that it took: "
        f"ratio {one.measured:.3f}, committed {one.committed:.3f}."
        for one in failed
    ]
    return "\n".join(
        [
            "This code has become slower. Measured three times, the best result of each:",
            *lines,
            "Find what costs more: python -m cProfile -s tottime, on the commit before and on this one.",
            "If the cost has a reason, run make speed-renew, and commit benchmarks/speed.json with the reason in the "
            "message.",
        ]
    )


def measured(compared: Comparison, pairs: int = PAIRS, clock: Clock = time.process_time) -> float:
    """Return the ratio of a comparison.

    Each pair runs ours, the yardstick twice, and ours again, so that a machine that changes its speed slowly slows
    both alike. No garbage is collected meanwhile: else one pays for what the other left.
    """
    seconds = []
    with threadpool_limits(1):
        for _ in range(pairs):
            gc.collect()
            gc.disable()
            try:
                a, b, c, d = (seconds_of(work, clock) for work in _in_turn(compared))
            finally:
                gc.enable()
            own, other = compared.times
            seconds.append(((a + d) / own, (b + c) / other))
    return ratio_of(seconds)


def _in_turn(compared: Comparison) -> tuple[Work, Work, Work, Work]:
    return compared.ours, compared.yardstick, compared.yardstick, compared.ours


def seconds_of(work: Work, clock: Clock) -> float:
    """Return the seconds that a work takes."""
    began = clock()
    work()
    return clock() - began


def judged(compared: Comparison, committed: float, measure: Callable[[Comparison], float] = measured) -> Verdict:
    """Return the best verdict on a comparison, which is measured at most `TRIES` times, until it passes.

    Examples
    --------
    >>> ratios = iter([0.1, 0.3, 0.2, 0.4])
    >>> nothing = Comparison("encoding", lambda: None, lambda: None)
    >>> judged(nothing, 0.4, lambda compared: next(ratios)).measured
    0.3
    """
    best = Verdict(compared.name, committed, 0.0)
    for _ in range(TRIES):
        if not best.passes:
            best = replace(best, measured=max(best.measured, measure(compared)))
    return best


def go_first() -> None:
    """Run before other work of the machine, if this user may: see `PRIORITY`."""
    with suppress(PermissionError):
        os.nice(PRIORITY)


def warm(each: Iterator[Comparison]) -> Iterator[Comparison]:
    """Yield comparisons of which both sides have run once: loops are compiled, and what is kept is kept."""
    for compared in each:
        compared.ours()
        compared.yardstick()
        yield compared


def slowed(compared: Comparison, times: float, clock: Clock = time.process_time) -> Comparison:
    """Return a comparison of which our work takes so many times as much CPU time."""

    def ours() -> None:
        took = seconds_of(compared.ours, clock)
        until = clock() + (times - 1.0) * took
        while clock() < until:
            pass

    return replace(compared, ours=ours)


def missing(committed: Mapping[str, float], names: Sequence[str]) -> str:
    """Return why committed figures do not fit what is measured; "" if they do.

    >>> missing({"a": 0.5}, ["a"]), missing({"a": 0.5}, ["a", "b"])
    ('', 'benchmarks/speed.json has other figures than are measured: b. Run make speed-renew.')
    """
    others = sorted(committed.keys() ^ set(names))
    told = ", ".join(others)
    return (
        f"benchmarks/speed.json has other figures than are measured: {told}. Run make speed-renew." if others else ""
    )


@click.command(help=__doc__.splitlines()[0])
@click.option("--renew", is_flag=True, help="Write the measured ratios to benchmarks/speed.json.")
@click.option("--slower", type=float, help="Slow every work down so many times, and fail if one still passes.")
def main(renew: bool, slower: float | None) -> None:
    """Check, renew, or check the check."""
    if renew:
        _renew()
        return
    committed = json.loads(FIGURES.read_text())
    verdicts = []
    for compared in warm(comparisons()):
        work = compared if slower is None else slowed(compared, slower)
        if compared.name in committed:
            verdicts.append(judged(work, committed[compared.name]))
            click.echo(verdicts[-1])
        else:
            verdicts.append(Verdict(compared.name, 1.0, 0.0))
    if told := missing(committed, [verdict.name for verdict in verdicts]):
        click.echo(told, err=True)
        sys.exit(1)
    if slower is not None:
        _exit_if([one for one in verdicts if one.passes], "Slowed down, these still pass: {}")
        return
    failed = [one for one in verdicts if not one.passes]
    if failed:
        click.echo(advice(failed), err=True)
        sys.exit(1)


def _exit_if(wrong: Sequence[Verdict], told: str) -> None:
    if wrong:
        click.echo(told.format(", ".join(one.name for one in wrong)), err=True)
        sys.exit(1)


def _renew() -> None:
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    found = {}
    for compared in warm(comparisons()):
        found[compared.name] = round(statistics.median(measured(compared) for _ in range(RENEWALS)), 3)
        click.echo(f"{compared.name}: {found[compared.name]:.3f}, before {before.get(compared.name, 'not measured')}")
    FIGURES.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    go_first()
    main()
