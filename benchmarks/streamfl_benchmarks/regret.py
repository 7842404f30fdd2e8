"""Dynamic regret with exact losses, measured over a grid of streams, methods, horizons and seeds.

Regret is counted in the training loss, unclipped, whose minimiser is known; no penalty is added. Profiles compare
their models by clipped scores, as they do elsewhere. A clipped score may rank a model above the minimiser of the
loss, so a profile may have a small regret in every round for ever, which noise would hide.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from streamfl.errors import UsageError
from streamfl_benchmarks import regret_streams, run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.processes import pool
from streamfl_benchmarks.regret_driver import EACH, Driven
from streamfl_benchmarks.regret_players import BALL, METHODS, PLAYERS, MethodName, Player
from streamfl_benchmarks.regret_streams import BOUND, Stream, StreamName, stream
from streamfl_benchmarks.run_file import Kept, Row

# Kept results are used again only if they were measured with the same design.
DESIGN: dict[str, float] = {
    "clients": regret_streams.CLIENTS,
    "records_per_client": regret_streams.PER_CLIENT,
    "features": regret_streams.FEATURES,
    "concept_norm": regret_streams.RADIUS,
    "growth": regret_streams.GROWTH,
    "ball": BALL,
    "each": EACH,
}


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One measurement; cases are ordered by horizon."""

    rounds: int
    stream: StreamName
    method: MethodName
    seed: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a case.

    Parameters
    ----------
    regret
        Sum over rounds of F(x(t)) - F(v(t)), v the minimiser, F the unclipped training loss over 2 ln 2.
    changes
        L: one more than the rounds in which the loss changed.
    variation
        Delta, see `regret_streams.variations`.
    alarms
        The method's own.
    seconds
        What it took.
    way
        The index of the best of the method's variants, from 0.
    path, gradients
        C_T, the length of the minimisers' path, and D_T, the variability of gradients; None in results of before.
    """

    case: Case
    regret: float
    changes: int
    variation: float
    alarms: int
    seconds: float
    way: int = 0
    path: float | None = None
    gradients: float | None = None


def regret(player: Player, stream: Stream) -> float:
    """Return the dynamic regret of a method in a stream, in scores: nats over 2 ln 2."""
    total = 0.0
    for loss, best in stream.losses():
        total += loss.mean(player.play()) - loss.mean(best)
        player.learn(loss)
    return total / BOUND


def measure(case: Case) -> Measured:
    """Play a case with every variant of the method; the least regret counts."""
    with threadpool_limits(1):
        begun = time.perf_counter()
        played = stream(case.stream, case.rounds, case.seed)
        players = [make(played) for make in PLAYERS[case.method]]
        found, best = min((regret(player, played), i) for i, player in enumerate(players))
        player = players[best]
        alarms = player.alarms if isinstance(player, Driven) else 0
        seconds = round(time.perf_counter() - begun, 3)
        moved = len(played.starts), played.variation()
        return Measured(
            case, found, *moved, alarms, seconds, best, path=played.path(), gradients=played.gradient_variability()
        )


def grid(
    exponents: Iterable[int],
    seeds: Iterable[int],
    methods: Iterable[MethodName] = METHODS,
    streams: Iterable[StreamName] = ("abrupt", "moving"),
) -> list[Case]:
    """Return the cases of T = 2^k for every exponent k, in the order in which they are measured.

    >>> [case.rounds for case in grid([8, 7], [0], ["fedavg"], ["abrupt"])]
    [128, 256]
    """
    seeds, methods, streams = list(seeds), list(methods), list(streams)
    return sorted(Case(2**k, name, m, seed) for k in exponents for name in streams for m in methods for seed in seeds)


def measure_all(
    cases: Sequence[Case], kept: Path | None, *, jobs: int, report: Callable[[Measured, int, int], None]
) -> list[Measured]:
    """Measure the cases that are not in the file of results, adding each to it when it is done.

    Parameters
    ----------
    cases
        What to measure.
    kept
        A file of earlier results; None keeps nothing.
    jobs
        Processes.
    report
        Called after each case with its result, the number of cases done, and their total.

    Returns
    -------
    list of Measured
        In the order of the cases.

    Raises
    ------
    UsageError
        The results in the file are of another design.
    """
    known = load(kept) if kept is not None and kept.exists() else {}
    origin = Origin.now("regret", DESIGN)
    missing = [case for case in cases if case not in known]
    with pool(jobs) as executor:
        futures = [executor.submit(measure, case) for case in missing]
        for done, future in enumerate(as_completed(futures), start=1):
            found = future.result()
            known[found.case] = (origin, found)
            if kept is not None:
                save(kept, known.values())
            report(found, done, len(missing))
    return [known[case][1] for case in cases]


def load(path: Path) -> dict[Case, tuple[Origin, Measured]]:
    """Return the results of a file by case, each with where it comes from.

    Raises
    ------
    UsageError
        The file is not of this benchmark, or of another design.
    """
    found = {}
    for origin, row in run_file.read(path):
        if origin.settings != DESIGN:
            raise UsageError(f"{path}: measured with {origin.settings}, now {DESIGN}; name another file")
        try:
            measured = of_row(row)
        except (KeyError, TypeError):
            raise UsageError(f"{path}: not a file of `streamfl bench regret`; name another one") from None
        found[measured.case] = (origin, measured)
    return found


def save(path: Path, found: Iterable[tuple[Origin, Measured]]) -> None:
    """Write the results atomically, by case."""
    run_file.write(path, (Kept(o, row_of(m)) for o, m in sorted(found, key=lambda each: each[1].case)))


def row_of(measured: Measured) -> Row:
    """Return a result as it is kept.

    >>> row_of(Measured(Case(128, "still", "paper", 3), 31.4, 1, 0.0, 0, 0.5))["seed"]
    3
    """
    row = asdict(measured)
    return row.pop("case") | row  # type: ignore[no-any-return]


def of_row(row: Row) -> Measured:
    """Return a result from how it is kept."""
    names = Case.__slots__
    case = Case(**{name: row[name] for name in names})
    return Measured(case, **{name: value for name, value in row.items() if name not in names})
