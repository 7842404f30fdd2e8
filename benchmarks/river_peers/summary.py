"""The finished runs as Markdown: a table per metric, the best peer, merging and isolation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from river_peers.methods import CLIENTS, ISOLATED, MERGED, METHODS, ONE, OURS, PEERS, ROUND
from river_peers.paired import NEAR, Difference, difference
from river_peers.results import Results, Run

NOTHING = "–"
LARGE_PEERS = ("river-arf", "river-srp", "capymoa-arf", "capymoa-srp")


@dataclass(frozen=True)
class Found:
    """Finished runs of some streams, their seeds averaged.

    Parameters
    ----------
    results
        All runs that there are, of these records and others.
    digests
        The digest of the records of each stream in the summary.
    seeds
        The seeds to average; a run that lacks one of them is averaged over the others.
    """

    results: Results
    digests: Mapping[str, str]
    seeds: Sequence[int]

    def runs(self, stream: str, method: str, variant: str = ONE) -> list[Run]:
        """Return a method's runs on a stream, one a seed."""
        sought = (self.digests[stream], method, variant)
        runs = self.results.runs.values()
        return [r for r in runs if (r.digest, r.method, r.variant) == sought and r.seed in self.seeds]

    def right(self, stream: str, method: str, variant: str = ONE) -> npt.NDArray[np.float64] | None:
        """Return the share of seeds with a correct prediction of each record, shape (n,); None without a run."""
        runs = self.runs(stream, method, variant)
        if not runs:
            return None
        return np.asarray(np.mean([self.results.right(run.key) for run in runs], axis=0), dtype=np.float64)

    def difference(self, stream: str, a: tuple[str, str], b: tuple[str, str]) -> Difference | None:
        """Return the paired difference of two methods, each with its variant; None if one has no run."""
        theirs = self.right(stream, *a), self.right(stream, *b)
        return None if theirs[0] is None or theirs[1] is None else difference(theirs[0], theirs[1])

    def best_peer(self, stream: str) -> tuple[str, float] | None:
        """Return the peer with the highest accuracy, and this accuracy; None if none has finished."""
        reached = [(fmean(r.accuracy for r in runs), peer) for peer in PEERS if (runs := self.runs(stream, peer))]
        return (max(reached)[1], max(reached)[0]) if reached else None


def summary(found: Found) -> str:
    """Return the whole text."""
    sections = [*_figures(found), *_comparisons(found), *_clients(found), *_speeds(found)]
    return "\n\n".join(sections) + "\n"


def pairs(found: Found, a: tuple[str, str], b: tuple[str, str]) -> str:
    """Return the paired difference of any two on every stream."""
    rows = []
    for stream in found.digests:
        gained = found.difference(stream, a, b)
        rows.append((stream, NOTHING if gained is None else _interval(gained)))
    return table(("stream", f"{' '.join(a)} - {' '.join(b)}"), rows) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figures(found: Found) -> Iterator[str]:
    for title, cell in (
        ("Accuracy", lambda runs: _mean(r.accuracy for r in runs)),
        ("Cohen's kappa", lambda runs: _mean(r.kappa for r in runs)),
        ("Temporal kappa", lambda runs: _mean(r.temporal_kappa for r in runs)),
        ("Records a second, by CPU time / by wall time", _speed),
        ("Memory in MB, model / growth of the process", _memory),
    ):
        yield f"### {title}\n\n{_by_method(found, cell)}"


def _by_method(found: Found, cell: Callable[[list[Run]], str]) -> str:
    there = [method for method in METHODS if any(found.runs(stream, method) for stream in found.digests)]
    rows = []
    for stream in found.digests:
        cells = [found.runs(stream, method) for method in there]
        rows.append((stream, _records(cells), *(cell(runs) if runs else NOTHING for runs in cells)))
    return table(("stream", "records", *there), rows)


def _records(cells: Sequence[Sequence[Run]]) -> str:
    return next((f"{runs[0].records:,}" for runs in cells if runs), NOTHING)


def _mean(values: Iterator[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{fmean(there):.3f}" if there else NOTHING


def _speed(runs: list[Run]) -> str:
    return f"{_by_cpu(runs):,.0f} / {_by_wall(runs):,.0f}"


def _by_cpu(runs: Sequence[Run]) -> float:
    return median(r.records / r.cpu_seconds for r in runs)


def _by_wall(runs: Sequence[Run]) -> float:
    return median(r.records / r.wall_seconds for r in runs)


def _memory(runs: list[Run]) -> str:
    return f"{median(r.model_bytes for r in runs) / 1e6:.2f} / {median(r.resident_bytes for r in runs) / 1e6:.0f}"


def _interval(gained: Difference) -> str:
    return f"{gained.mean:+.4f} [{gained.low:+.4f}, {gained.high:+.4f}]"


def _comparisons(found: Found) -> Iterator[str]:
    for method in OURS:
        rows, differences = [], []
        for stream in found.digests:
            best = found.best_peer(stream)
            gained = found.difference(stream, (method, ONE), (best[0], ONE)) if best else None
            if best and gained:
                differences.append(gained)
                verdict = ("yes" if gained.at_or_above else "no", "yes" if gained.surely else "no")
                rows.append((stream, best[0], f"{best[1]:.3f}", _interval(gained), *verdict))
        if rows:
            header = ("stream", "best peer", "its accuracy", "difference", f"at least -{NEAR}", "whole interval")
            count = sum(d.at_or_above for d in differences)
            surely = sum(d.surely for d in differences)
            yield (
                f"### {method} - best peer\n\n{table(header, rows)}\n\n"
                f"At or above the best peer, {NEAR} counting as none: {count} of {len(rows)} streams; with the whole "
                f"interval: {surely}."
            )


def _clients(found: Found) -> Iterator[str]:
    for method in OURS:
        rows = []
        for stream in found.digests:
            gained = found.difference(stream, (method, MERGED), (method, ISOLATED))
            if gained:
                variants = (found.runs(stream, method, variant) for variant in (ONE, MERGED, ISOLATED))
                reached = (_mean(r.accuracy for r in runs) for runs in variants)
                rows.append((stream, *reached, _interval(gained), "yes" if gained.mean >= 0 else "no"))
        if rows:
            header = ("stream", "one client", "merged", "isolated", "merged - isolated", "at least 0")
            yield f"### {method}: {CLIENTS} clients, rounds of {ROUND}\n\n{table(header, rows)}"


def _speeds(found: Found) -> Iterator[str]:
    for method in OURS:
        rows = []
        for peer in LARGE_PEERS:
            both = [(found.runs(stream, method), found.runs(stream, peer)) for stream in found.digests]
            there = [(ours, theirs) for ours, theirs in both if ours and theirs]
            # Java compiles and collects in threads of its own: CPU time alone would charge CapyMOA for what a second
            # core does meanwhile, wall time alone for other load on the machine.
            if there:
                rows.append((peer, _ratios(there, _by_cpu), _ratios(there, _by_wall), str(len(there))))
        if rows:
            header = ("peer", "by CPU time [least, greatest]", "by wall time", "streams")
            yield f"### {method}: times a peer's records a second, median\n\n{table(header, rows)}"


def _ratios(both: Sequence[tuple[list[Run], list[Run]]], speed: Callable[[Sequence[Run]], float]) -> str:
    ratios = [speed(ours) / speed(theirs) for ours, theirs in both]
    return f"{median(ratios):.1f} [{min(ratios):.1f}, {max(ratios):.1f}]"
